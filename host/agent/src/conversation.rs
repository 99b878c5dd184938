//! Conversations: message after message with one history, and what happens to a message that comes too early.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, Shared};
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolcell_contract::{Answer, ContentPart};

use crate::agent::{Agent, RunError, RunRequest};
use crate::answerer::Question;
use crate::board::{Board, Refusal, Taken};
use crate::decision::BadDecision;
use crate::event::{EventSink, NoEvents, RunEvent};
use crate::run::{RunEnd, RunResult, SuspendedRun};
use crate::transcript::{Message, is_balanced};
use crate::window::Window;

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
    /// How much of it was sent, from [`Conversation::window`]. Without it the provider's cache of the conversation is of no
    /// use for one message.
    pub window: Window,
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
/// ```
/// use toolcell_agent::{Agent, Conversation, ConversationOptions, SendRequest};
///
/// async fn talk(agent: Agent) -> Result<(), Box<dyn std::error::Error>> {
///     let conversation = Conversation::new(agent, ConversationOptions::default())?;
///     conversation.send(SendRequest::text("My name is Ada.")).await?;
///     let result = conversation.send(SendRequest::text("What is my name?")).await?;
///     println!("{}", result.text);
///     // Plain data that another process can go on from.
///     let saved = serde_json::to_string(&(conversation.history(), conversation.window()))?;
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
    /// What is asked and was answered, in all of its runs.
    board: Board,
    state: Mutex<State>,
    /// The conversation may have become free, or the line may have moved.
    moved: Notify,
}

struct State {
    /// What was said, always balanced. The run that is under way or waits is not in it yet.
    history: Vec<Message>,
    window: Window,
    phase: Phase,
    /// What the latest run has come to.
    last: Option<Arc<RunResult>>,
    /// Tickets of the messages that wait for their turn, first come first served.
    line: VecDeque<u64>,
    next_ticket: u64,
}

enum Phase {
    Free,
    /// A run is under way.
    Running(Run, Rest),
    /// A run waits. The guard ends whoever looks at the clock meanwhile.
    Waiting(Run, Box<SuspendedRun>, #[allow(dead_code, reason = "it works when it is dropped")] DropGuard),
}

/// What the run that is under way comes to: its end, or that nothing but questions is left to do.
type Rest = Shared<BoxFuture<'static, Result<Arc<RunResult>, ConversationError>>>;

/// What a run has from its message to its end, however often it waits.
#[derive(Clone)]
struct Run {
    /// Ends it.
    cancel: CancellationToken,
    /// Tells when it has ended, or is forgotten with its conversation: nobody can cancel it any more.
    over: Arc<Over>,
    /// Who is told what happens.
    listeners: Arc<Listeners>,
}

/// A message to a conversation.
#[derive(Clone)]
pub struct SendRequest {
    /// What the person says.
    pub content: Vec<ContentPart>,
    /// Where the events of its run go, until the run waits.
    pub events: Arc<dyn EventSink>,
    /// Takes the message back while it waits for its turn, and then cancels its run, also while that waits.
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
    /// Nothing is asked.
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
    /// The answer belongs to no question of this conversation.
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
        let ConversationOptions { history, window, system, while_pending } = options;
        if !is_balanced(&history) {
            return Err(RunError::Unbalanced);
        }
        let id = format!("conv-{}", uuid::Uuid::new_v4().simple());
        let state = State { history, window, phase: Phase::Free, last: None, line: VecDeque::new(), next_ticket: 0 };
        let (board, state, moved) = (Board::default(), Mutex::new(state), Notify::new());
        Ok(Self { inner: Arc::new(Inner { id, agent, system, while_pending, board, state, moved }) })
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

    /// How much of the history is sent. It goes on with the history.
    #[must_use]
    pub fn window(&self) -> Window {
        self.inner.state().window
    }

    /// The questions that wait for an answer, in call order; also while other calls of the run are still under way.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        self.inner.board.open()
    }

    /// Says something, and runs until the model has answered or nothing but questions is left to do.
    ///
    /// # Errors
    /// [`ConversationError::Waiting`] and [`ConversationError::Running`] while an earlier message is not done and
    /// messages are refused then; [`ConversationError::QueueFull`] while too many wait; [`ConversationError::Cancelled`]
    /// when it was taken back while it waited.
    pub async fn send(&self, message: SendRequest) -> Result<Arc<RunResult>, ConversationError> {
        let rest = match self.inner.take_turn(&message)? {
            Turn::Now(rest) => rest,
            Turn::Later(ticket) => self.inner.wait_for_turn(ticket, &message).await?,
        };
        rest.await
    }

    /// Answers questions, each of which lets its own call go on at once, and waits until the run has ended or nothing but
    /// questions is left to do. The first answer to a question counts; the same again is fine and changes nothing.
    ///
    /// `events` is told what happens until then, `cancel` ends the run.
    ///
    /// # Errors
    /// [`ConversationError::NothingAsked`] when no run is under way or waits, [`ConversationError::UnknownQuestion`] when
    /// an answer belongs to none of its questions, [`ConversationError::BadAnswer`] when one is not what was asked for,
    /// [`ConversationError::Conflict`] when a question has another answer. None of the answers was taken then.
    pub async fn answer(
        &self,
        answers: Vec<Answer>,
        events: Arc<dyn EventSink>,
        cancel: CancellationToken,
    ) -> Result<Arc<RunResult>, ConversationError> {
        let rest = match self.inner.answer(answers, events, &cancel)? {
            Progress::Rested(result) => return Ok(result),
            Progress::Under(rest) => rest,
        };
        rest.await
    }

    /// Ends the run that is under way or waits: its open calls end as cancelled, and the conversation is free for the next
    /// message. Nothing when it is free already.
    ///
    /// # Errors
    /// [`ConversationError::Panicked`].
    pub async fn abandon(&self) -> Result<Option<Arc<RunResult>>, ConversationError> {
        match self.inner.abandon() {
            Some(rest) => rest.await.map(Some),
            None => Ok(None),
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the run of a message, or lets it stand in line.
    fn take_turn(self: &Arc<Self>, message: &SendRequest) -> Result<Turn, ConversationError> {
        let mut state = self.state();
        match (&state.phase, self.while_pending) {
            (Phase::Free, _) if state.line.is_empty() => Ok(Turn::Now(self.begin(&mut state, message))),
            (_, WhilePending::Queue) if state.line.len() >= QUEUE_MAX => Err(ConversationError::QueueFull),
            (_, WhilePending::Queue) => {
                let ticket = state.next_ticket;
                state.next_ticket += 1;
                state.line.push_back(ticket);
                Ok(Turn::Later(ticket))
            }
            (Phase::Waiting(..), WhilePending::Refuse) => {
                Err(ConversationError::Waiting { questions: self.board.open() })
            }
            (Phase::Free | Phase::Running(..), WhilePending::Refuse) => Err(ConversationError::Running),
        }
    }

    /// Waits until the conversation is free and this is the first in line, and begins its run.
    async fn wait_for_turn(self: &Arc<Self>, ticket: u64, message: &SendRequest) -> Result<Rest, ConversationError> {
        let _place = InLine { inner: self, ticket };
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // From here on no move is missed.
            moved.as_mut().enable();
            {
                let mut state = self.state();
                if matches!(state.phase, Phase::Free) && state.line.front() == Some(&ticket) {
                    state.line.pop_front();
                    return Ok(self.begin(&mut state, message));
                }
            }
            if message.cancel.run_until_cancelled(moved).await.is_none() {
                return Err(ConversationError::Cancelled);
            }
        }
    }

    fn begin(self: &Arc<Self>, state: &mut State, message: &SendRequest) -> Rest {
        let run = Run {
            cancel: CancellationToken::new(),
            over: Arc::default(),
            listeners: Arc::new(Listeners::of(&message.events)),
        };
        run.obey(&message.cancel);
        let mut messages = state.history.clone();
        messages.push(Message::User { content: message.content.clone() });
        let request = RunRequest {
            system: self.system.clone(),
            messages,
            window: state.window,
            events: Arc::clone(&run.listeners) as Arc<dyn EventSink>,
            cancel: run.cancel.clone(),
        };
        self.go(state, run, Start::Begin(Box::new(request)))
    }

    /// Takes answers, and lets the run go on if it waits.
    fn answer(
        self: &Arc<Self>,
        answers: Vec<Answer>,
        events: Arc<dyn EventSink>,
        cancel: &CancellationToken,
    ) -> Result<Progress, ConversationError> {
        let mut state = self.state();
        let taken = self.board.answer(answers).map_err(|refusal| match (refusal, &state.phase) {
            (Refusal::Conflict(id), _) => ConversationError::Conflict { id },
            (Refusal::Bad(id, problem), _) => ConversationError::BadAnswer { id, problem },
            (Refusal::Unknown(_), Phase::Free) => ConversationError::NothingAsked,
            (Refusal::Unknown(id), _) => ConversationError::UnknownQuestion { id, questions: self.board.open() },
        })?;
        match (&state.phase, taken) {
            (Phase::Running(run, rest), Taken::First) => {
                run.listeners.add(events);
                run.obey(cancel);
                Ok(Progress::Under(rest.clone()))
            }
            (Phase::Running(_, rest), Taken::Again) => Ok(Progress::Under(rest.clone())),
            (Phase::Waiting(run, ..), Taken::First) => {
                run.listeners.only(events);
                run.obey(cancel);
                self.resume(&mut state).map(Progress::Under).ok_or(ConversationError::NothingAsked)
            }
            (Phase::Waiting(..) | Phase::Free, _) => {
                state.last.clone().map(Progress::Rested).ok_or(ConversationError::NothingAsked)
            }
        }
    }

    fn abandon(self: &Arc<Self>) -> Option<Rest> {
        let mut state = self.state();
        match &state.phase {
            Phase::Free => None,
            Phase::Running(run, rest) => {
                run.cancel.cancel();
                Some(rest.clone())
            }
            Phase::Waiting(run, ..) => {
                run.cancel.cancel();
                self.resume(&mut state)
            }
        }
    }

    /// Goes on with the run that waits, if one does.
    fn resume(self: &Arc<Self>, state: &mut State) -> Option<Rest> {
        match std::mem::replace(&mut state.phase, Phase::Free) {
            Phase::Waiting(run, suspended, _) => Some(self.go(state, run, Start::Resume(suspended))),
            other => {
                state.phase = other;
                None
            }
        }
    }

    /// Sets a run going.
    fn go(self: &Arc<Self>, state: &mut State, run: Run, start: Start) -> Rest {
        let leave = Leave { inner: Arc::clone(self), run: run.clone(), has_left: false };
        let task = tokio::spawn(Self::live(leave, start));
        let rest: Rest = async { task.await.unwrap_or(Err(ConversationError::Panicked)) }.boxed().shared();
        state.phase = Phase::Running(run, rest.clone());
        rest
    }

    async fn live(mut leave: Leave, start: Start) -> Result<Arc<RunResult>, ConversationError> {
        let (inner, run) = (Arc::clone(&leave.inner), leave.run.clone());
        let events = Arc::clone(&run.listeners) as Arc<dyn EventSink>;
        let mut result = match start {
            Start::Begin(request) => {
                let result = inner.agent.run_with(&inner.board, *request).await;
                // The history is balanced, and stays so with a person's message behind it.
                result.map_err(|_unbalanced| ConversationError::Panicked)?
            }
            Start::Resume(waiting) => inner.agent.resume_with(&inner.board, *waiting, &events, &run.cancel).await,
        };
        loop {
            let waiting = match leave.rest(result) {
                Rested::Left(result) => return Ok(result),
                Rested::GoesOn(waiting) => waiting,
            };
            result = inner.agent.resume_with(&inner.board, *waiting, &events, &run.cancel).await;
        }
    }

    /// Looks at the clock while a run waits, and at its token: it goes on when a question lapses or it is cancelled.
    fn watch(self: &Arc<Self>, run: &Run, expiry: Option<OffsetDateTime>) -> DropGuard {
        let answered = CancellationToken::new();
        let (inner, cancel, until) = (Arc::downgrade(self), run.cancel.clone(), answered.clone());
        tokio::spawn(until.run_until_cancelled_owned(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = sleep_until(expiry) => {}
            }
            if let Some(inner) = Weak::upgrade(&inner) {
                let mut state = inner.state();
                drop(inner.resume(&mut state));
            }
        }));
        answered.drop_guard()
    }
}

/// Sleeps until a time of the day, or for ever. In steps: a clock may be set, and a machine may sleep.
async fn sleep_until(time: Option<OffsetDateTime>) {
    const STEP: Duration = Duration::from_secs(60);
    let Some(time) = time else { return std::future::pending().await };
    loop {
        match Duration::try_from(time - OffsetDateTime::now_utc()) {
            Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(STEP)).await,
            _ => return,
        }
    }
}

/// When a message has its turn.
enum Turn {
    Now(Rest),
    Later(u64),
}

/// What an answer has come to.
enum Progress {
    /// The run goes on.
    Under(Rest),
    /// Nothing had to be done.
    Rested(Arc<RunResult>),
}

/// How a run comes to life.
enum Start {
    Begin(Box<RunRequest>),
    Resume(Box<SuspendedRun>),
}

impl Run {
    /// Lets a token cancel it, as long as it has not ended.
    fn obey(&self, token: &CancellationToken) {
        let (token, cancel) = (token.clone(), self.cancel.clone());
        tokio::spawn(self.over.0.clone().run_until_cancelled_owned(async move {
            token.cancelled().await;
            cancel.cancel();
        }));
    }
}

/// Cancelled at the latest when nobody holds it.
#[derive(Default)]
struct Over(CancellationToken);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Those who are told what happens in a run.
struct Listeners(Mutex<Vec<Arc<dyn EventSink>>>);

impl Listeners {
    fn of(sink: &Arc<dyn EventSink>) -> Self {
        Self(Mutex::new(vec![Arc::clone(sink)]))
    }

    fn add(&self, sink: Arc<dyn EventSink>) {
        self.sinks().push(sink);
    }

    fn only(&self, sink: Arc<dyn EventSink>) {
        *self.sinks() = vec![sink];
    }

    fn sinks(&self) -> MutexGuard<'_, Vec<Arc<dyn EventSink>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for Listeners {
    fn emit(&self, event: RunEvent) {
        // Not under the lock: a sink is somebody else's code.
        let sinks = self.sinks().clone();
        sinks.iter().for_each(|sink| sink.emit(event.clone()));
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

/// Leaves the conversation when a run rests, also when it panics.
struct Leave {
    inner: Arc<Inner>,
    run: Run,
    has_left: bool,
}

/// What becomes of a run that has nothing to do.
enum Rested {
    /// It has ended, or waits.
    Left(Arc<RunResult>),
    /// An answer came at the last moment.
    GoesOn(Box<SuspendedRun>),
}

impl Leave {
    fn rest(&mut self, mut result: RunResult) -> Rested {
        let mut state = self.inner.state();
        let suspended = match &mut result.end {
            RunEnd::Pending { run, .. } => run.take(),
            _ => None,
        };
        state.phase = match suspended {
            // Answers are taken under the same lock.
            Some(waiting) if self.inner.board.has_fresh() => return Rested::GoesOn(waiting),
            Some(waiting) => {
                let watch = self.inner.watch(&self.run, waiting.expiry());
                Phase::Waiting(self.run.clone(), waiting, watch)
            }
            None => {
                self.run.over.0.cancel();
                state.history.clone_from(&result.messages);
                state.window = result.window;
                Phase::Free
            }
        };
        let result = Arc::new(result);
        state.last = Some(Arc::clone(&result));
        drop(state);
        self.has_left = true;
        self.inner.moved.notify_waiters();
        Rested::Left(result)
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if !self.has_left {
            self.run.over.0.cancel();
            self.inner.board.close();
            self.inner.state().phase = Phase::Free;
            self.inner.moved.notify_waiters();
        }
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
