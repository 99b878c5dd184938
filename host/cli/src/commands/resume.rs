//! `toolcell resume`: goes on with a run on record.

use std::sync::Arc;

use toolcell::{Desk, StoredStatus, Worker, WorkerOptions};

use crate::args::ResumeArgs;
use crate::ask::answerer;
use crate::cancel::cancel_on_ctrl_c;
use crate::commands::run::{events, report};
use crate::exit::Exit;
use crate::output::{self, note};
use crate::printable::one_line;
use crate::screen::{Log, Screen};
use crate::store::{blame_store, open, place};
use crate::{host, model::model};

pub(crate) async fn run(args: ResumeArgs) -> anyhow::Result<Exit> {
    let store = open(&place(&args.store)?).await?;
    let desk = Desk::new(Arc::clone(&store), args.store.tenant.clone());
    let head = desk.run(&args.run).await.map_err(blame_store)?.head;
    let host = host::open(&args.place).await?;
    let screen = Arc::new(Screen::for_run(if args.log { Log::Shown } else { Log::Hidden }));
    let agent = host
        .agent(model(&args.model)?)
        .wait_for(answerer(&args.asking, &screen))
        .with_approval(toolcell::Approve::from(args.approval.approve));
    let worker = Worker::new(agent, store, WorkerOptions::default());
    let events = events(&screen, None, args.json);
    if !args.json {
        screen.spin("going on");
    }
    let gone_on = worker.go_on(&head.key, events, cancel_on_ctrl_c()).await;
    screen.finish();
    match gone_on.map_err(blame_store)? {
        Some(result) => {
            report(&result, args.json, Some(&args.run))?;
            Ok(result.status().into())
        }
        None => nothing_to_do(&desk, &args.run).await,
    }
}

/// Why there is nothing to go on with.
async fn nothing_to_do(desk: &Desk, run: &str) -> anyhow::Result<Exit> {
    let stored = desk.run(run).await.map_err(blame_store)?;
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
                if let toolcell::SlotState::Suspended { open, decision: None } = &call.state {
                    note!("{} waits for an answer: {}", open.tool.name, one_line(&open.request.prompt, 200));
                    note!("    toolcell answer {} --approve", open.request.id);
                }
            }
            Ok(Exit::Pending)
        }
        StoredStatus::Ready | StoredStatus::Running => {
            note!("another worker has it");
            Ok(Exit::Pending)
        }
    }
}
