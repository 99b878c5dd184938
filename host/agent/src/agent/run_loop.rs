//! The loop: ask the model, run the calls it wants, give it their results, until it has said all.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolcell_contract::{Failure, FailureCode};

use super::Agent;
use super::exchange::Answered;
use super::open_turn::OpenTurn;
use crate::board::Board;
use crate::budget::RunLimit;
use crate::call::{CallState, Caller, OpenCall};
use crate::event::{EventSink, RestartCause, RunEvent};
use crate::hooks::chain::{DeniedCalls, forbidden};
use crate::model::{ModelError, ModelReply, Prompt, StopReason};
use crate::run::{RunEnd, RunProgress, RunResult, SuspendedRun};
use crate::transcript::{CallRequest, Message, ToolReply};

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
pub(super) struct Loop<'a> {
    pub(super) agent: &'a Agent,
    pub(super) caller: Caller<'a>,
    pub(super) board: &'a Board,
    pub(super) events: &'a Arc<dyn EventSink>,
    pub(super) cancel: &'a CancellationToken,
}

impl Loop<'_> {
    /// Goes on until the run ends. `open_turn` are the calls of a turn that is not closed yet.
    pub(super) async fn drive(&self, mut run: RunProgress, mut open_turn: Option<Vec<CallState>>) -> RunResult {
        loop {
            let slots = match open_turn.take() {
                Some(slots) => OpenTurn::reopened(self, slots).work().await,
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

    /// Asks the model once and runs the calls it wants.
    async fn turn(&self, run: &mut RunProgress) -> Result<Turn, RunEnd> {
        self.check_budget(run)?;
        let mut reply = self.ask(run).await?;
        run.turns += 1;
        run.usage += reply.usage;
        let denied = self.review(&mut reply).await;
        self.events.emit(RunEvent::Usage { usage: reply.usage });
        let denied = denied?;
        // An answer that paused goes on.
        if !matches!(run.messages.last(), Some(Message::Assistant(_))) {
            run.text.clear();
        }
        run.text.push_str(&reply.turn.text);
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
            let sent = window.messages(whole);
            let prompt = Prompt { messages: &sent, ..whole };
            match self.exchange(prompt, warned).await {
                Ok(Answered { reply, estimated_tokens }) => {
                    window.learn(estimated_tokens, reply.usage);
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

    /// All calls of a turn, at the same time; each as far as it comes, in call order.
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
                    None => self.caller.begin(call_id, request).await,
                }
            }
        });
        OpenTurn::begun(self, jobs).work().await
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
        let RunProgress { messages, records, turns, usage, text, window, .. } = run;
        let model = self.agent.model.name().to_owned();
        let result = RunResult { end, text, messages, tool_calls: records, turns, usage, model, window };
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
