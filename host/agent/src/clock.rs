//! What time it is, for questions that lapse.

use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;

/// How long a wait for a time of the day sleeps at most before it looks at the clock again: a clock may be set, and a
/// machine may sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A clock that tells the time of the day. The default is the machine's.
///
/// It decides when a question lapses ([`toolcell_contract::Request::expires_at`]). Runs on record go by the clock of their
/// store instead, which is the same for all hosts. How long work takes is not measured by it.
///
/// ```
/// use time::macros::datetime;
/// use toolcell_agent::Clock;
///
/// // For a test of what happens at a certain time.
/// let clock = Clock::new(|| datetime!(2026-12-01 12:00 UTC));
/// assert_eq!(clock.now().year(), 2026);
/// ```
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> OffsetDateTime + Send + Sync>);

impl Clock {
    /// A clock that is read by this function.
    #[must_use]
    pub fn new(now: impl Fn() -> OffsetDateTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time of the day.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        (self.0)()
    }

    /// Sleeps until a time of the day, or for ever.
    pub(crate) async fn sleep_until(&self, time: Option<OffsetDateTime>) {
        let Some(time) = time else { return std::future::pending().await };
        loop {
            match Duration::try_from(time - self.now()) {
                Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(LOOK_AGAIN)).await,
                _ => return,
            }
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(OffsetDateTime::now_utc)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use time::macros::datetime;

    const NOON: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_meanwhile_is_believed() {
        let time = Arc::new(Mutex::new(NOON));
        let clock = Clock::new({
            let time = Arc::clone(&time);
            move || *time.lock().unwrap()
        });
        let began = tokio::time::Instant::now();
        let set = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            *time.lock().unwrap() = NOON + Duration::from_secs(3_600);
        };
        tokio::join!(clock.sleep_until(Some(NOON + Duration::from_secs(3_600))), set);
        assert_eq!(began.elapsed(), LOOK_AGAIN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_is_over_is_not_waited_for() {
        let clock = Clock::new(|| NOON);
        clock.sleep_until(Some(NOON)).await;
        clock.sleep_until(Some(NOON - Duration::from_secs(1))).await;
        let never = tokio::time::timeout(Duration::from_secs(86_400), clock.sleep_until(None)).await;
        assert!(never.is_err());
    }
}
