//! A run from its record: what it has done, and what comes next. Pure, but for the tools it asks about.

use std::collections::VecDeque;
use std::sync::Arc;

use toolcell_contract::{Failure, FailureCode, Suspension};

use crate::agent::{Next, starts};
use crate::budget::Budget;
use crate::call::{CallStart, CallState, OpenCall, PreparedCall};
use crate::call_record::CallRecord;
use crate::catalog::{Catalog, Tool};
use crate::model::Usage;
use crate::run::RunProgress;
use crate::store::{Checkpoint, OpenCallRecord, SlotState, StoreError, StoredCall, StoredReply, StoredRun};

/// A run as it goes on.
pub(super) struct Restored {
    pub(super) progress: RunProgress,
    pub(super) next: Next,
}

/// Brings a run back.
///
/// # Errors
/// [`StoreError::Damaged`] when the record contradicts itself.
pub(super) fn restore(run: StoredRun, budget: &Budget, catalog: &dyn Catalog) -> Result<Restored, StoreError> {
    let StoredRun { head, system, messages, replies, calls, checkpoint, .. } = run;
    let Checkpoint { worked, warned, window } = checkpoint.unwrap_or_default();
    let mut progress = RunProgress {
        id: head.key.run,
        tenant: head.key.tenant,
        conversation_id: None,
        system,
        messages,
        records: Vec::new(),
        turns: 0,
        usage: Usage::default(),
        text: String::new(),
        worked,
        warned,
        window,
    };
    let mut calls = calls.into_iter().peekable();
    let mut next = Next::Ask;
    for (turn, reply) in (0_u32..).zip(&replies) {
        if !matches!(next, Next::Ask | Next::Told(_)) {
            return Err(damaged(format!("turn {turn} follows one whose calls are open")));
        }
        progress.take(reply);
        let of_turn: Vec<_> = std::iter::from_fn(|| calls.next_if(|call| call.slot.turn == turn)).collect();
        next = go_on(&mut progress, reply, of_turn, budget, catalog)?;
    }
    match calls.next() {
        Some(call) => Err(damaged(format!("there is a call of turn {}, which does not exist", call.slot.turn))),
        None => Ok(Restored { progress, next }),
    }
}

/// What follows a turn of the model.
fn go_on(
    progress: &mut RunProgress,
    reply: &StoredReply,
    calls: Vec<StoredCall>,
    budget: &Budget,
    catalog: &dyn Catalog,
) -> Result<Next, StoreError> {
    let starts = starts(budget, progress, reply);
    if starts.len() != calls.len() {
        return Err(damaged(format!("a turn has {} calls and {} slots", starts.len(), calls.len())));
    }
    if starts.is_empty() {
        return Ok(Next::Told(reply.stop.clone()));
    }
    if calls.iter().all(|call| matches!(call.state, SlotState::Done { .. })) {
        let done = calls.into_iter().filter_map(|call| match call.state {
            SlotState::Done { record } => Some(CallRecord::from(*record)),
            _ => None,
        });
        progress.close_turn(done.collect());
        return Ok(Next::Ask);
    }
    let tools = catalog.tools();
    let start = |(start, call): (CallStart, StoredCall)| call_start(start, call.state, &tools);
    starts.into_iter().zip(calls).map(start).collect::<Result<_, _>>().map(Next::Calls)
}

fn call_start(start: CallStart, state: SlotState, tools: &[Arc<Tool>]) -> Result<CallStart, StoreError> {
    Ok(match state {
        SlotState::Requested => start,
        SlotState::Done { record } => CallStart::At(CallState::Finished(Box::new((*record).into()))),
        SlotState::Suspended { open, decision: None } => {
            CallStart::At(CallState::Open(Box::new(open_call(*open, tools)?)))
        }
        SlotState::Suspended { open, decision: Some(decision) } => {
            CallStart::Decided(Box::new(open_call(*open, tools)?), *decision)
        }
        SlotState::Executing { waited } => match (may_repeat(&start, tools), waited) {
            (true, None) => start,
            (true, Some(waited)) => CallStart::Decided(Box::new(open_call(waited.0, tools)?), waited.1),
            (false, _) => interrupted(start),
        },
    })
}

/// Whether a call that was cut off may run again: its tool says that this changes nothing.
fn may_repeat(start: &CallStart, tools: &[Arc<Tool>]) -> bool {
    let CallStart::Begin { request, .. } = start else { return false };
    let tool = tools.iter().find(|tool| tool.definition.name == request.name);
    tool.and_then(|tool| tool.definition.annotations.as_ref()).is_some_and(|said| said.read_only || said.idempotent)
}

fn interrupted(start: CallStart) -> CallStart {
    match start {
        CallStart::Begin { call_id, request, .. } => {
            CallStart::Begin { call_id, request, refusal: Some(Failure::new(FailureCode::Interrupted)) }
        }
        other => other,
    }
}

/// A call that waits. Its tool is the one that it was called with: the catalogue finds that very component by its digest,
/// or the call ends as `tool-changed`.
fn open_call(record: OpenCallRecord, tools: &[Arc<Tool>]) -> Result<OpenCall, StoreError> {
    let OpenCallRecord { call_id, call, tool, digest, arguments, is_rewritten, is_edited, questions, spent, .. } =
        record;
    let is_the_one = |known: &&Arc<Tool>| known.digest == digest && known.definition == tool;
    let tool = match tools.iter().find(is_the_one) {
        Some(known) => Arc::clone(known),
        None => Arc::new(Tool::new(tool, digest).map_err(|error| damaged(error.to_string()))?),
    };
    let questions = VecDeque::from(questions);
    let call = PreparedCall { call_id, request: call, tool, arguments, is_rewritten, is_edited, questions, spent };
    let suspension = Suspension { request: record.request, guest_id: record.guest_id, state: record.state };
    Ok(OpenCall { call, suspension, asker: record.asker, rounds: record.rounds })
}

fn damaged(message: String) -> StoreError {
    StoreError::Damaged { message }
}
