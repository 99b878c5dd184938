//! The calls of one turn while the run is alive: they run side by side, are asked about, and go on as answers come.

use futures::StreamExt as _;
use futures::future::{AbortHandle, BoxFuture, FutureExt as _, abortable};
use futures::stream::FuturesUnordered;
use time::OffsetDateTime;
use toolcell_contract::Answer;

use super::run_loop::Loop;
use crate::call::{CallState, OpenCall};
use crate::call_record::CallRecord;
use crate::suspension::{CANCELLED, EXPIRED, has_lapsed};

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
    /// It waits for an answer. Whoever is there is asked until the handle says that it is not needed any more.
    Open(Box<OpenCall>, AbortHandle),
    /// It has its result.
    Finished(Box<CallRecord>),
}

/// What came of something that was under way.
enum Step {
    /// A call has got this far.
    Came(CallState),
    /// Somebody who was asked has answered; or nobody is there, or the answer is not needed any more.
    Heard(Option<Answer>),
}

impl<'a> OpenTurn<'a> {
    /// A turn whose calls begin.
    pub(super) fn begun<C>(run: &'a Loop<'a>, calls: impl Iterator<Item = C>) -> Self
    where
        C: Future<Output = CallState> + Send + 'a,
    {
        let mut turn = Self { run, slots: Vec::new(), steps: FuturesUnordered::new() };
        for (place, call) in calls.enumerate() {
            turn.slots.push(Slot::Busy);
            turn.work_on(place, call);
        }
        turn
    }

    /// A turn that goes on.
    pub(super) fn reopened(run: &'a Loop<'a>, calls: Vec<CallState>) -> Self {
        let mut turn = Self { run, slots: Vec::new(), steps: FuturesUnordered::new() };
        for (place, call) in calls.into_iter().enumerate() {
            turn.slots.push(Slot::Busy);
            turn.came(place, call);
        }
        turn
    }

    /// Works until every call has its result or waits for an answer that nobody here gives.
    pub(super) async fn work(mut self) -> Vec<CallState> {
        loop {
            self.decline_what_ended();
            for answer in self.run.board.take() {
                self.act_on(answer);
            }
            let is_to_be_cancelled = !self.run.cancel.is_cancelled();
            tokio::select! {
                biased;
                () = self.run.cancel.cancelled(), if is_to_be_cancelled => {}
                () = self.run.board.arrived() => {}
                step = self.steps.next() => match step {
                    Some((place, Step::Came(call))) => self.came(place, call),
                    // It may have been answered elsewhere at the same moment: that answer counts.
                    Some((_, Step::Heard(answer))) => drop(self.run.board.answer(answer.into_iter().collect())),
                    None => return self.slots.into_iter().filter_map(Slot::state).collect(),
                },
            }
        }
    }

    /// Gives a no to every open question that has lapsed, and to all of them when the run is cancelled.
    fn decline_what_ended(&self) {
        let (is_cancelled, now) = (self.run.cancel.is_cancelled(), OffsetDateTime::now_utc());
        for request in self.slots.iter().filter_map(Slot::open).map(OpenCall::request) {
            let reason = match () {
                () if has_lapsed(request, now) => EXPIRED,
                () if is_cancelled => CANCELLED,
                () => continue,
            };
            // An answer that came before counts.
            drop(self.run.board.answer(vec![Answer::decline(&request.id, reason)]));
        }
    }

    /// Lets the call go on that this answer belongs to.
    fn act_on(&mut self, answer: Answer) {
        let is_asked = |slot: &Slot| slot.open().is_some_and(|open| open.request().id == answer.id);
        let Some(place) = self.slots.iter().position(is_asked) else { return };
        if let Slot::Open(open, ask) = std::mem::replace(&mut self.slots[place], Slot::Busy) {
            ask.abort();
            let caller = &self.run.caller;
            let went_on = async move {
                caller.answer(*open, answer).await.unwrap_or_else(|foreign| CallState::Open(foreign.call))
            };
            self.work_on(place, went_on);
        }
    }

    fn work_on(&mut self, place: usize, call: impl Future<Output = CallState> + Send + 'a) {
        self.steps.push(async move { (place, Step::Came(call.await)) }.boxed());
    }

    /// Notes how far a call has come, and asks about it.
    fn came(&mut self, place: usize, call: CallState) {
        self.slots[place] = match call {
            CallState::Finished(record) => Slot::Finished(record),
            CallState::Open(open) => {
                let question = open.question();
                if self.run.board.post(place, &question) {
                    self.run.caller.tell_pending(&open);
                }
                let (ask, handle) = abortable(self.run.caller.ask(question));
                self.steps.push(async move { (place, Step::Heard(ask.await.ok().flatten())) }.boxed());
                Slot::Open(open, handle)
            }
        };
    }
}

impl Slot {
    fn open(&self) -> Option<&OpenCall> {
        match self {
            Self::Open(open, _) => Some(open),
            Self::Busy | Self::Finished(_) => None,
        }
    }

    /// None while it is being worked on.
    fn state(self) -> Option<CallState> {
        match self {
            Self::Busy => None,
            Self::Open(open, _) => Some(CallState::Open(open)),
            Self::Finished(record) => Some(CallState::Finished(record)),
        }
    }
}
