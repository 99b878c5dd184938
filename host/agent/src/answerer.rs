//! Who answers while a run is alive: a terminal, a web page, another program.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcell_contract::{Answer, Digest, Request, RequestKind};

/// What a person decides on: the question, and what the host itself knows about the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The host's id of the call.
    pub call_id: String,
    /// The tool that asks.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Value,
    /// The component whose code will run.
    pub digest: Option<Digest>,
    /// Whose question it is.
    pub asker: Asker,
    /// The question in the words of whoever asks.
    pub request: Request,
}

impl Question {
    /// Whether a yes is all that it asks for, so that a grant may give it: what is to be typed nobody knows beforehand.
    #[must_use]
    pub fn is_plain_approval(&self) -> bool {
        self.request.kind == RequestKind::Approval && self.request.answer_schema().is_none()
    }
}

/// Who asks while a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Asker {
    /// The tool: after a yes it runs again with the answer.
    Tool,
    /// A hook of the host program: after a yes the tool runs for the first time.
    Hook,
    /// The policy: after a yes the tool runs for the first time.
    Policy,
}

/// Someone who can be asked while the run waits.
///
/// Every async closure from a [`Question`] to an `Option<Answer>` is one. It may be asked several questions at the same
/// time, and its future is dropped when the question lapses, somebody else answers it, or the run is cancelled.
pub trait Answerer: Send + Sync {
    /// Waits for an answer. `None` says that nobody is there: the call stays open, and the run ends as pending when
    /// nothing else is left to do. An answer that is not what was asked for is as good as none.
    fn wait_for(&self, question: Question) -> BoxFuture<'_, Option<Answer>>;
}

impl<F, Fut> Answerer for F
where
    F: Fn(Question) -> Fut + Send + Sync,
    Fut: Future<Output = Option<Answer>> + Send + 'static,
{
    fn wait_for(&self, question: Question) -> BoxFuture<'_, Option<Answer>> {
        self(question).boxed()
    }
}

/// Nobody: every call that suspends stays open.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Answerer for Nobody {
    fn wait_for(&self, _question: Question) -> BoxFuture<'_, Option<Answer>> {
        futures::future::ready(None).boxed()
    }
}

impl Answerer for Arc<dyn Answerer> {
    fn wait_for(&self, question: Question) -> BoxFuture<'_, Option<Answer>> {
        self.as_ref().wait_for(question)
    }
}
