//! A worker: takes runs from the store, works on them, and puts them down.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::journal::StoreJournal;
use super::restore::{Restored, restore};
use crate::agent::{Agent, Next};
use crate::board::Board;
use crate::call::{CallStart, CallState};
use crate::event::{EventSink, NoEvents};
use crate::run::{RunEnd, RunResult, RunStatus};
use crate::store::{
    Claimed, Lease, NewRun, Parked, RunKey, RunStore, SlotState, Step, StoreError, StoredEnd, StoredRun, Wake,
};

/// How a worker works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Its name, for people who look at the store.
    pub name: String,
    /// Runs that it works on at the same time.
    pub runs_at_once: NonZeroUsize,
    /// How long a run is its own without being heard of. Another worker takes it over then; a shorter time means less
    /// waiting after a crash, and more writing.
    pub lease: Duration,
    /// How often it looks for what nobody was told of.
    pub sweep: Duration,
    /// How long runs may go on when it is asked to stop. What is still under way then is given back as it is.
    pub grace: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        const RUNS: NonZeroUsize = NonZeroUsize::new(16).unwrap();
        Self {
            name: format!("worker-{}", uuid::Uuid::new_v4().simple()),
            runs_at_once: RUNS,
            lease: Duration::from_secs(60),
            sweep: Duration::from_secs(15),
            grace: Duration::from_secs(10),
        }
    }
}

/// What a worker does with runs, for people who watch it.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// It has taken a run.
    Taken {
        /// Which.
        key: RunKey,
    },
    /// A run has ended, or waits for an answer.
    Rests {
        /// Which.
        key: RunKey,
        /// How.
        status: RunStatus,
    },
    /// It has given a run back as it is, because it stops.
    GivenBack {
        /// Which.
        key: RunKey,
    },
    /// It cannot go on with a run. Another worker, or this one, takes it later, if it does not have it already.
    Lost {
        /// Which.
        key: RunKey,
        /// Why.
        error: StoreError,
    },
}

/// Who is told what a worker does.
type Told = Arc<dyn Fn(WorkerEvent) + Send + Sync>;

/// What is told when nobody has said whom to tell: what people should know is in the log.
fn log(event: WorkerEvent) {
    if let WorkerEvent::Lost { key, error } = event {
        tracing::warn!(run = key.run, "put down: {error}");
    }
}

/// Takes runs from a store and works on them with an agent. Several workers, on several hosts, may share a store.
///
/// ```
/// use std::sync::Arc;
///
/// use tokio_util::sync::CancellationToken;
/// use toolcell_agent::{Agent, RunStore, StoreError, Worker, WorkerOptions};
///
/// async fn serve(agent: Agent, store: Arc<dyn RunStore>, stop: CancellationToken) -> Result<(), StoreError> {
///     Worker::new(agent, store, WorkerOptions::default()).work(stop).await
/// }
/// ```
#[derive(Clone)]
pub struct Worker {
    agent: Agent,
    store: Arc<dyn RunStore>,
    options: WorkerOptions,
    told: Told,
    halt: CancellationToken,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker.
    #[must_use]
    pub fn new(agent: Agent, store: Arc<dyn RunStore>, options: WorkerOptions) -> Self {
        Self { agent, store, options, told: Arc::new(log), halt: CancellationToken::new() }
    }

    /// Tells `told` which runs [`Worker::work`] takes and puts down.
    #[must_use]
    pub fn telling(self, told: impl Fn(WorkerEvent) + Send + Sync + 'static) -> Self {
        Self { told: Arc::new(told), ..self }
    }

    /// Gives back as it is whatever run it works on, as soon as `halt` is cancelled: another worker can go on with it at once.
    /// A call that is under way then is cut off.
    #[must_use]
    pub fn halting(self, halt: CancellationToken) -> Self {
        Self { halt, ..self }
    }

    /// Writes a new run and works on it, until it has ended or waits. When this is dropped another worker goes on with it.
    ///
    /// # Errors
    /// [`StoreError`] when the run cannot be written, or is not this worker's any more.
    pub async fn start(
        &self,
        run: NewRun,
        events: Arc<dyn EventSink>,
        cancel: CancellationToken,
    ) -> Result<RunResult, StoreError> {
        let key = run.key.clone();
        self.store.create(run).await?;
        match self.go_on(&key, events, cancel).await? {
            Some(result) => Ok(result),
            None => Err(StoreError::Fenced),
        }
    }

    /// Works on a run until it has ended or waits. None when there is nothing to do: it waits for an answer, has ended, or
    /// another worker has it; and when it was given back because this worker halts.
    ///
    /// # Errors
    /// [`StoreError`] when there is no such run, or it is not this worker's any more.
    pub async fn go_on(
        &self,
        key: &RunKey,
        events: Arc<dyn EventSink>,
        cancel: CancellationToken,
    ) -> Result<Option<RunResult>, StoreError> {
        let began = Instant::now();
        match self.store.claim(&self.options.name, self.options.lease, Some(key)).await? {
            Some(claimed) => self.work_until(claimed, began, events, cancel, &self.halt).await,
            None => Ok(None),
        }
    }

    /// Works on whatever run of whichever tenant is ready, until it is cancelled.
    ///
    /// # Errors
    /// [`StoreError::Newer`]. It waits for a store that is away, and goes on beside what cannot be read.
    pub async fn work(&self, stop: CancellationToken) -> Result<(), StoreError> {
        let mut wakes = self.store.wakes();
        let mut running = JoinSet::new();
        let halt = self.halt.child_token();
        let mut sweep = tokio::time::interval(self.options.sweep);
        loop {
            while running.len() < self.options.runs_at_once.get() && !stop.is_cancelled() {
                let began = Instant::now();
                let Some(claimed) =
                    self.look(self.store.claim(&self.options.name, self.options.lease, None).await)?.flatten()
                else {
                    break;
                };
                let (worker, halt) = (self.clone(), halt.clone());
                running.spawn(async move { worker.work_and_tell(claimed, began, halt).await });
            }
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = running.join_next() => {}
                woken = wakes.recv() => if matches!(woken, Err(broadcast::error::RecvError::Closed)) {
                    // Sweeping finds it all the same.
                    wakes = self.store.wakes();
                },
                _ = sweep.tick() => drop(self.look(self.store.sweep().await)?),
            }
        }
        let all_done = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(self.options.grace, all_done).await.is_err() {
            halt.cancel();
            while running.join_next().await.is_some() {}
        }
        Ok(())
    }

    /// Takes what the store gave. That it is away is no reason to stop, and neither is something in it that cannot be read.
    fn look<T>(&self, given: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match given {
            Ok(given) => Ok(Some(given)),
            Err(error @ StoreError::Newer { .. }) => Err(error),
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::error!(worker = self.options.name, "{error}");
                Ok(None)
            }
            Err(error) => {
                tracing::warn!(worker = self.options.name, "{error}");
                Ok(None)
            }
        }
    }

    async fn work_and_tell(&self, claimed: Claimed, began: Instant, halt: CancellationToken) {
        let key = claimed.lease.key.clone();
        (self.told)(WorkerEvent::Taken { key: key.clone() });
        let worked = self.work_until(claimed, began, Arc::new(NoEvents), CancellationToken::new(), &halt).await;
        (self.told)(match worked {
            Ok(Some(result)) => WorkerEvent::Rests { key, status: result.status() },
            Ok(None) => WorkerEvent::GivenBack { key },
            Err(error) => WorkerEvent::Lost { key, error },
        });
    }

    /// Works on a run until it rests; none when it was given back because the worker halts.
    async fn work_until(
        &self,
        claimed: Claimed,
        began: Instant,
        events: Arc<dyn EventSink>,
        cancel: CancellationToken,
        halt: &CancellationToken,
    ) -> Result<Option<RunResult>, StoreError> {
        let lease = claimed.lease.clone();
        match halt.run_until_cancelled(self.work_on(claimed, began, events, cancel)).await {
            Some(worked) => worked.map(Some),
            None => self.store.release(&lease).await.map(|()| None),
        }
    }

    /// Works on a run that is this worker's until it rests.
    async fn work_on(
        &self,
        claimed: Claimed,
        began: Instant,
        events: Arc<dyn EventSink>,
        cancel: CancellationToken,
    ) -> Result<RunResult, StoreError> {
        let Claimed { lease, run } = claimed;
        let catalog = self.agent.catalog();
        let until = began + self.options.lease;
        let journal = StoreJournal::new(Arc::clone(&self.store), Arc::clone(&catalog), lease, until);
        self.bring_components(&run).await?;
        // Its own token: the caller's is not to be cancelled by somebody else.
        let is_cancelled = cancel.child_token();
        if run.is_cancelled {
            is_cancelled.cancel();
        }
        let restored = restore(run, self.agent.budget(), catalog.as_ref())?;
        let drive = self.drive(&journal, restored, events, &is_cancelled);
        tokio::select! {
            result = drive => Ok(result),
            error = journal.lost() => Err(error),
            () = journal.keep_lease(self.options.lease) => Err(StoreError::Fenced),
        }
    }

    async fn drive(
        &self,
        journal: &StoreJournal,
        restored: Restored,
        events: Arc<dyn EventSink>,
        cancel: &CancellationToken,
    ) -> RunResult {
        let Restored { mut progress, mut next } = restored;
        let board = Board::default();
        board.post_open(&next);
        loop {
            let run = self.agent.drive_with(&board, journal, progress, next, &events, cancel);
            let mut result = tokio::select! {
                biased;
                result = run => result,
                never = self.listen(journal, &board, cancel) => match never {},
            };
            let RunEnd::Pending { run, .. } = &mut result.end else {
                let end = StoredEnd::of(&result);
                journal.insist(|| self.store.write(journal.lease(), Step::Ended { end: end.clone() })).await;
                events.emit(result.done());
                return result;
            };
            let suspended = run.take();
            if journal.insist(|| self.store.park(journal.lease())).await == Parked::Parked {
                events.emit(result.done());
                return result;
            }
            // Something came at the last moment.
            self.hear(journal, &board, cancel).await;
            let Some(suspended) = suspended else { return result };
            next = Next::Calls(suspended.slots.into_iter().map(CallStart::At).collect());
            progress = suspended.progress;
        }
    }

    /// Passes on what others decide while the run is worked on.
    async fn listen(
        &self,
        journal: &StoreJournal,
        board: &Board,
        cancel: &CancellationToken,
    ) -> std::convert::Infallible {
        let mut wakes = self.store.wakes();
        loop {
            self.hear(journal, board, cancel).await;
            let ours = async {
                loop {
                    match wakes.recv().await {
                        Ok(Wake(Some(key))) if key != journal.lease().key => {}
                        Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            tokio::select! {
                () = ours => {}
                // It may have been answered before it could be acted on.
                () = board.posted() => {}
                // A wake can be missed; what it was about cannot.
                () = tokio::time::sleep(self.options.sweep) => {}
            }
        }
    }

    async fn hear(&self, journal: &StoreJournal, board: &Board, cancel: &CancellationToken) {
        let signals = journal.insist(|| self.store.signals(journal.lease())).await;
        for decision in signals.decisions {
            // One at a time: what is known already, or is of a call that has gone on, does not hold back the others.
            drop(board.decide(vec![decision]));
        }
        if signals.is_cancelled {
            cancel.cancel();
        }
    }

    /// Brings the components that open calls go on with, where the directory of tools has others by now.
    async fn bring_components(&self, run: &StoredRun) -> Result<(), StoreError> {
        let catalog = self.agent.catalog();
        let waiting = run.calls.iter().filter_map(|call| match &call.state {
            SlotState::Suspended { open, .. } => open.digest,
            SlotState::Executing { waited: Some(waited) } => waited.0.digest,
            _ => None,
        });
        for digest in waiting {
            if catalog.has_component(digest).await {
                continue;
            }
            if let Some(bytes) = self.store.component(digest).await? {
                catalog.bring_component(digest, bytes).await;
            }
        }
        Ok(())
    }
}

impl StoredEnd {
    /// What is kept of how a run ended.
    fn of(result: &RunResult) -> Self {
        let (limit, error) = match &result.end {
            RunEnd::Incomplete(limit) => (Some(*limit), None),
            RunEnd::Failed(error) => (None, Some(error.to_string())),
            RunEnd::Stopped { reason } => (None, Some(reason.clone())),
            RunEnd::Done | RunEnd::Pending { .. } | RunEnd::Cancelled => (None, None),
        };
        Self { status: result.status(), text: result.text.clone(), limit, error }
    }
}

impl Board {
    /// Opens the questions that a run waits for already.
    fn post_open(&self, next: &Next) {
        let Next::Calls(calls) = next else { return };
        for (place, call) in calls.iter().enumerate() {
            if let CallStart::At(CallState::Open(open)) = call {
                self.post(place, &open.question());
            }
        }
    }
}

impl Lease {
    /// For logs: which run.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.key.run
    }
}
