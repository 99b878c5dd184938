//! Tenants and what is kept for all of them.

use toolcell_agent::{RunKey, StoreError, Tenant, TenantSettings};
use toolcell_contract::Digest;

use crate::tx::{Tx, TxError, json, values};

/// What virtual time a run of a tenant of weight 1 takes.
const RUN_COST: i64 = 1_000_000;

/// Makes sure that a tenant is known.
pub(crate) async fn ensure(tx: &mut Tx<'_>, tenant: &Tenant) -> Result<(), TxError> {
    let settings = TenantSettings::default();
    let insert = "insert into tenant (id, settings, retention) values ($1, $2, $3) on conflict (id) do nothing";
    tx.run(insert, values![tenant, json(&settings)?, retention(&settings)]).await.map(drop)
}

pub(crate) async fn settings(tx: &mut Tx<'_>, tenant: Tenant) -> Result<TenantSettings, TxError> {
    match tx.row("select settings from tenant where id = $1", values![&tenant]).await? {
        Some(row) => Ok(row.json("settings")?),
        None => Ok(TenantSettings::default()),
    }
}

pub(crate) async fn set_settings(tx: &mut Tx<'_>, tenant: Tenant, settings: TenantSettings) -> Result<(), TxError> {
    ensure(tx, &tenant).await?;
    let set = "update tenant set settings = $2, retention = $3 where id = $1";
    tx.run(set, values![&tenant, json(&settings)?, retention(&settings)]).await.map(drop)
}

/// How long runs are kept after they have ended, in microseconds.
fn retention(settings: &TenantSettings) -> i64 {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000;
    i64::from(settings.retention_days) * DAY
}

/// Rows of a tenant that are removed in one transaction: others wait for it, and it must end within
/// [`crate::place::STATEMENT_MAX`].
const PIECE: i64 = 1_000;

/// Removes a piece of what a tenant has. Whether there may be more.
pub(crate) async fn delete_piece(tx: &mut Tx<'_>, tenant: Tenant) -> Result<bool, TxError> {
    let runs = "delete from run where tenant = $1 and id in (select id from run where tenant = $1 limit $2)";
    if tx.run(runs, values![&tenant, PIECE]).await? > 0 {
        return Ok(true);
    }
    let audit = "delete from audit where tenant = $1 and seq in (select seq from audit where tenant = $1 order by seq \
                 limit $2)";
    Ok(tx.run(audit, values![&tenant, 10 * PIECE]).await? > 0)
}

pub(crate) async fn delete(tx: &mut Tx<'_>, tenant: Tenant) -> Result<(), TxError> {
    match tx.run("delete from tenant where id = $1", values![&tenant]).await? {
        0 => Err(StoreError::NotFound("tenant").into()),
        _ => Ok(()),
    }
}

/// Where a run of a tenant with this virtual time stands in the order. A tenant that was away begins where the others are:
/// it has not saved up anything. Neither is it further behind than the last of those that wait, whatever it had before.
async fn place(tx: &mut Tx<'_>, vtime: i64) -> Result<i64, TxError> {
    let first =
        tx.row("select prio from run where status = 'ready' order by prio, created_at limit 1", values![]).await?;
    let Some(first) = first else {
        // Nobody waits: whoever comes next stands where the one who has had most would.
        let most = tx.row("select max(vtime) as most from tenant", values![]).await?;
        return Ok(most.map(|row| row.maybe_int("most")).transpose()?.flatten().unwrap_or(vtime));
    };
    let (first, behind) = (first.int("prio")?, behind_all(tx).await?);
    Ok(vtime.clamp(first, behind.max(first)))
}

/// The place behind all that wait.
async fn behind_all(tx: &mut Tx<'_>) -> Result<i64, TxError> {
    let last = "select prio from run where status = 'ready' order by prio desc, created_at desc limit 1";
    let last = tx.row(last, values![]).await?.map(|row| row.int("prio")).transpose()?;
    Ok(last.map_or(0, |last| last.saturating_add(RUN_COST)))
}

/// Puts a run behind all that wait: nobody can work on it now.
pub(crate) async fn set_back(tx: &mut Tx<'_>, key: &RunKey) -> Result<(), TxError> {
    let prio = behind_all(tx).await?;
    let back = "update run set status = 'ready', prio = $3, worker = null, lease_until = null \
                where tenant = $1 and id = $2";
    tx.run(back, values![&key.tenant, &key.run, prio]).await.map(drop)
}

/// Makes a run ready for a worker, behind as many runs of other tenants as its own tenant has had.
pub(crate) async fn enqueue(tx: &mut Tx<'_>, key: &RunKey) -> Result<(), TxError> {
    let row = tx.row("select vtime, settings from tenant where id = $1{for_update}", values![&key.tenant]).await?;
    let Some(row) = row else { return Err(StoreError::NotFound("run").into()) };
    let settings: TenantSettings = row.json("settings")?;
    let prio = place(tx, row.int("vtime")?).await?;
    let vtime = prio.saturating_add(RUN_COST / i64::from(settings.weight.max(1)));
    tx.run("update tenant set vtime = $2 where id = $1", values![&key.tenant, vtime]).await?;
    let ready = "update run set status = 'ready', prio = $3, worker = null, lease_until = null, updated_at = {now} \
                 where tenant = $1 and id = $2";
    tx.run(ready, values![&key.tenant, &key.run, prio]).await?;
    tx.wake(key).await
}

pub(crate) async fn keep_component(tx: &mut Tx<'_>, digest: Digest, bytes: Vec<u8>) -> Result<(), TxError> {
    let insert = "insert into component (digest, bytes, kept_at) values ($1, $2, {now}) \
                  on conflict (digest) do update set kept_at = {now}";
    let bytes = crate::tx::Value::Bytes(bytes);
    tx.run(insert, vec![digest.to_string().into(), bytes]).await.map(drop)
}

pub(crate) async fn component(tx: &mut Tx<'_>, digest: Digest) -> Result<Option<Vec<u8>>, TxError> {
    let row = tx.row("select bytes from component where digest = $1", values![digest.to_string()]).await?;
    Ok(row.map(|row| row.bytes("bytes")).transpose()?)
}
