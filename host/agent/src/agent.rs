//! The loop: ask the model, run the calls it wants, give it their results, until it has said all.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio_util::sync::CancellationToken;
use toolcell_contract::{Answer, Failure, FailureCode};

use crate::answerer::{Answerer, Nobody};
use crate::budget::{Budget, RunLimit};
use crate::call::{CallState, Caller};
use crate::catalog::Catalog;
use crate::compaction::Compaction;
use crate::event::{EventSink, NoEvents, RunEvent};
use crate::hooks::Hooks;
use crate::hooks::chain::{DeniedCalls, forbidden};
use crate::model::{Model, ModelError, ModelReply, Prompt, StopReason};
use crate::run::{RunEnd, RunProgress, RunResult, SuspendedRun};
use crate::telemetry::RunWatch;
use crate::transcript::{CallRequest, Message, ToolReply, is_balanced};
use crate::window::Window;

mod exchange;

/// A model, its tools, and who answers: everything that runs have in common.
#[derive(Clone)]
pub struct Agent {
    model: Arc<dyn Model>,
    catalog: Arc<dyn Catalog>,
    answerer: Arc<dyn Answerer>,
    hooks: Vec<Arc<dyn Hooks>>,
    budget: Budget,
    compaction: Option<Compaction>,
}

/// One run.
#[derive(Clone)]
pub struct RunRequest {
    /// Standing instructions for the model.
    pub system: Option<String>,
    /// The conversation so far; the last message is the person's.
    pub messages: Vec<Message>,
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
        Self { system: None, messages, events: Arc::new(NoEvents), cancel: CancellationToken::new() }
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
            budget: Budget::default(),
            compaction: Some(Compaction::default()),
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

    /// Runs until the model has said all, a limit is reached, or a call waits and nobody answers.
    ///
    /// # Errors
    /// [`RunError::Unbalanced`] when the conversation could not be sent to any provider. What fails later is in
    /// [`RunResult::end`].
    pub async fn run(&self, request: RunRequest) -> Result<RunResult, RunError> {
        let RunRequest { system, messages, events, cancel } = request;
        if !is_balanced(&messages) {
            return Err(RunError::Unbalanced);
        }
        let progress = RunProgress::new(system, messages);
        let watch = RunWatch::new(self.model.as_ref(), &progress.id);
        Ok(watch.over(self.with_loop(&events, &cancel, Duration::ZERO).drive(progress, None)).await)
    }

    /// Goes on with a run that waits. Each answer runs its own call; the model is asked again when every call of the
    /// turn has its result.
    ///
    /// # Errors
    /// [`RunError::UnknownQuestion`] when an answer belongs to no open question; nothing was run then.
    pub async fn resume(
        &self,
        run: SuspendedRun,
        answers: Vec<Answer>,
        events: Arc<dyn EventSink>,
        cancel: CancellationToken,
    ) -> Result<RunResult, RunError> {
        if let Some(stray) = run.stray(&answers) {
            return Err(RunError::UnknownQuestion { id: stray.id.clone(), run: Box::new(run) });
        }
        let watch = RunWatch::new(self.model.as_ref(), &run.progress.id);
        Ok(watch.over(self.with_loop(&events, &cancel, run.progress.worked).resume(run, answers)).await)
    }

    fn with_loop<'a>(
        &'a self,
        events: &'a Arc<dyn EventSink>,
        cancel: &'a CancellationToken,
        worked: Duration,
    ) -> Loop<'a> {
        let caller = Caller::new(self.catalog.as_ref(), self.answerer.as_ref(), &self.budget, events, cancel)
            .with_hooks(&self.hooks)
            .having_worked(worked);
        Loop { agent: self, caller, events, cancel }
    }
}

impl RunProgress {
    fn new(system: Option<String>, messages: Vec<Message>) -> Self {
        Self {
            id: format!("run-{}", uuid::Uuid::new_v4().simple()),
            system,
            messages,
            records: Vec::new(),
            turns: 0,
            usage: crate::Usage::default(),
            text: String::new(),
            worked: Duration::ZERO,
            warned: BTreeSet::new(),
            window: Window::default(),
        }
    }
}

/// What a turn of the model leads to.
enum Turn {
    /// Its calls, each as far as it has come.
    Calls(Vec<CallState>),
    /// The model is asked to go on.
    Paused,
    /// It has said all.
    Final,
}

/// One run while it is alive.
struct Loop<'a> {
    agent: &'a Agent,
    caller: Caller<'a>,
    events: &'a Arc<dyn EventSink>,
    cancel: &'a CancellationToken,
}

impl Loop<'_> {
    /// Goes on until the run ends. `open_turn` are the calls of a turn that is not closed yet.
    async fn drive(&self, mut run: RunProgress, mut open_turn: Option<Vec<CallState>>) -> RunResult {
        loop {
            let slots = match open_turn.take() {
                Some(slots) => slots,
                None => match self.turn(&mut run).await {
                    Ok(Turn::Calls(slots)) => slots,
                    Ok(Turn::Paused) => continue,
                    Ok(Turn::Final) => return self.end(run, RunEnd::Done),
                    Err(end) => return self.end(run, end),
                },
            };
            if let Err(slots) = self.close_turn(&mut run, slots) {
                let end = self.suspend(&mut run, slots);
                return self.end(run, end);
            }
        }
    }

    async fn resume(&self, suspended: SuspendedRun, answers: Vec<Answer>) -> RunResult {
        let SuspendedRun { progress, slots } = suspended;
        let mut first = HashMap::new();
        for answer in answers {
            // Two answers to one question: the first one counts.
            first.entry(answer.id.clone()).or_insert(answer);
        }
        let steps = slots.into_iter().map(|slot| {
            let answer = match &slot {
                CallState::Open(open) => first.remove(&open.request().id),
                CallState::Finished(_) => None,
            };
            self.step(slot, answer)
        });
        let slots = join_all(steps).await;
        self.drive(progress, Some(slots)).await
    }

    /// A run that waits. What ended already is in its result too, although the turn is still open.
    fn suspend(&self, run: &mut RunProgress, slots: Vec<CallState>) -> RunEnd {
        run.worked = self.caller.clock().worked();
        let progress = run.clone();
        run.records.extend(slots.iter().filter_map(|slot| match slot {
            CallState::Finished(record) => Some(record.as_ref().clone()),
            CallState::Open(_) => None,
        }));
        RunEnd::Pending(Box::new(SuspendedRun { progress, slots }))
    }

    async fn step(&self, slot: CallState, answer: Option<Answer>) -> CallState {
        match (slot, answer) {
            (CallState::Open(open), Some(answer)) => {
                self.caller.answer(&open, answer).await.unwrap_or(CallState::Open(open))
            }
            (slot, _) => slot,
        }
    }

    /// Asks the model once and runs the calls it wants.
    async fn turn(&self, run: &mut RunProgress) -> Result<Turn, RunEnd> {
        self.check_budget(run)?;
        let mut reply = self.ask(run).await?;
        run.turns += 1;
        run.usage += reply.usage;
        let denied = self.review(&mut reply).await;
        self.events.emit(RunEvent::Usage { usage: reply.usage });
        let denied = denied?;
        run.text.clone_from(&reply.turn.text);
        if reply.stop == StopReason::Refused && !reply.turn.calls.is_empty() {
            return Err(RunEnd::Failed(ModelError::Withheld));
        }
        let calls = reply.turn.calls.clone();
        run.messages.push(Message::Assistant(reply.turn));
        if calls.is_empty() {
            return match reply.stop {
                StopReason::Length => Err(RunEnd::Incomplete(RunLimit::Tokens)),
                StopReason::Refused => Err(RunEnd::Failed(ModelError::Withheld)),
                StopReason::Paused => Ok(Turn::Paused),
                StopReason::Finished | StopReason::Other(_) => Ok(Turn::Final),
            };
        }
        Ok(Turn::Calls(self.run_calls(run, calls, &reply.stop, &denied).await))
    }

    fn check_budget(&self, run: &RunProgress) -> Result<(), RunEnd> {
        let budget = &self.agent.budget;
        if self.cancel.is_cancelled() {
            return Err(RunEnd::Cancelled);
        }
        if run.turns >= budget.turns_max.get() {
            return Err(RunEnd::Incomplete(RunLimit::Turns));
        }
        if budget.tokens_max.is_some_and(|max| run.usage.total() >= max.get()) {
            return Err(RunEnd::Incomplete(RunLimit::Tokens));
        }
        if self.caller.time_left().is_zero() {
            return Err(RunEnd::Incomplete(RunLimit::Time));
        }
        Ok(())
    }

    /// One answer of the model, to as much of the conversation as fits its window. A stream that breaks off is an error:
    /// nothing of it is used.
    async fn ask(&self, run: &mut RunProgress) -> Result<ModelReply, RunEnd> {
        let tools = self.agent.catalog.tools();
        let definitions: Vec<_> = tools.iter().map(|tool| &tool.definition).collect();
        let RunProgress { system, messages, window, warned, .. } = run;
        let whole = Prompt { system: system.as_deref(), messages, tools: &definitions };
        if let (Some(compaction), Some(size)) = (self.agent.compaction, self.agent.model.context_window()) {
            window.fit(whole, compaction, size).into_iter().for_each(|event| self.events.emit(event));
        }
        loop {
            let sent = window.messages(whole.messages);
            let prompt = Prompt { messages: &sent, ..whole };
            match self.exchange(prompt, warned).await {
                Ok(reply) => {
                    window.learn(prompt, reply.usage);
                    return Ok(reply);
                }
                // It ends: each time less is sent, until nothing more can give way.
                Err(RunEnd::Failed(ModelError::ContextTooLong { message })) if self.agent.compaction.is_some() => {
                    let Some(event) = window.halve(whole) else {
                        return Err(RunEnd::Failed(ModelError::ContextTooLong { message }));
                    };
                    self.events.emit(event);
                }
                Err(end) => return Err(end),
            }
        }
    }

    /// All calls of a turn, at the same time, in call order.
    async fn run_calls(
        &self,
        run: &RunProgress,
        calls: Vec<CallRequest>,
        stop: &StopReason,
        denied: &DeniedCalls,
    ) -> Vec<CallState> {
        let last = calls.len() - 1;
        let jobs = calls.into_iter().enumerate().map(|(index, request)| {
            let call_id = format!("{}.{}.{index}", run.id, run.turns);
            self.events.emit(RunEvent::ToolCall {
                call_id: call_id.clone(),
                name: request.name.clone(),
                arguments: request.arguments.clone(),
            });
            let refusal = if let Some(reason) = denied.get(&request.id) {
                Some(forbidden(reason))
            } else if index >= self.agent.budget.calls_per_turn_max.get() {
                Some(Failure::with_detail(FailureCode::Busy, "this turn has too many calls: ask for fewer at once"))
            } else if *stop == StopReason::Length && index == last {
                half_a_call(&request)
            } else {
                None
            };
            async move {
                match refusal {
                    Some(failure) => self.caller.refuse(call_id, request, failure).await,
                    None => self.caller.start(call_id, request).await,
                }
            }
        });
        join_all(jobs).await
    }

    /// Adds the results to the transcript, or hands the calls back while one of them waits.
    fn close_turn(&self, run: &mut RunProgress, slots: Vec<CallState>) -> Result<(), Vec<CallState>> {
        if slots.iter().any(|slot| matches!(slot, CallState::Open(_))) {
            return Err(slots);
        }
        let records: Vec<_> = slots
            .into_iter()
            .filter_map(|slot| match slot {
                CallState::Finished(record) => Some(*record),
                CallState::Open(_) => None,
            })
            .collect();
        let replies = records.iter().map(|record| ToolReply {
            call_id: record.request.id.clone(),
            name: record.request.name.clone(),
            result: record.ending.result.clone(),
        });
        run.messages.push(Message::Tool { replies: replies.collect() });
        run.records.extend(records);
        Ok(())
    }

    fn end(&self, run: RunProgress, end: RunEnd) -> RunResult {
        let RunProgress { messages, records, turns, usage, text, .. } = run;
        let model = self.agent.model.name().to_owned();
        let result = RunResult { end, text, messages, tool_calls: records, turns, usage, model };
        self.events.emit(RunEvent::Done { status: result.status() });
        result
    }
}

/// The model reached its limit of output inside its last call. Arguments that do not parse are refused anyway; an empty
/// text would pass for an empty object.
fn half_a_call(request: &CallRequest) -> Option<Failure> {
    request.arguments.trim().is_empty().then(|| {
        Failure::with_detail(FailureCode::InvalidArguments, "they were cut off by the model's limit of output")
    })
}
