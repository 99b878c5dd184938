//! A run out of its rows.

use std::collections::HashMap;

use serde::Deserialize;
use toolcell_agent::{
    Decision, Message, OpenCallRecord, RunHead, RunKey, Slot, SlotState, StoreError, StoredCall, StoredReply,
    StoredRun, StoredStatus,
};

use crate::error::damaged;
use crate::tx::{Columns, Tx, TxError, values};

/// The columns of [`RunHead`].
pub(crate) const HEAD: &str = "tenant, id as run, status, model, turns, open, created_at, updated_at";

/// The first event.
#[derive(Deserialize)]
struct Start {
    system: Option<String>,
    messages: Vec<Message>,
}

pub(crate) fn head_of(row: &Columns) -> Result<RunHead, StoreError> {
    Ok(RunHead {
        key: row.key()?,
        status: status(&row.text("status")?)?,
        model: row.text("model")?,
        turns: row.small("turns")?,
        open: row.small("open")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

fn status(word: &str) -> Result<StoredStatus, StoreError> {
    Ok(match word {
        // One that is set aside waits for a worker, too, for longer.
        "ready" | "stalled" => StoredStatus::Ready,
        "running" => StoredStatus::Running,
        "pending" => StoredStatus::Pending,
        word => {
            let ended = serde_json::from_value(word.into());
            StoredStatus::Ended(ended.map_err(|_| damaged(format!("a run has the status \"{word}\"")))?)
        }
    })
}

pub(crate) async fn head(tx: &mut Tx<'_>, key: &RunKey) -> Result<RunHead, TxError> {
    let one = format!("select {HEAD} from run where tenant = $1 and id = $2");
    let row = tx.row(&one, values![&key.tenant, &key.run]).await?;
    Ok(head_of(&row.ok_or(StoreError::NotFound("run"))?)?)
}

pub(crate) async fn run(tx: &mut Tx<'_>, key: RunKey) -> Result<StoredRun, TxError> {
    let head = head(tx, &key).await?;
    let (tenant, run) = (&key.tenant, &key.run);
    let rest = "select checkpoint, ended, is_cancelled from run where tenant = $1 and id = $2";
    let rest = tx.row(rest, values![tenant, run]).await?.ok_or(StoreError::NotFound("run"))?;
    let events = "select kind, body from event where tenant = $1 and run = $2 order by seq";
    let events = tx.rows(events, values![tenant, run]).await?;
    let Some((first, replies)) = events.split_first() else {
        return Err(damaged(format!("the run {run} has no beginning")).into());
    };
    let Start { system, messages } = first.json("body")?;
    let replies = replies.iter().map(|row| row.json("body")).collect::<Result<Vec<StoredReply>, _>>()?;
    let calls = calls(tx, &key).await?;
    Ok(StoredRun {
        head,
        system,
        messages,
        replies,
        calls,
        checkpoint: rest.maybe_json("checkpoint")?,
        is_cancelled: rest.flag("is_cancelled")?,
        end: rest.maybe_json("ended")?,
    })
}

async fn calls(tx: &mut Tx<'_>, key: &RunKey) -> Result<Vec<StoredCall>, TxError> {
    let (tenant, run) = (&key.tenant, &key.run);
    // Only of calls that are not done: what a call that is done had asked is in the audit.
    let asked = "select s.id as id, s.body as body, s.decision as decision from suspension s join call c \
                 on c.tenant = s.tenant and c.run = s.run and c.turn = s.turn and c.place = s.place and c.suspension = s.id \
                 where s.tenant = $1 and s.run = $2 and c.state <> 'done'";
    let mut asked_of = HashMap::new();
    for row in tx.rows(asked, values![tenant, run]).await? {
        let open: OpenCallRecord = row.json("body")?;
        let decision: Option<Decision> = row.maybe_json("decision")?;
        asked_of.insert(row.text("id")?, (open, decision));
    }
    let rows = "select turn, place, state, attempts, suspension, record from call where tenant = $1 and run = $2 \
                order by turn, place";
    let rows = tx.rows(rows, values![tenant, run]).await?;
    let call = |row: &Columns| -> Result<StoredCall, StoreError> {
        let slot = Slot { turn: row.small("turn")?, place: row.small("place")? };
        let waited = row.maybe_text("suspension")?.and_then(|id| asked_of.remove(&id));
        let state = match (row.text("state")?.as_str(), waited) {
            ("requested", _) => SlotState::Requested,
            ("executing", Some((open, Some(decision)))) => {
                SlotState::Executing { waited: Some(Box::new((open, decision))) }
            }
            ("executing", _) => SlotState::Executing { waited: None },
            ("suspended", Some((open, decision))) => {
                SlotState::Suspended { open: Box::new(open), decision: decision.map(Box::new) }
            }
            ("done", _) => SlotState::Done { record: Box::new(row.json("record")?) },
            (state, _) => {
                return Err(damaged(format!("the call {} is \"{state}\" without its question", slot.call_id(run))));
            }
        };
        Ok(StoredCall { slot, state, attempts: row.small("attempts")? })
    };
    let mut call = call;
    Ok(rows.iter().map(&mut call).collect::<Result<_, _>>()?)
}
