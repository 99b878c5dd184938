//! Counts the time in which a run works: while the model writes or a tool executes, not while a person is waited for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcell_contract::{Failure, FailureCode};

/// A clock that runs while at least one piece of work is under way.
#[derive(Debug)]
pub(crate) struct WorkClock(Mutex<State>);

#[derive(Debug)]
struct State {
    /// What was counted before `since`.
    counted: Duration,
    /// Pieces of work under way.
    active: usize,
    /// When the first of them began.
    since: Instant,
}

impl WorkClock {
    /// A clock of a run that has worked for so long already.
    pub(crate) fn starting_at(counted: Duration) -> Self {
        Self(Mutex::new(State { counted, active: 0, since: Instant::now() }))
    }

    /// The time until now.
    pub(crate) fn worked(&self) -> Duration {
        let state = self.state();
        state.counted + if state.active == 0 { Duration::ZERO } else { state.since.elapsed() }
    }

    /// Work is under way until the guard is dropped.
    pub(crate) fn work(&self) -> Work<'_> {
        let mut state = self.state();
        if state.active == 0 {
            state.since = Instant::now();
        }
        state.active += 1;
        Work(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece of work that is under way.
pub(crate) struct Work<'a>(&'a WorkClock);

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.active -= 1;
        if state.active == 0 {
            state.counted = state.counted.saturating_add(state.since.elapsed());
        }
    }
}

/// Why work of a run ended before it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The run was cancelled.
    Cancelled,
    /// The time of the run is over.
    TimeOver,
}

impl Halt {
    /// What it means for a call.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Cancelled => Failure::new(FailureCode::Cancelled),
            Self::TimeOver => Failure::with_detail(FailureCode::Timeout, "the time of the run is over"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn time_counts_once_however_many_work_and_not_at_all_when_nobody_does() {
        let second = Duration::from_secs(1);
        let clock = WorkClock::starting_at(second);
        advance(second).await;
        assert_eq!(clock.worked(), second);
        let first = clock.work();
        advance(second).await;
        let other = clock.work();
        advance(second).await;
        drop(first);
        advance(second).await;
        assert_eq!(clock.worked(), 4 * second);
        drop(other);
        advance(second).await;
        assert_eq!(clock.worked(), 4 * second);
    }
}
