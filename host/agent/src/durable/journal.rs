//! A run's journal in a store of runs: each step under the run's lease, again and again while the store is away for a
//! moment, and never after another host has taken over.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolcell_contract::{Answer, Digest};

use crate::call::CallState;
use crate::catalog::Catalog;
use crate::journal::Journal;
use crate::run::RunProgress;
use crate::store::{Answered, Checkpoint, Decision, Lease, RunStore, Slot, Step, StoreError, StoredReply};
use crate::suspension::BUSY;

/// The first pause before a store that is away is tried again; it doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(50);

/// The longest pause between two tries.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The shortest time for a try: the store may be slow for a moment.
const TRY_MIN: Duration = Duration::from_secs(5);

/// Who decides for a grant, in the record.
const BY_GRANT: &str = "grant";

/// The journal of one run while this host has it.
pub(super) struct StoreJournal {
    store: Arc<dyn RunStore>,
    catalog: Arc<dyn Catalog>,
    lease: Lease,
    /// Until when the lease holds, by this host's clock; a little less than the store says.
    holds_until: Mutex<Instant>,
    lost: CancellationToken,
    reason: OnceLock<StoreError>,
    /// Components that the store has.
    kept: Mutex<HashSet<Digest>>,
}

impl StoreJournal {
    pub(super) fn new(store: Arc<dyn RunStore>, catalog: Arc<dyn Catalog>, lease: Lease, holds_until: Instant) -> Self {
        Self {
            store,
            catalog,
            lease,
            holds_until: Mutex::new(holds_until),
            lost: CancellationToken::new(),
            reason: OnceLock::new(),
            kept: Mutex::default(),
        }
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Waits until the run is not ours any more, and says why.
    pub(super) async fn lost(&self) -> StoreError {
        self.lost.cancelled().await;
        match self.reason.get() {
            Some(StoreError::Unavailable { message, .. }) => {
                StoreError::Unavailable { message: message.clone(), source: None }
            }
            Some(StoreError::Damaged { message }) => StoreError::Damaged { message: message.clone() },
            _ => StoreError::Fenced,
        }
    }

    /// Makes the lease hold on, for as long as it can.
    pub(super) async fn keep_lease(&self, length: Duration) {
        loop {
            tokio::time::sleep(length / 3).await;
            let began = Instant::now();
            self.insist(|| self.store.renew(&self.lease, length)).await;
            *self.holds_until.lock().unwrap_or_else(PoisonError::into_inner) = began + length;
        }
    }

    /// Does something to the store, again while it is away and the lease holds. When it cannot be done the run is lost, and
    /// this does not return.
    pub(super) async fn insist<'a, T, F>(&'a self, action: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, StoreError>> + 'a,
    {
        let mut pause = RETRY_FIRST;
        loop {
            let error = match tokio::time::timeout_at(self.try_until(), action()).await {
                Ok(Ok(done)) => return done,
                Ok(Err(error)) => error,
                Err(_elapsed) => StoreError::Unavailable { message: "it does not answer".into(), source: None },
            };
            let holds_until = *self.holds_until.lock().unwrap_or_else(PoisonError::into_inner);
            let may_wait = matches!(error, StoreError::Unavailable { .. }) && Instant::now() + pause < holds_until;
            if !may_wait {
                return self.lose(error).await;
            }
            tracing::warn!(run = self.lease.key.run, "the store is away for a moment: {error}");
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(RETRY_MAX);
        }
    }

    /// How long one try may take: half of what is left of the lease, so that one connection that has fallen silent does not
    /// cost the run, and to the end of it when little is left.
    fn try_until(&self) -> Instant {
        let holds_until = *self.holds_until.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let half = holds_until.saturating_duration_since(now) / 2;
        (now + half.max(TRY_MIN)).min(holds_until)
    }

    async fn lose<T>(&self, error: StoreError) -> T {
        let _ = self.reason.set(error);
        self.lost.cancel();
        std::future::pending().await
    }

    async fn write(&self, step: Step) {
        self.insist(|| self.store.write(&self.lease, step.clone())).await;
    }

    async fn slot(&self, call_id: &str) -> Slot {
        match Slot::of_call(&self.lease.key.run, call_id) {
            Some(slot) => slot,
            None => self.lose(StoreError::NotFound("call")).await,
        }
    }

    /// Keeps the component that asks, so that it can go on although its file is replaced.
    async fn keep_component(&self, digest: Digest) {
        if self.kept.lock().unwrap_or_else(PoisonError::into_inner).contains(&digest) {
            return;
        }
        if let Some(bytes) = self.catalog.component(digest).await {
            self.insist(|| self.store.keep_component(digest, &bytes)).await;
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
        }
    }

    /// Writes that a call waits. A decision when it does not have to: a grant covers it, or the tenant has too many open
    /// questions.
    async fn suspended(&self, slot: Slot, open: &crate::call::OpenCall) -> Option<Decision> {
        let question = open.question();
        if let Some(digest) = question.digest {
            self.keep_component(digest).await;
        }
        let step = Step::Suspended { slot, open: Box::new(open.record()) };
        let is_full = self
            .insist(|| async {
                match self.store.write(&self.lease, step.clone()).await {
                    Ok(()) => Ok(false),
                    Err(StoreError::TooManyOpen(_)) => Ok(true),
                    Err(error) => Err(error),
                }
            })
            .await;
        let id = &question.request.id;
        if is_full {
            return Some(Answer::decline(id, BUSY).into());
        }
        let grant = self.insist(|| self.store.use_grant(&self.lease.key, &question)).await?;
        let by = Some(format!("{BY_GRANT} {} of {}", grant.id, grant.by));
        self.decided(Decision { answer: Answer::approve(id), arguments: None, by }).await
    }
}

impl Journal for StoreJournal {
    fn replied<'a>(&'a self, run: &'a RunProgress, reply: &'a StoredReply) -> BoxFuture<'a, ()> {
        let checkpoint = Checkpoint { worked: run.worked, warned: run.warned.clone(), window: run.window };
        let turn = run.turns.saturating_sub(1);
        self.write(Step::Replied { turn, reply: Box::new(reply.clone()), checkpoint }).boxed()
    }

    fn executing<'a>(&'a self, call_id: &'a str) -> BoxFuture<'a, ()> {
        async move {
            let slot = self.slot(call_id).await;
            self.write(Step::Executing { slot }).await;
        }
        .boxed()
    }

    fn came<'a>(&'a self, call_id: &'a str, state: &'a CallState) -> BoxFuture<'a, Option<Decision>> {
        async move {
            let slot = self.slot(call_id).await;
            match state {
                CallState::Open(open) => self.suspended(slot, open).await,
                CallState::Finished(record) => {
                    let record = Box::new(record.as_ref().clone().into());
                    self.write(Step::Finished { slot, record }).await;
                    None
                }
            }
        }
        .boxed()
    }

    fn decided(&self, decision: Decision) -> BoxFuture<'_, Option<Decision>> {
        async move {
            let tenant = &self.lease.key.tenant;
            let answered = self.insist(|| self.store.answer(tenant, decision.clone())).await;
            match answered {
                Answered::First(_) | Answered::Again(_) => Some(decision),
                Answered::Conflict(other) => Some(other),
            }
        }
        .boxed()
    }
}
