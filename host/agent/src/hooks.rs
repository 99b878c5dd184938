//! Rules of the host program, put between the model and its tools: what a hook sees, and what it may decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::Value;
use toolcell_contract::{Object, Request, ToolResult};

use crate::agent::RunError;
use crate::call_record::CallRecord;
use crate::catalog::Tool;
use crate::model::{ModelReply, Prompt};
use crate::transcript::{AssistantTurn, Message, is_balanced};

pub(crate) mod chain;

/// What a program wants to see and to decide during its runs. Each method does nothing unless it is written.
///
/// [`crate::Agent::with_hooks`] may be called several times: the hooks are asked in that order, before and after alike,
/// and each sees what the one before it left.
///
/// Their time is working time of the run, and so has its limit. When a run is cancelled or its time is over a hook's
/// future is dropped; what it had not yet let through is withheld.
///
/// Their results and questions are held to the same rules as those of a component ([`toolcell_contract::accept`]): one
/// that breaks a rule becomes an error result of code `bad-output` or `output-too-large` that says which.
///
/// A panic of a hook ends the run, as that of any code of the program does: whoever awaits [`crate::Agent::run`] or reads a
/// [`crate::RunStream`] panics with it, and a [`crate::Conversation`] gives [`crate::ConversationError::Panicked`].
///
/// Hooks that several agents share are an `Arc` of hooks, which is hooks itself.
///
/// ```
/// use futures::future::{BoxFuture, FutureExt as _};
/// use toolcell_agent::{AfterTool, BeforeTool, CallRecord, Hooks, PlannedCall};
/// use toolcell_contract::{Request, ToolResult};
///
/// /// Asks a person before anything is sent, and keeps account numbers from the model.
/// struct HouseRules;
///
/// impl Hooks for HouseRules {
///     fn before_tool<'a>(&'a self, call: PlannedCall<'a>) -> BoxFuture<'a, BeforeTool> {
///         async move {
///             match call.tool.definition.name.as_str() {
///                 "send-mail" => BeforeTool::Suspend(Request::approval("Send this mail?")),
///                 "delete-all" => BeforeTool::Deny { reason: "delete one thing at a time".into() },
///                 _ => BeforeTool::Run,
///             }
///         }
///         .boxed()
///     }
///
///     fn after_tool<'a>(&'a self, record: &'a CallRecord) -> BoxFuture<'a, AfterTool> {
///         async move {
///             let output = &record.ending.result.output;
///             match output.split_once("account ") {
///                 Some((before, _)) => AfterTool::Replace(ToolResult::ok(format!("{before}account (hidden)"))),
///                 None => AfterTool::Keep,
///             }
///         }
///         .boxed()
///     }
/// }
/// ```
pub trait Hooks: Send + Sync {
    /// Before the model is asked for a turn.
    fn before_model<'a>(&'a self, prompt: Prompt<'a>) -> BoxFuture<'a, BeforeModel> {
        let _ = prompt;
        ready(BeforeModel::Send).boxed()
    }

    /// After the model has answered, before anything of the answer is used. Its text was shown as it came: events of a
    /// changed answer are followed by [`crate::RunEvent::Restarted`] and the text that counts.
    fn after_model<'a>(&'a self, reply: &'a ModelReply) -> BoxFuture<'a, AfterModel> {
        let _ = reply;
        ready(AfterModel::Keep).boxed()
    }

    /// Before a call whose tool is known and whose arguments fit. Once for a call: not again when it goes on after an
    /// answer, because what was approved is what runs. A person who approves may edit the arguments: those are shown too, and
    /// what is asked about them is asked.
    fn before_tool<'a>(&'a self, call: PlannedCall<'a>) -> BoxFuture<'a, BeforeTool> {
        let _ = call;
        ready(BeforeTool::Run).boxed()
    }

    /// After a call has its result, whichever way: from its tool, from a hook, from the host that refused it. Once for a
    /// call; one that waits for an answer has no result yet.
    fn after_tool<'a>(&'a self, record: &'a CallRecord) -> BoxFuture<'a, AfterTool> {
        let _ = record;
        ready(AfterTool::Keep).boxed()
    }
}

/// Hooks that several agents share.
impl<H: Hooks + ?Sized> Hooks for Arc<H> {
    fn before_model<'a>(&'a self, prompt: Prompt<'a>) -> BoxFuture<'a, BeforeModel> {
        self.as_ref().before_model(prompt)
    }

    fn after_model<'a>(&'a self, reply: &'a ModelReply) -> BoxFuture<'a, AfterModel> {
        self.as_ref().after_model(reply)
    }

    fn before_tool<'a>(&'a self, call: PlannedCall<'a>) -> BoxFuture<'a, BeforeTool> {
        self.as_ref().before_tool(call)
    }

    fn after_tool<'a>(&'a self, record: &'a CallRecord) -> BoxFuture<'a, AfterTool> {
        self.as_ref().after_tool(record)
    }
}

/// What is sent to the model.
#[derive(Debug)]
pub enum BeforeModel {
    /// The prompt as it is.
    Send,
    /// Something else, for this turn alone: the transcript stays as it is.
    SendInstead(SentPrompt),
    /// Nothing: the run ends as [`crate::RunEnd::Stopped`].
    Stop {
        /// Why.
        reason: String,
    },
}

/// Instructions and a conversation that a hook has put in place of the run's own.
#[derive(Debug, Clone, PartialEq)]
pub struct SentPrompt {
    system: Option<String>,
    messages: Vec<Message>,
}

impl SentPrompt {
    /// A prompt that can be sent. An assistant's turn that differs from the run's own is sent in our form, not as its
    /// provider wrote it.
    ///
    /// # Errors
    /// [`RunError::Unbalanced`] when every provider would refuse the conversation: leave out a call only with its
    /// result.
    pub fn new(system: Option<String>, messages: Vec<Message>) -> Result<Self, RunError> {
        if is_balanced(&messages) { Ok(Self { system, messages }) } else { Err(RunError::Unbalanced) }
    }

    /// The prompt, with the tools that another offers.
    pub(crate) fn with_tools<'a>(&'a self, other: Prompt<'a>) -> Prompt<'a> {
        Prompt { system: self.system.as_deref(), messages: &self.messages, tools: other.tools }
    }

    /// Takes the provider's own words from every turn that is no longer the one they stand for: they would be sent in
    /// its place.
    fn without_stale_words(mut self, original: &[Message]) -> Self {
        for message in &mut self.messages {
            let Message::Assistant(turn) = message else { continue };
            let is_own = |known: &Message| matches!(known, Message::Assistant(own) if own == turn);
            if turn.verbatim.is_some() && !original.iter().any(is_own) {
                turn.verbatim = None;
            }
        }
        self
    }
}

/// What becomes of the model's answer.
#[derive(Debug)]
pub enum AfterModel {
    /// It counts as it is.
    Keep,
    /// It counts with changes.
    Edit(ReplyEdit),
    /// It does not count: the run ends as [`crate::RunEnd::Stopped`], and the answer is not in its transcript.
    Stop {
        /// Why.
        reason: String,
    },
}

/// Changes to a model's answer. Calls are named by [`crate::CallRequest::id`]; an id that is not in the answer changes
/// nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplyEdit {
    text: Option<String>,
    dropped: BTreeSet<String>,
    denied: BTreeMap<String, String>,
}

impl ReplyEdit {
    /// Another text. What the provider wrote is kept no longer, with whatever it held besides: reasoning, signatures.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..self }
    }

    /// The call never was: neither its tool nor the model hears of it. What the provider wrote is kept no longer.
    #[must_use]
    pub fn drop_call(mut self, id: impl Into<String>) -> Self {
        self.dropped.insert(id.into());
        self
    }

    /// The call does not run; the model reads the reason in its result.
    #[must_use]
    pub fn deny_call(mut self, id: impl Into<String>, reason: impl Into<String>) -> Self {
        self.denied.insert(id.into(), reason.into());
        self
    }

    /// Changes the turn, and gives back the reasons of the calls that must not run.
    fn apply(self, turn: &mut AssistantTurn) -> BTreeMap<String, String> {
        let before = turn.calls.len();
        turn.calls.retain(|call| !self.dropped.contains(&call.id));
        let text = self.text.filter(|text| *text != turn.text);
        if text.is_some() || turn.calls.len() != before {
            turn.verbatim = None;
        }
        if let Some(text) = text {
            turn.text = text;
        }
        self.denied
    }
}

/// A call that is about to run.
#[derive(Debug, Clone, Copy)]
pub struct PlannedCall<'a> {
    /// The host's id of the call.
    pub call_id: &'a str,
    /// The tool: its definition, and the digest of its component.
    pub tool: &'a Tool,
    /// An object that fits the tool's schema.
    pub arguments: &'a Value,
}

/// What becomes of a call.
#[derive(Debug)]
pub enum BeforeTool {
    /// It runs.
    Run,
    /// It runs with other arguments. They are checked as the model's are, and what does not fit is the error
    /// `invalid-arguments`. A question about the call shows these.
    RunWith(Object),
    /// It has this result; the tool does not run, and hooks after this one are not asked.
    Answer(ToolResult),
    /// It has the error result `forbidden`; the tool does not run, and hooks after this one are not asked.
    Deny {
        /// What the model reads.
        reason: String,
    },
    /// It waits for an answer, as it does when its tool asks; the request gets an id of the host's, and lapses after a day
    /// when it does not say when, at the latest after a week. The other hooks are
    /// asked first, so that nothing changes between the question and the call: another question comes after this one,
    /// and when a hook answers or denies, nothing runs and nobody is asked. After a yes the tool runs for the first
    /// time; it does not see the answer, which is none to a question of its own, and may still ask that.
    Suspend(Request),
}

/// What becomes of a result.
#[derive(Debug)]
pub enum AfterTool {
    /// It stays.
    Keep,
    /// Another takes its place everywhere: for the model, in events and in the record. The host's code stays beside an
    /// error.
    Replace(ToolResult),
}

#[cfg(test)]
#[path = "hooks_tests.rs"]
mod tests;
