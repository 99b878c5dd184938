//! Who works on a run: creating, claiming, holding and putting down.

use std::time::Duration;

use serde_json::json;
use toolcell_agent::{Claimed, Lease, NewRun, Parked, RunKey, Signals, StoreError};

use crate::error::is_duplicate;
use crate::tx::{Columns, Tx, TxError, json as to_json, span, values};
use crate::{audit, notices, read, tenants};

/// Runs that one look for work sets aside; the next look sets aside more.
const ASIDE_MAX: usize = 16;

/// Times in a row that a run is taken in vain before it is set aside: a host may go away by chance, hardly thrice.
const TRIES_MAX: i64 = 3;

/// How long a run is set aside the first time; it doubles.
const ASIDE_FIRST: Duration = Duration::from_secs(60);

/// The longest that a run is set aside: somebody who has mended it does not wait for longer, and it costs next to nothing.
const ASIDE_LONGEST: Duration = Duration::from_secs(6 * 60 * 60);

pub(crate) async fn create(tx: &mut Tx<'_>, run: NewRun) -> Result<(), TxError> {
    let NewRun { key, system, messages, model } = run;
    tenants::ensure(tx, &key.tenant).await?;
    let insert = "insert into run (tenant, id, status, model, created_at, updated_at) \
                  values ($1, $2, 'new', $3, {now}, {now})";
    match tx.run(insert, values![&key.tenant, &key.run, &model]).await {
        Err(TxError::Database(error)) if is_duplicate(&error) => return Err(StoreError::Exists(key.run).into()),
        done => done?,
    };
    let body = to_json(&json!({ "system": system, "messages": messages }))?;
    let event = "insert into event (tenant, run, seq, kind, body, at) values ($1, $2, 0, 'start', $3, {now})";
    tx.run(event, values![&key.tenant, &key.run, body]).await?;
    tenants::enqueue(tx, &key, 0).await
}

pub(crate) async fn claim(
    tx: &mut Tx<'_>,
    worker: String,
    lease: Duration,
    only: Option<RunKey>,
) -> Result<Option<Claimed>, TxError> {
    let Some(key) = only else { return claim_next(tx, &worker, lease).await };
    let one = "select tenant, id as run, status, epoch, stalls from run where tenant = $1 and id = $2 \
               and (status in ('ready', 'stalled') or (status = 'running' and lease_until < {now})){for_update}";
    match tx.row(one, values![&key.tenant, &key.run]).await? {
        Some(found) => take(tx, &found, &worker, lease).await.map(Some),
        None => read::head(tx, &key).await.map(|_waits_or_has_ended| None),
    }
}

/// Why a run does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stall {
    /// It is damaged, or a later version wrote it.
    Unreadable,
    /// Whoever takes it is not heard of any more, or finds that it makes no sense.
    NoProgress,
}

impl Stall {
    fn word(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::NoProgress => "no progress",
        }
    }
}

/// Takes the next run that can go on. What cannot is set aside, for longer each time: somebody may mend it, and it holds up
/// nobody.
async fn claim_next(tx: &mut Tx<'_>, worker: &str, lease: Duration) -> Result<Option<Claimed>, TxError> {
    for _ in 0..ASIDE_MAX {
        let Some(found) = next(tx).await? else { return Ok(None) };
        let (key, tries) = (found.key()?, found.int("stalls")?);
        if found.text("status")? == "running" && tries >= TRIES_MAX {
            tracing::error!(tenant = %key.tenant, run = key.run, "a run does not go on: {tries} workers have taken it in vain");
            set_aside(tx, &key, tries, Stall::NoProgress).await?;
            continue;
        }
        match take(tx, &found, worker, lease).await {
            Err(TxError::Store(StoreError::Damaged { message })) => {
                tracing::error!(tenant = %key.tenant, run = key.run, "a run cannot go on: {message}");
                set_aside(tx, &key, TRIES_MAX.max(tries + 1), Stall::Unreadable).await?;
            }
            taken => return taken.map(Some),
        }
    }
    Ok(None)
}

/// Sets a run aside for a while, and tells people.
async fn set_aside(tx: &mut Tx<'_>, key: &RunKey, tries: i64, why: Stall) -> Result<(), TxError> {
    let wait = aside(tries);
    let aside = "update run set status = 'stalled', stalls = $3, retry_at = {now} + $4, worker = null, lease_until = null \
                 where tenant = $1 and id = $2";
    tx.run(aside, values![&key.tenant, &key.run, tries, span(wait)]).await?;
    let body = json!({ "run": key.run, "why": why.word(), "tries": tries, "nextTrySeconds": wait.as_secs() });
    audit::note(tx, &key.tenant, "run.stalled", body).await?;
    notices::stalled(tx, key, tries).await
}

/// How long a run is set aside that was taken in vain so often.
fn aside(tries: i64) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(TRIES_MAX)).unwrap_or(0);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    ASIDE_FIRST.saturating_mul(factor).min(ASIDE_LONGEST)
}

async fn take(tx: &mut Tx<'_>, found: &Columns, worker: &str, lease: Duration) -> Result<Claimed, TxError> {
    let (key, epoch) = (found.key()?, found.int("epoch")? + 1);
    let take = "update run set status = 'running', epoch = $3, stalls = stalls + 1, retry_at = null, worker = $4, \
                lease_until = {now} + $5, updated_at = {now} \
                where tenant = $1 and id = $2";
    tx.run(take, values![&key.tenant, &key.run, epoch, worker, span(lease)]).await?;
    let run = read::run(tx, key.clone()).await?;
    Ok(Claimed { lease: Lease { key, epoch }, run })
}

/// The next run that anybody may take: first those whose worker was lost, for they have waited already.
async fn next(tx: &mut Tx<'_>) -> Result<Option<Columns>, TxError> {
    let lost = "select tenant, id as run, status, epoch, stalls from run where status = 'running' and lease_until < {now} \
                order by lease_until limit 1{skip_locked}";
    if let Some(found) = tx.row(lost, values![]).await? {
        return Ok(Some(found));
    }
    let ready = "select tenant, id as run, status, epoch, stalls from run where status = 'ready' \
                 order by prio, created_at limit 1{skip_locked}";
    tx.row(ready, values![]).await
}

/// Locks a run, and makes sure that it is still the holder's of this lease.
pub(crate) async fn fence(tx: &mut Tx<'_>, held: &Lease) -> Result<(), TxError> {
    match fence_or(tx, held, "running").await? {
        Held::Still => Ok(()),
        Held::Was => Err(StoreError::Fenced.into()),
    }
}

/// Whether a lease holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Still,
    /// Its holder has put the run down so, and nobody has taken it since.
    Was,
}

/// As [`fence`], for what ends a lease: who does not know whether it was written writes it again.
pub(crate) async fn fence_or(tx: &mut Tx<'_>, held: &Lease, end: &str) -> Result<Held, TxError> {
    let lock = "select epoch, status from run where tenant = $1 and id = $2{for_update}";
    let row = tx.row(lock, values![&held.key.tenant, &held.key.run]).await?;
    match row.filter(|row| row.int("epoch").is_ok_and(|epoch| epoch == held.epoch)) {
        Some(row) if row.text("status")? == "running" => Ok(Held::Still),
        Some(row) if row.text("status")? == end => Ok(Held::Was),
        _ => Err(StoreError::Fenced.into()),
    }
}

pub(crate) async fn renew(tx: &mut Tx<'_>, held: Lease, lease: Duration) -> Result<(), TxError> {
    fence(tx, &held).await?;
    let renew = "update run set lease_until = {now} + $3 where tenant = $1 and id = $2";
    tx.run(renew, values![&held.key.tenant, &held.key.run, span(lease)]).await.map(drop)
}

pub(crate) async fn signals(tx: &mut Tx<'_>, held: Lease) -> Result<Signals, TxError> {
    fence(tx, &held).await?;
    let (tenant, run) = (&held.key.tenant, &held.key.run);
    let decided = "select decision from suspension where tenant = $1 and run = $2 and state <> 'open' \
                   and is_consumed = 0 order by turn, place";
    let rows = tx.rows(decided, values![tenant, run]).await?;
    let decisions = rows.iter().map(|row| row.json("decision")).collect::<Result<_, _>>()?;
    let head = tx.row("select is_cancelled from run where tenant = $1 and id = $2", values![tenant, run]).await?;
    let is_cancelled = head.map(|row| row.flag("is_cancelled")).transpose()?.unwrap_or(true);
    Ok(Signals { decisions, is_cancelled })
}

pub(crate) async fn park(tx: &mut Tx<'_>, held: Lease) -> Result<Parked, TxError> {
    if fence_or(tx, &held, "pending").await? == Held::Was {
        return Ok(Parked::Parked);
    }
    let Signals { decisions, is_cancelled } = signals(tx, held.clone()).await?;
    if is_cancelled || !decisions.is_empty() {
        return Ok(Parked::HasWork);
    }
    let park = "update run set status = 'pending', stalls = 0, worker = null, lease_until = null, updated_at = {now} \
                where tenant = $1 and id = $2";
    tx.run(park, values![&held.key.tenant, &held.key.run]).await?;
    notices::pending(tx, &held.key).await?;
    Ok(Parked::Parked)
}

pub(crate) async fn release(tx: &mut Tx<'_>, held: Lease) -> Result<(), TxError> {
    match fence_or(tx, &held, "ready").await? {
        Held::Still => tenants::enqueue(tx, &held.key, 0).await,
        Held::Was => Ok(()),
    }
}
