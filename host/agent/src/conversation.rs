//! Conversations: message after message with one history, and what happens to a message that comes too early.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolcell_contract::{Answer, ContentPart, Request};

use crate::agent::{Agent, RunError, RunRequest};
use crate::call::OpenCall;
use crate::event::{EventSink, NoEvents};
use crate::run::{RunEnd, RunResult, SuspendedRun};
use crate::transcript::{Message, is_balanced};

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

/// What a conversation begins with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConversationOptions {
    /// What was said before, for example by [`Conversation::history`] in another process.
    pub history: Vec<Message>,
    /// Standing instructions for the model.
    pub system: Option<String>,
    /// What happens to a message that comes too early.
    pub while_pending: WhilePending,
}

/// A conversation with an agent. Its clones are the same conversation.
///
/// A run goes on although nobody waits for its result any more: the caller may have gone away, but what a tool began is
/// not left half done. [`SendRequest::cancel`] ends it.
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
///     let history = serde_json::to_string(&conversation.history())?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Conversation {
    inner: Arc<Inner>,
}

struct Inner {
    id: String,
    agent: Agent,
    system: Option<String>,
    while_pending: WhilePending,
    state: Mutex<State>,
    /// The conversation may have become free, or the line may have moved.
    moved: Notify,
}

/// Nothing but data.
struct State {
    /// What was said, always balanced. The run that is under way or waits is not in it yet.
    history: Vec<Message>,
    phase: Phase,
    /// Tickets of the messages that wait for their turn, first come first served.
    line: VecDeque<u64>,
    next_ticket: u64,
}

enum Phase {
    Free,
    Running,
    Waiting(Box<SuspendedRun>),
}

/// A message to a conversation.
#[derive(Clone)]
pub struct SendRequest {
    /// What the person says.
    pub content: Vec<ContentPart>,
    /// Where the events of its run go.
    pub events: Arc<dyn EventSink>,
    /// Cancels its run.
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// The run of an earlier message waits for a person.
    #[error("the conversation waits for an answer: {}; answer it first", prompts(.questions))]
    Waiting {
        /// What is asked, in call order.
        questions: Vec<Request>,
    },
    /// The run of an earlier message is under way.
    #[error("an earlier message is still being answered; wait for it, or cancel it")]
    Running,
    /// Too many messages wait already.
    #[error("{QUEUE_MAX} messages wait for their turn already; wait for an answer")]
    QueueFull,
    /// Nothing is asked.
    #[error("the conversation waits for no answer")]
    NothingAsked,
    /// The answer belongs to no question of this conversation.
    #[error("no open question has the id \"{id}\"; the open ones are: {}", prompts(.questions))]
    UnknownQuestion {
        /// The answer's id.
        id: String,
        /// What is asked, in call order.
        questions: Vec<Request>,
    },
    /// The code of a hook, an event sink or a native tool panicked; the history is as it was before.
    #[error("the run ended in a panic of the host program")]
    Panicked,
}

fn prompts(questions: &[Request]) -> String {
    questions.iter().map(|question| format!("{} ({})", question.prompt, question.id)).collect::<Vec<_>>().join("; ")
}

impl Conversation {
    /// A conversation that goes on from a history; an empty one begins it.
    ///
    /// # Errors
    /// [`RunError::Unbalanced`] when the history holds a call without its result, or a result without its call.
    pub fn new(agent: Agent, options: ConversationOptions) -> Result<Self, RunError> {
        let ConversationOptions { history, system, while_pending } = options;
        if !is_balanced(&history) {
            return Err(RunError::Unbalanced);
        }
        let id = format!("conv-{}", uuid::Uuid::new_v4().simple());
        let state = Mutex::new(State { history, phase: Phase::Free, line: VecDeque::new(), next_ticket: 0 });
        Ok(Self { inner: Arc::new(Inner { id, agent, system, while_pending, state, moved: Notify::new() }) })
    }

    /// Its id, which nobody can guess.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// What was said and done in all runs that have ended. It is balanced, so any provider takes it; the run that is
    /// under way or waits comes into it when it ends.
    #[must_use]
    pub fn history(&self) -> Vec<Message> {
        self.inner.state().history.clone()
    }

    /// The questions that wait for an answer, in call order.
    #[must_use]
    pub fn questions(&self) -> Vec<Request> {
        self.inner.state().questions()
    }

    /// Says something, and runs until the model has answered or a call waits.
    ///
    /// # Errors
    /// [`ConversationError::Waiting`] and [`ConversationError::Running`] while an earlier message is not done and
    /// messages are refused then; [`ConversationError::QueueFull`] while too many wait.
    pub async fn send(&self, message: SendRequest) -> Result<RunResult, ConversationError> {
        self.inner.enter().await?;
        let inner = Arc::clone(&self.inner);
        let task = tokio::spawn(async move {
            let leave = Leave::of(&inner);
            let mut messages = inner.state().history.clone();
            messages.push(Message::User { content: message.content });
            let (system, events, cancel) = (inner.system.clone(), message.events, message.cancel);
            let run = inner.agent.run(RunRequest { system, messages, events, cancel }).await;
            // The history is balanced, and stays so with a person's message behind it.
            let result = run.map_err(|_unbalanced| ConversationError::Panicked)?;
            leave.with(&result);
            Ok(result)
        });
        task.await.unwrap_or(Err(ConversationError::Panicked))
    }

    /// Answers questions of the run that waits, and goes on with it.
    ///
    /// # Errors
    /// [`ConversationError::NothingAsked`] when no run waits, [`ConversationError::UnknownQuestion`] when an answer
    /// belongs to none of its questions. Nothing was run then.
    pub async fn answer(
        &self,
        answers: Vec<Answer>,
        events: Arc<dyn EventSink>,
        cancel: CancellationToken,
    ) -> Result<RunResult, ConversationError> {
        let run = self.inner.state().take_waiting(&answers)?;
        let inner = Arc::clone(&self.inner);
        let task = tokio::spawn(async move {
            let leave = Leave::of(&inner);
            let result = inner.agent.resume(*run, answers, events, cancel).await;
            // The answers were found to belong to it when it was taken.
            let result = result.map_err(|_stray| ConversationError::NothingAsked)?;
            leave.with(&result);
            Ok(result)
        });
        task.await.unwrap_or(Err(ConversationError::Panicked))
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the conversation is free and this is the first in line, and takes it.
    async fn enter(&self) -> Result<(), ConversationError> {
        let ticket = match self.state().take_turn(self.while_pending)? {
            Turn::Now => return Ok(()),
            Turn::Later(ticket) => InLine { inner: self, ticket },
        };
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // From here on no move is missed.
            moved.as_mut().enable();
            if self.state().call_up(ticket.ticket) {
                return Ok(());
            }
            moved.await;
        }
    }
}

/// When a message has its turn.
enum Turn {
    Now,
    Later(u64),
}

impl State {
    fn questions(&self) -> Vec<Request> {
        match &self.phase {
            Phase::Waiting(run) => run.open().map(OpenCall::request).cloned().collect(),
            Phase::Free | Phase::Running => Vec::new(),
        }
    }

    fn take_turn(&mut self, while_pending: WhilePending) -> Result<Turn, ConversationError> {
        match (&self.phase, while_pending) {
            (Phase::Free, _) if self.line.is_empty() => {
                self.phase = Phase::Running;
                Ok(Turn::Now)
            }
            (_, WhilePending::Queue) if self.line.len() >= QUEUE_MAX => Err(ConversationError::QueueFull),
            (_, WhilePending::Queue) => {
                let ticket = self.next_ticket;
                self.next_ticket += 1;
                self.line.push_back(ticket);
                Ok(Turn::Later(ticket))
            }
            (Phase::Waiting(_), WhilePending::Refuse) => {
                Err(ConversationError::Waiting { questions: self.questions() })
            }
            (Phase::Free | Phase::Running, WhilePending::Refuse) => Err(ConversationError::Running),
        }
    }

    fn call_up(&mut self, ticket: u64) -> bool {
        let is_called = matches!(self.phase, Phase::Free) && self.line.front() == Some(&ticket);
        if is_called {
            self.line.pop_front();
            self.phase = Phase::Running;
        }
        is_called
    }

    fn take_waiting(&mut self, answers: &[Answer]) -> Result<Box<SuspendedRun>, ConversationError> {
        let stray = match &self.phase {
            Phase::Waiting(run) => run.stray(answers).map(|answer| answer.id.clone()),
            Phase::Free | Phase::Running => return Err(ConversationError::NothingAsked),
        };
        if let Some(id) = stray {
            return Err(ConversationError::UnknownQuestion { id, questions: self.questions() });
        }
        match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Waiting(run) => Ok(run),
            Phase::Free | Phase::Running => Err(ConversationError::NothingAsked),
        }
    }
}

/// A place in line, given up when whoever waits goes away.
struct InLine<'a> {
    inner: &'a Inner,
    ticket: u64,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.inner.state().line.retain(|ticket| *ticket != self.ticket);
        self.inner.moved.notify_waiters();
    }
}

/// Leaves the conversation when a run is over, also when it panics.
struct Leave<'a> {
    inner: &'a Inner,
    next: Phase,
}

impl<'a> Leave<'a> {
    fn of(inner: &'a Inner) -> Self {
        Self { inner, next: Phase::Free }
    }

    fn with(mut self, result: &RunResult) {
        match &result.end {
            RunEnd::Pending(run) => self.next = Phase::Waiting(run.clone()),
            _ => self.inner.state().history.clone_from(&result.messages),
        }
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.inner.state().phase = std::mem::replace(&mut self.next, Phase::Free);
        self.inner.moved.notify_waiters();
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

/// Many conversations, found by their ids. They live as long as this does, or until they are removed.
#[derive(Debug, Clone, Default)]
pub struct Conversations(Arc<Mutex<HashMap<String, Conversation>>>);

impl Conversations {
    /// Keeps a conversation, and gives its id.
    pub fn add(&self, conversation: Conversation) -> String {
        let id = conversation.id().to_owned();
        self.map().insert(id.clone(), conversation);
        id
    }

    /// The conversation of that id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Conversation> {
        self.map().get(id).cloned()
    }

    /// Forgets a conversation. Those who hold it may go on with it.
    pub fn remove(&self, id: &str) -> Option<Conversation> {
        self.map().remove(id)
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, Conversation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
