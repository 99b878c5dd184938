//! Grants: a yes that holds for later calls too.

use serde_json::{Value, json};
use toolcell_agent::{Grant, Question, RunKey, StoreError, Tenant};

use crate::tx::{Tx, TxError, json as to_json, micros, values};
use crate::{audit, tenants};

pub(crate) async fn add(tx: &mut Tx<'_>, tenant: Tenant, grant: Grant) -> Result<(), TxError> {
    tenants::ensure(tx, &tenant).await?;
    let insert =
        "insert into standing_grant (tenant, id, tool, body, uses_left, expires_at) values ($1, $2, $3, $4, $5, $6)";
    let values =
        values![&tenant, &grant.id, &grant.tool, to_json(&grant)?, grant.uses.map(i64::from), micros(grant.expires_at)];
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
    let hold = "select body, uses_left from standing_grant where tenant = $1 and expires_at > {now} \
                and (uses_left is null or uses_left > 0) order by id";
    let rows = tx.rows(hold, values![&tenant]).await?;
    let grant = |row: &crate::tx::Columns| -> Result<Grant, StoreError> {
        let grant: Grant = row.json("body")?;
        Ok(Grant { uses: row.maybe_int("uses_left")?.and_then(|left| u32::try_from(left).ok()), ..grant })
    };
    Ok(rows.iter().map(grant).collect::<Result<_, _>>()?)
}

pub(crate) async fn take(tx: &mut Tx<'_>, key: &RunKey, question: &Question) -> Result<Option<Grant>, TxError> {
    if !question.is_plain_approval() {
        return Ok(None);
    }
    for grant in list(tx, key.tenant.clone()).await?.into_iter().filter(|grant| covers(grant, key, question)) {
        // Others may have used it up since, or taken it back.
        let count = "update standing_grant set uses_left = uses_left - 1 where tenant = $1 and id = $2 \
                     and expires_at > {now} and (uses_left is null or uses_left > 0)";
        if tx.run(count, values![&key.tenant, &grant.id]).await? == 0 {
            continue;
        }
        let body = json!({ "grant": grant.id, "question": question.request.id, "call": question.call_id });
        audit::note(tx, &key.tenant, "grant.used", body).await?;
        return Ok(Some(grant));
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
