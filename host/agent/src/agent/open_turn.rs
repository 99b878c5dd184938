//! The calls of one turn while the run is alive: they run side by side, are asked about, and go on as answers come.

use futures::StreamExt as _;
use futures::future::{AbortHandle, BoxFuture, FutureExt as _, abortable};
use futures::stream::FuturesUnordered;
use time::OffsetDateTime;
use toolcell_contract::Answer;

use super::run_loop::Loop;
use crate::board::Refusal;
use crate::call::{CallStart, CallState, OpenCall};
use crate::call_record::CallRecord;
use crate::store::Decision;
use crate::suspension::{CANCELLED, EXPIRED, expiry};

/// The calls of one turn.
pub(super) struct OpenTurn<'a> {
    run: &'a Loop<'a>,
    /// In call order.
    slots: Vec<Slot>,
    /// What is under way, with the place of its call.
    steps: FuturesUnordered<BoxFuture<'a, (usize, Step)>>,
}

/// Where a call of the turn stands.
enum Slot {
    /// It is being worked on.
    Busy,
    /// It waits for an answer.
    Open(Asking),
    /// It waits, and is about to go on without an answer of a person's.
    Closing(Box<OpenCall>),
    /// It has its result.
    Finished(Box<CallRecord>),
}

/// A call that waits for whoever may answer.
struct Asking {
    open: Box<OpenCall>,
    /// When its question lapses.
    lapse: Option<OffsetDateTime>,
    /// Ends the asking when no answer is needed any more.
    ask: AbortHandle,
}

/// What came of something that was under way.
enum Step {
    /// A call has got this far. With a decision when one is known already.
    Came(CallState, Option<Decision>),
    /// Somebody who was asked has decided; or nobody is there, or the decision is not needed any more.
    Heard(Option<Decision>),
}

impl<'a> OpenTurn<'a> {
    /// A turn whose calls begin or go on.
    pub(super) fn of(run: &'a Loop<'a>, calls: Vec<CallStart>) -> Self {
        let mut turn = Self { run, slots: Vec::new(), steps: FuturesUnordered::new() };
        for (place, call) in calls.into_iter().enumerate() {
            turn.slots.push(Slot::Busy);
            let caller = &run.caller;
            match call {
                CallStart::Begin { call_id, request, refusal: None } => {
                    turn.work_on(place, caller.begin(call_id, request));
                }
                CallStart::Begin { call_id, request, refusal: Some(failure) } => {
                    turn.work_on(place, caller.refuse(call_id, request, failure));
                }
                CallStart::Decided(open, decision) => turn.go_on(place, open, decision),
                CallStart::At(state) => turn.came(place, state, None),
            }
        }
        turn
    }

    /// Works until every call has its result or waits for an answer that nobody here gives.
    pub(super) async fn work(mut self) -> Vec<CallState> {
        let Loop { board, cancel, caller, .. } = self.run;
        loop {
            self.decline_what_ended();
            for decision in board.take() {
                self.act_on(decision);
            }
            let is_cancelled = cancel.is_cancelled();
            tokio::select! {
                biased;
                () = cancel.cancelled(), if !is_cancelled => {}
                () = board.arrived() => {}
                () = caller.sleep_until(self.next_lapse()) => {}
                step = self.steps.next() => match step {
                    Some((place, Step::Came(call, decision))) => {
                        // What is told is on record.
                        caller.tell_result(&call);
                        self.came(place, call, decision);
                    }
                    Some((_, Step::Heard(Some(decision)))) => self.heard(decision),
                    Some((_, Step::Heard(None))) => {}
                    None => return self.slots.into_iter().filter_map(Slot::state).collect(),
                },
            }
        }
    }

    /// Gives a no to every open question that has lapsed, and to all of them when the run is cancelled.
    fn decline_what_ended(&mut self) {
        let (is_cancelled, now) = (self.run.cancel.is_cancelled(), self.run.caller.now());
        for place in 0..self.slots.len() {
            let Some(Asking { lapse, .. }) = self.slots[place].asking() else { continue };
            let reason = match now.zip(*lapse) {
                Some((now, lapse)) if lapse <= now => EXPIRED,
                _ if is_cancelled => CANCELLED,
                _ => continue,
            };
            if let Slot::Open(Asking { open, ask, .. }) = std::mem::replace(&mut self.slots[place], Slot::Busy) {
                ask.abort();
                let no = Answer::decline(&open.request().id, reason).into();
                self.slots[place] = Slot::Closing(open);
                self.hear(place, async { Some(no) });
            }
        }
    }

    /// When the first open question lapses.
    fn next_lapse(&self) -> Option<OffsetDateTime> {
        self.slots.iter().filter_map(|slot| slot.asking()?.lapse).min()
    }

    /// Takes a decision that was made here. It may have been made elsewhere at the same moment: then that one counts.
    fn heard(&mut self, decision: Decision) {
        match self.run.board.decide(vec![decision.clone()]) {
            Ok(_) | Err(Refusal::Conflict(_)) => {}
            // The host's own word, or the record's, on a question that nobody else can answer.
            Err(Refusal::Unknown(_) | Refusal::Bad(..)) => self.act_on(decision),
        }
    }

    /// Lets the call go on that this decision belongs to.
    fn act_on(&mut self, decision: Decision) {
        let is_asked = |slot: &Slot| slot.waiting().is_some_and(|open| open.request().id == decision.answer.id);
        let Some(place) = self.slots.iter().position(is_asked) else { return };
        match std::mem::replace(&mut self.slots[place], Slot::Busy) {
            Slot::Open(Asking { open, ask, .. }) => {
                ask.abort();
                self.go_on(place, open, decision);
            }
            Slot::Closing(open) => self.go_on(place, open, decision),
            other => self.slots[place] = other,
        }
    }

    fn go_on(&mut self, place: usize, open: Box<OpenCall>, decision: Decision) {
        let caller = &self.run.caller;
        self.work_on(place, async move {
            caller.decide(*open, decision).await.unwrap_or_else(|foreign| CallState::Open(foreign.call))
        });
    }

    /// Lets a call go as far as it comes, and writes down how far that was.
    fn work_on(&mut self, place: usize, call: impl Future<Output = CallState> + Send + 'a) {
        let journal = self.run.journal;
        let step = async move {
            let state = call.await;
            let decision = match journal {
                Some(journal) => journal.came(state.call_id(), &state).await,
                None => None,
            };
            (place, Step::Came(state, decision))
        };
        self.steps.push(step.boxed());
    }

    /// Listens for a decision, and writes it down. The one that comes back is the one that counts.
    fn hear(&mut self, place: usize, decision: impl Future<Output = Option<Decision>> + Send + 'a) {
        let journal = self.run.journal;
        let step = async move {
            let decision = match (decision.await, journal) {
                (Some(decision), Some(journal)) => journal.decided(decision).await,
                (decision, _) => decision,
            };
            (place, Step::Heard(decision))
        };
        self.steps.push(step.boxed());
    }

    /// Notes how far a call has come, and asks about it unless it is decided already.
    fn came(&mut self, place: usize, call: CallState, decision: Option<Decision>) {
        let open = match call {
            CallState::Finished(record) => {
                self.slots[place] = Slot::Finished(record);
                return;
            }
            CallState::Open(open) => open,
        };
        let question = open.question();
        let caller = &self.run.caller;
        if let Some(decision) = decision {
            caller.tell_pending(&open);
            self.go_on(place, open, decision);
            return;
        }
        if self.run.board.post(place, &question) {
            caller.tell_pending(&open);
        }
        let lapse = expiry(&question.request);
        let (answer, ask) = abortable(async move { caller.ask(question).await.map(Decision::from) });
        self.hear(place, async { answer.await.ok().flatten() });
        self.slots[place] = Slot::Open(Asking { open, lapse, ask });
    }
}

impl Slot {
    fn asking(&self) -> Option<&Asking> {
        match self {
            Self::Open(asking) => Some(asking),
            Self::Busy | Self::Closing(_) | Self::Finished(_) => None,
        }
    }

    /// The call, if it waits.
    fn waiting(&self) -> Option<&OpenCall> {
        match self {
            Self::Open(Asking { open, .. }) | Self::Closing(open) => Some(open),
            Self::Busy | Self::Finished(_) => None,
        }
    }

    /// None while it is being worked on.
    fn state(self) -> Option<CallState> {
        match self {
            Self::Busy => None,
            Self::Open(Asking { open, .. }) | Self::Closing(open) => Some(CallState::Open(open)),
            Self::Finished(record) => Some(CallState::Finished(record)),
        }
    }
}
