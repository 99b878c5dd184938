//! The gate: what is granted goes out to the address that was judged, with the secrets that belong to it, and comes back
//! bounded and without them.

use std::error::Error as _;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;
use tokio::time::timeout;
use toolcell_policy::{Denied, Destination, HttpRule};
use url::Host;

use super::redact::Redactor;
use super::resolve::{Guarded, Prohibited, Resolve, SystemResolver};
use super::secret::{Secret, SecretValue};
use super::{CONNECT_TIMEOUT, HEADERS_BYTES_MAX, IDLE_TIMEOUT, REQUEST_BODY_BYTES_MAX, RESPONSE_BODY_BYTES_MAX};
use crate::missing::Missing;

/// Where a tool's requests may go, and the secrets that go with them.
///
/// A request is held against the grants before any name is looked up. A name is looked up once, every address is judged, and
/// the connection goes to one of these. Redirects are not followed, no proxy is used, and no connection is shared.
pub struct HttpGate {
    grants: Vec<Grant>,
    secrets: Vec<Secret>,
    resolver: Arc<dyn Resolve>,
}

struct Grant {
    rule: HttpRule,
    client: OnceLock<Option<reqwest::Client>>,
}

/// A request of a guest.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// At most as long as the call has left.
    pub(crate) time_max: Duration,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nobody could send this request.
    Invalid(String),
    /// It is not granted, or its secret has no value.
    Missing(Missing),
    /// Its name leads into a network that its grant does not name.
    Prohibited,
    /// The call has sent too many.
    TooMany,
    /// It took too long.
    Timeout,
    /// Something of it is too large.
    TooLarge(&'static str),
    /// The other side cannot be reached, or broke off.
    Connection(&'static str),
}

impl fmt::Debug for HttpGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<_> = self.grants.iter().map(|grant| grant.rule.to_string()).collect();
        f.debug_struct("HttpGate").field("rules", &rules).field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

impl HttpGate {
    /// A gate that opens for these grants.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = HttpRule>, secrets: Vec<Secret>) -> Self {
        let grants = rules.into_iter().map(|rule| Grant { rule, client: OnceLock::new() }).collect();
        Self { grants, secrets, resolver: Arc::new(SystemResolver) }
    }

    /// The same gate with another way to look names up.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, ..self }
    }

    /// Sends a request, and reads the whole response.
    pub(crate) async fn send(&self, request: Outgoing) -> Result<Incoming, Refusal> {
        let Outgoing { method, url, mut headers, body, time_max } = request;
        let destination = Destination::parse(&method, &url)?;
        let grant = self.grants.iter().find(|grant| grant.rule.allows(&destination));
        let grant = grant.ok_or_else(|| Refusal::Missing(not_granted(&destination)))?;
        // A name is judged when it is looked up.
        let address = match destination.host() {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some((*address).into()),
            Host::Ipv6(address) => Some((*address).into()),
        };
        if address.is_some_and(|address| !grant.rule.allows_address(address)) {
            return Err(Refusal::Prohibited);
        }
        check_size(&headers, &body)?;
        headers.remove(header::CONTENT_LENGTH);
        // The one of the URL that was judged, not another spelling of it.
        headers.remove(header::HOST);
        // What is compressed cannot be looked through.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let secrets = self.add_secrets(&destination, &mut headers).await?;
        let client = grant.client(&self.resolver).ok_or(Refusal::Connection("the host has no TLS"))?;
        let method = reqwest::Method::from_bytes(destination.method().as_str().as_bytes());
        let method = method.map_err(|_| Refusal::Invalid("the method is none".into()))?;
        let request = client.request(method, destination.url().clone()).headers(headers).body(body);
        timeout(time_max, exchange(request, &secrets)).await.map_err(|_| Refusal::Timeout)?
    }

    /// The host's own words in place of the guest's.
    async fn add_secrets(
        &self,
        destination: &Destination,
        headers: &mut HeaderMap,
    ) -> Result<Vec<SecretValue>, Refusal> {
        let mut values = Vec::new();
        for secret in self.secrets.iter().filter(|secret| secret.is_for(destination)) {
            if values.is_empty() {
                // A guest that could log in as somebody else, or have a secret given back piece by piece, is not let.
                for name in [header::AUTHORIZATION, header::COOKIE, header::RANGE] {
                    headers.remove(name);
                }
            }
            let revealed = tokio::task::spawn_blocking({
                let secret = secret.clone();
                move || secret.reveal()
            });
            let Some((header, value)) = revealed.await.ok().flatten() else {
                let (name, origin) = (secret.name().to_owned(), destination.origin());
                return Err(Refusal::Missing(Missing::Secret { name, origin }));
            };
            headers.insert(secret.header().clone(), header);
            values.push(value);
        }
        Ok(values)
    }
}

impl Grant {
    /// A client for this grant alone: it connects only where the grant allows.
    fn client(&self, resolver: &Arc<dyn Resolve>) -> Option<&reqwest::Client> {
        let client = || {
            // Another that the program has chosen serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let guarded = Guarded { rule: self.rule.clone(), resolver: Arc::clone(resolver) };
            let client = reqwest::Client::builder()
                .user_agent(concat!("toolcell/", env!("CARGO_PKG_VERSION")))
                .dns_resolver(Arc::new(guarded))
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(IDLE_TIMEOUT)
                .redirect(redirect::Policy::none())
                .pool_max_idle_per_host(0)
                .http1_only()
                .no_proxy()
                .build();
            client.inspect_err(|error| tracing::error!("HTTP for tools cannot be set up: {error}")).ok()
        };
        self.client.get_or_init(client).as_ref()
    }
}

/// Sends a request, with these secrets in it, and takes them out of what comes back.
async fn exchange(request: reqwest::RequestBuilder, secrets: &[SecretValue]) -> Result<Incoming, Refusal> {
    let redactor = Redactor::new(secrets);
    let mut response = request.send().await?;
    let is_plain = response.headers().get_all(header::CONTENT_ENCODING).iter().all(|coding| coding == "identity");
    // An echo of a secret would not be found.
    if !secrets.is_empty() && !is_plain {
        return Err(Refusal::Connection("it compresses its answer, which one to a request with a secret may not be"));
    }
    if size_of(response.headers()) > HEADERS_BYTES_MAX {
        return Err(Refusal::TooLarge("the headers of the response"));
    }
    let too_large = Refusal::TooLarge("the body of the response");
    if response.content_length().is_some_and(|length| length > RESPONSE_BODY_BYTES_MAX as u64) {
        return Err(too_large);
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if body.len() + piece.len() > RESPONSE_BODY_BYTES_MAX {
            return Err(too_large);
        }
        body.extend_from_slice(&piece);
    }
    let mut headers = HeaderMap::new();
    for (name, value) in response.headers() {
        if let Ok(value) = HeaderValue::from_bytes(&redactor.redact(value.as_bytes())) {
            headers.append(name, value);
        }
    }
    let body = Bytes::from(redactor.redact(&body).into_owned());
    if headers.contains_key(header::CONTENT_LENGTH) {
        // It may have become another.
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    // How it was framed on its way says nothing about what is handed on.
    headers.remove(header::TRANSFER_ENCODING);
    Ok(Incoming { status: response.status().as_u16(), headers, body })
}

fn not_granted(destination: &Destination) -> Missing {
    Missing::Http {
        method: destination.method().to_string(),
        origin: destination.origin(),
        path: destination.path().to_owned(),
    }
}

fn check_size(headers: &HeaderMap, body: &Bytes) -> Result<(), Refusal> {
    if size_of(headers) > HEADERS_BYTES_MAX {
        return Err(Refusal::TooLarge("the headers of the request"));
    }
    if body.len() > REQUEST_BODY_BYTES_MAX {
        return Err(Refusal::TooLarge("the body of the request"));
    }
    Ok(())
}

fn size_of(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// Whether a header is the host's to set: where a request goes, and how it is framed on its way. Some servers take method and
/// path from a header instead of the request, and others the address of who asks: those would go round the grant.
pub(crate) fn is_hosts_own(name: &HeaderName) -> bool {
    const HOSTS_OWN: [&str; 16] = [
        "host",
        "connection",
        "keep-alive",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "http2-settings",
        "forwarded",
        "x-real-ip",
        "x-original-url",
        "x-rewrite-url",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
    ];
    let name = name.as_str();
    HOSTS_OWN.contains(&name) || name.starts_with("proxy-") || name.starts_with("x-forwarded-")
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::Invalid(denied.to_string())
    }
}

/// The words of the network say too much of the host's own.
impl From<reqwest::Error> for Refusal {
    fn from(error: reqwest::Error) -> Self {
        if causes(&error).any(|cause| cause.is::<Prohibited>()) {
            Self::Prohibited
        } else if error.is_timeout() || causes(&error).any(is_late) {
            Self::Timeout
        } else if error.is_connect() {
            Self::Connection("it cannot be reached")
        } else if error.is_builder() {
            Self::Invalid("a header or the URL cannot be sent".into())
        } else {
            Self::Connection("it broke off, or does not speak HTTP")
        }
    }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

fn is_late(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why),
            Self::Missing(missing) => missing.fmt(f),
            Self::Prohibited => f.write_str("the name leads into a network that is not granted to this tool"),
            Self::TooMany => write!(f, "a call may send at most {} requests", super::REQUESTS_MAX),
            Self::Timeout => f.write_str("the request took too long"),
            Self::TooLarge(what) => write!(f, "{what} is too large"),
            Self::Connection(why) => f.write_str(why),
        }
    }
}
