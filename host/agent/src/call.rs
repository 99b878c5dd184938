//! One call, from what the model wrote to its result: checked, executed, asked about, executed again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolcell_contract::{
    Answer, CallContext, Failure, FailureCode, Object, Outcome, Request, Suspension, ToolResult, accept,
};
use tracing::Instrument as _;

use crate::answerer::{Answerer, Asker, Question};
use crate::approval::{self, Approvals};
use crate::budget::Budget;
use crate::call_record::{CallEnding, CallRecord};
use crate::catalog::{Call, Catalog, Execution, Observer, Progress, Tool};
use crate::clock::Clock;
use crate::decision;
use crate::event::{EventSink, RunEvent};
use crate::hooks::{Hooks, chain};
use crate::journal::Journal;
use crate::store::{Decision, OpenCallRecord, Tenant};
use crate::suspension::{self, CANCELLED, EXPIRED, Settled, settle};
use crate::telemetry::ToolWatch;
use crate::transcript::CallRequest;
use crate::work_clock::{Halt, WorkClock};

/// How long the hooks after a tool may still look at a result when the run is cancelled or its time is over. A call that
/// has run is not to be told as one that has not, and a cancelled run ends within a second.
const REVIEW_GRACE: Duration = Duration::from_millis(500);

/// A call that waits for an answer. It holds nothing but data, and goes on once: [`Caller::answer`] takes it.
#[derive(Debug)]
pub struct OpenCall {
    pub(crate) call: PreparedCall,
    pub(crate) suspension: Suspension,
    pub(crate) asker: Asker,
    pub(crate) rounds: u32,
}

impl OpenCall {
    /// The result that stands for the call while it waits.
    #[must_use]
    pub fn result(&self) -> ToolResult {
        ToolResult::pending(self.suspension.request.clone())
    }

    /// The question.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.suspension.request
    }

    /// The question with what the host knows about the call.
    #[must_use]
    pub fn question(&self) -> Question {
        Question {
            call_id: self.call.call_id.clone(),
            tool: self.call.tool.definition.name.clone(),
            arguments: self.call.arguments.clone(),
            digest: self.call.tool.digest,
            asker: self.asker,
            request: self.suspension.request.clone(),
        }
    }

    /// The call as data, from which it can go on in another process.
    #[must_use]
    pub fn record(&self) -> OpenCallRecord {
        let PreparedCall { call_id, request, tool, arguments, is_rewritten, is_edited, questions, spent } = &self.call;
        let Suspension { request: question, guest_id, state } = &self.suspension;
        OpenCallRecord {
            call_id: call_id.clone(),
            call: request.clone(),
            tool: tool.definition.clone(),
            digest: tool.digest,
            arguments: arguments.clone(),
            is_rewritten: *is_rewritten,
            is_edited: *is_edited,
            questions: questions.iter().cloned().collect(),
            spent: *spent,
            request: question.clone(),
            guest_id: guest_id.clone(),
            state: state.clone(),
            asker: self.asker,
            rounds: self.rounds,
        }
    }

    /// What the model wrote.
    #[must_use]
    pub fn call_request(&self) -> &CallRequest {
        &self.call.request
    }

    /// The host's id of the call.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call.call_id
    }
}

/// An answer that belongs to another question. The call still waits.
#[derive(Debug, thiserror::Error)]
#[error("the answer is for \"{answered}\", but the question is \"{}\": answer with the id of the question", .call.request().id)]
pub struct ForeignAnswer {
    /// The id in the answer.
    pub answered: String,
    /// The call.
    pub call: Box<OpenCall>,
}

/// An id for a single call, which nobody can guess and no other call has.
#[must_use]
pub fn fresh_call_id() -> String {
    format!("call-{}", uuid::Uuid::new_v4().simple())
}

/// Where a call stands.
#[derive(Debug)]
pub enum CallState {
    /// It has its result.
    Finished(Box<CallRecord>),
    /// It waits.
    Open(Box<OpenCall>),
}

/// How a call of a turn comes to life.
#[derive(Debug)]
pub(crate) enum CallStart {
    /// It begins, unless it is refused.
    Begin { call_id: String, request: CallRequest, refusal: Option<Failure> },
    /// It had waited, and goes on with a decision.
    Decided(Box<OpenCall>, Decision),
    /// It has got this far.
    At(CallState),
}

impl CallState {
    /// The host's id of the call.
    pub(crate) fn call_id(&self) -> &str {
        match self {
            Self::Finished(record) => &record.call_id,
            Self::Open(open) => open.call_id(),
        }
    }
}

/// A call whose tool is found and whose arguments fit.
#[derive(Debug)]
pub(crate) struct PreparedCall {
    pub(crate) call_id: String,
    pub(crate) request: CallRequest,
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: Value,
    /// Whether these are no longer the model's arguments.
    pub(crate) is_rewritten: bool,
    /// Whether a person has changed them.
    pub(crate) is_edited: bool,
    /// What the policy and hooks ask before it runs at all.
    pub(crate) questions: VecDeque<(Asker, Request)>,
    pub(crate) spent: Duration,
}

/// Runs calls: the one place where a tool is executed, for a run and for a single call alike.
pub struct Caller<'a> {
    catalog: &'a dyn Catalog,
    answerer: &'a dyn Answerer,
    hooks: &'a [Arc<dyn Hooks>],
    approval: Option<&'a dyn Approvals>,
    journal: Option<&'a dyn Journal>,
    budget: &'a Budget,
    events: &'a Arc<dyn EventSink>,
    cancel: &'a CancellationToken,
    /// Held while a tool executes, never while a call waits.
    running: Semaphore,
    wall: Clock,
    tenant: Tenant,
    clock: WorkClock,
}

impl<'a> Caller<'a> {
    /// A caller of the catalogue's tools. Cancelling `cancel` ends its calls with the code `cancelled`.
    #[must_use]
    pub fn new(
        catalog: &'a dyn Catalog,
        answerer: &'a dyn Answerer,
        budget: &'a Budget,
        events: &'a Arc<dyn EventSink>,
        cancel: &'a CancellationToken,
    ) -> Self {
        let running = Semaphore::new(budget.calls_at_once_max.get());
        let clock = WorkClock::starting_at(Duration::ZERO);
        let (hooks, approval, journal) = (&[][..], None, None);
        let (wall, tenant) = (Clock::default(), Tenant::local());
        Self { catalog, answerer, hooks, approval, journal, budget, events, cancel, running, wall, tenant, clock }
    }

    /// The same caller with hooks, which are asked in this order.
    #[must_use]
    pub fn with_hooks(self, hooks: &'a [Arc<dyn Hooks>]) -> Self {
        Self { hooks, ..self }
    }

    /// The same caller, with tools that a person must approve.
    #[must_use]
    pub fn with_approval(self, approvals: &'a dyn Approvals) -> Self {
        Self { approval: Some(approvals), ..self }
    }

    /// The same caller with another clock, by which questions lapse.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { wall: clock, ..self }
    }

    /// The same caller for another tenant than the local one.
    #[must_use]
    pub fn with_tenant(self, tenant: Tenant) -> Self {
        Self { tenant, ..self }
    }

    /// The same caller, which writes down each execution before it begins.
    pub(crate) fn writing_to(self, journal: Option<&'a dyn Journal>) -> Self {
        Self { journal, ..self }
    }

    /// The same caller for a run that has worked for so long already.
    pub(crate) fn having_worked(self, worked: Duration) -> Self {
        Self { clock: WorkClock::starting_at(worked), ..self }
    }

    /// Counts the time in which the run works.
    pub(crate) fn clock(&self) -> &WorkClock {
        &self.clock
    }

    /// What is left of the run's time.
    pub(crate) fn time_left(&self) -> Duration {
        self.budget.time_max.saturating_sub(self.clock.worked())
    }

    /// Does work of the run: until it is done, the run is cancelled, or its time is over. Without time it is not begun.
    pub(crate) async fn working<T>(&self, work: impl Future<Output = T>) -> Result<T, Halt> {
        // A timeout looks at its future before it looks at the time.
        if self.time_left().is_zero() && !self.cancel.is_cancelled() {
            return Err(Halt::TimeOver);
        }
        let _work = self.clock.work();
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Halt::Cancelled),
            done = tokio::time::timeout(self.time_left(), work) => done.map_err(|_elapsed| Halt::TimeOver),
        }
    }

    /// Runs a call to its end, or until it waits and nobody is there to answer.
    pub async fn start(&self, call_id: String, request: CallRequest) -> CallState {
        let mut state = self.begin(call_id, request).await;
        loop {
            self.tell_result(&state);
            let CallState::Open(open) = state else { return state };
            self.tell_pending(&open);
            let no = |reason| Some(Answer::decline(&open.request().id, reason));
            let answer = tokio::select! {
                biased;
                () = self.cancel.cancelled() => no(CANCELLED),
                () = self.sleep_until(suspension::expiry(open.request())) => no(EXPIRED),
                answer = self.ask(open.question()) => answer,
            };
            let Some(answer) = answer else { return CallState::Open(open) };
            state = match self.decide(*open, answer.into()).await {
                Ok(state) => state,
                Err(foreign) => return CallState::Open(foreign.call),
            };
        }
    }

    /// Runs a call to its end, or until it waits.
    pub(crate) async fn begin(&self, call_id: String, request: CallRequest) -> CallState {
        match self.prepare(&call_id, &request) {
            Ok(mut call) => {
                let settled = self.plan(&mut call).await;
                self.go_on(call, settled, 0).await
            }
            Err(failure) => self.refuse(call_id, request, failure).await,
        }
    }

    /// Asks the hooks and the policy what becomes of a call.
    async fn plan(&self, call: &mut PreparedCall) -> Settled {
        if let Err(ending) = self.ask_hooks(call).await {
            return Settled::Refused(ending);
        }
        if let Some(request) = self.approval.and_then(|approvals| approval::question(approvals, &call.tool.definition))
        {
            match accept::request(request, self.wall.now()) {
                Ok(request) => call.questions.push_front((Asker::Policy, request)),
                Err(violation) => {
                    let failure = Failure::with_detail(violation.code(), violation.to_string());
                    return Settled::Refused(failure.into());
                }
            }
        }
        Settled::Run(CallContext::first(call.call_id.as_str()))
    }

    /// Asks the hooks what becomes of a call with its present arguments. The end that they give it is the error.
    async fn ask_hooks(&self, call: &mut PreparedCall) -> Result<(), CallEnding> {
        if self.hooks.is_empty() {
            return Ok(());
        }
        match self.working(chain::before_tool(self.hooks, call, self.wall.now())).await {
            Ok(chain::Plan::Run { arguments, questions }) => {
                call.is_rewritten |= arguments != call.arguments;
                call.arguments = arguments;
                call.questions = questions.into_iter().map(|request| (Asker::Hook, request)).collect();
                Ok(())
            }
            Ok(chain::Plan::End(ending)) => Err(ending),
            Err(halt) => Err(halt.failure().into()),
        }
    }

    /// Goes on with a call that waits, to its end or until it waits again.
    ///
    /// # Errors
    /// [`ForeignAnswer`] with the call when the answer is for another question.
    pub async fn answer(&self, open: OpenCall, answer: Answer) -> Result<CallState, ForeignAnswer> {
        let state = self.decide(open, answer.into()).await?;
        self.tell_result(&state);
        Ok(state)
    }

    /// [`Caller::answer`], with what else was decided.
    pub(crate) async fn decide(&self, mut open: OpenCall, decision: Decision) -> Result<CallState, ForeignAnswer> {
        let Decision { answer, arguments, .. } = decision;
        let settled = match self.settle(&open, answer) {
            Ok(settled) => settled,
            Err(answered) => return Err(ForeignAnswer { answered, call: Box::new(open) }),
        };
        let settled = match (settled, arguments) {
            (Settled::Run(context), Some(arguments)) => self.edited(&mut open, context, arguments).await,
            (settled, _) => settled,
        };
        Ok(self.go_on(open.call, settled, open.rounds).await)
    }

    /// Puts a person's arguments in place of the model's. The hooks have not seen them yet: what they say of them counts, and
    /// what they asked about the earlier ones does not. After a question of theirs the tool begins anew.
    async fn edited(&self, open: &mut OpenCall, context: CallContext, arguments: Object) -> Settled {
        if let Err(failure) = open.call.edit(arguments) {
            return Settled::Refused(failure.into());
        }
        if let Err(ending) = self.ask_hooks(&mut open.call).await {
            return Settled::Refused(ending);
        }
        if !open.call.questions.is_empty() {
            open.rounds = 0;
        }
        Settled::Run(context)
    }

    /// The time by which questions lapse. None for a run on record: its store looks at one clock for all hosts.
    pub(crate) fn now(&self) -> Option<OffsetDateTime> {
        self.journal.is_none().then(|| self.wall.now())
    }

    /// Sleeps until a question lapses; for ever when that is not for this host to say.
    pub(crate) async fn sleep_until(&self, lapse: Option<OffsetDateTime>) {
        self.wall.sleep_until(lapse.filter(|_| self.journal.is_none())).await;
    }

    /// Tells everyone that a call waits.
    pub(crate) fn tell_pending(&self, open: &OpenCall) {
        let (call_id, name) = (open.call.call_id.clone(), open.call.request.name.clone());
        self.events.emit(RunEvent::Pending { call_id, name, request: open.suspension.request.clone() });
    }

    /// Tells everyone when a call has its result.
    pub(crate) fn tell_result(&self, call: &CallState) {
        let CallState::Finished(record) = call else { return };
        self.events.emit(RunEvent::ToolResult {
            call_id: record.call_id.clone(),
            name: record.request.name.clone(),
            result: record.ending.result.clone(),
            code: record.ending.code,
        });
    }

    /// Asks whoever is there. An answer to another question is none, and neither is one that is not what was asked for.
    pub(crate) async fn ask(&self, question: Question) -> Option<Answer> {
        let (request, call_id) = (question.request.clone(), question.call_id.clone());
        self.answerer.wait_for(question).await.filter(|answer| {
            // Not the ids: who knows that of an open question could answer it. Not the answer: it may be private.
            let problem = match decision::check_data(&request, answer) {
                _ if answer.id != request.id => "it belongs to another question".to_owned(),
                Err(problem) => problem.kind().to_owned(),
                Ok(()) => return true,
            };
            tracing::warn!(call_id, "an answer is not used: {problem}");
            false
        })
    }

    /// Ends a call without running it.
    pub(crate) async fn refuse(&self, call_id: String, request: CallRequest, failure: Failure) -> CallState {
        let (ending, replaced_arguments) = (failure.into(), None);
        self.finish(CallRecord { call_id, request, replaced_arguments, ending, duration: Duration::ZERO }).await
    }

    fn prepare(&self, call_id: &str, request: &CallRequest) -> Result<PreparedCall, Failure> {
        let tools = self.catalog.tools();
        let Some(tool) = tools.iter().find(|tool| tool.definition.name == request.name) else {
            return Err(unknown_tool(&tools));
        };
        let arguments = tool.schema.check(&request.arguments)?;
        let (call_id, request, tool) = (call_id.to_owned(), request.clone(), Arc::clone(tool));
        let (is_rewritten, is_edited, questions, spent) = (false, false, VecDeque::new(), Duration::ZERO);
        Ok(PreparedCall { call_id, request, tool, arguments, is_rewritten, is_edited, questions, spent })
    }

    /// Executes until there is a result or a question.
    async fn go_on(&self, mut call: PreparedCall, settled: Settled, rounds: u32) -> CallState {
        let context = match settled {
            Settled::Run(context) => context,
            Settled::Refused(ending) => return self.finish(call.ended(ending)).await,
        };
        // Policy and hooks ask a fixed number of questions; only a tool could ask for ever.
        if let Some((asker, request)) = call.questions.pop_front() {
            let suspension = Suspension { request, guest_id: None, state: None };
            return CallState::Open(Box::new(OpenCall { call, suspension, asker, rounds }));
        }
        match self.execute(&mut call, context).await {
            Outcome::Done(result) => self.finish(call.ended(result.into())).await,
            Outcome::Failed(failure) => self.finish(call.ended(failure.into())).await,
            Outcome::Suspended(mut suspension) if rounds < self.budget.suspensions_per_call_max => {
                // Whatever the catalogue says: who could guess the id, or have it twice, could answer for somebody else.
                suspension.request.id = Request::fresh_id();
                let (asker, rounds) = (Asker::Tool, rounds + 1);
                CallState::Open(Box::new(OpenCall { call, suspension, asker, rounds }))
            }
            Outcome::Suspended(suspension) => {
                let ending = suspension::unresolved(&suspension.request);
                self.finish(call.ended(ending)).await
            }
        }
    }

    /// What follows from an answer, or the answer's id when it is for another question.
    fn settle(&self, open: &OpenCall, answer: Answer) -> Result<Settled, String> {
        let settled = settle(&open.call.call_id, &open.suspension, answer, self.now())?;
        // A yes that comes too late is none.
        let ok = matches!(settled, Settled::Run(_));
        if !self.cancel.is_cancelled() {
            let (call_id, name) = (open.call.call_id.clone(), open.call.request.name.clone());
            self.events.emit(RunEvent::Answered { call_id, name, ok });
        }
        match (settled, open.asker) {
            (Settled::Run(_), Asker::Hook | Asker::Policy) => Ok(Settled::Run(CallContext::first(open.call_id()))),
            (settled, _) => Ok(settled),
        }
    }

    /// One execution; a cancelled one is dropped, and the tool with it.
    async fn execute(&self, call: &mut PreparedCall, context: CallContext) -> Outcome {
        let job = Call {
            tool: Arc::clone(&call.tool),
            arguments: call.arguments.to_string(),
            tenant: self.tenant.clone(),
            context,
        };
        let observer = Arc::new(CallObserver {
            events: Arc::clone(self.events),
            call_id: call.call_id.clone(),
            name: call.request.name.clone(),
        });
        let mut watch = ToolWatch::new(&call.call_id, &call.tool.definition.name);
        let span = watch.span();
        let run = async {
            let _permit = self.running.acquire().await;
            // While it waited for its place the time may have gone: then nothing is written of an execution.
            if self.time_left().is_zero() {
                return Err(Halt::TimeOver);
            }
            if let Some(journal) = self.journal {
                journal.executing(&call.call_id).await;
            }
            watch.begin();
            self.working(self.catalog.call(job, observer)).await
        };
        let run = self.cancel.run_until_cancelled(run.instrument(span)).await;
        let execution = run.unwrap_or(Err(Halt::Cancelled)).map_err(Halt::failure);
        watch.end(&execution, self.events.as_ref());
        let Execution { outcome, log, duration } = match execution {
            Ok(execution) => execution,
            Err(failure) => return Outcome::Failed(failure),
        };
        call.spent += duration;
        for line in log {
            let (call_id, name) = (call.call_id.clone(), call.request.name.clone());
            self.events.emit(RunEvent::Log { call_id, name, line });
        }
        outcome
    }

    /// Shows a result to the hooks. One that a hook could not see to the end goes to nobody.
    async fn finish(&self, mut record: CallRecord) -> CallState {
        // What the host says of a call that did not run, or failed, stays true without its details.
        let untold = record.ending.code.unwrap_or(FailureCode::Interrupted);
        if !self.hooks.is_empty() && !self.review(&mut record).await {
            record.ending = Failure::with_detail(untold, "the run ended before the hooks had seen the result").into();
        }
        CallState::Finished(Box::new(record))
    }

    /// Shows a result to the hooks; false when they did not see it to the end. The call is over, so a run that ends in the
    /// meantime gives them [`REVIEW_GRACE`].
    async fn review(&self, record: &mut CallRecord) -> bool {
        let mut review = std::pin::pin!(chain::after_tool(self.hooks, record));
        if self.working(&mut review).await.is_ok() {
            return true;
        }
        tokio::time::timeout(REVIEW_GRACE, review).await.is_ok()
    }
}

impl PreparedCall {
    /// Puts a person's arguments in place of the model's.
    fn edit(&mut self, arguments: Object) -> Result<(), Failure> {
        self.arguments = self.tool.schema.check(&Value::Object(arguments).to_string())?;
        (self.is_rewritten, self.is_edited) = (true, true);
        Ok(())
    }

    fn ended(self, mut ending: CallEnding) -> CallRecord {
        // Or the model would ask for the same again.
        if self.is_edited && ending.code.is_none() {
            ending.result.output =
                format!("executed with edited arguments: {}\n{}", self.arguments, ending.result.output);
        }
        let replaced_arguments = self.is_rewritten.then_some(self.arguments);
        CallRecord { call_id: self.call_id, request: self.request, replaced_arguments, ending, duration: self.spent }
    }
}

/// The names are checked ones, so they are safe to repeat; the name that the model wrote is not repeated.
fn unknown_tool(tools: &[Arc<Tool>]) -> Failure {
    let names: Vec<_> = tools.iter().map(|tool| tool.definition.name.as_str()).collect();
    match names.as_slice() {
        [] => Failure::with_detail(FailureCode::UnknownTool, "there are no tools"),
        names => Failure::with_detail(FailureCode::UnknownTool, format!("the tools are: {}", names.join(", "))),
    }
}

struct CallObserver {
    events: Arc<dyn EventSink>,
    call_id: String,
    name: String,
}

impl Observer for CallObserver {
    fn progress(&self, progress: Progress) {
        let (call_id, name) = (self.call_id.clone(), self.name.clone());
        self.events.emit(RunEvent::Progress { call_id, name, progress });
    }
}
