//! Tells tenants by webhook that their runs wait or have ended.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::CONTENT_TYPE;
use sha2::Sha256;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use toolcell_agent::{Notice, RunStore, StoreError, Tenant};

/// How long a receiver may take for its answer. It should take the notice and do its work afterwards.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// Nobody else tells what this courier took, for so long: the time for all notices of one look, and some more.
const LEASE: Duration = Duration::from_secs(120);

/// Notices that are told at the same time.
const AT_ONCE: u32 = 8;

/// How often it looks for what nobody was told of.
const LOOK: Duration = Duration::from_secs(5);

/// The first pause before a notice is told again; it doubles with each try, up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_secs(5);

/// The longest pause.
const RETRY_MAX: Duration = Duration::from_secs(60 * 60);

/// A notice is given up after so many tries: with these pauses, after about a day.
const TRIES_MAX: u32 = 32;

/// Tells tenants by webhook what happens in their runs, at least once, signed as Standard Webhooks says
/// (<https://www.standardwebhooks.com>): `webhook-id` is the same each time a notice is told, so a receiver can pass over
/// what it knows, and `webhook-signature` is `v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64.
#[derive(Clone)]
pub struct Courier {
    store: Arc<dyn RunStore>,
    client: reqwest::Client,
    told: Told,
}

/// A notice that was not taken.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotDelivered {
    /// The notice's id.
    pub notice: String,
    /// Whose it is.
    pub tenant: Tenant,
    /// Where it should have gone: host and port of the address, and nothing that could be a secret.
    pub host: String,
    /// Why it was not taken.
    pub problem: Problem,
    /// When it is told again; none: it is given up.
    pub next_try: Option<Duration>,
}

/// Why a notice was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The receiver has answered so. Only 2xx is a yes; redirects are not followed.
    #[error("HTTP {0}")]
    Status(u16),
    /// There was no answer.
    #[error("no answer")]
    NoAnswer(#[source] reqwest::Error),
}

/// Who is told of notices that were not taken.
type Told = Arc<dyn Fn(NotDelivered) + Send + Sync>;

/// What is told when nobody has said whom to tell.
fn log(not: NotDelivered) {
    let NotDelivered { notice, tenant, host, problem, next_try } = not;
    match next_try {
        Some(_) => tracing::info!(notice, tenant = tenant.as_str(), host, "to be told again: {problem}"),
        None => tracing::warn!(notice, tenant = tenant.as_str(), host, "given up: {problem}"),
    }
}

/// No HTTP client can be made.
#[derive(Debug, thiserror::Error)]
#[error("webhooks cannot be sent: {0}")]
pub struct CourierError(#[from] reqwest::Error);

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Courier")
    }
}

impl Courier {
    /// A courier for the notices of a store. Several may share one.
    ///
    /// # Errors
    /// [`CourierError`] when the system has no usable certificates or TLS.
    pub fn new(store: Arc<dyn RunStore>) -> Result<Self, CourierError> {
        toolcell_model::install_tls();
        let client = reqwest::Client::builder()
            .user_agent(concat!("toolcell/", env!("CARGO_PKG_VERSION")))
            .timeout(ANSWER_MAX)
            // A notice goes to the address that was named and nowhere else.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { store, client, told: Arc::new(log) })
    }

    /// Tells `told` of each notice that was not taken, each time.
    #[must_use]
    pub fn telling(self, told: impl Fn(NotDelivered) + Send + Sync + 'static) -> Self {
        Self { told: Arc::new(told), ..self }
    }

    /// Tells what is to be told, until it is stopped.
    pub async fn work(self, stop: CancellationToken) {
        let mut wakes = self.store.wakes();
        loop {
            match self.tell_all().await {
                Ok(0) => {}
                Ok(_) => continue,
                Err(error) => tracing::warn!("cannot look for notices: {error}"),
            }
            tokio::select! {
                () = stop.cancelled() => return,
                _ = wakes.recv() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// Tells what is due now, and says how many notices that were.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn tell_all(&self) -> Result<usize, StoreError> {
        let notices = self.store.notices(AT_ONCE, LEASE).await?;
        let told = notices.iter().map(|notice| self.tell(notice));
        let told = futures::future::join_all(told).await;
        for (notice, told) in notices.iter().zip(told) {
            let retry = told.is_err().then(|| pause(notice.attempts)).flatten();
            self.store.settle_notice(&notice.id, retry).await?;
            if let Err(problem) = told {
                (self.told)(NotDelivered {
                    notice: notice.id.clone(),
                    tenant: notice.tenant.clone(),
                    host: host(notice.webhook.url()),
                    problem,
                    next_try: retry,
                });
            }
        }
        Ok(notices.len())
    }

    async fn tell(&self, notice: &Notice) -> Result<(), Problem> {
        let timestamp = OffsetDateTime::now_utc().unix_timestamp().to_string();
        let signature = signature(notice.webhook.secret(), &notice.id, &timestamp, &notice.body);
        let sent = self
            .client
            .post(notice.webhook.url())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &notice.id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(notice.body.clone())
            .send()
            .await
            // Without the address: it may hold a secret of the tenant's.
            .map_err(|error| Problem::NoAnswer(error.without_url()))?;
        if sent.status().is_success() { Ok(()) } else { Err(Problem::Status(sent.status().as_u16())) }
    }
}

/// The pause before a notice is told again that was told so often before this time; none: it is given up.
fn pause(attempts: u32) -> Option<Duration> {
    (attempts + 1 < TRIES_MAX).then(|| RETRY_FIRST.saturating_mul(1 << attempts.min(16)).min(RETRY_MAX))
}

/// Host and port of an address. User, password, path and query may be secrets.
fn host(url: &str) -> String {
    let Ok(url) = reqwest::Url::parse(url) else { return "an address that cannot be read".to_owned() };
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The signature of a notice.
fn signature(secret: &str, id: &str, timestamp: &str, body: &str) -> String {
    // A key of any length is one.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key(secret)) else { return String::new() };
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// The key's bytes: what stands after `whsec_` is base64, anything else is taken as it is.
fn key(secret: &str) -> Vec<u8> {
    let decoded = secret.strip_prefix(SECRET_PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok());
    decoded.unwrap_or_else(|| secret.as_bytes().to_vec())
}

/// What a secret of Standard Webhooks begins with.
const SECRET_PREFIX: &str = "whsec_";

/// Bytes of a key, as Standard Webhooks says (section "Signature scheme").
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A text is no key that a receiver of Standard Webhooks would take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "it must be {SECRET_PREFIX} and the base64 of {} to {} random bytes: {problem}",
    SECRET_BYTES.start(),
    SECRET_BYTES.end()
)]
pub struct WebhookSecretError {
    problem: String,
}

/// Whether a text is a key for signing webhooks that every receiver of Standard Webhooks takes. A courier signs with any text;
/// ask before one is set.
///
/// # Errors
/// [`WebhookSecretError`] says what is wrong, and nothing of the text.
pub fn check_webhook_secret(secret: &str) -> Result<(), WebhookSecretError> {
    let wrong = |problem: String| Err(WebhookSecretError { problem });
    let Some(encoded) = secret.strip_prefix(SECRET_PREFIX) else { return wrong("it does not begin so".to_owned()) };
    match STANDARD.decode(encoded).map(|key| key.len()) {
        Ok(length) if SECRET_BYTES.contains(&length) => Ok(()),
        Ok(length) => wrong(format!("it has {length}")),
        Err(_) => wrong("what follows is not base64".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_of_standard_webhooks() {
        // The message of the specification's own libraries; the signature was made with Python's hmac.
        let signed = signature(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_has_its_prefix_and_24_to_64_bytes() {
        let of = |bytes: usize| check_webhook_secret(&format!("whsec_{}", STANDARD.encode(vec![7; bytes])));
        assert_eq!([of(24), of(64)], [Ok(()), Ok(())]);
        for wrong in [of(23), of(65), check_webhook_secret("s3cret"), check_webhook_secret("whsec_s3cret!")] {
            let said = wrong.unwrap_err().to_string();
            assert!(said.starts_with("it must be whsec_ and the base64 of 24 to 64 random bytes: "), "{said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
    }

    #[test]
    fn only_the_host_of_an_address_is_told() {
        assert_eq!(host("https://user:key@example.org/secret?token=x"), "example.org");
        assert_eq!(host("http://[::1]:8080/x"), "[::1]:8080");
    }

    #[test]
    fn a_pause_doubles_up_to_an_hour_and_ends_after_the_last_try() {
        let seconds = |attempts| pause(attempts).map(|pause| pause.as_secs());
        assert_eq!(
            [seconds(0), seconds(1), seconds(20), seconds(30), seconds(31)],
            [Some(5), Some(10), Some(3600), Some(3600), None]
        );
    }
}
