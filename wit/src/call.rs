//! What a call knows about itself, and how it ends inside the host.

use crate::{Answer, Failure, Request, ToolResult};

/// What a call knows about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallContext {
    /// Stable over every retry of this call: an idempotency key.
    pub call_id: String,
    /// Present on the retry after a suspension.
    pub answer: Option<Answer>,
    /// The state that was returned with the suspension.
    pub state: Option<Vec<u8>>,
}

impl CallContext {
    /// The context of a first execution.
    #[must_use]
    pub fn first(call_id: impl Into<String>) -> Self {
        Self { call_id: call_id.into(), answer: None, state: None }
    }

    /// The context of the retry that brings an answer.
    #[must_use]
    pub fn retry(call_id: impl Into<String>, answer: Answer, state: Option<Vec<u8>>) -> Self {
        Self { call_id: call_id.into(), answer: Some(answer), state }
    }
}

/// A call that cannot go on before somebody answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspension {
    /// The question, under the host's id.
    pub request: Request,
    /// The id that the tool itself gave the question; the retry's answer carries it in place of the host's.
    pub guest_id: Option<String>,
    /// Bytes private to the tool, given back on the retry.
    pub state: Option<Vec<u8>>,
}

/// How one execution of a tool ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The tool gave a result: ok, error or parts.
    Done(ToolResult),
    /// The tool asks; it was dropped and runs again with the answer.
    Suspended(Suspension),
    /// The host stopped the call or refused it, and says so in words of its own.
    Failed(Failure),
}
