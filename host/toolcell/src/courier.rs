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
use toolcell_agent::{Notice, RunStore, StoreError};

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
        Ok(Self { store, client })
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
            let retry = match told {
                Ok(()) => None,
                Err(problem) if notice.attempts + 1 >= TRIES_MAX => {
                    tracing::warn!(notice = notice.id, tenant = notice.tenant.as_str(), "given up: {problem}");
                    None
                }
                Err(problem) => {
                    tracing::info!(notice = notice.id, tenant = notice.tenant.as_str(), "to be told again: {problem}");
                    Some(RETRY_FIRST.saturating_mul(1 << notice.attempts.min(16)).min(RETRY_MAX))
                }
            };
            self.store.settle_notice(&notice.id, retry).await?;
        }
        Ok(notices.len())
    }

    async fn tell(&self, notice: &Notice) -> Result<(), String> {
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
            .map_err(|error| error.without_url().to_string())?;
        if sent.status().is_success() { Ok(()) } else { Err(format!("HTTP {}", sent.status().as_u16())) }
    }
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
    let decoded = secret.strip_prefix("whsec_").and_then(|encoded| STANDARD.decode(encoded).ok());
    decoded.unwrap_or_else(|| secret.as_bytes().to_vec())
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
}
