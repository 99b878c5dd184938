//! The loop: ask the model, run the calls it wants, give it their results, until it has said all.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolcell_contract::{Failure, FailureCode};

use super::Agent;
use super::exchange::Answered;
use super::open_turn::OpenTurn;
use crate::board::Board;
use crate::budget::{Budget, RunLimit};
use crate::call::{CallStart, CallState, Caller, OpenCall};
use crate::event::{EventSink, RestartCause, RunEvent};
use crate::hooks::chain::forbidden;
use crate::journal::Journal;
use crate::model::{ModelError, ModelReply, Prompt, StopReason};
use crate::run::{RunEnd, RunProgress, RunResult, SuspendedRun};
use crate::store::{Slot, StoredReply};
use crate::transcript::CallRequest;

/// What a run does next.
pub(crate) enum Next {
    /// The model is asked.
    Ask,
    /// The calls of the last turn go on.
    Calls(Vec<CallStart>),
    /// The last turn was without calls.
    Told(StopReason),
}

/// One run while it is alive.
pub(super) struct Loop<'a> {
    pub(super) agent: &'a Agent,
    pub(super) caller: Caller<'a>,
    pub(super) board: &'a Board,
    pub(super) journal: Option<&'a dyn Journal>,
    pub(super) events: &'a Arc<dyn EventSink>,
    pub(super) cancel: &'a CancellationToken,
}

impl Loop<'_> {
    /// Goes on until the run ends or waits.
    pub(super) async fn drive(&self, mut run: RunProgress, mut next: Next) -> RunResult {
        loop {
            next = match next {
                Next::Ask => match self.turn(&mut run).await {
                    Ok(next) => next,
                    Err(end) => return self.end(run, end),
                },
                Next::Calls(calls) => {
                    let slots = OpenTurn::of(self, calls).work().await;
                    if let Err(slots) = self.close_turn(&mut run, slots) {
                        let end = self.suspend(&mut run, slots);
                        return self.end(run, end);
                    }
                    Next::Ask
                }
                Next::Told(StopReason::Paused) => Next::Ask,
                Next::Told(stop) => {
                    let end = match stop {
                        StopReason::Length => RunEnd::Incomplete(RunLimit::Tokens),
                        StopReason::Refused => RunEnd::Failed(ModelError::Withheld),
                        StopReason::Paused | StopReason::Finished | StopReason::Other(_) => RunEnd::Done,
                    };
                    return self.end(run, end);
                }
            };
        }
    }

    /// A run that waits. What ended already is in its result too, although the turn is still open.
    fn suspend(&self, run: &mut RunProgress, slots: Vec<CallState>) -> RunEnd {
        run.worked = self.caller.clock().worked();
        let progress = run.clone();
        run.records.extend(slots.iter().filter_map(|slot| match slot {
            CallState::Finished(record) => Some(record.as_ref().clone()),
            CallState::Open(_) => None,
        }));
        let suspended = SuspendedRun { progress, slots };
        let questions = suspended.open().map(OpenCall::question).collect();
        RunEnd::Pending { questions, run: Some(Box::new(suspended)) }
    }

    /// Asks the model once.
    async fn turn(&self, run: &mut RunProgress) -> Result<Next, RunEnd> {
        self.check_budget(run)?;
        let mut reply = self.ask(run).await?;
        let denied = self.review(&mut reply).await;
        self.events.emit(RunEvent::Usage { usage: reply.usage });
        let ModelReply { turn, stop, usage } = reply;
        // What a hook withholds counts all the same.
        let denied = denied.inspect_err(|_| run.count(usage))?;
        if stop == StopReason::Refused && !turn.calls.is_empty() {
            run.count(usage);
            run.say(&turn);
            return Err(RunEnd::Failed(ModelError::Withheld));
        }
        let reply = StoredReply { turn, stop, usage, denied };
        run.worked = self.caller.clock().worked();
        run.take(&reply);
        if let Some(journal) = self.journal {
            journal.replied(run, &reply).await;
        }
        let starts = starts(&self.agent.budget, run, &reply);
        for start in &starts {
            if let CallStart::Begin { call_id, request, .. } = start {
                self.events.emit(RunEvent::ToolCall {
                    call_id: call_id.clone(),
                    name: request.name.clone(),
                    arguments: request.arguments.clone(),
                });
            }
        }
        Ok(if starts.is_empty() { Next::Told(reply.stop) } else { Next::Calls(starts) })
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
            let sent = window.messages(whole);
            let prompt = Prompt { messages: &sent, ..whole };
            match self.exchange(prompt, warned).await {
                Ok(Answered { reply, estimated_tokens }) => {
                    if let Some(estimated_tokens) = estimated_tokens {
                        window.learn(estimated_tokens, reply.usage);
                    }
                    return Ok(reply);
                }
                // It ends: each time less is sent, until nothing more can give way.
                Err(RunEnd::Failed(ModelError::ContextTooLong { message })) if self.agent.compaction.is_some() => {
                    let Some(event) = window.halve(whole) else {
                        return Err(RunEnd::Failed(ModelError::ContextTooLong { message }));
                    };
                    // Something of an answer may have been shown before the refusal.
                    self.unsay(RestartCause::TooLong, "the conversation was too long".to_owned());
                    self.events.emit(event);
                }
                Err(end) => return Err(end),
            }
        }
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
        run.close_turn(records);
        Ok(())
    }

    fn end(&self, run: RunProgress, end: RunEnd) -> RunResult {
        let RunProgress { messages, records, turns, usage, text, window, .. } = run;
        let model = self.agent.model.name().to_owned();
        RunResult { end, text, messages, tool_calls: records, turns, usage, model, window }
    }
}

/// The calls of the run's last turn, none of which has begun.
pub(crate) fn starts(budget: &Budget, run: &RunProgress, reply: &StoredReply) -> Vec<CallStart> {
    let turn = run.turns.saturating_sub(1);
    let last = reply.turn.calls.len().saturating_sub(1);
    let start = |(index, request): (usize, &CallRequest)| {
        let place = u32::try_from(index).unwrap_or(u32::MAX);
        let refusal = if let Some(reason) = reply.denied.get(&request.id) {
            Some(forbidden(reason))
        } else if index >= budget.calls_per_turn_max.get() {
            Some(Failure::with_detail(FailureCode::Busy, "this turn has too many calls: ask for fewer at once"))
        } else if reply.stop == StopReason::Length && index == last {
            half_a_call(request)
        } else {
            None
        };
        CallStart::Begin { call_id: Slot { turn, place }.call_id(&run.id), request: request.clone(), refusal }
    };
    reply.turn.calls.iter().enumerate().map(start).collect()
}

/// The model reached its limit of output inside its last call. Arguments that do not parse are refused anyway; an empty
/// text would pass for an empty object.
fn half_a_call(request: &CallRequest) -> Option<Failure> {
    request.arguments.trim().is_empty().then(|| {
        Failure::with_detail(FailureCode::InvalidArguments, "they were cut off by the model's limit of output")
    })
}
