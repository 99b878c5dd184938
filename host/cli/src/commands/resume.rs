//! `toolcell resume`: goes on with a run on record.

use std::sync::Arc;

use toolcell::{Answerer, Decision, Desk, SlotState, StoredStatus, Worker, WorkerOptions};

use crate::args::ResumeArgs;
use crate::ask::answerer;
use crate::cancel::cancel_on_ctrl_c;
use crate::commands::pending::who;
use crate::commands::run::{OnRecord, events, report};
use crate::exit::Exit;
use crate::output::{self, note};
use crate::printable::one_line;
use crate::screen::{Log, Screen};
use crate::store::{blame, blame_id, blame_store, how_to_answer, open_existing, same_place};
use crate::{host, model::model};

pub(crate) async fn run(args: ResumeArgs) -> anyhow::Result<Exit> {
    let store = open_existing(&args.store).await?;
    let desk = Desk::new(Arc::clone(&store), args.store.tenant.clone());
    let head = desk.run(&args.run).await.map_err(|error| blame_id(error, &args.run, &args.store))?.head;
    let host = host::open(&args.place).await?;
    let screen = Arc::new(Screen::for_run(if args.log { Log::Shown } else { Log::Hidden }));
    let answerer = answerer(&args.asking, &screen);
    ask_what_is_open(&desk, &args.run, answerer.as_ref()).await?;
    let agent =
        host.agent(model(&args.model)?).wait_for(answerer).with_approval(host.approvals(args.approval.approve.into()));
    let worker = Worker::new(agent, store, WorkerOptions::default());
    let events = events(&screen, None, args.json);
    if !args.json {
        screen.spin("going on");
    }
    let gone_on = worker.go_on(&head.key, events, cancel_on_ctrl_c()).await;
    screen.finish();
    match gone_on.map_err(blame_store)? {
        Some(result) => {
            let same_place = same_place(args.store.store.as_deref(), &args.store.tenant);
            report(&result, args.json, Some(OnRecord { id: &args.run, same_place: &same_place }))?;
            Ok(result.status().into())
        }
        None => nothing_to_do(&desk, &args).await,
    }
}

/// Asks whoever is here what the run waits for, before it goes on.
async fn ask_what_is_open(desk: &Desk, run: &str, answerer: &dyn Answerer) -> anyhow::Result<()> {
    for call in desk.run(run).await.map_err(blame_store)?.calls {
        let SlotState::Suspended { open, decision: None } = call.state else { continue };
        let question = desk.question(&open.request.id).await.map_err(blame_store)?.question;
        if let Some(answer) = answerer.wait_for(question).await {
            desk.decide(Decision { answer, arguments: None, by: Some(who()) }).await.map_err(blame)?;
        }
    }
    Ok(())
}

/// Why there is nothing to go on with.
async fn nothing_to_do(desk: &Desk, args: &ResumeArgs) -> anyhow::Result<Exit> {
    let stored = desk.run(&args.run).await.map_err(blame_store)?;
    match stored.head.status {
        StoredStatus::Ended(status) => {
            if let Some(end) = &stored.end {
                output::line(&end.text);
            }
            note!("it has ended already");
            Ok(status.into())
        }
        StoredStatus::Pending => {
            for call in &stored.calls {
                if let SlotState::Suspended { open, decision: None } = &call.state {
                    note!("{} waits for an answer: {}", open.tool.name, one_line(&open.request.prompt, 200));
                    let same_place = same_place(args.store.store.as_deref(), &args.store.tenant);
                    note!("    {}", how_to_answer(&open.request, &same_place));
                }
            }
            Ok(Exit::Pending)
        }
        StoredStatus::Ready | StoredStatus::Running => {
            note!(
                "another worker has it, or had it until a moment ago: it is free a minute after that is not heard of any more"
            );
            Ok(Exit::Pending)
        }
    }
}
