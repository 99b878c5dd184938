//! Grants: a yes that holds for later calls too.

use serde_json::{Value, json};
use toolcell_agent::{Decision, GRANT_MAX, Grant, OpenCallRecord, Question, RunKey, StoreError, Tenant};
use toolcell_contract::Answer;

use crate::answers::{BY_BYTES_MAX, Close, Late, at_most, decide, lock_asker};
use crate::tx::{Tx, TxError, json as to_json, micros, span, values};
use crate::{audit, tenants};

/// Grants of a tenant at the same time. Each is looked at when one of its calls asks, and all are listed at once.
pub const GRANTS_MAX: usize = 1_000;

/// The longest grant with its arguments, in bytes of JSON: with [`GRANTS_MAX`], 64 MB for a tenant.
pub const GRANT_BYTES_MAX: usize = 64 << 10;

/// The longest name of who gives a grant, in bytes: so that what it decides has a name of at most [`BY_BYTES_MAX`].
const GIVER_BYTES_MAX: usize = BY_BYTES_MAX / 2;

pub(crate) async fn add(tx: &mut Tx<'_>, tenant: Tenant, grant: Grant) -> Result<(), TxError> {
    at_most("bytes of a grant", to_json(&grant)?.len(), GRANT_BYTES_MAX)?;
    at_most("bytes of the name of who gives a grant", grant.by.len(), GIVER_BYTES_MAX)?;
    tenants::ensure(tx, &tenant).await?;
    // Under the lock of the tenant: two at once do not both find room.
    tenants::row(tx, &tenant).await?;
    let count = "select count(*) as count from standing_grant where tenant = $1 and expires_at > {now}";
    let count = tx.row(count, values![&tenant]).await?.ok_or(sqlx::Error::RowNotFound)?.int("count")?;
    at_most("grants of a tenant", usize::try_from(count).unwrap_or(usize::MAX).saturating_add(1), GRANTS_MAX)?;
    let insert =
        "insert into standing_grant (tenant, id, tool, body, uses_left, expires_at) values ($1, $2, $3, $4, $5, $6)";
    // However far ahead the clock is of the host that gives it.
    let expires_at = micros(grant.expires_at).min(tx.now().await?.saturating_add(span(GRANT_MAX)));
    let values = values![&tenant, &grant.id, &grant.tool, to_json(&grant)?, grant.uses.map(i64::from), expires_at];
    tx.run(insert, values).await?;
    let body = json!({ "grant": grant.id, "tool": grant.tool, "component": grant.digest, "by": grant.by });
    audit::note(tx, &tenant, "grant.given", body).await
}

pub(crate) async fn revoke(tx: &mut Tx<'_>, tenant: Tenant, id: String) -> Result<(), TxError> {
    match tx.run("delete from standing_grant where tenant = $1 and id = $2", values![&tenant, &id]).await? {
        0 => Err(StoreError::NotFound("grant").into()),
        _ => audit::note(tx, &tenant, "grant.revoked", json!({ "grant": id })).await,
    }
}

pub(crate) async fn list(tx: &mut Tx<'_>, tenant: Tenant) -> Result<Vec<Grant>, TxError> {
    let hold = "select body, uses_left, expires_at from standing_grant where tenant = $1 and expires_at > {now} \
                and (uses_left is null or uses_left > 0) order by id";
    let rows = tx.rows(hold, values![&tenant]).await?;
    let grant = |row: &crate::tx::Columns| -> Result<Grant, StoreError> {
        let grant: Grant = row.json("body")?;
        let uses = row.maybe_int("uses_left")?.and_then(|left| u32::try_from(left).ok());
        Ok(Grant { uses, expires_at: row.time("expires_at")?, ..grant })
    };
    Ok(rows.iter().map(grant).collect::<Result<_, _>>()?)
}

/// Decides an open question by a grant that covers it. The question is the one on record, whatever the worker says, and a grant
/// is used once for it: so it does not matter whether the worker still has the run, or has asked before.
pub(crate) async fn take(tx: &mut Tx<'_>, key: &RunKey, id: &str) -> Result<Option<Grant>, TxError> {
    let run = match lock_asker(tx, &key.tenant, id).await {
        Err(TxError::Store(StoreError::NotFound(_))) => return Ok(None),
        locked => locked?,
    };
    let asked = "select body, state, used_grant, expires_at, {now} as now from suspension \
                 where tenant = $1 and run = $2 and id = $3";
    let Some(asked) = tx.row(asked, values![&key.tenant, &key.run, id]).await? else { return Ok(None) };
    if let Some(used) = asked.maybe_json("used_grant")? {
        return Ok(Some(used));
    }
    let open: OpenCallRecord = asked.json("body")?;
    let question = open.question();
    let is_open = asked.text("state")? == "open" && asked.int("expires_at")? > asked.int("now")?;
    // Only for a plain yes or no: nobody could know beforehand what is to be typed.
    if !is_open || !question.is_plain_approval() {
        return Ok(None);
    }
    let Some(grant) = use_one(tx, key, &question).await? else { return Ok(None) };
    let by = Some(format!("grant {} of {}", grant.id, grant.by));
    let yes = Decision { by, ..Answer::approve(id).into() };
    let body = json!({ "grant": grant.id, "question": id, "call": question.call_id });
    audit::note(tx, &key.tenant, "grant.used", body).await?;
    decide(tx, &run, id, Close::Answered, Late::Fine, &yes).await?;
    let used = "update suspension set used_grant = $3 where tenant = $1 and id = $2";
    tx.run(used, values![&key.tenant, id, to_json(&grant)?]).await?;
    Ok(Some(grant))
}

/// Counts a use of a grant that covers a question.
async fn use_one(tx: &mut Tx<'_>, key: &RunKey, question: &Question) -> Result<Option<Grant>, TxError> {
    for grant in list(tx, key.tenant.clone()).await?.into_iter().filter(|grant| covers(grant, key, question)) {
        // Others may have used it up since, or taken it back.
        let count = "update standing_grant set uses_left = uses_left - 1 where tenant = $1 and id = $2 \
                     and expires_at > {now} and (uses_left is null or uses_left > 0)";
        if tx.run(count, values![&key.tenant, &grant.id]).await? > 0 {
            let uses = grant.uses.map(|uses| uses.saturating_sub(1));
            return Ok(Some(Grant { uses, ..grant }));
        }
    }
    Ok(None)
}

/// Whether a grant is for this call: the tool, the very code, and the arguments and the run where it names them.
fn covers(grant: &Grant, key: &RunKey, question: &Question) -> bool {
    let arguments = |wanted: &_| Value::Object(Clone::clone(wanted)) == question.arguments;
    grant.tool == question.tool
        && grant.digest == question.digest
        && grant.arguments.as_ref().is_none_or(arguments)
        && grant.run.as_ref().is_none_or(|run| *run == key.run)
}
