//! Tenants and what is kept for all of them.

use toolcell_agent::{RETENTION_DAYS_MAX, RunKey, StoreError, Tenant, TenantSettings, WEIGHT_MAX};
use toolcell_contract::Digest;

use crate::tx::{Tx, TxError, from_json, json, values};

/// A tenant as a transaction leaves it: read once, with its lock, and written once, at the end.
#[derive(Debug, Clone)]
pub(crate) struct TenantRow {
    id: Tenant,
    /// As they are on record: most of what is done for a tenant has nothing to do with them.
    settings: String,
    pub(crate) counts: Counts,
    was: Counts,
    /// When it was locked: nobody has written a line of its audit since.
    pub(crate) locked_at: i64,
}

impl TenantRow {
    pub(crate) fn settings(&self) -> Result<TenantSettings, StoreError> {
        from_json("the settings of a tenant", &self.settings)
    }

    /// Its share of the workers; that of a tenant without settings when they cannot be read, for its runs go on all the same.
    fn weight(&self) -> u32 {
        let settings = self.settings().unwrap_or_else(|error| {
            tracing::error!(tenant = %self.id, "{error}");
            TenantSettings::default()
        });
        settings.weight.clamp(1, WEIGHT_MAX)
    }
}

/// What changes of a tenant as its runs go on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counts {
    pub(crate) vtime: i64,
    pub(crate) open: i64,
    pub(crate) audit_seq: i64,
    pub(crate) audit_hash: String,
}

/// A tenant, locked until the transaction ends. None when it was removed.
pub(crate) async fn row<'t>(tx: &'t mut Tx<'_>, tenant: &Tenant) -> Result<Option<&'t mut TenantRow>, TxError> {
    let known = tx.tenants.iter().position(|row| row.id == *tenant);
    let at = match known {
        Some(at) => at,
        None => {
            let one = "select settings, vtime, open, audit_seq, audit_hash, {clock} as locked_at from tenant \
                       where id = $1{for_update}";
            let Some(row) = tx.row(one, values![tenant]).await? else { return Ok(None) };
            let counts = Counts {
                vtime: row.int("vtime")?,
                open: row.int("open")?,
                audit_seq: row.int("audit_seq")?,
                audit_hash: row.text("audit_hash")?,
            };
            tx.tenants.push(TenantRow {
                id: tenant.clone(),
                settings: row.text("settings")?,
                was: counts.clone(),
                counts,
                locked_at: row.int("locked_at")?,
            });
            tx.tenants.len() - 1
        }
    };
    Ok(tx.tenants.get_mut(at))
}

/// Writes what has changed of the tenants of a transaction.
pub(crate) async fn save(tx: &mut Tx<'_>) -> Result<(), TxError> {
    for TenantRow { id, counts, was, .. } in std::mem::take(&mut tx.tenants) {
        if counts != was {
            let Counts { vtime, open, audit_seq, audit_hash } = counts;
            let save = "update tenant set vtime = $2, open = $3, audit_seq = $4, audit_hash = $5 where id = $1";
            tx.run(save, values![&id, vtime, open, audit_seq, audit_hash]).await?;
        }
    }
    Ok(())
}

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
    if !(1..=WEIGHT_MAX).contains(&settings.weight) {
        return Err(StoreError::TooLarge { what: "the weight of a tenant, from 1", max: WEIGHT_MAX.into() }.into());
    }
    if settings.retention_days > RETENTION_DAYS_MAX {
        let what = "days for which runs are kept";
        return Err(StoreError::TooLarge { what, max: RETENTION_DAYS_MAX.into() }.into());
    }
    ensure(tx, &tenant).await?;
    let set = "update tenant set settings = $2, retention = $3 where id = $1";
    tx.run(set, values![&tenant, json(&settings)?, retention(&settings)]).await.map(drop)
}

/// Runs that are given another end of their time in one transaction.
const RETENTION_PIECE: i64 = 1_000;

/// A place in the list of runs that are over: when it ended, and its id.
pub(crate) type Over = (i64, String);

/// Makes a tenant's settings count for some of its runs that are over. Where the next piece begins; none: all are done.
pub(crate) async fn keep_as_set(tx: &mut Tx<'_>, tenant: Tenant, after: Over) -> Result<Option<Over>, TxError> {
    let piece = "select updated_at, id from run where tenant = $1 and purge_at is not null and (updated_at, id) > ($2, $3) \
                 order by updated_at, id limit $4";
    let rows = tx.rows(piece, values![&tenant, after.0, &after.1, RETENTION_PIECE]).await?;
    let Some(last) = rows.last() else { return Ok(None) };
    let last = (last.int("updated_at")?, last.text("id")?);
    let set = "update run set purge_at = updated_at + (select retention from tenant where id = $1) where tenant = $1 \
               and purge_at is not null and (updated_at, id) > ($2, $3) and (updated_at, id) <= ($4, $5)";
    tx.run(set, values![&tenant, after.0, &after.1, last.0, &last.1]).await?;
    Ok(Some(last))
}

/// How long runs are kept after they have ended, in microseconds.
fn retention(settings: &TenantSettings) -> i64 {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000;
    /// No sum of it and a time of today is too large.
    const FOREVER: i64 = i64::MAX / 4;
    i64::from(settings.retention_days).saturating_mul(DAY).min(FOREVER)
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

/// The order of those that wait.
struct Order {
    /// The place of the first that waits.
    first: Option<i64>,
    /// The place behind all that wait.
    behind_all: i64,
    /// Where the tenant that has had most stands.
    most: Option<i64>,
}

async fn order(tx: &mut Tx<'_>) -> Result<Order, TxError> {
    let order = "select (select prio from run where status = 'ready' order by prio, created_at limit 1) as first, \
                 (select prio from run where status = 'ready' order by prio desc, created_at desc limit 1) as last, \
                 (select max(vtime) from tenant) as most";
    let row = tx.row(order, values![]).await?.ok_or(sqlx::Error::RowNotFound)?;
    let last = row.maybe_int("last")?;
    Ok(Order {
        first: row.maybe_int("first")?,
        behind_all: last.map_or(0, |last| last.saturating_add(RUN_COST)),
        most: row.maybe_int("most")?,
    })
}

impl Order {
    /// Where a run of a tenant with this virtual time stands. A tenant that was away begins where the others are: it has not
    /// saved up anything. Neither is it further behind than the last of those that wait, whatever it had before.
    fn place(&self, vtime: i64) -> i64 {
        match self.first {
            Some(first) => vtime.clamp(first, self.behind_all.max(first)),
            // Nobody waits: whoever comes next stands where the one who has had most would.
            None => self.most.unwrap_or(vtime),
        }
    }
}

/// Makes a run that was set aside ready again, behind all that wait: it may be in vain.
pub(crate) async fn bring_back(tx: &mut Tx<'_>, key: &RunKey) -> Result<(), TxError> {
    let prio = order(tx).await?.behind_all;
    let back = "update run set status = 'ready', prio = $3, retry_at = null where tenant = $1 and id = $2{told}";
    tx.run_and_tell(back, key, values![&key.tenant, &key.run, prio]).await
}

/// Makes a run ready for a worker, behind as many runs of other tenants as its own tenant has had. `closed` of its questions
/// are no longer open.
pub(crate) async fn enqueue(tx: &mut Tx<'_>, key: &RunKey, closed: i64) -> Result<(), TxError> {
    let order = order(tx).await?;
    let Some(row) = row(tx, &key.tenant).await? else { return Err(StoreError::NotFound("run").into()) };
    let prio = order.place(row.counts.vtime);
    row.counts.vtime = prio.saturating_add(RUN_COST / i64::from(row.weight()));
    let ready = "update run set status = 'ready', prio = $3, open = open - $4, stalls = 0, retry_at = null, worker = null, \
                 lease_until = null, updated_at = {now} where tenant = $1 and id = $2{told}";
    tx.run_and_tell(ready, key, values![&key.tenant, &key.run, prio, closed]).await
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
