//! The result of a run, and a run that waits.

use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};
use time::OffsetDateTime;
use toolcell_contract::Request;

use crate::answerer::Question;
use crate::budget::RunLimit;
use crate::call::{CallState, OpenCall};
use crate::call_record::CallRecord;
use crate::event::RunEvent;
use crate::model::{ModelError, Usage, WarningKind};
use crate::store::{StoredReply, Tenant};
use crate::suspension::expiry;
use crate::transcript::{AssistantTurn, Message, ToolReply};
use crate::window::Window;

/// How a run ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// The model has said all.
    Done,
    /// A call waits for an answer.
    Pending,
    /// A limit ended it.
    Incomplete,
    /// The model could not be asked, or a hook stopped the run.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// How a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunEnd {
    /// The model has said all.
    Done,
    /// At least one call waits for an answer, and nobody was there.
    Pending {
        /// What is asked, in call order.
        questions: Vec<Question>,
        /// The run, with which [`crate::Agent::resume`] goes on. A [`crate::Conversation`] keeps it for itself, and goes
        /// on with [`crate::Conversation::answer`].
        run: Option<Box<SuspendedRun>>,
    },
    /// A limit ended it. The transcript is balanced, so a new run can go on from it.
    Incomplete(RunLimit),
    /// The model could not be asked. The transcript is balanced.
    Failed(ModelError),
    /// A hook stopped it. The transcript is balanced.
    Stopped {
        /// The hook's words.
        reason: String,
    },
    /// It was cancelled. The transcript is balanced.
    Cancelled,
}

/// What came of a run.
///
/// In JSON: `{"status", "text", "messages", "toolCalls", "turns", "usage", "model", "window"}`, with `limit`, `error`, and
/// `pending` (the first question in call order) and `pendings` (all) where they apply.
#[derive(Debug)]
pub struct RunResult {
    /// How it ended.
    pub end: RunEnd,
    /// What the model said last.
    pub text: String,
    /// The whole transcript.
    pub messages: Vec<Message>,
    /// Every call that has ended, in call order.
    pub tool_calls: Vec<CallRecord>,
    /// Times that the model answered.
    pub turns: u32,
    /// Tokens of all turns.
    pub usage: Usage,
    /// The model's name.
    pub model: String,
    /// How much of the transcript the model was sent at last. [`crate::RunRequest::window`] of a run that goes on.
    pub window: Window,
}

impl RunResult {
    /// How it ended, in one word.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        match self.end {
            RunEnd::Done => RunStatus::Done,
            RunEnd::Pending { .. } => RunStatus::Pending,
            RunEnd::Incomplete(_) => RunStatus::Incomplete,
            RunEnd::Failed(_) | RunEnd::Stopped { .. } => RunStatus::Failed,
            RunEnd::Cancelled => RunStatus::Cancelled,
        }
    }

    /// The event that tells of it.
    pub(crate) fn done(&self) -> RunEvent {
        RunEvent::Done { status: self.status() }
    }

    /// The first open question in call order.
    #[must_use]
    pub fn pending(&self) -> Option<&Request> {
        self.pendings().next()
    }

    /// All open questions, in call order.
    pub fn pendings(&self) -> impl Iterator<Item = &Request> {
        let questions = match &self.end {
            RunEnd::Pending { questions, .. } => questions.as_slice(),
            _ => &[],
        };
        questions.iter().map(|question| &question.request)
    }

    /// The run, if it waits and is not kept by a conversation.
    #[must_use]
    pub fn into_suspended(self) -> Option<SuspendedRun> {
        match self.end {
            RunEnd::Pending { run, .. } => run.map(|run| *run),
            _ => None,
        }
    }
}

impl Serialize for RunResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("RunResult", 12)?;
        object.serialize_field("status", &self.status())?;
        object.serialize_field("text", &self.text)?;
        object.serialize_field("messages", &self.messages)?;
        object.serialize_field("toolCalls", &self.tool_calls)?;
        object.serialize_field("turns", &self.turns)?;
        object.serialize_field("usage", &self.usage)?;
        object.serialize_field("model", &self.model)?;
        object.serialize_field("window", &self.window)?;
        match &self.end {
            RunEnd::Incomplete(limit) => object.serialize_field("limit", limit)?,
            RunEnd::Failed(error) => object.serialize_field("error", &error.to_string())?,
            RunEnd::Stopped { reason } => object.serialize_field("error", reason)?,
            RunEnd::Pending { .. } => {
                object.serialize_field("pending", &self.pending())?;
                object.serialize_field("pendings", &self.pendings().collect::<Vec<_>>())?;
            }
            RunEnd::Done | RunEnd::Cancelled => {}
        }
        object.end()
    }
}

/// A run that waits: nothing but data, and everything that is needed to go on. It goes on once: [`crate::Agent::resume`]
/// takes it.
#[derive(Debug)]
pub struct SuspendedRun {
    pub(crate) progress: RunProgress,
    /// The calls of the last turn, in call order.
    pub(crate) slots: Vec<CallState>,
}

impl SuspendedRun {
    /// The calls that wait, in call order.
    pub fn open(&self) -> impl Iterator<Item = &OpenCall> {
        self.open_with_places().map(|(_, open)| open)
    }

    /// The calls that wait, each with its place in the turn.
    pub(crate) fn open_with_places(&self) -> impl Iterator<Item = (usize, &OpenCall)> {
        self.slots.iter().enumerate().filter_map(|(place, slot)| match slot {
            CallState::Open(open) => Some((place, open.as_ref())),
            CallState::Finished(_) => None,
        })
    }

    /// When the first of its questions lapses.
    pub(crate) fn expiry(&self) -> Option<OffsetDateTime> {
        self.open().filter_map(|open| expiry(open.request())).min()
    }
}

/// What a run has done so far.
#[derive(Debug, Clone)]
pub(crate) struct RunProgress {
    /// Unguessable; call ids begin with it.
    pub(crate) id: String,
    pub(crate) tenant: Tenant,
    pub(crate) conversation_id: Option<String>,
    pub(crate) system: Option<String>,
    pub(crate) messages: Vec<Message>,
    pub(crate) records: Vec<CallRecord>,
    pub(crate) turns: u32,
    pub(crate) usage: Usage,
    pub(crate) text: String,
    pub(crate) worked: std::time::Duration,
    /// The kinds of warnings that were told.
    pub(crate) warned: std::collections::BTreeSet<WarningKind>,
    /// How much of the conversation is sent.
    pub(crate) window: Window,
}

impl RunProgress {
    /// Counts an answer of the model.
    pub(crate) fn count(&mut self, usage: Usage) {
        self.turns += 1;
        self.usage += usage;
    }

    /// Takes the words of an answer for those of the run. After one that paused they go on.
    pub(crate) fn say(&mut self, turn: &AssistantTurn) {
        if !matches!(self.messages.last(), Some(Message::Assistant(_))) {
            self.text.clear();
        }
        self.text.push_str(&turn.text);
    }

    /// Takes an answer of the model into the transcript.
    pub(crate) fn take(&mut self, reply: &StoredReply) {
        self.count(reply.usage);
        self.say(&reply.turn);
        self.messages.push(Message::Assistant(reply.turn.clone()));
    }

    /// Takes the results of the last turn's calls into the transcript.
    pub(crate) fn close_turn(&mut self, records: Vec<CallRecord>) {
        let replies = records.iter().map(|record| ToolReply {
            call_id: record.request.id.clone(),
            name: record.request.name.clone(),
            result: record.ending.result.clone(),
        });
        self.messages.push(Message::Tool { replies: replies.collect() });
        self.records.extend(records);
    }
}
