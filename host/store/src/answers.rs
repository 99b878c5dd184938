//! Decisions on questions: the first counts.

use serde_json::json;
use toolcell_agent::{Answered, Decision, RunKey, StoreError, Tenant};

use crate::tx::{Columns, Tx, TxError, json as to_json, values};
use crate::{audit, tenants};

/// Whether a question may be closed when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// Who decides comes too late.
    Refused,
    /// It is the clock, the end of its run, or somebody who has looked at the clock already.
    Fine,
}

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

/// The longest reason of a no, in bytes: a person's remark. It goes to the model, and is kept with the question.
pub const REASON_BYTES_MAX: usize = 4_096;

/// The longest name of who decides, in bytes: it stands in the audit, which is kept for as long as the tenant.
pub const BY_BYTES_MAX: usize = 1_024;

pub(crate) async fn answer(tx: &mut Tx<'_>, tenant: Tenant, decision: Decision) -> Result<Answered, TxError> {
    at_most("bytes of a reason", decision.answer.reason.as_deref().map_or(0, str::len), REASON_BYTES_MAX)?;
    at_most("bytes of the name of who decides", decision.by.as_deref().map_or(0, str::len), BY_BYTES_MAX)?;
    let id = &decision.answer.id;
    // The run first: so nobody works on it, parks it or cancels it in the meantime.
    let run = lock_asker(tx, &tenant, id).await?;
    let key = run.key()?;
    let host_says = decision.answer.reason.as_deref().filter(|_| !decision.answer.ok);
    let how = match host_says {
        Some("cancelled") => Close::Cancelled,
        Some("expired") => Close::Expired,
        _ => Close::Answered,
    };
    if decide(tx, &run, id, how, Late::Refused, &decision).await? {
        return Ok(Answered::First(key));
    }
    let row = "select state, decision from suspension where tenant = $1 and id = $2";
    let row = tx.row(row, values![&tenant, id]).await?.ok_or(StoreError::NotFound("question"))?;
    if row.text("state")? != "open" {
        return again(tx, key, &row, decision).await;
    }
    // Its time is over, and nobody has looked at the clock yet.
    let expired = Close::Expired.decision(id);
    decide(tx, &run, id, Close::Expired, Late::Fine, &expired).await?;
    Ok(Answered::Conflict(expired))
}

/// Refuses more of something than may be kept.
pub(crate) fn at_most(what: &'static str, found: usize, max: usize) -> Result<(), StoreError> {
    match found > max {
        true => Err(StoreError::TooLarge { what, max: max as u64 }),
        false => Ok(()),
    }
}

/// Locks the run that asks a question against everybody else.
pub(crate) async fn lock_asker(tx: &mut Tx<'_>, tenant: &Tenant, id: &str) -> Result<Columns, TxError> {
    let lock = "select tenant, id as run, status from run where tenant = $1 and id = \
                (select run from suspension where tenant = $1 and id = $2){for_update}";
    Ok(tx.row(lock, values![tenant, id]).await?.ok_or(StoreError::NotFound("question"))?)
}

/// Locks a run against everybody else.
pub(crate) async fn lock(tx: &mut Tx<'_>, key: &RunKey) -> Result<Columns, TxError> {
    let lock = "select tenant, id as run, status, is_cancelled from run where tenant = $1 and id = $2{for_update}";
    let row = tx.row(lock, values![&key.tenant, &key.run]).await?;
    Ok(row.ok_or(StoreError::NotFound("run"))?)
}

/// Closes an open question of a run that is locked, and lets the run go on. Whether it was open.
pub(crate) async fn decide(
    tx: &mut Tx<'_>,
    run: &Columns,
    id: &str,
    how: Close,
    late: Late,
    decision: &Decision,
) -> Result<bool, TxError> {
    let closed = close(tx, &run.key()?, id, how, late, decision).await?;
    if closed > 0 {
        go_on(tx, run, closed).await?;
    }
    Ok(closed > 0)
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

/// Closes a question of a run that is locked. How many were open: one or none. The run does not know of it yet.
pub(crate) async fn close(
    tx: &mut Tx<'_>,
    key: &RunKey,
    id: &str,
    how: Close,
    late: Late,
    decision: &Decision,
) -> Result<i64, TxError> {
    let tenant = &key.tenant;
    let decide = match late {
        Late::Refused => {
            "update suspension set state = $3, decision = $4 where tenant = $1 and id = $2 and state = 'open' \
             and expires_at > {now}"
        }
        Late::Fine => {
            "update suspension set state = $3, decision = $4 where tenant = $1 and id = $2 and state = 'open'"
        }
    };
    if tx.run(decide, values![tenant, id, how.state(), to_json(decision)?]).await? == 0 {
        return Ok(0);
    }
    let Some(row) = tenants::row(tx, tenant).await? else { return Err(StoreError::NotFound("question").into()) };
    row.counts.open -= 1;
    let body = json!({
        "question": id, "ok": decision.answer.ok, "reason": decision.answer.reason, "by": decision.by,
        "data": decision.answer.data.as_ref().map(|data| audit::sha256(serde_json::Value::from(data.clone()).to_string())),
        "arguments":
            decision.arguments.as_ref().map(|data| audit::sha256(serde_json::Value::from(data.clone()).to_string())),
    });
    audit::note(tx, tenant, &format!("question.{}", how.state()), body).await?;
    Ok(1)
}

/// Makes a run go on that waits; tells its worker when it has one. `closed` of its questions are no longer open.
async fn go_on(tx: &mut Tx<'_>, run: &Columns, closed: i64) -> Result<(), TxError> {
    let key = run.key()?;
    if matches!(run.text("status")?.as_str(), "pending" | "stalled") {
        return tenants::enqueue(tx, &key, closed).await;
    }
    let count = "update run set open = open - $3, updated_at = {now} where tenant = $1 and id = $2{told}";
    tx.run_and_tell(count, &key, values![&key.tenant, &key.run, closed]).await
}

pub(crate) async fn cancel(tx: &mut Tx<'_>, key: RunKey) -> Result<(), TxError> {
    let run = lock(tx, &key).await?;
    let status = run.text("status")?;
    if !matches!(status.as_str(), "ready" | "running" | "pending" | "stalled") || run.flag("is_cancelled")? {
        return Ok(());
    }
    tx.run("update run set is_cancelled = 1 where tenant = $1 and id = $2", values![&key.tenant, &key.run]).await?;
    audit::note(tx, &key.tenant, "run.cancelled", json!({ "run": key.run })).await?;
    go_on(tx, &run, 0).await
}
