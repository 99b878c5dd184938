//! What happens during a run, as it happens.

use serde::{Deserialize, Serialize};
use toolcell_contract::{FailureCode, Request, ToolResult};

use crate::catalog::{LogLine, Progress};
use crate::measured::Measured;
use crate::model::{ModelWarning, Usage};
use crate::run::RunStatus;

/// Something that happened during a run. In JSON each has a `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum RunEvent {
    /// The model said more.
    Text {
        /// The new piece.
        text: String,
    },
    /// The model reasoned more, where its provider shows it.
    Reasoning {
        /// The new piece.
        text: String,
    },
    /// What was said of an answer is void: forget what [`RunEvent::Text`] and [`RunEvent::Reasoning`] said since the last
    /// usage.
    Restarted {
        /// What became of the answer, and so what comes next.
        cause: RestartCause,
        /// The same in words.
        reason: String,
    },
    /// The conversation took too much of the model's window: from now on the model is sent less of it. The transcript
    /// stays whole.
    Compacted {
        /// Tokens of the question before, estimated.
        before_tokens: u64,
        /// Tokens of the question now, estimated.
        after_tokens: u64,
        /// Messages that are not sent any more.
        messages_left_out: usize,
    },
    /// Something does not reach the model as it stands; each kind is told once for a run.
    Warning {
        /// What.
        #[serde(flatten)]
        warning: ModelWarning,
    },
    /// The model asked for a call.
    ToolCall {
        /// The host's id of the call: the same in every event about it, and in the tool's own context.
        call_id: String,
        /// The tool.
        name: String,
        /// What should be a JSON object, as the model wrote it.
        arguments: String,
    },
    /// A tool says how far it has come.
    Progress {
        /// Which call.
        call_id: String,
        /// The tool.
        name: String,
        /// How far.
        progress: Progress,
    },
    /// A tool printed or logged something.
    Log {
        /// Which call.
        call_id: String,
        /// The tool.
        name: String,
        /// The line.
        line: LogLine,
    },
    /// A call waits for an answer.
    Pending {
        /// Which call.
        call_id: String,
        /// The tool.
        name: String,
        /// The question.
        request: Request,
    },
    /// A call was answered.
    Answered {
        /// Which call.
        call_id: String,
        /// The tool.
        name: String,
        /// Whether the answer was yes.
        ok: bool,
    },
    /// A call has its result.
    ToolResult {
        /// Which call.
        call_id: String,
        /// The tool.
        name: String,
        /// The result.
        result: ToolResult,
        /// Why there is no result of the tool's own, where the host made it. No tool can set it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<FailureCode>,
    },
    /// The model finished a turn.
    Usage {
        /// Tokens of this turn.
        usage: Usage,
    },
    /// A model answered, or a tool was executed: what it took, and how it went.
    Measured {
        /// Which of the two, and its numbers.
        #[serde(flatten)]
        measured: Measured,
    },
    /// The run has ended, or waits for answers: the last event, until an answer lets it go on.
    Done {
        /// How.
        status: RunStatus,
    },
}

/// Why what was said of an answer is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RestartCause {
    /// The answer broke off, and the model is asked for it again.
    BrokeOff,
    /// The conversation turned out too long for the model: it is asked again with less of it.
    TooLong,
    /// A hook changed the answer: the text that counts follows.
    Changed,
    /// A hook withheld the answer, and the run ends.
    Withheld,
}

/// Where the events of a run go. It is called from the run itself: what takes long belongs behind a queue.
pub trait EventSink: Send + Sync {
    /// Takes one event.
    fn emit(&self, event: RunEvent);
}

impl<F: Fn(RunEvent) + Send + Sync> EventSink for F {
    fn emit(&self, event: RunEvent) {
        self(event);
    }
}

/// A sink for whoever only wants the result.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn emit(&self, _event: RunEvent) {}
}
