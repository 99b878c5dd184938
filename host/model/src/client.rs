//! One HTTP request to a provider, and what its failure means. Neutral to the wire format; retries are the caller's.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{StatusCode, redirect};
use tokio::time::timeout;
use toolcell_agent::ModelError;

use crate::base_url::BaseUrl;
use crate::environment::{ConfigError, check_secrecy};
use crate::key::ApiKey;
use crate::provider::HttpOptions;
use crate::provider_error::{Failed, ProviderError, shorten};
use crate::retry::RetryHints;
use crate::vendor::Vendor;

/// Bytes of a failed response that are read; its words stand at its beginning.
const ERROR_BODY_BYTES_MAX: usize = 64 << 10;

/// How long the body of a failed response is read. Its status has said what matters.
const ERROR_BODY_TIME_MAX: Duration = Duration::from_secs(10);

/// A provider's address and key, and the connections to it.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base_url: BaseUrl,
    key: Option<ApiKey>,
    key_variable: &'static str,
    headers: HeaderMap,
    idle_timeout: Duration,
    attempt_timeout: Duration,
}

impl Client {
    /// Prepares a client; nothing is connected yet.
    pub(crate) fn new(
        base_url: BaseUrl,
        key: Option<ApiKey>,
        vendor: &Vendor,
        options: &HttpOptions,
    ) -> Result<Self, ConfigError> {
        let key_variable = vendor.key.variable;
        if key.is_some() {
            check_secrecy(&base_url, key_variable)?;
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        // Without this header a server may compress (RFC 9110 section 12.5.3), and a compressed stream comes in lumps.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.extend(vendor.wire.headers());
        if let Some(key) = &key {
            let (name, scheme) = vendor.wire.key_header();
            let value = key.header(scheme).map_err(|reason| ConfigError::BadKey { variable: key_variable, reason })?;
            headers.insert(name, value);
        }
        let http = http_client(&base_url, options).map_err(ConfigError::Http)?;
        let HttpOptions { idle_timeout, attempt_timeout, .. } = *options;
        Ok(Self { http, base_url, key, key_variable, headers, idle_timeout, attempt_timeout })
    }

    pub(crate) fn base_url(&self) -> &BaseUrl {
        &self.base_url
    }

    /// How long one attempt may take.
    pub(crate) fn attempt_timeout(&self) -> Duration {
        self.attempt_timeout
    }

    /// Sends a request and waits for the head of its response, which is a success. The words of a failure are clean.
    pub(crate) async fn post(&self, path: &str, body: Bytes) -> Result<Response, Failed> {
        let request = self.http.post(self.base_url.join(path)).headers(self.headers.clone()).body(body);
        let sent = timeout(self.idle_timeout, request.send()).await.map_err(|_| self.idle())?;
        let response = sent.map_err(|source| self.unreachable(source))?;
        let status = response.status();
        let response = Response { inner: response, idle_timeout: self.idle_timeout };
        match response.compression() {
            _ if !status.is_success() => Err(self.refused(status, response).await),
            Some(words) => Err(self.clean(Failed::bad_response(words))),
            None => Ok(response),
        }
    }

    /// The failure without the key and with its words shortened.
    pub(crate) fn clean(&self, mut failed: Failed) -> Failed {
        if let Some(message) = message_of(&mut failed.error) {
            *message = shorten(&self.without_key(message));
        }
        failed
    }

    fn without_key(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.remove_from(text))
    }

    async fn refused(&self, status: StatusCode, mut response: Response) -> Failed {
        let headers = response.inner.headers();
        let hints = RetryHints::read(headers, SystemTime::now());
        let location = headers.get(LOCATION).and_then(|value| value.to_str().ok()).map(|text| self.without_key(text));
        let error = match response.compression() {
            Some(message) => ProviderError { message, ..ProviderError::default() },
            None => ProviderError::from_body(&response.beginning().await),
        };
        let mut failed = self.clean(error.classify(status.as_u16(), hints));
        let hint = match (status.as_u16(), location) {
            (300..=399, Some(location)) => {
                Some(format!("it redirects to {}; is the base URL right?", shorten(&location)))
            }
            (401 | 403, _) if self.key.is_none() => Some(format!("no key was sent; set {}", self.key_variable)),
            (404 | 405, _) => Some(format!("if this is no model's name, check the base URL {}", self.base_url)),
            _ => None,
        };
        if let (Some(hint), Some(message)) = (hint, message_of(&mut failed.error)) {
            *message = format!("{message} ({hint})");
        }
        failed
    }

    fn unreachable(&self, source: reqwest::Error) -> Failed {
        // A server on this machine that is not there will not be there in a second either.
        let is_down = source.is_connect() && self.base_url.is_loopback();
        let endpoint = self.base_url.origin();
        let error = ModelError::Unreachable { endpoint, source: Box::new(source.without_url()) };
        if is_down { Failed::for_good(error) } else { Failed::for_now(error) }
    }

    fn idle(&self) -> Failed {
        idle(self.idle_timeout)
    }
}

/// A response whose status was seen, and whose body is read piece by piece.
pub(crate) struct Response {
    inner: reqwest::Response,
    idle_timeout: Duration,
}

impl Response {
    /// Whether the server says that the body is a stream of events.
    pub(crate) fn is_event_stream(&self) -> bool {
        let value = self.inner.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
    }

    /// The next piece of the body; `None` at its proper end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Failed> {
        match timeout(self.idle_timeout, self.inner.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => {
                tracing::debug!(error = %error.without_url(), "the connection broke");
                Err(Failed::for_now(ModelError::Truncated))
            }
            Err(_) => Err(idle(self.idle_timeout)),
        }
    }

    /// What is wrong with a body that is compressed: nothing here can read it.
    fn compression(&self) -> Option<String> {
        let values = self.inner.headers().get_all(CONTENT_ENCODING);
        let codings: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let codings = codings.join(", ");
        let is_plain = codings.split(',').all(|coding| matches!(coding.trim(), "" | "identity"));
        (!is_plain).then(|| format!("its body is compressed ({codings}), which was not asked for"))
    }

    /// The first bytes of the body, as far as they come while one waits for the words of a failure.
    async fn beginning(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let time_max = self.idle_timeout.min(ERROR_BODY_TIME_MAX);
        let read = async {
            while body.len() < ERROR_BODY_BYTES_MAX {
                let Ok(Some(chunk)) = self.chunk().await else { break };
                body.extend_from_slice(&chunk);
            }
        };
        // What has come by then has to do.
        let _ = timeout(time_max, read).await;
        body.truncate(ERROR_BODY_BYTES_MAX);
        body
    }
}

fn idle(waited: Duration) -> Failed {
    // Not sent again: who waited that long does not want to wait as long once more.
    Failed::for_good(ModelError::Idle { seconds: waited.as_secs() })
}

/// Installs the cryptography of TLS for this process, unless the program has installed another, which then serves as
/// well. Clients made here do so themselves.
pub fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn http_client(base_url: &BaseUrl, options: &HttpOptions) -> Result<reqwest::Client, reqwest::Error> {
    install_tls();
    let builder = reqwest::Client::builder()
        .user_agent(concat!("toolcell/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(options.connect_timeout)
        // A key goes to the address that was configured and nowhere else.
        .redirect(redirect::Policy::none());
    // No proxy can reach this machine's own loopback address.
    if base_url.is_loopback() { builder.no_proxy().build() } else { builder.build() }
}

fn message_of(error: &mut ModelError) -> Option<&mut String> {
    match error {
        ModelError::Unauthorized { message, .. }
        | ModelError::ContextTooLong { message }
        | ModelError::Refused { message, .. }
        | ModelError::Unavailable { message, .. }
        | ModelError::BadResponse { message } => Some(message),
        _ => None,
    }
}
