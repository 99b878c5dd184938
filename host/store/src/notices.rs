//! What is told to tenants: written with what it tells, told at least once.

use std::time::Duration;

use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use toolcell_agent::{Notice, OpenCallRecord, RunKey, StoreError, StoredEnd, Tenant, TenantSettings, Webhook};

use crate::error::damaged;
use crate::lists::at_most;
use crate::tx::{Columns, Tx, TxError, from_json, json as to_json, span, time, values};

/// Tells that a run waits, and for what.
pub(crate) async fn pending(tx: &mut Tx<'_>, key: &RunKey) -> Result<(), TxError> {
    let open = "select body, expires_at from suspension where tenant = $1 and run = $2 and state = 'open' \
                order by turn, place";
    let rows = tx.rows(open, values![&key.tenant, &key.run]).await?;
    let question = |row: &Columns| -> Result<Value, StoreError> {
        let open: OpenCallRecord = row.json("body")?;
        let expires_at = time(row.int("expires_at")?)?.format(&Rfc3339).map_err(|_| damaged("a time has no form"))?;
        Ok(json!({ "question": open.question(), "expiresAt": expires_at }))
    };
    let questions = rows.iter().map(question).collect::<Result<Vec<_>, _>>()?;
    note(tx, key, "run.pending", json!({ "questions": questions })).await
}

/// Tells that a run has ended, and how.
pub(crate) async fn done(tx: &mut Tx<'_>, key: &RunKey, end: &StoredEnd) -> Result<(), TxError> {
    note(tx, key, "run.done", json!({ "end": end })).await
}

/// Tells that a run does not go on, though it was tried so often.
pub(crate) async fn stalled(tx: &mut Tx<'_>, key: &RunKey, tries: i64) -> Result<(), TxError> {
    note(tx, key, "run.stalled", json!({ "tries": tries })).await
}

async fn note(tx: &mut Tx<'_>, key: &RunKey, topic: &str, mut body: Value) -> Result<(), TxError> {
    let row = tx.row("select settings from tenant where id = $1", values![&key.tenant]).await?;
    // A run goes on although nobody knows where its tenant is to be told of it.
    if webhook(&row.ok_or(StoreError::NotFound("tenant"))?, &key.tenant)?.is_none() {
        return Ok(());
    }
    let id = format!("ntc-{}", uuid::Uuid::new_v4().simple());
    if let Value::Object(body) = &mut body {
        body.insert("id".into(), id.clone().into());
        body.insert("topic".into(), topic.into());
        body.insert("tenant".into(), key.tenant.as_str().into());
        body.insert("run".into(), key.run.clone().into());
    }
    let insert = "insert into outbox (id, tenant, topic, body, due_at) values ($1, $2, $3, $4, {now})";
    tx.run(insert, values![id, &key.tenant, topic, to_json(&body)?]).await.map(drop)
}

/// Where a tenant is told. None, too, when its settings make no sense: people are told of that.
fn webhook(row: &Columns, tenant: &Tenant) -> Result<Option<Webhook>, StoreError> {
    let text = row.text("settings")?;
    let settings: Result<TenantSettings, _> = from_json("the settings of a tenant", &text);
    Ok(settings.map_or_else(
        |error| {
            tracing::error!(%tenant, "{error}");
            None
        },
        |settings| settings.webhook,
    ))
}

pub(crate) async fn due(tx: &mut Tx<'_>, limit: u32, lease: Duration) -> Result<Vec<Notice>, TxError> {
    let due = "select o.id as id, o.tenant as tenant, o.topic as topic, o.body as body, o.attempts as attempts, \
               t.settings as settings from outbox o join tenant t on t.id = o.tenant where o.due_at <= {now} \
               order by o.due_at limit $1{skip_locked_of_o}";
    let rows = tx.rows(due, values![at_most(limit)]).await?;
    let mut notices = Vec::new();
    for row in rows {
        let id = row.text("id")?;
        let take = "update outbox set attempts = attempts + 1, due_at = {now} + $2 where id = $1";
        tx.run(take, values![&id, span(lease)]).await?;
        match notice(&row) {
            Ok(Some(notice)) => notices.push(notice),
            // Nobody wants to know any more.
            Ok(None) => drop(tx.run("delete from outbox where id = $1", values![&id]).await?),
            // It comes again after a while: somebody may have mended it.
            Err(error) => tracing::error!(notice = id, "passed over: {error}"),
        }
    }
    Ok(notices)
}

fn notice(row: &Columns) -> Result<Option<Notice>, StoreError> {
    let settings: TenantSettings = row.json("settings")?;
    let Some(webhook) = settings.webhook else { return Ok(None) };
    Ok(Some(Notice {
        id: row.text("id")?,
        tenant: row.text("tenant")?.parse().map_err(|_| damaged("a tenant has no name"))?,
        topic: row.text("topic")?,
        body: row.text("body")?,
        webhook,
        attempts: row.small("attempts")?,
    }))
}

pub(crate) async fn settle(tx: &mut Tx<'_>, id: String, retry: Option<Duration>) -> Result<(), TxError> {
    match retry {
        Some(after) => {
            tx.run("update outbox set due_at = {now} + $2 where id = $1", values![id, span(after)]).await.map(drop)
        }
        None => tx.run("delete from outbox where id = $1", values![id]).await.map(drop),
    }
}
