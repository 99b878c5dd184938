//! Lists for people.

use toolcell_agent::{OpenCallRecord, Page, QuestionState, RunHead, Slot, StoreError, StoredQuestion, Tenant};

use crate::error::damaged;
use crate::read::{HEAD, head_of};
use crate::tx::{Columns, Tx, TxError, values};

/// The most entries of a list that are read at once, however many are asked for: each may hold what a person is shown of a
/// call, and all of them are in memory together.
pub const PAGE_MAX: u32 = 1_000;

pub(crate) fn at_most(limit: u32) -> u32 {
    limit.min(PAGE_MAX)
}

const QUESTION: &str = "tenant, run, turn, place, state, is_consumed, body, decision, asked_at, expires_at";

fn question_of(row: &Columns) -> Result<StoredQuestion, StoreError> {
    let state = match (row.text("state")?.as_str(), row.flag("is_consumed")?) {
        ("open", _) => QuestionState::Open,
        ("answered", false) => QuestionState::Answered,
        ("answered", true) => QuestionState::Consumed,
        ("expired", _) => QuestionState::Expired,
        ("cancelled", _) => QuestionState::Cancelled,
        (state, _) => return Err(damaged(format!("a question is \"{state}\""))),
    };
    let open: OpenCallRecord = row.json("body")?;
    Ok(StoredQuestion {
        key: row.key()?,
        slot: Slot { turn: row.small("turn")?, place: row.small("place")? },
        question: open.question(),
        state,
        decision: row.maybe_json("decision")?,
        asked_at: row.time("asked_at")?,
        expires_at: row.time("expires_at")?,
    })
}

pub(crate) async fn question(tx: &mut Tx<'_>, tenant: Tenant, id: String) -> Result<StoredQuestion, TxError> {
    let one = format!("select {QUESTION} from suspension where tenant = $1 and id = $2");
    let row = tx.row(&one, values![&tenant, &id]).await?.ok_or(StoreError::NotFound("question"))?;
    Ok(question_of(&row)?)
}

pub(crate) async fn questions(tx: &mut Tx<'_>, tenant: Tenant, page: Page) -> Result<Vec<StoredQuestion>, TxError> {
    let rows = match &page.after {
        None => {
            let first = format!(
                "select {QUESTION} from suspension where tenant = $1 and state = 'open' order by asked_at, id limit $2"
            );
            tx.rows(&first, values![&tenant, at_most(page.limit)]).await?
        }
        Some(after) => {
            let more = format!(
                "select {QUESTION} from suspension where tenant = $1 and state = 'open' and (asked_at, id) > \
                 (select asked_at, id from suspension where tenant = $1 and id = $3) order by asked_at, id limit $2"
            );
            tx.rows(&more, values![&tenant, at_most(page.limit), after]).await?
        }
    };
    Ok(rows.iter().map(question_of).collect::<Result<_, _>>()?)
}

pub(crate) async fn runs(tx: &mut Tx<'_>, tenant: Tenant, page: Page) -> Result<Vec<RunHead>, TxError> {
    let rows = match &page.after {
        None => {
            let first = format!("select {HEAD} from run where tenant = $1 order by created_at desc, id desc limit $2");
            tx.rows(&first, values![&tenant, at_most(page.limit)]).await?
        }
        Some(after) => {
            let more = format!(
                "select {HEAD} from run where tenant = $1 and (created_at, id) < (select created_at, id from run \
                 where tenant = $1 and id = $3) order by created_at desc, id desc limit $2"
            );
            tx.rows(&more, values![&tenant, at_most(page.limit), after]).await?
        }
    };
    Ok(rows.iter().map(head_of).collect::<Result<_, _>>()?)
}
