//! `toolcell worker`: works on runs on record, until it is stopped.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use toolcell::{Courier, TenantSettings, Worker, WorkerOptions};

use crate::args::WorkerArgs;
use crate::cancel::stop_on_signal;
use crate::commands::tenant::webhook;
use crate::exit::{Exit, HostFailure};
use crate::output::note;
use crate::store::{blame_store, open, place};
use crate::{host, model::model};

pub(crate) async fn run(args: WorkerArgs) -> anyhow::Result<Exit> {
    let store = open(&place(&args.store)?).await?;
    let host = host::open(&args.place).await?;
    let agent = host.agent(model(&args.model)?).with_approval(host.approvals(args.approval.approve.into()));
    let options = WorkerOptions {
        runs_at_once: args.runs_at_once,
        lease: Duration::from_secs(args.lease),
        ..WorkerOptions::default()
    };
    let name = options.name.clone();
    let stop = stop_on_signal();
    if let Some(url) = args.webhook {
        let settings = store.settings(&args.store.tenant).await.map_err(blame_store)?;
        let settings = TenantSettings { webhook: Some(webhook(url)?), ..settings };
        store.set_settings(&args.store.tenant, settings).await.map_err(blame_store)?;
    }
    let courier = Courier::new(Arc::clone(&store)).context(HostFailure)?;
    let courier = tokio::spawn(courier.work(stop.clone()));
    note!("{name} works on runs on record; Ctrl-C stops it");
    let worked = Worker::new(agent, store, options).work(stop.clone()).await;
    stop.cancel();
    let _ = courier.await;
    worked.map_err(blame_store)?;
    note!("{name} has stopped");
    Ok(Exit::Done)
}
