//! Decisions on questions: the first counts.

use serde_json::json;
use toolcell_agent::{Answered, Decision, RunKey, StoreError, Tenant};

use crate::tx::{Columns, Tx, TxError, json as to_json, values};
use crate::{audit, tenants};

/// How a question is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    Answered,
    Expired,
    Cancelled,
}

impl Close {
    fn state(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// The reason of the no that it amounts to.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Answered => "declined",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

pub(crate) async fn answer(tx: &mut Tx<'_>, tenant: Tenant, decision: Decision) -> Result<Answered, TxError> {
    let id = &decision.answer.id;
    let key = find(tx, &tenant, id).await?;
    // The run first: so nobody works on it, parks it or cancels it in the meantime.
    lock(tx, &key).await?;
    let row = "select state, decision, expires_at from suspension where tenant = $1 and id = $2";
    let row = tx.row(row, values![&tenant, id]).await?.ok_or(StoreError::NotFound("question"))?;
    if row.text("state")? != "open" {
        return again(tx, key, &row, decision).await;
    }
    let host_says = decision.answer.reason.as_deref().filter(|_| !decision.answer.ok);
    if row.int("expires_at")? <= tx.now().await? {
        let expired = Close::Expired.decision(id);
        close(tx, &key, id, Close::Expired, &expired).await?;
        go_on(tx, &key).await?;
        return Ok(Answered::Conflict(expired));
    }
    let how = match host_says {
        Some("cancelled") => Close::Cancelled,
        Some("expired") => Close::Expired,
        _ => Close::Answered,
    };
    close(tx, &key, id, how, &decision).await?;
    go_on(tx, &key).await?;
    Ok(Answered::First(key))
}

/// Finds the run that asks.
async fn find(tx: &mut Tx<'_>, tenant: &Tenant, id: &str) -> Result<RunKey, TxError> {
    let row = tx.row("select tenant, run from suspension where tenant = $1 and id = $2", values![tenant, id]).await?;
    Ok(row.ok_or(StoreError::NotFound("question"))?.key()?)
}

/// Locks a run against everybody else.
pub(crate) async fn lock(tx: &mut Tx<'_>, key: &RunKey) -> Result<Columns, TxError> {
    let lock = "select status, is_cancelled from run where tenant = $1 and id = $2{for_update}";
    let row = tx.row(lock, values![&key.tenant, &key.run]).await?;
    Ok(row.ok_or(StoreError::NotFound("run"))?)
}

/// A decision on a question that is decided.
async fn again(tx: &mut Tx<'_>, key: RunKey, row: &Columns, decision: Decision) -> Result<Answered, TxError> {
    let counts: Decision = row.json("decision")?;
    // What the clock or the end of the run decided was not decided by a person who comes late with a no.
    let says_so = match row.text("state")?.as_str() {
        "expired" => decision.answer.reason.as_deref() == Some(Close::Expired.reason()),
        "cancelled" => decision.answer.reason.as_deref() == Some(Close::Cancelled.reason()),
        _ => true,
    };
    if says_so && counts.is_same(&decision) {
        return Ok(Answered::Again(key));
    }
    let body = json!({ "question": decision.answer.id, "ok": decision.answer.ok, "by": decision.by });
    audit::note(tx, &key.tenant, "question.refused", body).await?;
    Ok(Answered::Conflict(counts))
}

/// Closes an open question of a run that is locked.
pub(crate) async fn close(
    tx: &mut Tx<'_>,
    key: &RunKey,
    id: &str,
    how: Close,
    decision: &Decision,
) -> Result<(), TxError> {
    let (tenant, run) = (&key.tenant, &key.run);
    let decide = "update suspension set state = $3, decision = $4 where tenant = $1 and id = $2 and state = 'open'";
    if tx.run(decide, values![tenant, id, how.state(), to_json(decision)?]).await? == 0 {
        return Ok(());
    }
    tx.run("update tenant set open = open - 1 where id = $1", values![tenant]).await?;
    tx.run("update run set open = open - 1, updated_at = {now} where tenant = $1 and id = $2", values![tenant, run])
        .await?;
    let body = json!({
        "question": id, "ok": decision.answer.ok, "reason": decision.answer.reason, "by": decision.by,
        "data": decision.answer.data.as_ref().map(|data| audit::sha256(serde_json::Value::from(data.clone()).to_string())),
        "arguments":
            decision.arguments.as_ref().map(|data| audit::sha256(serde_json::Value::from(data.clone()).to_string())),
    });
    audit::note(tx, tenant, &format!("question.{}", how.state()), body).await
}

/// Makes a run go on that waits; tells its worker when it has one.
pub(crate) async fn go_on(tx: &mut Tx<'_>, key: &RunKey) -> Result<(), TxError> {
    match lock(tx, key).await?.text("status")?.as_str() {
        "pending" => tenants::enqueue(tx, key).await,
        _ => tx.wake(key).await,
    }
}

pub(crate) async fn cancel(tx: &mut Tx<'_>, key: RunKey) -> Result<(), TxError> {
    let row = lock(tx, &key).await?;
    let status = row.text("status")?;
    if !matches!(status.as_str(), "ready" | "running" | "pending") || row.flag("is_cancelled")? {
        return Ok(());
    }
    tx.run("update run set is_cancelled = 1 where tenant = $1 and id = $2", values![&key.tenant, &key.run]).await?;
    audit::note(tx, &key.tenant, "run.cancelled", json!({ "run": key.run })).await?;
    go_on(tx, &key).await
}
