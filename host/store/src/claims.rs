//! Who works on a run: creating, claiming, holding and putting down.

use std::time::Duration;

use serde_json::json;
use toolcell_agent::{Claimed, Lease, NewRun, Parked, RunKey, Signals, StoreError};

use crate::error::is_duplicate;
use crate::tx::{Columns, Tx, TxError, Unreadable, json as to_json, span, values};
use crate::{audit, migrate, notices, read, tenants};

/// Runs that one look for work sets aside; the next look, at once, sets aside more.
pub(crate) const ASIDE_MAX: usize = 16;

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

/// What a look for a run to work on has found.
#[derive(Debug)]
pub(crate) enum Look {
    Taken(Box<Claimed>),
    /// One that does not go on; it is set aside.
    Aside,
    Nothing,
}

/// Takes this run, if it can go on.
pub(crate) async fn claim_one(
    tx: &mut Tx<'_>,
    worker: String,
    lease: Duration,
    key: RunKey,
) -> Result<Option<Claimed>, TxError> {
    let one = "select tenant, id as run, status, epoch, stalls, (select max(version) from toolcell_schema) as schema \
               from run where tenant = $1 and id = $2 \
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

/// Takes the next run that can go on. One that cannot be read is [`TxError::OfRun`], and nothing of it was changed.
pub(crate) async fn claim_next(tx: &mut Tx<'_>, worker: String, lease: Duration) -> Result<Look, TxError> {
    let Some(found) = next(tx).await? else { return Ok(Look::Nothing) };
    let (key, epoch, tries) = (found.key()?, found.int("epoch")?, found.int("stalls")?);
    if found.text("status")? == "running" && tries >= TRIES_MAX {
        tracing::error!(tenant = %key.tenant, run = key.run, "a run does not go on: {tries} workers have taken it in vain");
        set_aside(tx, &key, tries, Stall::NoProgress).await?;
        return Ok(Look::Aside);
    }
    match take(tx, &found, &worker, lease).await {
        Ok(claimed) => Ok(Look::Taken(Box::new(claimed))),
        Err(error) if error.is_damage() => {
            let message = error.into_store().to_string();
            Err(TxError::OfRun(Box::new(Unreadable { key, epoch, tries, message })))
        }
        Err(error) => Err(error),
    }
}

/// Sets a run aside that could not be read, unless somebody has taken it since: for longer each time, for somebody may mend
/// it, and it holds up nobody.
pub(crate) async fn set_aside_unreadable(tx: &mut Tx<'_>, found: Unreadable) -> Result<(), TxError> {
    let Unreadable { key, epoch, tries, .. } = found;
    let still = "select id from run where tenant = $1 and id = $2 and epoch = $3 \
                 and (status = 'ready' or (status = 'running' and lease_until < {now})){for_update}";
    match tx.row(still, values![&key.tenant, &key.run, epoch]).await? {
        Some(_) => set_aside(tx, &key, TRIES_MAX.max(tries + 1), Stall::Unreadable).await,
        None => Ok(()),
    }
}

/// As [`set_aside_unreadable`] when not even that can be told, for what belongs to its tenant cannot be read either.
pub(crate) async fn set_aside_silently(tx: &mut Tx<'_>, found: Unreadable) -> Result<(), TxError> {
    let aside = "update run set status = 'stalled', stalls = $4, retry_at = {now} + $5, worker = null, lease_until = null \
                 where tenant = $1 and id = $2 and epoch = $3 \
                 and (status = 'ready' or (status = 'running' and lease_until < {now}))";
    let Unreadable { key, epoch, tries, .. } = found;
    let tries = TRIES_MAX.max(tries + 1);
    tx.run(aside, values![&key.tenant, &key.run, epoch, tries, span(aside_for(tries))]).await.map(drop)
}

/// Sets a run aside for a while, and tells people.
async fn set_aside(tx: &mut Tx<'_>, key: &RunKey, tries: i64, why: Stall) -> Result<(), TxError> {
    let wait = aside_for(tries);
    let aside = "update run set status = 'stalled', stalls = $3, retry_at = {now} + $4, worker = null, lease_until = null \
                 where tenant = $1 and id = $2";
    tx.run(aside, values![&key.tenant, &key.run, tries, span(wait)]).await?;
    let body = json!({ "run": key.run, "why": why.word(), "tries": tries, "nextTrySeconds": wait.as_secs() });
    audit::note(tx, &key.tenant, "run.stalled", body).await?;
    notices::stalled(tx, key, tries).await
}

/// How long a run is set aside that was taken in vain so often.
fn aside_for(tries: i64) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(TRIES_MAX)).unwrap_or(0);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    ASIDE_FIRST.saturating_mul(factor).min(ASIDE_LONGEST)
}

async fn take(tx: &mut Tx<'_>, found: &Columns, worker: &str, lease: Duration) -> Result<Claimed, TxError> {
    // A host that was here before does not write what a later version reads otherwise.
    migrate::is_ours(found.maybe_int("schema")?)?;
    let (key, epoch) = (found.key()?, found.int("epoch")? + 1);
    let token = uuid::Uuid::new_v4().simple().to_string();
    let take = "update run set status = 'running', epoch = $3, lease_token = $4, stalls = stalls + 1, retry_at = null, \
                worker = $5, lease_until = {now} + $6, updated_at = {now} \
                where tenant = $1 and id = $2";
    tx.run(take, values![&key.tenant, &key.run, epoch, &token, worker, span(lease)]).await?;
    let run = read::run(tx, key.clone()).await?;
    Ok(Claimed { lease: Lease { key, epoch, token }, run })
}

/// The next run that anybody may take: first those whose worker was lost, for they have waited already.
async fn next(tx: &mut Tx<'_>) -> Result<Option<Columns>, TxError> {
    let lost = "select tenant, id as run, status, epoch, stalls, (select max(version) from toolcell_schema) as schema \
                from run where status = 'running' and lease_until < {now} order by lease_until limit 1{skip_locked}";
    if let Some(found) = tx.row(lost, values![]).await? {
        return Ok(Some(found));
    }
    let ready = "select tenant, id as run, status, epoch, stalls, (select max(version) from toolcell_schema) as schema \
                 from run where status = 'ready' order by prio, created_at limit 1{skip_locked}";
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
    // The epoch alone does not tell: a database that was brought back from a backup gives the same one again.
    let lock = "select status from run where tenant = $1 and id = $2 and epoch = $3 and lease_token = $4{for_update}";
    match tx.row(lock, values![&held.key.tenant, &held.key.run, held.epoch, &held.token]).await? {
        Some(row) => match row.text("status")?.as_str() {
            "running" => Ok(Held::Still),
            status if status == end => Ok(Held::Was),
            _ => Err(StoreError::Fenced.into()),
        },
        None => Err(StoreError::Fenced.into()),
    }
}

pub(crate) async fn renew(tx: &mut Tx<'_>, held: Lease, lease: Duration) -> Result<(), TxError> {
    fence(tx, &held).await?;
    let renew = "update run set lease_until = {now} + $3 where tenant = $1 and id = $2";
    tx.run(renew, values![&held.key.tenant, &held.key.run, span(lease)]).await.map(drop)
}

/// What others have done to a run, read without its lock: what comes later is told by a wake.
pub(crate) async fn signals(tx: &mut Tx<'_>, held: Lease) -> Result<Signals, TxError> {
    let decided = "select r.is_cancelled as is_cancelled, s.decision as decision from run r left join suspension s \
                   on s.tenant = r.tenant and s.run = r.id and s.state <> 'open' and s.is_consumed = 0 \
                   where r.tenant = $1 and r.id = $2 and r.status = 'running' and r.epoch = $3 and r.lease_token = $4 \
                   order by s.turn, s.place";
    let rows = tx.rows(decided, values![&held.key.tenant, &held.key.run, held.epoch, &held.token]).await?;
    let is_cancelled = rows.first().ok_or(StoreError::Fenced)?.flag("is_cancelled")?;
    let decisions = rows.iter().filter_map(|row| row.maybe_json("decision").transpose()).collect::<Result<_, _>>()?;
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
