//! How many calls run and wait at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ending::Fault;

/// A bounded number of places and a bounded queue before them.
#[derive(Debug)]
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    queued: AtomicUsize,
    queued_max: usize,
    wait_max: Duration,
}

impl Admission {
    pub(crate) fn new(places_max: usize, queued_max: usize, wait_max: Duration) -> Self {
        Self { places: Arc::new(Semaphore::new(places_max)), queued: AtomicUsize::new(0), queued_max, wait_max }
    }

    /// Waits for a place, first come, first served.
    pub(crate) async fn enter(&self) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let _queued = Queued::join(&self.queued, self.queued_max).ok_or(Fault::NoRoom)?;
        match tokio::time::timeout(self.wait_max, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_closed)) => Err(Fault::Host),
            Err(_elapsed) => Err(Fault::NoRoom),
        }
    }
}

/// One waiting call; it leaves the queue when it is dropped.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn join(queued: &'a AtomicUsize, queued_max: usize) -> Option<Self> {
        let joined = queued.try_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < queued_max).then_some(n + 1));
        joined.is_ok().then(|| Self(queued))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const WAIT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_full_house_makes_the_next_one_wait_and_then_sends_it_away() {
        let admission = Admission::new(1, 1, WAIT);
        let inside = admission.enter().await.unwrap();
        let begun = Instant::now();
        assert_eq!(admission.enter().await.unwrap_err(), Fault::NoRoom);
        assert!(begun.elapsed() >= WAIT);
        drop(inside);
        assert!(admission.enter().await.is_ok());
    }

    #[tokio::test]
    async fn who_waits_gets_the_place_that_is_left() {
        let admission = Admission::new(1, 1, Duration::from_secs(60));
        let inside = admission.enter().await.unwrap();
        let (entered, ()) = tokio::join!(admission.enter(), async move { drop(inside) });
        assert!(entered.is_ok());
    }

    #[tokio::test]
    async fn a_full_queue_sends_the_next_one_away_at_once() {
        let admission = Admission::new(1, 1, Duration::from_secs(60));
        let inside = admission.enter().await.unwrap();
        let (waited, refused) = tokio::join!(admission.enter(), async {
            let refused = admission.enter().await.unwrap_err();
            drop(inside);
            refused
        });
        assert!(waited.is_ok());
        assert_eq!(refused, Fault::NoRoom);
        assert_eq!(admission.queued.load(Ordering::Relaxed), 0);
    }
}
