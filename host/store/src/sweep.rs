//! Looking at the clock, in small pieces: what one tenant has does not hold up another, and nobody waits for long to write.

use std::time::{Duration, Instant};

use futures::future::FutureExt as _;
use toolcell_agent::{RunKey, StoreError, Swept};

use crate::answers::{Close, Late, decide, lock};
use crate::store::SqlStore;
use crate::tx::{Tx, TxError, span, values};
use crate::{migrate, tenants};

/// Questions that lapse, and runs that are told of, in one piece.
const DUE_MAX: i64 = 1_000;

/// Runs that are removed in one transaction, each with all that was said in it: a SQLite file is written by nobody else in
/// the meantime.
const PURGE_MAX: i64 = 50;

/// Components that are removed in one transaction: each may have some megabytes.
const COMPONENTS_MAX: i64 = 10;

/// How long one look removes things. The next one goes on with it.
const REMOVING_MAX: Duration = Duration::from_secs(2);

/// A run that is ready for so long was not heard of: microseconds.
const UNHEARD: i64 = 5_000_000;

/// How long a component is kept after the last question of it. A question is open for at most a week; after its answer there
/// are three more for a worker to take the run, which would end as `tool-changed` later.
const COMPONENT_KEPT: Duration = Duration::from_secs(28 * 24 * 60 * 60);

/// A question whose time is over.
#[derive(Debug, Clone)]
struct Due {
    key: RunKey,
    id: String,
    expires_at: i64,
}

impl SqlStore {
    /// Looks at the clock. What cannot be read is passed over and told to people; the rest goes on.
    pub(crate) async fn sweep_all(&self) -> Result<Swept, StoreError> {
        self.look(|tx| schema(tx).boxed()).await?;
        let mut swept = Swept { expired: self.expire_all().await?, ..Swept::default() };
        if let Some(lost) = passed_over("runs without a worker", self.tx(|tx| lost(tx).boxed()).await)? {
            swept.relapsed = lost;
        }
        if let Some(unheard) = passed_over("runs that are ready", self.tx(|tx| unheard(tx).boxed()).await)? {
            swept.woken = unheard;
        }
        if let Some(back) = passed_over("runs that were set aside", self.tx(|tx| bring_back(tx).boxed()).await)? {
            swept.woken += back;
        }
        let began = Instant::now();
        let mut is_more = [true; 3];
        while is_more.contains(&true) && began.elapsed() < REMOVING_MAX {
            // In turn: one that has very many does not keep the others.
            if let [true, ..] = is_more {
                let purged = passed_over("runs that are over", self.tx(|tx| purge(tx).boxed()).await)?.unwrap_or(0);
                swept.purged += purged;
                is_more[0] = is_full(purged, PURGE_MAX);
            }
            if let [_, true, _] = is_more {
                let gone = passed_over("components", self.tx(|tx| drop_components(tx).boxed()).await)?.unwrap_or(0);
                is_more[1] = is_full(gone, COMPONENTS_MAX);
            }
            if let [.., true] = is_more {
                let gone = passed_over("grants", self.tx(|tx| drop_grants(tx).boxed()).await)?.unwrap_or(0);
                is_more[2] = is_full(gone, DUE_MAX);
            }
        }
        Ok(swept)
    }

    /// Lets every question lapse whose time is over, each in a transaction of its own.
    async fn expire_all(&self) -> Result<u64, StoreError> {
        let (mut expired, mut after) = (0, None::<Due>);
        loop {
            let page = self.look(|tx| due(tx, after.clone()).boxed()).await;
            let Some(page) = passed_over("questions whose time is over", page)? else { return Ok(expired) };
            let is_last = !is_full(page.len() as u64, DUE_MAX);
            for due in &page {
                let done = self.tx(|tx| expire(tx, due.key.clone(), due.id.clone()).boxed()).await;
                expired += passed_over(&format!("the question {}", due.id), done)?.unwrap_or(0);
            }
            match page.into_iter().next_back() {
                Some(last) if !is_last => after = Some(last),
                _ => return Ok(expired),
            }
        }
    }
}

/// Whether there may be more.
fn is_full(count: u64, max: i64) -> bool {
    i64::try_from(count).is_ok_and(|count| count >= max)
}

/// What was found, or nothing when it cannot be read.
fn passed_over<T>(what: &str, found: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match found {
        Err(StoreError::Damaged { message }) => {
            tracing::error!("{what} cannot be read and are passed over: {message}");
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// A host that was here before does not write what a later version reads otherwise.
async fn schema(tx: &mut Tx<'_>) -> Result<(), TxError> {
    let row = tx.row("select max(version) as version from toolcell_schema", values![]).await?;
    Ok(migrate::is_ours(row.map(|row| row.maybe_int("version")).transpose()?.flatten())?)
}

/// Questions whose time is over, after one of them.
async fn due(tx: &mut Tx<'_>, after: Option<Due>) -> Result<Vec<Due>, TxError> {
    let due = "select tenant, run as run, id, expires_at from suspension where state = 'open' and expires_at <= {now} \
               and (expires_at, id) > ($2, $3) order by expires_at, id limit $1";
    let (at, id) = after.map_or((i64::MIN, String::new()), |due| (due.expires_at, due.id));
    let rows = tx.rows(due, values![DUE_MAX, at, id]).await?;
    let due = |row: &crate::tx::Columns| -> Result<Due, StoreError> {
        Ok(Due { key: row.key()?, id: row.text("id")?, expires_at: row.int("expires_at")? })
    };
    Ok(rows.iter().map(due).collect::<Result<_, _>>()?)
}

/// Lets a question lapse, unless somebody was faster.
async fn expire(tx: &mut Tx<'_>, key: RunKey, id: String) -> Result<u64, TxError> {
    let run = match lock(tx, &key).await {
        Err(TxError::Store(StoreError::NotFound(_))) => return Ok(0),
        locked => locked?,
    };
    let still = "select id from suspension where tenant = $1 and id = $2 and state = 'open' and expires_at <= {now}";
    if tx.row(still, values![&key.tenant, &id]).await?.is_none() {
        return Ok(0);
    }
    decide(tx, &run, &id, Close::Expired, Late::Fine, &Close::Expired.decision(&id)).await?;
    Ok(1)
}

/// Tells of runs whose worker was not heard of any more. How many.
async fn lost(tx: &mut Tx<'_>) -> Result<u64, TxError> {
    let lost = "select tenant, id as run from run where status = 'running' and lease_until < {now} \
                order by lease_until limit $1";
    let rows = tx.rows(lost, values![DUE_MAX]).await?;
    tell_one(tx, &rows).await
}

/// Tells of runs that are ready without anybody having been told. How many.
async fn unheard(tx: &mut Tx<'_>) -> Result<u64, TxError> {
    // Of those that are taken next: however many wait, somebody takes them now.
    let unheard = "select tenant, id as run from (select tenant, id, updated_at from run where status = 'ready' \
                   order by prio, created_at limit $2) as first where updated_at < {now} - $1";
    let rows = tx.rows(unheard, values![UNHEARD, DUE_MAX]).await?;
    tell_one(tx, &rows).await
}

/// Wakes whoever listens, once: who is woken takes whatever there is.
async fn tell_one(tx: &mut Tx<'_>, rows: &[crate::tx::Columns]) -> Result<u64, TxError> {
    if let Some(row) = rows.first() {
        tx.wake(&row.key()?).await?;
    }
    Ok(rows.len() as u64)
}

/// Brings back runs that were set aside for long enough. How many.
async fn bring_back(tx: &mut Tx<'_>) -> Result<u64, TxError> {
    let again = "select tenant, id as run from run where status = 'stalled' and retry_at <= {now} \
                 order by retry_at limit $1{skip_locked}";
    let rows = tx.rows(again, values![DUE_MAX]).await?;
    for row in &rows {
        tenants::bring_back(tx, &row.key()?).await?;
    }
    Ok(rows.len() as u64)
}

/// Removes some runs that were kept long enough. How many.
async fn purge(tx: &mut Tx<'_>) -> Result<u64, TxError> {
    let purge = "delete from run where (tenant, id) in (select tenant, id from run where purge_at <= {now} \
                 order by purge_at limit $1)";
    tx.run(purge, values![PURGE_MAX]).await
}

/// Removes some components that no call waits with any more. How many.
async fn drop_components(tx: &mut Tx<'_>) -> Result<u64, TxError> {
    let drop = "delete from component where digest in (select digest from component where kept_at < {now} - $1 \
                order by kept_at limit $2)";
    tx.run(drop, values![span(COMPONENT_KEPT), COMPONENTS_MAX]).await
}

/// Removes some grants that are over. How many.
async fn drop_grants(tx: &mut Tx<'_>) -> Result<u64, TxError> {
    let drop = "delete from standing_grant where (tenant, id) in (select tenant, id from standing_grant \
                where expires_at <= {now} order by expires_at limit $1)";
    tx.run(drop, values![DUE_MAX]).await
}
