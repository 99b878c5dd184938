//! The agent: what runs have in common, and how one begins or goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolcell_contract::Answer;

use crate::answerer::{Answerer, Nobody};
use crate::approval::{Approvals, Approve};
use crate::board::{Board, Refusal};
use crate::budget::Budget;
use crate::call::{CallStart, Caller};
use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::compaction::Compaction;
use crate::decision::BadDecision;
use crate::event::{EventSink, NoEvents};
use crate::hooks::Hooks;
use crate::journal::Journal;
use crate::model::Model;
use crate::run::{RunProgress, RunResult, SuspendedRun};
use crate::store::Tenant;
use crate::telemetry::RunWatch;
use crate::transcript::{Message, is_balanced};
use crate::window::Window;

pub(crate) use run_loop::{Next, starts};

use run_loop::Loop;

mod exchange;
mod open_turn;
mod run_loop;

/// A model, its tools, and who answers: everything that runs have in common.
#[derive(Clone)]
pub struct Agent {
    model: Arc<dyn Model>,
    catalog: Arc<dyn Catalog>,
    answerer: Arc<dyn Answerer>,
    hooks: Vec<Arc<dyn Hooks>>,
    approvals: Arc<dyn Approvals>,
    budget: Budget,
    compaction: Option<Compaction>,
    clock: Clock,
}

/// One run.
#[derive(Clone)]
pub struct RunRequest {
    /// For whom it runs: a tool that keeps something keeps it for each tenant apart.
    pub tenant: Tenant,
    /// The conversation that the run belongs to, for traces (`gen_ai.conversation.id`).
    pub conversation_id: Option<String>,
    /// Standing instructions for the model.
    pub system: Option<String>,
    /// The conversation so far; the last message is the person's.
    pub messages: Vec<Message>,
    /// How much of the conversation the model was sent by an earlier run: [`RunResult::window`]. With the default
    /// everything is sent, as far as it fits.
    pub window: Window,
    /// Where events go.
    pub events: Arc<dyn EventSink>,
    /// Cancels the run: the model's stream and every call end at once.
    pub cancel: CancellationToken,
}

impl RunRequest {
    /// A run that starts a conversation.
    #[must_use]
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::conversation(vec![Message::user(text)])
    }

    /// A run that goes on with a conversation.
    #[must_use]
    pub fn conversation(messages: Vec<Message>) -> Self {
        let (window, events) = (Window::default(), Arc::new(NoEvents));
        let (tenant, cancel) = (Tenant::local(), CancellationToken::new());
        Self { tenant, conversation_id: None, system: None, messages, window, events, cancel }
    }
}

/// Why a run cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The conversation has a call without its result, or a result without its call; every provider would refuse it.
    #[error("the conversation is not balanced: every call needs exactly one result, straight after its turn")]
    Unbalanced,
    /// An answer belongs to no question that is open. The run is handed back as it was.
    #[error("no open question has the id \"{id}\"")]
    UnknownQuestion {
        /// The answer's id.
        id: String,
        /// The run.
        run: Box<SuspendedRun>,
    },
    /// An answer is not what its question asks for. The run is handed back as it was.
    #[error("the answer to \"{id}\" cannot be taken: {problem}")]
    BadAnswer {
        /// The question's id.
        id: String,
        /// What is wrong with it.
        problem: BadDecision,
        /// The run.
        run: Box<SuspendedRun>,
    },
    /// Two answers to one question differ. The run is handed back as it was.
    #[error("the question \"{id}\" has two answers that differ")]
    Conflict {
        /// The question's id.
        id: String,
        /// The run.
        run: Box<SuspendedRun>,
    },
    /// The runtime on which a [`crate::RunStream`] began was shut down, and its run with it.
    #[error("the run was cut off: the runtime on which its stream began was shut down")]
    CutOff,
}

impl Agent {
    /// An agent without anybody to ask, with the default budget.
    #[must_use]
    pub fn new(model: Arc<dyn Model>, catalog: Arc<dyn Catalog>) -> Self {
        Self {
            model,
            catalog,
            answerer: Arc::new(Nobody),
            hooks: Vec::new(),
            approvals: Arc::new(Approve::Never),
            budget: Budget::default(),
            compaction: Some(Compaction::default()),
            clock: Clock::default(),
        }
    }

    /// The same agent with someone who is asked when a call suspends.
    #[must_use]
    pub fn wait_for(self, answerer: impl Answerer + 'static) -> Self {
        Self { answerer: Arc::new(answerer), ..self }
    }

    /// The same agent with hooks. They are asked after those that it has already.
    #[must_use]
    pub fn with_hooks(mut self, hooks: impl Hooks + 'static) -> Self {
        self.hooks.push(Arc::new(hooks));
        self
    }

    /// The same agent with tools that a person must approve before they run at all. They are asked for before the questions
    /// of hooks, with the arguments that hooks left.
    #[must_use]
    pub fn with_approval(self, approvals: impl Approvals + 'static) -> Self {
        Self { approvals: Arc::new(approvals), ..self }
    }

    /// The same agent with another budget for each run.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// The same agent with another rule for conversations that outgrow the model's window; `None` sends them whole, and
    /// a run whose conversation does not fit fails.
    #[must_use]
    pub fn with_compaction(self, compaction: Option<Compaction>) -> Self {
        Self { compaction, ..self }
    }

    /// The same agent with another clock, by which questions lapse.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Runs until the model has said all, a limit is reached, or a call waits and nobody answers.
    ///
    /// # Errors
    /// [`RunError::Unbalanced`] when the conversation could not be sent to any provider. What fails later is in
    /// [`RunResult::end`].
    pub async fn run(&self, request: RunRequest) -> Result<RunResult, RunError> {
        if !is_balanced(&request.messages) {
            return Err(RunError::Unbalanced);
        }
        let events = Arc::clone(&request.events);
        let result = self.run_with(&Board::default(), request).await;
        events.emit(result.done());
        Ok(result)
    }

    /// Goes on with a run that waits. Each answer runs its own call at once; the model is asked again when every call of
    /// the turn has its result. What is still open then is asked again of [`Agent::wait_for`]'s answerer.
    ///
    /// With a token that is cancelled the run is given up: its open calls end as cancelled.
    ///
    /// # Errors
    /// [`RunError::UnknownQuestion`] when an answer belongs to no open question, [`RunError::BadAnswer`] when one is not what
    /// was asked for, [`RunError::Conflict`] when two answers to one question differ; nothing was run then, and the run is
    /// handed back.
    pub async fn resume(
        &self,
        run: SuspendedRun,
        answers: Vec<Answer>,
        events: Arc<dyn EventSink>,
        cancel: CancellationToken,
    ) -> Result<RunResult, RunError> {
        let board = Board::of(&run);
        match board.answer(answers) {
            Ok(_) => {
                let result = self.resume_with(&board, run, &events, &cancel).await;
                events.emit(result.done());
                Ok(result)
            }
            Err(Refusal::Unknown(id)) => Err(RunError::UnknownQuestion { id, run: Box::new(run) }),
            Err(Refusal::Conflict(id)) => Err(RunError::Conflict { id, run: Box::new(run) }),
            Err(Refusal::Bad(id, problem)) => Err(RunError::BadAnswer { id, problem, run: Box::new(run) }),
        }
    }

    /// [`Agent::run`] of a balanced conversation, with questions that others may answer while it is under way. Whoever
    /// knows that it rests tells so.
    pub(crate) async fn run_with(&self, board: &Board, request: RunRequest) -> RunResult {
        let (events, cancel) = (Arc::clone(&request.events), request.cancel.clone());
        let progress = RunProgress::new(request);
        let watch = RunWatch::new(self.model.as_ref(), &progress);
        let run = self.with_loop(board, None, &events, &cancel, &progress);
        watch.over(run.drive(progress, Next::Ask)).await
    }

    /// Goes on with a run whose questions and answers are on the board.
    pub(crate) async fn resume_with(
        &self,
        board: &Board,
        run: SuspendedRun,
        events: &Arc<dyn EventSink>,
        cancel: &CancellationToken,
    ) -> RunResult {
        let SuspendedRun { progress, slots } = run;
        let next = Next::Calls(slots.into_iter().map(CallStart::At).collect());
        let watch = RunWatch::new(self.model.as_ref(), &progress);
        watch.over(self.with_loop(board, None, events, cancel, &progress).drive(progress, next)).await
    }

    /// Goes on with a run that writes down what it does.
    pub(crate) async fn drive_with(
        &self,
        board: &Board,
        journal: &dyn Journal,
        progress: RunProgress,
        next: Next,
        events: &Arc<dyn EventSink>,
        cancel: &CancellationToken,
    ) -> RunResult {
        let watch = RunWatch::new(self.model.as_ref(), &progress);
        let run = self.with_loop(board, Some(journal), events, cancel, &progress);
        watch.over(run.drive(progress, next)).await
    }

    /// The name of its model.
    #[must_use]
    pub fn model_name(&self) -> &str {
        self.model.name()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::clone(&self.catalog)
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    fn with_loop<'a>(
        &'a self,
        board: &'a Board,
        journal: Option<&'a dyn Journal>,
        events: &'a Arc<dyn EventSink>,
        cancel: &'a CancellationToken,
        progress: &RunProgress,
    ) -> Loop<'a> {
        let caller = Caller::new(self.catalog.as_ref(), self.answerer.as_ref(), &self.budget, events, cancel)
            .with_hooks(&self.hooks)
            .with_approval(self.approvals.as_ref())
            .with_clock(self.clock.clone())
            .with_tenant(progress.tenant.clone())
            .writing_to(journal)
            .having_worked(progress.worked);
        Loop { agent: self, caller, board, journal, events, cancel }
    }
}

impl RunProgress {
    fn new(request: RunRequest) -> Self {
        let RunRequest { tenant, conversation_id, system, messages, window, .. } = request;
        let window = window.settled(&messages);
        Self {
            id: format!("run-{}", uuid::Uuid::new_v4().simple()),
            tenant,
            conversation_id,
            system,
            messages,
            records: Vec::new(),
            turns: 0,
            usage: crate::Usage::default(),
            text: String::new(),
            worked: Duration::ZERO,
            warned: BTreeSet::new(),
            window,
        }
    }
}
