//! What one call does with the gate: counted, timed, and with what it would have needed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::REQUESTS_MAX;
use super::gate::{HttpGate, Incoming, Outgoing, Refusal};
use crate::missing::{MISSING_MAX, Missing};

/// The requests of one call. Its clones are the same.
#[derive(Clone)]
pub(crate) struct Traffic(Arc<Inner>);

struct Inner {
    gate: Option<Arc<HttpGate>>,
    deadline: Instant,
    requests: AtomicUsize,
    missing: Mutex<Vec<Missing>>,
}

impl Traffic {
    pub(crate) fn new(gate: Option<Arc<HttpGate>>, deadline: Instant) -> Self {
        let (requests, missing) = (AtomicUsize::new(0), Mutex::default());
        Self(Arc::new(Inner { gate, deadline, requests, missing }))
    }

    /// Sends a request within the time of the call.
    pub(crate) async fn send(&self, request: Outgoing) -> Result<Incoming, Refusal> {
        let inner = &self.0;
        if inner.requests.fetch_add(1, Ordering::Relaxed) >= REQUESTS_MAX {
            return Err(Refusal::TooMany);
        }
        let time_max = request.time_max.min(inner.deadline.saturating_duration_since(Instant::now()));
        let request = Outgoing { time_max, ..request };
        let sent = match &inner.gate {
            Some(gate) => gate.send(request).await,
            // What cannot be granted to anybody is told so, too.
            None => HttpGate::new([], Vec::new()).send(request).await,
        };
        sent.inspect_err(|refusal| {
            if let Refusal::Missing(missing) = refusal {
                self.miss(missing.clone());
            }
        })
    }

    /// Notes what was asked for and is not granted.
    pub(crate) fn miss(&self, missing: Missing) {
        let mut all = self.0.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MISSING_MAX && !all.contains(&missing) {
            all.push(missing);
        }
    }

    /// What was missed so far. Empties it.
    pub(crate) fn take_missing(&self) -> Vec<Missing> {
        std::mem::take(&mut *self.0.missing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The time that a request has when it asks for none.
    pub(crate) fn time_max(&self) -> Duration {
        self.0.deadline.saturating_duration_since(Instant::now())
    }
}
