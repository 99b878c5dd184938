//! Who works on a run: creating, claiming, holding and putting down.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use toolcell_agent::{Claimed, Lease, NewRun, Parked, RunKey, Signals, StoreError};

use crate::error::is_duplicate;
use crate::tx::{Columns, Tx, TxError, json as to_json, span, values};
use crate::{notices, read, tenants};

/// Runs that cannot be read which one look for work passes over; the next look passes over more.
const UNREAD_MAX: usize = 16;

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
    tenants::enqueue(tx, &key).await
}

pub(crate) async fn claim(
    tx: &mut Tx<'_>,
    worker: String,
    lease: Duration,
    only: Option<RunKey>,
) -> Result<Option<Claimed>, TxError> {
    let Some(key) = only else { return claim_next(tx, &worker, lease).await };
    let one = "select tenant, id as run, epoch from run where tenant = $1 and id = $2 \
               and (status = 'ready' or (status = 'running' and lease_until < {now})){for_update}";
    match tx.row(one, values![&key.tenant, &key.run]).await? {
        Some(found) => take(tx, &found, &worker, lease).await.map(Some),
        None => read::head(tx, &key).await.map(|_waits_or_has_ended| None),
    }
}

/// Takes the next run that can be read. What cannot, because it is damaged or a later version wrote it, stays for somebody to
/// mend and holds up nobody.
async fn claim_next(tx: &mut Tx<'_>, worker: &str, lease: Duration) -> Result<Option<Claimed>, TxError> {
    let mut unread = HashSet::new();
    while let Some(found) = next(tx).await? {
        let key = found.key()?;
        if unread.len() == UNREAD_MAX || unread.contains(&key) {
            break;
        }
        match take(tx, &found, worker, lease).await {
            Err(TxError::Store(StoreError::Damaged { message })) => {
                tracing::error!(tenant = %key.tenant, run = key.run, "a run cannot go on: {message}");
                tenants::set_back(tx, &key).await?;
                unread.insert(key);
            }
            taken => return taken.map(Some),
        }
    }
    Ok(None)
}

async fn take(tx: &mut Tx<'_>, found: &Columns, worker: &str, lease: Duration) -> Result<Claimed, TxError> {
    let (key, epoch) = (found.key()?, found.int("epoch")? + 1);
    let take = "update run set status = 'running', epoch = $3, worker = $4, lease_until = {now} + $5, updated_at = {now} \
                where tenant = $1 and id = $2";
    tx.run(take, values![&key.tenant, &key.run, epoch, worker, span(lease)]).await?;
    let run = read::run(tx, key.clone()).await?;
    Ok(Claimed { lease: Lease { key, epoch }, run })
}

/// The next run that anybody may take: first those whose worker was lost, for they have waited already.
async fn next(tx: &mut Tx<'_>) -> Result<Option<Columns>, TxError> {
    let lost = "select tenant, id as run, epoch from run where status = 'running' and lease_until < {now} \
                order by lease_until limit 1{skip_locked}";
    if let Some(found) = tx.row(lost, values![]).await? {
        return Ok(Some(found));
    }
    let ready = "select tenant, id as run, epoch from run where status = 'ready' \
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
    let park = "update run set status = 'pending', worker = null, lease_until = null, updated_at = {now} \
                where tenant = $1 and id = $2";
    tx.run(park, values![&held.key.tenant, &held.key.run]).await?;
    notices::pending(tx, &held.key).await?;
    Ok(Parked::Parked)
}

pub(crate) async fn release(tx: &mut Tx<'_>, held: Lease) -> Result<(), TxError> {
    match fence_or(tx, &held, "ready").await? {
        Held::Still => tenants::enqueue(tx, &held.key).await,
        Held::Was => Ok(()),
    }
}
