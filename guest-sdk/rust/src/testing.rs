//! Contexts for the native tests of a tool, with and without an answer.

use toolcell_contract::Answer;

use crate::Context;
use crate::context::GivenAnswer;

/// The call id of every context made here.
pub const CALL_ID: &str = "call-1";

/// The milliseconds that a context has left if nothing else is said.
pub const DEADLINE_MS: u64 = 30_000;

/// The context of a call's first execution.
#[must_use]
pub fn first_call() -> Context {
    with_deadline_ms(DEADLINE_MS)
}

/// The context of a first execution that has so much time left, in milliseconds.
#[must_use]
pub fn with_deadline_ms(deadline_ms: u64) -> Context {
    Context::new(CALL_ID.to_owned(), deadline_ms, None, None)
}

/// The context of the retry that brings an answer, with the state that the call left in `suspended`.
#[must_use]
pub fn retry(suspended: &Context, answer: Answer) -> Context {
    let data = answer.data.map(|data| serde_json::Value::Object(data).to_string());
    let answer = GivenAnswer { id: answer.id, ok: answer.ok, data, reason: answer.reason };
    Context::new(suspended.call_id().to_owned(), suspended.deadline_ms(), Some(answer), suspended.next_state())
}
