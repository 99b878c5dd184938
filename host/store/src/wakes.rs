//! Telling those who wait that something happened to a run.

use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{AnyConnection, Connection as _};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use toolcell_agent::{RunKey, Wake};

use crate::error::silent;

/// The channel of PostgreSQL's NOTIFY.
pub(crate) const CHANNEL: &str = "toolcell_runs";

/// How often a SQLite file is looked at for what other processes have written. A person hardly notices it, and a look
/// takes some microseconds.
const POLL: Duration = Duration::from_millis(50);

/// The pause before a connection that broke is made again.
const RECONNECT: Duration = Duration::from_secs(1);

/// How long nothing may be heard before the database is asked whether it is there still: a network that has failed says
/// nothing. What was missed in that time is found by the sweep.
const QUIET_MAX: Duration = Duration::from_secs(15);

/// How long its answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Wakes that a listener may leave untaken before it misses the oldest. Missing one costs a look at the store.
pub(crate) const UNTAKEN_MAX: usize = 1_024;

/// Passes on what PostgreSQL tells, for as long as anybody could want it.
pub(crate) async fn listen(url: String, wakes: broadcast::Sender<Wake>) {
    loop {
        if let Err(error) = listen_once(&url, &wakes).await {
            tracing::warn!("the database tells nothing for the moment: {error}");
        }
        // What was missed meanwhile could be anything.
        let _ = wakes.send(Wake(None));
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen_once(url: &str, wakes: &broadcast::Sender<Wake>) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect(url).await?;
    listener.listen(CHANNEL).await?;
    let _ = wakes.send(Wake(None));
    loop {
        match tokio::time::timeout(QUIET_MAX, listener.try_recv()).await {
            // None: the connection was lost and made anew; something may have been missed.
            Ok(told) => drop(wakes.send(Wake(told?.and_then(|told| parse(told.payload()))))),
            Err(_quiet) => {
                let asked = sqlx::query("select 1").execute(&mut listener);
                tokio::time::timeout(ANSWER_MAX, asked).await.map_err(|_elapsed| silent(ANSWER_MAX))??;
            }
        }
    }
}

fn parse(payload: &str) -> Option<RunKey> {
    let (tenant, run) = payload.split_once(' ')?;
    Some(RunKey { tenant: tenant.parse().ok()?, run: run.to_owned() })
}

/// Looks whether another process has written the file, for as long as anybody could want to know.
pub(crate) async fn poll(mut connection: AnyConnection, wakes: broadcast::Sender<Wake>, stop: CancellationToken) {
    // The number is the connection's own: it changes when another one has written.
    let mut seen = None;
    while !stop.is_cancelled() {
        match sqlx::query_scalar::<_, i64>("pragma data_version").fetch_one(&mut connection).await {
            Ok(version) => {
                if seen.replace(version).is_some_and(|before| before != version) {
                    let _ = wakes.send(Wake(None));
                }
            }
            Err(error) => tracing::debug!("cannot look for changes: {error}"),
        }
        stop.run_until_cancelled(tokio::time::sleep(POLL)).await;
    }
    if let Err(error) = connection.close().await {
        tracing::debug!("cannot close a connection: {error}");
    }
}
