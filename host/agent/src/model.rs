//! The model as the loop sees it: ask, and read a stream of events.

use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use toolcell_contract::Definition;

use crate::transcript::{AssistantTurn, Message};

/// A model that can be asked. A provider's wire format implements it; so does a script for demos and tests.
pub trait Model: Send + Sync {
    /// The model's name, as the provider knows it.
    fn name(&self) -> &str;

    /// Asks for the next turn. The stream ends with exactly one [`ModelEvent::Finished`] or with an error; a stream
    /// that ends without either was cut off.
    fn ask<'a>(&'a self, prompt: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>>;
}

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub struct Prompt<'a> {
    /// Standing instructions.
    pub system: Option<&'a str>,
    /// The conversation; always balanced.
    pub messages: &'a [Message],
    /// The tools that it may call.
    pub tools: &'a [&'a Definition],
}

/// A piece of a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More of the model's reasoning, where a provider shows it.
    Reasoning(String),
    /// The whole turn; the last event.
    Finished(ModelReply),
}

/// A whole turn of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// What it said and asked for.
    pub turn: AssistantTurn,
    /// Why it stopped. Whether there are calls to run is decided by the calls, never by this: providers contradict
    /// themselves.
    pub stop: StopReason,
    /// Tokens of this request.
    pub usage: Usage,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// It had said what it wanted, or wants its calls run.
    Finished,
    /// It reached its limit of output; its last call may be half a call.
    Length,
    /// It, or its provider's filter, refused to go on.
    Refused,
    /// Another word of the provider's.
    Other(String),
}

/// Tokens. The numbers only ever grow and never overflow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
}

impl Usage {
    /// The sum of both.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// Why a model did not answer. The texts are safe to show: they never hold a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The server could not be reached at all.
    #[error("cannot reach the model at {endpoint}")]
    Unreachable {
        /// Scheme, host and port.
        endpoint: String,
        /// What the client said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The key is missing, wrong or not allowed to do this (401, 403).
    #[error("the provider refused the key (HTTP {status}): {message}")]
    Unauthorized {
        /// The status code.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// The conversation no longer fits the model's context window.
    #[error("the conversation is too long for the model: {message}")]
    ContextTooLong {
        /// The provider's words.
        message: String,
    },
    /// The provider refused the request; sending it again would not help.
    #[error("the provider refused the request (HTTP {status}): {message}")]
    Refused {
        /// The status code.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// The provider is overloaded, limits the rate, or failed, and went on doing so after all retries.
    #[error("the provider is not available (HTTP {status}): {message}")]
    Unavailable {
        /// The status code; 200 when the failure came inside the stream.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// What came back is not what the wire format says.
    #[error("the provider sent a response that cannot be read: {message}")]
    BadResponse {
        /// What is wrong with it.
        message: String,
    },
    /// The stream ended before its end marker. Nothing of it is used.
    #[error("the provider's stream broke off before its end")]
    Truncated,
    /// The model, or its provider's filter, refused to go on. Its calls do not run.
    #[error("the model refused to go on")]
    Withheld,
    /// Nothing came for too long.
    #[error("the model sent nothing for {seconds} s")]
    Idle {
        /// How long was waited.
        seconds: u64,
    },
    /// A script was asked something that it does not play.
    #[error("the script does not fit: {message}")]
    Script {
        /// Where, what was expected and what came.
        message: String,
    },
}
