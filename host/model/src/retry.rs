//! When a failed request is sent again, and after how long. Pure: time and chance come from outside.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// How much a wait varies by chance, so that many clients do not come back at the same moment.
const JITTER: f64 = 0.25;

/// When a failed request is sent again. Only failures that may pass are; also an answer that broke off after a part of it
/// was shown, which then starts again ([`toolcell_agent::ModelEvent::Restarted`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a request is sent again.
    pub retries_max: u32,
    /// The wait before the first retry; each further one is twice as long.
    pub wait_first: Duration,
    /// The longest wait when the provider names none.
    pub wait_max: Duration,
    /// The longest wait that a provider may name. Who asks for more is not asked again.
    pub retry_after_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries_max: 3,
            wait_first: Duration::from_millis(500),
            wait_max: Duration::from_secs(8),
            retry_after_max: Duration::from_secs(60),
        }
    }
}

/// Whether a failure may pass by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Sending the same again would fail again.
    Never,
    /// It may work later; the provider may have said when.
    Later(Option<Duration>),
}

impl RetryPolicy {
    /// The wait before the retry of that number, counted from 0; `None` when there is none. `chance` is between 0
    /// and 1.
    pub(crate) fn wait(&self, number: u32, retry: Retry, chance: f64) -> Option<Duration> {
        let Retry::Later(after) = retry else { return None };
        if number >= self.retries_max {
            return None;
        }
        match after.filter(|after| !after.is_zero()) {
            // Never earlier than the provider asked for.
            Some(after) => (after <= self.retry_after_max).then(|| scaled(after, 1.0 + chance * JITTER)),
            None => {
                let doubled = self.wait_first.saturating_mul(1_u32.checked_shl(number).unwrap_or(u32::MAX));
                Some(scaled(doubled.min(self.wait_max), 1.0 - chance * JITTER))
            }
        }
    }
}

/// A wait that is longer or shorter by a factor; as it is where the product is no time that can be written down.
fn scaled(wait: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(wait.as_secs_f64() * factor).unwrap_or(wait)
}

/// What the headers of a failure say about trying again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RetryHints {
    /// `x-should-retry`.
    pub(crate) should_retry: Option<bool>,
    /// `retry-after-ms` or `retry-after`.
    pub(crate) after: Option<Duration>,
}

impl RetryHints {
    /// Reads the headers; what cannot be read counts as absent.
    pub(crate) fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let should_retry = text("x-should-retry").and_then(|text| text.parse().ok());
        let millis = text("retry-after-ms").and_then(seconds).map(|millis| millis / 1000);
        let after = millis.or_else(|| text("retry-after").and_then(|text| seconds(text).or_else(|| until(text, now))));
        Self { should_retry, after }
    }
}

/// A number of seconds, perhaps with a fraction.
fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

/// The time until an HTTP date, in any of its three forms (RFC 9110 section 5.6.7); zero when it has passed.
fn until(text: &str, now: SystemTime) -> Option<Duration> {
    Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    const LATER: Retry = Retry::Later(None);

    fn millis(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn hints(headers: &[(&'static str, &'static str)]) -> RetryHints {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        // 1994-11-06 08:49:30 UTC.
        RetryHints::read(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770))
    }

    fn after(wait: Duration) -> RetryHints {
        RetryHints { should_retry: None, after: Some(wait) }
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        let policy = RetryPolicy { retries_max: 40, ..RetryPolicy::default() };
        let waits: Vec<_> = (0..7).map(|number| policy.wait(number, LATER, 0.0).unwrap().as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert_eq!(policy.wait(39, LATER, 0.0), Some(millis(8000)));
    }

    #[test]
    fn chance_shortens_a_wait_by_a_quarter_at_most() {
        assert_eq!(RetryPolicy::default().wait(1, LATER, 1.0), Some(millis(750)));
        assert_eq!(RetryPolicy::default().wait(1, LATER, 0.5), Some(millis(875)));
    }

    #[test]
    fn the_longest_time_is_a_time_like_others() {
        let policy = RetryPolicy {
            wait_first: Duration::MAX,
            wait_max: Duration::MAX,
            retry_after_max: Duration::MAX,
            ..RetryPolicy::default()
        };
        for chance in [0.0, 0.5, 1.0] {
            assert!(policy.wait(1, LATER, chance).unwrap() >= Duration::MAX / 2);
            assert_eq!(policy.wait(0, Retry::Later(Some(Duration::MAX)), chance), Some(Duration::MAX));
        }
    }

    #[test]
    fn retries_end() {
        assert!(RetryPolicy::default().wait(2, LATER, 0.0).is_some());
        assert_eq!(RetryPolicy::default().wait(3, LATER, 0.0), None);
        assert_eq!(RetryPolicy::default().wait(0, Retry::Never, 0.0), None);
    }

    #[test]
    fn a_provider_that_names_a_time_is_asked_then_and_not_earlier() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.wait(0, Retry::Later(Some(millis(20_000))), 0.0), Some(millis(20_000)));
        assert_eq!(policy.wait(0, Retry::Later(Some(millis(20_000))), 1.0), Some(millis(25_000)));
        assert_eq!(policy.wait(0, Retry::Later(Some(Duration::ZERO)), 0.0), Some(millis(500)));
    }

    #[test]
    fn a_provider_that_asks_for_too_much_is_not_asked_again() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.wait(0, Retry::Later(Some(millis(60_000))), 0.0), Some(millis(60_000)));
        assert_eq!(policy.wait(0, Retry::Later(Some(millis(60_001))), 0.0), None);
    }

    #[test]
    fn milliseconds_go_before_seconds() {
        assert_eq!(hints(&[("retry-after-ms", "1500"), ("retry-after", "9")]), after(millis(1500)));
    }

    #[test]
    fn retry_after_is_read_as_seconds_fraction_or_date() {
        assert_eq!(hints(&[("retry-after", "9")]), after(millis(9000)));
        assert_eq!(hints(&[("retry-after", "0.25")]), after(millis(250)));
        assert_eq!(hints(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]), after(millis(7000)));
        assert_eq!(hints(&[("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT")]), after(Duration::ZERO));
        // The two obsolete forms, which whoever reads dates must accept (RFC 9110 section 5.6.7).
        for date in ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(hints(&[("retry-after", date)]), after(millis(7000)), "{date}");
        }
    }

    #[test]
    fn headers_that_cannot_be_read_count_as_absent() {
        for text in ["-1", "soon", "", "NaN", "inf", "1e300", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert_eq!(hints(&[("retry-after", text), ("x-should-retry", "maybe")]), RetryHints::default(), "{text}");
        }
    }

    #[test]
    fn the_provider_may_say_whether_to_retry() {
        assert_eq!(hints(&[("x-should-retry", "true")]).should_retry, Some(true));
        assert_eq!(hints(&[("x-should-retry", "false")]).should_retry, Some(false));
    }
}
