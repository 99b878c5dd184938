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

pub(crate) async fn delete(tx: &mut Tx<'_>, tenant: Tenant) -> Result<(), TxError> {
    match tx.run("delete from tenant where id = $1", values![&tenant]).await? {
        0 => Err(StoreError::NotFound("tenant").into()),
        _ => Ok(()),
    }
}

/// Makes a run ready for a worker, behind as many runs of other tenants as its own tenant has had. One that was away for
/// long begins where the others are: it has not saved up anything.
pub(crate) async fn enqueue(tx: &mut Tx<'_>, key: &RunKey) -> Result<(), TxError> {
    let row = tx.row("select vtime, settings from tenant where id = $1{for_update}", values![&key.tenant]).await?;
    let Some(row) = row else { return Err(StoreError::NotFound("run").into()) };
    let settings: TenantSettings = row.json("settings")?;
    let floor = tx.row("select min(prio) as floor from run where status = 'ready'", values![]).await?;
    let floor = floor.map(|row| row.maybe_int("floor")).transpose()?.flatten();
    let prio = row.int("vtime")?.max(floor.unwrap_or(0));
    let vtime = prio.saturating_add(RUN_COST / i64::from(settings.weight.max(1)));
    tx.run("update tenant set vtime = $2 where id = $1", values![&key.tenant, vtime]).await?;
    let ready = "update run set status = 'ready', prio = $3, worker = null, lease_until = null, updated_at = {now} \
                 where tenant = $1 and id = $2";
    tx.run(ready, values![&key.tenant, &key.run, prio]).await?;
    tx.wake(key).await
}

pub(crate) async fn keep_component(tx: &mut Tx<'_>, digest: Digest, bytes: Vec<u8>) -> Result<(), TxError> {
    let insert =
        "insert into component (digest, bytes, kept_at) values ($1, $2, {now}) on conflict (digest) do nothing";
    let bytes = crate::tx::Value::Bytes(bytes);
    tx.run(insert, vec![digest.to_string().into(), bytes]).await.map(drop)
}

pub(crate) async fn component(tx: &mut Tx<'_>, digest: Digest) -> Result<Option<Vec<u8>>, TxError> {
    let row = tx.row("select bytes from component where digest = $1", values![digest.to_string()]).await?;
    Ok(row.map(|row| row.bytes("bytes")).transpose()?)
}
