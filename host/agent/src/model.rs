//! The model as the loop sees it: ask, and read a stream of events.

use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use toolcell_contract::Definition;

use crate::transcript::{AssistantTurn, Message};

/// A model that can be asked. A provider's wire format implements it; so does a script for demos and tests.
pub trait Model: Send + Sync {
    /// The model's name, as the provider knows it.
    fn name(&self) -> &str;

    /// Who serves it, as the OpenTelemetry conventions for generative AI write it: `openai`, `anthropic`, `gcp.gemini` …
    fn provider(&self) -> &str {
        "unknown"
    }

    /// Tokens that question and answer may take together, where that is known.
    fn context_window(&self) -> Option<u64> {
        None
    }

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
    /// The answer broke off and is asked for again: what was said of this turn so far is void.
    Restarted {
        /// What went wrong.
        reason: String,
    },
    /// Something of the prompt does not reach the model as it stands. The loop tells each kind once for a run.
    Warning(ModelWarning),
    /// The whole turn; the last event.
    Finished(ModelReply),
}

/// What of a prompt does not reach the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelWarning {
    /// The kind.
    pub kind: WarningKind,
    /// What exactly, and how to mend it.
    pub message: String,
}

/// A kind of [`ModelWarning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WarningKind {
    /// An image, a sound or a file became a line of text.
    MediaDescribed,
    /// A tool's schema was sent in a weaker form. Arguments are still checked against the whole schema.
    SchemaReduced,
    /// A setting is not known to the model and was left out.
    SettingLeftOut,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// It had said what it wanted, or wants its calls run.
    Finished,
    /// It reached its limit of output; its last call may be half a call.
    Length,
    /// It, or its provider's filter, refused to go on.
    Refused,
    /// Its provider paused a long turn: it goes on when it is asked again with what it has said so far.
    Paused,
    /// Another word of the provider's.
    Other(String),
}

/// Tokens, counted alike for every provider. The numbers only ever grow and never overflow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read: all of them, whether a cache gave them or not.
    pub input_tokens: u64,
    /// Those of [`Usage::input_tokens`] that the provider's cache gave.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Those of [`Usage::input_tokens`] that were put into the provider's cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
    /// Those of [`Usage::output_tokens`] that were reasoning.
    #[serde(skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Tokens read and written.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let Self { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens } = other;
        for (sum, more) in [
            (&mut self.input_tokens, input_tokens),
            (&mut self.cache_read_tokens, cache_read_tokens),
            (&mut self.cache_write_tokens, cache_write_tokens),
            (&mut self.output_tokens, output_tokens),
            (&mut self.reasoning_tokens, reasoning_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
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
    /// One attempt took longer than it may.
    #[error("the model's answer was not whole after {seconds} s")]
    TooSlow {
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

impl ModelError {
    /// The kind in one word, for metrics: it never holds anything that a provider said.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::Unauthorized { .. } => "unauthorized",
            Self::ContextTooLong { .. } => "context-too-long",
            Self::Refused { .. } => "refused",
            Self::Unavailable { .. } => "unavailable",
            Self::BadResponse { .. } => "bad-response",
            Self::Truncated => "truncated",
            Self::Withheld => "withheld",
            Self::Idle { .. } => "idle",
            Self::TooSlow { .. } => "too-slow",
            Self::Script { .. } => "script",
        }
    }
}
