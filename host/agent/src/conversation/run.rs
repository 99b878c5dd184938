//! What a conversation holds of a run, from its message to its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::event::{EventSink, RunEvent};

/// What a run has from its message to its end, however often it waits.
#[derive(Clone, Default)]
pub(super) struct Run {
    /// Ends it.
    pub(super) cancel: CancellationToken,
    /// What it asks, and what was answered.
    pub(super) board: Arc<Board>,
    /// Who is told what happens, until it rests.
    pub(super) listeners: Arc<Listeners>,
    /// Tells when it has ended, or is forgotten with its conversation: nobody can cancel it any more.
    over: Arc<Over>,
}

impl Run {
    /// Lets a token cancel it, as long as it has not ended.
    pub(super) fn obey(&self, token: &CancellationToken) {
        if token.is_cancelled() {
            // At once: a task could come after the tool.
            self.cancel.cancel();
            return;
        }
        let (token, cancel) = (token.clone(), self.cancel.clone());
        tokio::spawn(self.over.0.clone().run_until_cancelled_owned(async move {
            token.cancelled().await;
            cancel.cancel();
        }));
    }

    /// It has ended.
    pub(super) fn end(&self) {
        self.over.0.cancel();
    }
}

/// Cancelled at the latest when nobody holds it.
#[derive(Default)]
struct Over(CancellationToken);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Those who are told what happens in a run.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Vec<Arc<dyn EventSink>>>);

impl Listeners {
    /// Tells one more, unless it is told already.
    pub(super) fn add(&self, sink: Arc<dyn EventSink>) {
        let mut sinks = self.sinks();
        if !sinks.iter().any(|other| Arc::ptr_eq(other, &sink)) {
            sinks.push(sink);
        }
    }

    /// From now on nobody is told. Those who were are handed out: they are somebody else's code, also when they are
    /// dropped.
    pub(super) fn take(&self) -> Self {
        Self(Mutex::new(std::mem::take(&mut *self.sinks())))
    }

    fn sinks(&self) -> MutexGuard<'_, Vec<Arc<dyn EventSink>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for Listeners {
    fn emit(&self, event: RunEvent) {
        // Not under the lock: a sink is somebody else's code.
        let sinks = self.sinks().clone();
        sinks.iter().for_each(|sink| sink.emit(event.clone()));
    }
}
