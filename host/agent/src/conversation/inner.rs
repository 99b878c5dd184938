//! The states of a conversation, and how it gets from one to the next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::{BoxFuture, FutureExt as _, Shared};
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolcell_contract::Answer;

use super::run::Run;
use super::{ConversationError, ConversationOptions, History, QUEUE_MAX, SendRequest, WhilePending};
use crate::agent::{Agent, RunRequest};
use crate::answerer::Question;
use crate::board::{Board, Refusal, Taken};
use crate::event::EventSink;
use crate::run::{RunEnd, RunResult, SuspendedRun};
use crate::store::Tenant;
use crate::transcript::Message;

/// Runs that have ended and were answered, of which an answer that comes again is told the end. Who repeats one does so
/// when its connection broke, which is soon; and the result of each holds a whole history.
const RUNS_REMEMBERED_MAX: usize = 4;

pub(super) struct Inner {
    id: String,
    tenant: Tenant,
    agent: Agent,
    system: Option<String>,
    while_pending: WhilePending,
    state: Mutex<State>,
    /// The conversation may have become free, or the line may have moved.
    moved: Notify,
}

struct State {
    /// What was said, always balanced. The run that is under way or waits is not in it yet.
    history: History,
    phase: Phase,
    /// The last runs that were answered and have ended, the latest first.
    past: VecDeque<Past>,
    /// Tickets of the messages that wait for their turn, first come first served.
    line: VecDeque<u64>,
    next_ticket: u64,
}

enum Phase {
    Free,
    /// A run is under way.
    Running(Run, Rest),
    /// A run waits.
    Waiting(Waiting),
}

struct Waiting {
    run: Run,
    suspended: Box<SuspendedRun>,
    /// What its callers were told.
    result: Arc<RunResult>,
    /// Looks at the clock meanwhile.
    #[allow(dead_code, reason = "it works when it is dropped")]
    watch: DropGuard,
}

/// A run that has ended.
struct Past {
    board: Arc<Board>,
    end: Ended,
}

type Ended = Result<Arc<RunResult>, ConversationError>;

/// What the run that is under way comes to: its end, or that nothing but questions is left to do.
pub(super) type Rest = Shared<BoxFuture<'static, Ended>>;

/// When a message has its turn.
pub(super) enum Turn {
    Now(Rest),
    Later(u64),
}

/// What an answer has come to.
pub(super) enum Progress {
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

impl State {
    /// The run that is under way or waits.
    fn run(&self) -> Option<&Run> {
        match &self.phase {
            Phase::Free => None,
            Phase::Running(run, _) | Phase::Waiting(Waiting { run, .. }) => Some(run),
        }
    }

    /// A run has ended.
    fn end(&mut self, run: &Run, end: Ended) {
        run.end();
        self.phase = Phase::Free;
        if run.board.is_used() {
            self.past.truncate(RUNS_REMEMBERED_MAX - 1);
            self.past.push_front(Past { board: Arc::clone(&run.board), end });
        }
    }

    /// The run that has ended to which one of these answers was given before.
    fn remembered(&self, answers: &[Answer]) -> Option<&Past> {
        self.past.iter().find(|past| answers.iter().any(|answer| past.board.has_answered(&answer.id)))
    }
}

impl Inner {
    pub(super) fn new(agent: Agent, options: ConversationOptions) -> Self {
        let ConversationOptions { id, tenant, history, system, while_pending } = options;
        let id = id.unwrap_or_else(|| format!("conv-{}", uuid::Uuid::new_v4().simple()));
        let (past, line) = (VecDeque::new(), VecDeque::new());
        let state = Mutex::new(State { history, phase: Phase::Free, past, line, next_ticket: 0 });
        Self { id, tenant, agent, system, while_pending, state, moved: Notify::new() }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn history(&self) -> History {
        self.state().history.clone()
    }

    pub(super) fn questions(&self) -> Vec<Question> {
        open(&self.state())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the run of a message, or lets it stand in line.
    pub(super) fn take_turn(self: &Arc<Self>, message: &SendRequest) -> Result<Turn, ConversationError> {
        if message.cancel.is_cancelled() {
            return Err(ConversationError::Cancelled);
        }
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
            (Phase::Waiting(Waiting { run, .. }), WhilePending::Refuse) => {
                Err(ConversationError::Waiting { questions: run.board.open() })
            }
            (Phase::Free | Phase::Running(..), WhilePending::Refuse) => Err(ConversationError::Running),
        }
    }

    /// Waits until the conversation is free and this is the first in line, and begins its run.
    pub(super) async fn wait_for_turn(
        self: &Arc<Self>,
        ticket: u64,
        message: &SendRequest,
    ) -> Result<Rest, ConversationError> {
        let _place = InLine { inner: self, ticket };
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // From here on no move is missed.
            moved.as_mut().enable();
            if message.cancel.is_cancelled() {
                return Err(ConversationError::Cancelled);
            }
            {
                let mut state = self.state();
                if matches!(state.phase, Phase::Free) && state.line.front() == Some(&ticket) {
                    state.line.pop_front();
                    return Ok(self.begin(&mut state, message));
                }
            }
            message.cancel.run_until_cancelled(moved).await;
        }
    }

    fn begin(self: &Arc<Self>, state: &mut State, message: &SendRequest) -> Rest {
        let run = Run::default();
        run.listeners.add(Arc::clone(&message.events));
        run.obey(&message.cancel);
        let History { mut messages, window } = state.history.clone();
        messages.push(Message::User { content: message.content.clone() });
        let request = RunRequest {
            tenant: self.tenant.clone(),
            conversation_id: Some(self.id.clone()),
            system: self.system.clone(),
            messages,
            window,
            events: Arc::clone(&run.listeners) as Arc<dyn EventSink>,
            cancel: run.cancel.clone(),
        };
        self.go(state, run, Start::Begin(Box::new(request)))
    }

    /// Takes answers, and lets the run go on if it waits.
    pub(super) fn answer(
        self: &Arc<Self>,
        answers: Vec<Answer>,
        events: &Arc<dyn EventSink>,
        cancel: &CancellationToken,
    ) -> Result<Progress, ConversationError> {
        let mut state = self.state();
        let unknown = match state.run().map(|run| run.board.answer(answers.clone())) {
            Some(Ok(taken)) => {
                return self.heed(&mut state, taken, events, cancel).ok_or(ConversationError::NothingAsked);
            }
            Some(Err(Refusal::Unknown(id))) => ConversationError::UnknownQuestion { id, questions: open(&state) },
            Some(Err(refusal)) => return Err(refusal.into()),
            None => ConversationError::NothingAsked,
        };
        // It may be told again of a run that has ended since.
        let past = state.remembered(&answers).ok_or(unknown)?;
        past.board.answer(answers)?;
        past.end.clone().map(Progress::Rested)
    }

    /// The run that is under way or waits was answered.
    fn heed(
        self: &Arc<Self>,
        state: &mut State,
        taken: Taken,
        events: &Arc<dyn EventSink>,
        cancel: &CancellationToken,
    ) -> Option<Progress> {
        let run = state.run()?;
        run.obey(cancel);
        match &state.phase {
            Phase::Waiting(Waiting { result, .. }) if taken == Taken::Again && !run.cancel.is_cancelled() => {
                Some(Progress::Rested(Arc::clone(result)))
            }
            _ => {
                run.listeners.add(Arc::clone(events));
                self.go_on(state).map(Progress::Under)
            }
        }
    }

    pub(super) fn abandon(self: &Arc<Self>) -> Option<Rest> {
        let mut state = self.state();
        state.run()?.cancel.cancel();
        self.go_on(&mut state)
    }

    /// Lets the run go on if it waits.
    fn go_on(self: &Arc<Self>, state: &mut State) -> Option<Rest> {
        match std::mem::replace(&mut state.phase, Phase::Free) {
            Phase::Free => None,
            Phase::Running(run, rest) => {
                state.phase = Phase::Running(run, rest.clone());
                Some(rest)
            }
            Phase::Waiting(Waiting { run, suspended, .. }) => Some(self.go(state, run, Start::Resume(suspended))),
        }
    }

    /// Sets a run going.
    fn go(self: &Arc<Self>, state: &mut State, run: Run, start: Start) -> Rest {
        let leave = Leave { inner: Arc::clone(self), run: run.clone(), has_left: false };
        let task = tokio::spawn(Self::live(leave, start));
        let rest: Rest = async {
            task.await.map_err(|error| match error.is_panic() {
                true => ConversationError::Panicked,
                false => ConversationError::CutOff,
            })
        }
        .boxed()
        .shared();
        state.phase = Phase::Running(run, rest.clone());
        rest
    }

    async fn live(mut leave: Leave, start: Start) -> Arc<RunResult> {
        let (inner, run) = (Arc::clone(&leave.inner), leave.run.clone());
        let events = Arc::clone(&run.listeners) as Arc<dyn EventSink>;
        let mut result = match start {
            Start::Begin(request) => inner.agent.run_with(&run.board, *request).await,
            Start::Resume(waiting) => inner.agent.resume_with(&run.board, *waiting, &events, &run.cancel).await,
        };
        loop {
            let waiting = match leave.rest(result) {
                Rested::Left(result) => return result,
                Rested::GoesOn(waiting) => waiting,
            };
            result = inner.agent.resume_with(&run.board, *waiting, &events, &run.cancel).await;
        }
    }

    /// Looks at the clock while a run waits, and at its token: it goes on when a question lapses or it is cancelled.
    fn watch(self: &Arc<Self>, run: &Run, expiry: Option<OffsetDateTime>) -> DropGuard {
        let over = CancellationToken::new();
        let (inner, clock, cancel) = (Arc::downgrade(self), self.agent.clock().clone(), run.cancel.clone());
        let until = over.clone();
        tokio::spawn(over.clone().run_until_cancelled_owned(async move {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = clock.sleep_until(expiry) => {}
            }
            if let Some(inner) = Weak::upgrade(&inner) {
                let mut state = inner.state();
                // Or the run went on meanwhile, and may wait for something else by now.
                if !until.is_cancelled() {
                    drop(inner.go_on(&mut state));
                }
            }
        }));
        over.drop_guard()
    }
}

fn open(state: &State) -> Vec<Question> {
    state.run().map(|run| run.board.open()).unwrap_or_default()
}

impl From<Refusal> for ConversationError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unknown(id) => Self::UnknownQuestion { id, questions: Vec::new() },
            Refusal::Conflict(id) => Self::Conflict { id },
            Refusal::Bad(id, problem) => Self::BadAnswer { id, problem },
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

/// Leaves the conversation when a run rests, also when it panics or is cut off.
struct Leave {
    inner: Arc<Inner>,
    run: Run,
    has_left: bool,
}

/// What becomes of a run that has nothing to do.
enum Rested {
    /// It has ended, or waits.
    Left(Arc<RunResult>),
    /// An answer came at the last moment, or it was cancelled.
    GoesOn(Box<SuspendedRun>),
}

impl Leave {
    fn rest(&mut self, mut result: RunResult) -> Rested {
        let suspended = match &mut result.end {
            RunEnd::Pending { run, .. } => run.take(),
            _ => None,
        };
        match suspended {
            Some(suspended) => self.wait(suspended, result),
            None => Rested::Left(self.end(result)),
        }
    }

    fn wait(&mut self, suspended: Box<SuspendedRun>, result: RunResult) -> Rested {
        let result = Arc::new(result);
        let listeners = {
            let mut state = self.inner.state();
            // Answers are taken under the same lock.
            if self.run.board.has_fresh() || self.run.cancel.is_cancelled() {
                return Rested::GoesOn(suspended);
            }
            let watch = self.inner.watch(&self.run, suspended.expiry());
            state.phase =
                Phase::Waiting(Waiting { run: self.run.clone(), suspended, result: Arc::clone(&result), watch });
            self.has_left = true;
            self.run.listeners.take()
        };
        listeners.emit(result.done());
        Rested::Left(result)
    }

    fn end(&mut self, result: RunResult) -> Arc<RunResult> {
        // While its end can still be told as a panic.
        self.run.listeners.emit(result.done());
        let result = Arc::new(result);
        let listeners = {
            let mut state = self.inner.state();
            state.history = History { messages: result.messages.clone(), window: result.window };
            state.end(&self.run, Ok(Arc::clone(&result)));
            self.has_left = true;
            self.run.listeners.take()
        };
        self.inner.moved.notify_waiters();
        drop(listeners);
        result
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let error = if std::thread::panicking() { ConversationError::Panicked } else { ConversationError::CutOff };
        self.run.board.close();
        let listeners = {
            self.inner.state().end(&self.run, Err(error));
            self.run.listeners.take()
        };
        self.inner.moved.notify_waiters();
        drop(listeners);
    }
}

#[cfg(test)]
#[path = "inner_tests.rs"]
mod tests;
