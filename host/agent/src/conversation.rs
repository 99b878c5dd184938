//! Conversations: message after message with one history, and what happens to a message that comes too early.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use toolcell_contract::{Answer, ContentPart};

use crate::agent::{Agent, RunError};
use crate::answerer::Question;
use crate::decision::BadDecision;
use crate::event::{EventSink, NoEvents};
use crate::run::RunResult;
use crate::store::Tenant;
use crate::transcript::{Message, is_balanced};
use crate::window::Window;

pub use many::{CONVERSATIONS_MAX, Conversations, NotAdded};

use inner::{Inner, Progress, Turn};

mod inner;
mod many;
mod run;

/// Messages that wait for their turn in one conversation. Who sends more has not read an answer for a long time.
pub const QUEUE_MAX: usize = 32;

/// What happens to a message that comes while the one before it is not done: its run is under way, or waits for a
/// person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhilePending {
    /// It is refused, with the open questions.
    #[default]
    Refuse,
    /// It waits for its turn, at most [`QUEUE_MAX`] at a time.
    Queue,
}

/// A conversation so far, as plain data with which another process can go on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// What was said and done, balanced.
    pub messages: Vec<Message>,
    /// How much of it the model was sent. Without it the provider's cache of the conversation is of no use for one
    /// message.
    #[serde(default)]
    pub window: Window,
}

impl From<Vec<Message>> for History {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages, window: Window::default() }
    }
}

/// What a conversation begins with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConversationOptions {
    /// Its id; by default a fresh one that nobody can guess.
    pub id: Option<String>,
    /// For whom its runs are: see [`crate::RunRequest::tenant`].
    pub tenant: Tenant,
    /// What was said before, for example [`Conversation::history`] of another process.
    pub history: History,
    /// Standing instructions for the model.
    pub system: Option<String>,
    /// What happens to a message that comes too early.
    pub while_pending: WhilePending,
}

/// A conversation with an agent. Its clones are the same conversation.
///
/// A run goes on although nobody waits for its result any more: the caller may have gone away, but what a tool began is
/// not left half done. [`SendRequest::cancel`] ends it, also while it waits for an answer; so does
/// [`Conversation::abandon`]. A question that lapses is answered with a no by the conversation itself, and the run goes on.
///
/// All of this happens in tasks on the tokio runtime of whoever sends and answers, which must be there. A run whose runtime
/// is shut down is cut off; one that waits can still be answered from another runtime, but from then on nobody looks at
/// its clock and its token.
///
/// ```
/// use toolcell_agent::{Agent, Conversation, ConversationOptions, SendRequest};
///
/// async fn talk(agent: Agent) -> Result<(), Box<dyn std::error::Error>> {
///     let conversation = Conversation::new(agent, ConversationOptions::default())?;
///     conversation.send(SendRequest::text("My name is Ada.")).await?;
///     let result = conversation.send(SendRequest::text("What is my name?")).await?;
///     println!("{}", result.text);
///     // Plain data that another process can go on from.
///     let saved = serde_json::to_string(&conversation.history())?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Conversation {
    inner: Arc<Inner>,
}

/// A message to a conversation.
#[derive(Clone)]
pub struct SendRequest {
    /// What the person says.
    pub content: Vec<ContentPart>,
    /// Where the events of its run go, until the run has ended or waits.
    pub events: Arc<dyn EventSink>,
    /// Takes the message back until its turn comes, and then cancels its run, also while that waits.
    pub cancel: CancellationToken,
}

impl SendRequest {
    /// A message of plain text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let content = vec![ContentPart::text(text)];
        Self { content, events: Arc::new(NoEvents), cancel: CancellationToken::new() }
    }
}

/// Why a conversation does not take a message or an answer. Nothing has changed then.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// The run of an earlier message waits for a person.
    #[error("the conversation waits for an answer: {}; answer it first", prompts(.questions))]
    Waiting {
        /// What is asked, in call order.
        questions: Vec<Question>,
    },
    /// The run of an earlier message is under way.
    #[error("an earlier message is still being answered; wait for it, or cancel it")]
    Running,
    /// Too many messages wait already.
    #[error("{QUEUE_MAX} messages wait for their turn already; wait for an answer")]
    QueueFull,
    /// No run is under way or waits, and none of the last few had this question.
    #[error("the conversation waits for no answer")]
    NothingAsked,
    /// The message was taken back before its turn came.
    #[error("the message was cancelled before its turn came")]
    Cancelled,
    /// The question has another answer already; the first one counts.
    #[error("the question \"{id}\" was answered otherwise before")]
    Conflict {
        /// The question's id.
        id: String,
    },
    /// The answer is not what its question asks for; the question stays open.
    #[error("the answer to \"{id}\" cannot be taken: {problem}")]
    BadAnswer {
        /// The question's id.
        id: String,
        /// What is wrong with it.
        problem: BadDecision,
    },
    /// The answer belongs to no question of the run that is under way or waits, nor of one of the last few.
    #[error("no open question has the id \"{id}\"; open now: {}", prompts(.questions))]
    UnknownQuestion {
        /// The answer's id.
        id: String,
        /// What is asked, in call order.
        questions: Vec<Question>,
    },
    /// The code of a hook, an event sink or a native tool panicked; the history is as it was before.
    #[error("the run ended in a panic of the host program")]
    Panicked,
    /// The runtime on which the run was under way was shut down; the history is as it was before.
    #[error("the run was cut off: the runtime on which it was under way was shut down")]
    CutOff,
}

fn prompts(questions: &[Question]) -> String {
    if questions.is_empty() {
        return "none".to_owned();
    }
    questions
        .iter()
        .map(|Question { request, .. }| format!("{} ({})", request.prompt, request.id))
        .collect::<Vec<_>>()
        .join("; ")
}

impl Conversation {
    /// A conversation that goes on from a history; an empty one begins it.
    ///
    /// # Errors
    /// [`RunError::Unbalanced`] when the history holds a call without its result, or a result without its call.
    pub fn new(agent: Agent, options: ConversationOptions) -> Result<Self, RunError> {
        if !is_balanced(&options.history.messages) {
            return Err(RunError::Unbalanced);
        }
        Ok(Self { inner: Arc::new(Inner::new(agent, options)) })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.inner.id()
    }

    /// What was said and done in all runs that have ended. It is balanced, so any provider takes it; the run that is
    /// under way or waits comes into it when it ends.
    #[must_use]
    pub fn history(&self) -> History {
        self.inner.history()
    }

    /// The questions that wait for an answer, in call order; also while other calls of the run are still under way.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        self.inner.questions()
    }

    /// Says something, and runs until the model has answered or nothing but questions is left to do.
    ///
    /// # Errors
    /// [`ConversationError::Waiting`] and [`ConversationError::Running`] while an earlier message is not done and
    /// messages are refused then; [`ConversationError::QueueFull`] while too many wait; [`ConversationError::Cancelled`]
    /// when it was taken back before its turn came. In the end [`ConversationError::Panicked`] and
    /// [`ConversationError::CutOff`].
    pub async fn send(&self, message: SendRequest) -> Result<Arc<RunResult>, ConversationError> {
        let rest = match self.inner.take_turn(&message)? {
            Turn::Now(rest) => rest,
            Turn::Later(ticket) => self.inner.wait_for_turn(ticket, &message).await?,
        };
        rest.await
    }

    /// Answers questions, each of which lets its own call go on at once, and waits until the run has ended or nothing but
    /// questions is left to do. The first answer to a question counts; the same again is fine and changes nothing: it is
    /// told what its run has come to, also when that is one of the last few that have ended.
    ///
    /// `events` is told what happens until then, `cancel` ends the run, also later.
    ///
    /// # Errors
    /// [`ConversationError::NothingAsked`] when no run is under way or waits, [`ConversationError::UnknownQuestion`] when
    /// an answer belongs to none of its questions, [`ConversationError::BadAnswer`] when one is not what was asked for,
    /// [`ConversationError::Conflict`] when a question has another answer. None of the answers was taken then. In the end
    /// [`ConversationError::Panicked`] and [`ConversationError::CutOff`].
    pub async fn answer(
        &self,
        answers: Vec<Answer>,
        events: Arc<dyn EventSink>,
        cancel: CancellationToken,
    ) -> Result<Arc<RunResult>, ConversationError> {
        let rest = match self.inner.answer(answers, &events, &cancel)? {
            Progress::Rested(result) => return Ok(result),
            Progress::Under(rest) => rest,
        };
        rest.await
    }

    /// Ends the run that is under way or waits: its open calls end as cancelled, and the conversation is free for the next
    /// message. Nothing when it is free already.
    ///
    /// # Errors
    /// [`ConversationError::Panicked`] and [`ConversationError::CutOff`].
    pub async fn abandon(&self) -> Result<Option<Arc<RunResult>>, ConversationError> {
        match self.inner.abandon() {
            Some(rest) => rest.await.map(Some),
            None => Ok(None),
        }
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("id", &self.id()).finish_non_exhaustive()
    }
}
