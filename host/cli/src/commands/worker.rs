//! `toolcell worker`: works on runs on record, until it is stopped.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use toolcell::{Courier, Host, RunStore as _, StoredSpaces, TenantSettings, Worker, WorkerOptions};

use crate::args::WorkerArgs;
use crate::cancel::{Stop, stop_worker_on_signal};
use crate::commands::tenant::webhook;
use crate::exit::{Exit, HostFailure};
use crate::host::{self, policy_path};
use crate::model::model;
use crate::news::{News, Reporter};
use crate::store::{Stores, blame_store, place, shown};

pub(crate) async fn run(args: WorkerArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let place = place(&args.store)?;
    // Before anything is made or changed: what was typed may make no sense.
    let webhook = args.webhook.map(webhook).transpose()?;
    let model = model(&args.model)?;
    let host = host::open_beside(&args.place, Some(&place)).await?;
    let store = stores.open(&place).await?;
    host.keep_key_values(Arc::new(StoredSpaces::new(Arc::clone(&store))));
    if let Some(webhook) = webhook {
        let settings = store.settings(&args.store.tenant).await.map_err(blame_store)?;
        let settings = TenantSettings { webhook: Some(webhook), ..settings };
        store.set_settings(&args.store.tenant, settings).await.map_err(blame_store)?;
    }
    let agent = host.agent(model).with_approval(host.approvals(args.approval.approve.into()));
    let options = WorkerOptions {
        runs_at_once: args.runs_at_once,
        lease: Duration::from_secs(args.lease),
        ..WorkerOptions::default()
    };
    let reporter = Arc::new(Reporter::new(args.json));
    reporter.tell(&News::Started {
        worker: &options.name,
        store: &shown(&place),
        tools: host.catalog().tools().len(),
        directory: &args.place.tools.display().to_string(),
        runs_at_once: options.runs_at_once.get(),
    });
    let worker = options.name.clone();
    let Stop { soon, now } = stop_worker_on_signal();
    let courier = Courier::new(store.clone()).context(HostFailure)?.telling({
        let reporter = Arc::clone(&reporter);
        move |not_delivered| reporter.not_delivered(not_delivered)
    });
    let courier = tokio::spawn(courier.work(soon.clone()));
    let watching = tokio::spawn(watch(host, policy_path(&args.place), Arc::clone(&reporter)));
    let worked = Worker::new(agent, store, options).halting(now).telling({
        let reporter = Arc::clone(&reporter);
        move |event| reporter.run(&event)
    });
    let worked = worked.work(soon.clone()).await;
    watching.abort();
    soon.cancel();
    let _ = courier.await;
    worked.map_err(blame_store)?;
    reporter.tell(&News::Stopped { worker: &worker });
    Ok(Exit::Done)
}

/// Uses what changes in the directory of tools and in the policy, and says so.
async fn watch(host: Host, policy: std::path::PathBuf, reporter: Arc<Reporter>) {
    let to = Arc::clone(&reporter);
    let catalog = host.catalog();
    match host.watch(Some(policy), move |change| to.changed(change, catalog.tools().len())).await {
        Ok(never) => match never {},
        Err(error) => reporter.tell(&News::NotWatched { error: crate::causes::causes_of(&error) }),
    }
}
