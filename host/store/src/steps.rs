//! What the worker of a run writes as it goes. Writing a step twice is writing it once.

use std::time::Duration;

use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use toolcell_agent::{
    Checkpoint, Decision, Lease, OpenCallRecord, Slot, Step, StoreError, StoredEnd, StoredRecord, StoredReply,
};
use toolcell_contract::{Answer, FailureCode};

use crate::answers::{Close, Late};
use crate::claims::{Held, fence, fence_or};
use crate::error::{damaged, is_duplicate};
use crate::tx::{Columns, Tx, TxError, json as to_json, micros, span, values};
use crate::{answers, audit, notices, tenants};

/// How long a question is open that names no end.
const OPEN_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);

/// A person needs some time to read a question, whatever the tool thinks.
const OPEN_MIN: Duration = Duration::from_secs(60);

/// What was forgotten for a week is not approved any more by the one who asked.
const OPEN_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub(crate) async fn write(tx: &mut Tx<'_>, held: Lease, step: Step) -> Result<(), TxError> {
    if !matches!(step, Step::Ended { .. }) {
        fence(tx, &held).await?;
    }
    match step {
        Step::Replied { turn, reply, checkpoint } => replied(tx, &held, turn, &reply, &checkpoint).await,
        Step::Executing { slot } => executing(tx, &held, slot).await,
        Step::Suspended { slot, open } => suspended(tx, &held, slot, &open).await,
        Step::Finished { slot, record } => finished(tx, &held, slot, &record).await,
        // It looks itself who has the run: it ends the lease.
        Step::Ended { end } => ended(tx, &held, &end).await,
    }
}

/// A call of the run: its state, and the lease under which it was last executed.
async fn call(tx: &mut Tx<'_>, held: &Lease, slot: Slot) -> Result<Columns, TxError> {
    let call =
        "select state, exec_epoch, suspension from call where tenant = $1 and run = $2 and turn = $3 and place = $4";
    let row = tx.row(call, values![&held.key.tenant, &held.key.run, slot.turn, slot.place]).await?;
    row.ok_or(StoreError::NotFound("call").into())
}

async fn replied(
    tx: &mut Tx<'_>,
    held: &Lease,
    turn: u32,
    reply: &StoredReply,
    checkpoint: &Checkpoint,
) -> Result<(), TxError> {
    let (tenant, run) = (&held.key.tenant, &held.key.run);
    // The conversation that it began with is event 0.
    let event = "insert into event (tenant, run, seq, kind, body, at) values ($1, $2, $3, 'reply', $4, {now}) \
                 on conflict (tenant, run, seq) do nothing";
    let seq = i64::from(turn) + 1;
    if tx.run(event, values![tenant, run, seq, to_json(reply)?]).await? == 0 {
        return Ok(());
    }
    let update =
        "update run set turns = $3, checkpoint = $4, stalls = 0, updated_at = {now} where tenant = $1 and id = $2";
    tx.run(update, values![tenant, run, seq, to_json(checkpoint)?]).await?;
    // Places 0, 1, 2 …: one statement, however many calls there are.
    let slots = "insert into call (tenant, run, turn, place, state) \
                 with recursive place (number) as (select cast(0 as bigint) union all select number + 1 from place \
                 where number + 1 < $4) select $1, $2, $3, number, 'requested' from place where number < $4";
    let count = i64::try_from(reply.turn.calls.len()).unwrap_or(i64::MAX);
    tx.run(slots, values![tenant, run, turn, count]).await.map(drop)
}

async fn executing(tx: &mut Tx<'_>, held: &Lease, slot: Slot) -> Result<(), TxError> {
    let (tenant, run) = (&held.key.tenant, &held.key.run);
    let row = call(tx, held, slot).await?;
    match row.text("state")?.as_str() {
        "executing" if row.maybe_int("exec_epoch")? == Some(held.epoch) => return Ok(()),
        "done" => {
            let id = slot.call_id(run);
            return Err(damaged(format!("the call {id} has its result already: it is not executed again")).into());
        }
        _ => {}
    }
    let begin = "update call set state = 'executing', attempts = attempts + 1, exec_epoch = $5 \
                 where tenant = $1 and run = $2 and turn = $3 and place = $4";
    tx.run(begin, values![tenant, run, slot.turn, slot.place, held.epoch]).await?;
    consume(tx, held, slot).await?;
    audit::note(tx, tenant, "call.executing", json!({ "call": slot.call_id(run), "epoch": held.epoch })).await
}

/// The call has gone on with what was decided: nobody has to be told again.
async fn consume(tx: &mut Tx<'_>, held: &Lease, slot: Slot) -> Result<(), TxError> {
    let consume = "update suspension set is_consumed = 1 where tenant = $1 and run = $2 and turn = $3 and place = $4 \
                   and state <> 'open' and is_consumed = 0";
    tx.run(consume, values![&held.key.tenant, &held.key.run, slot.turn, slot.place]).await.map(drop)
}

async fn suspended(tx: &mut Tx<'_>, held: &Lease, slot: Slot, open: &OpenCallRecord) -> Result<(), TxError> {
    let (tenant, run, id) = (&held.key.tenant, &held.key.run, &open.request.id);
    let call = call(tx, held, slot).await?;
    let asked = "select id from suspension where tenant = $1 and run = $2 and turn = $3 and place = $4 and id = $5";
    if tx.row(asked, values![tenant, run, slot.turn, slot.place, id]).await?.is_some() {
        return Ok(());
    }
    let Some(row) = tenants::row(tx, tenant).await? else { return Err(StoreError::Fenced.into()) };
    let open_max = row.settings()?.open_max;
    if row.counts.open >= i64::from(open_max) {
        return Err(StoreError::TooManyOpen(open_max).into());
    }
    row.counts.open += 1;
    let now = row.locked_at;
    // It may ask for the second time before it is executed at all: first the policy, then a hook.
    if call.maybe_text("suspension")?.is_some() {
        consume(tx, held, slot).await?;
    }
    let expires_at = expires_at(now, open.request.expires_at.as_deref());
    let insert = "insert into suspension (id, tenant, run, turn, place, state, body, asked_at, expires_at) \
                  values ($1, $2, $3, $4, $5, 'open', $6, $7, $8)";
    match tx.run(insert, values![id, tenant, run, slot.turn, slot.place, to_json(open)?, now, expires_at]).await {
        Err(TxError::Database(error)) if is_duplicate(&error) => {
            return Err(damaged(format!("there is another question under the id {id}")).into());
        }
        done => done?,
    };
    let wait = "update call set state = 'suspended', suspension = $5 \
                where tenant = $1 and run = $2 and turn = $3 and place = $4";
    tx.run(wait, values![tenant, run, slot.turn, slot.place, id]).await?;
    let count = "update run set open = open + 1, stalls = 0, updated_at = {now} where tenant = $1 and id = $2";
    tx.run(count, values![tenant, run]).await?;
    let body = json!({
        "question": id, "call": open.call_id, "tool": open.tool.name, "component": open.digest,
        "arguments": audit::sha256(open.arguments.to_string()), "asker": open.asker,
    });
    audit::note(tx, tenant, "question.asked", body).await
}

/// When a question ends, by the database's clock: as the tool says, within reason.
fn expires_at(now: i64, said: Option<&str>) -> i64 {
    let wanted = said.and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok()).map(micros);
    wanted.unwrap_or(now + span(OPEN_DEFAULT)).clamp(now + span(OPEN_MIN), now + span(OPEN_MAX))
}

async fn finished(tx: &mut Tx<'_>, held: &Lease, slot: Slot, record: &StoredRecord) -> Result<(), TxError> {
    let (tenant, run) = (&held.key.tenant, &held.key.run);
    let finish = "update call set state = 'done', record = $5 \
                  where tenant = $1 and run = $2 and turn = $3 and place = $4 and state <> 'done'";
    if tx.run(finish, values![tenant, run, slot.turn, slot.place, to_json(record)?]).await? == 0 {
        return call(tx, held, slot).await.map(|_has_its_result| ());
    }
    let open =
        "select id from suspension where tenant = $1 and run = $2 and turn = $3 and place = $4 and state = 'open'";
    let mut closed = 0;
    for row in tx.rows(open, values![tenant, run, slot.turn, slot.place]).await? {
        let close = if record.code == Some(FailureCode::Expired) { Close::Expired } else { Close::Cancelled };
        closed += answers::close(tx, &held.key, &row.text("id")?, close, Late::Fine, &close.decision(&row.text("id")?))
            .await?;
    }
    let got_on = "update run set open = open - $3, stalls = 0, updated_at = {now} where tenant = $1 and id = $2";
    tx.run(got_on, values![tenant, run, closed]).await?;
    consume(tx, held, slot).await?;
    let body = json!({
        "call": record.call_id, "tool": record.call.name, "isError": record.result.is_error, "code": record.code,
        "arguments": audit::sha256(&record.call.arguments),
        "replaced": record.replaced_arguments.as_ref().map(|replaced| audit::sha256(replaced.to_string())),
    });
    audit::note(tx, tenant, "call.finished", body).await
}

async fn ended(tx: &mut Tx<'_>, held: &Lease, end: &StoredEnd) -> Result<(), TxError> {
    let (tenant, run) = (&held.key.tenant, &held.key.run);
    let status = to_json(&end.status)?;
    let status = status.trim_matches('"');
    if fence_or(tx, held, status).await? == Held::Was {
        return Ok(());
    }
    let open = "select id from suspension where tenant = $1 and run = $2 and state = 'open'";
    let mut closed = 0;
    for row in tx.rows(open, values![tenant, run]).await? {
        let id = row.text("id")?;
        closed +=
            answers::close(tx, &held.key, &id, Close::Cancelled, Late::Fine, &Close::Cancelled.decision(&id)).await?;
    }
    let finish = "update run set status = $3, ended = $4, open = open - $5, stalls = 0, worker = null, lease_until = null, \
                  updated_at = {now}, purge_at = {now} + (select retention from tenant where id = $1) \
                  where tenant = $1 and id = $2";
    tx.run(finish, values![tenant, run, status, to_json(end)?, closed]).await?;
    notices::done(tx, &held.key, end).await?;
    tx.wake(&held.key).await
}

impl Close {
    /// What counts as decided.
    pub(crate) fn decision(self, id: &str) -> Decision {
        Decision { by: Some("host".into()), ..Answer::decline(id, self.reason()).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_ends_as_the_tool_says_within_reason() {
        let now = micros(time::macros::datetime!(2026-12-01 12:00 UTC));
        let after = |text| expires_at(now, text) - now;
        assert_eq!(after(None), span(OPEN_DEFAULT));
        assert_eq!(after(Some("2026-12-01T13:00:00Z")), span(Duration::from_secs(3_600)));
        assert_eq!(after(Some("2026-12-01T11:00:00Z")), span(OPEN_MIN), "in the past");
        assert_eq!(after(Some("9999-12-31T23:59:59Z")), span(OPEN_MAX));
        assert_eq!(after(Some("soon")), span(OPEN_DEFAULT));
    }
}
