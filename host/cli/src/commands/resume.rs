//! `toolcell resume`: goes on with a run on record.

use std::sync::Arc;

use toolcell::{Answerer, Decision, Desk, SlotState, StoredSpaces, StoredStatus};

use crate::args::ResumeArgs;
use crate::ask::answerer;
use crate::commands::answer::who;
use crate::commands::run::{OnRecord, events};
use crate::exit::Exit;
use crate::screen::{Log, Screen};
use crate::store::{Stores, blame, blame_id, blame_store, place, same_place};
use crate::{host, model::model};

pub(crate) async fn run(args: ResumeArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let store = stores.open_existing(&args.store).await?;
    let desk = Desk::new(store.clone(), args.store.tenant.clone());
    let head = desk.run(&args.run).await.map_err(|error| blame_id(error, &args.run, &args.store))?.head;
    let same_place = same_place(args.store.store.as_deref(), &args.store.tenant);
    let run = OnRecord { key: &head.key, same_place: &same_place, json: args.json };
    if let StoredStatus::Ended(_) = head.status {
        return run.nothing_to_do(store.as_ref()).await;
    }
    // Before anybody is asked: without a model nothing goes on.
    let model = model(&args.model)?;
    let host = host::open_beside(&args.place, Some(&place(&args.store)?)).await?;
    host.keep_key_values(Arc::new(StoredSpaces::new(Arc::clone(&store))));
    let screen = Arc::new(Screen::for_run(if args.log { Log::Shown } else { Log::Hidden }));
    let answerer = answerer(&args.asking, &screen);
    ask_what_is_open(&desk, &args.run, answerer.as_ref()).await?;
    let agent = host.agent(model).wait_for(answerer).with_approval(host.approvals(args.approval.approve.into()));
    let events = events(&screen, None, args.json);
    if !args.json {
        screen.spin("going on");
    }
    run.go_on(agent, store, events, &screen).await
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
