//! Outgoing HTTP through the host, which sends only what it grants.
//!
//! A host of this version grants no powers yet: every request answers [`Error::Denied`].
//!
//! A secret is never in a tool: the host adds it to the requests for the origin that it is bound to.
//!
//! ```
//! use toolcell_guest::http;
//!
//! fn weather(city: &str) -> Result<String, http::Error> {
//!     let response = http::Request::get(format!("https://api.example.org/weather/{city}"))
//!         .header("accept", "text/plain")
//!         .send()?;
//!     Ok(response.text().into_owned())
//! }
//! ```

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A request. Nothing happens before [`Request::send`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// An absolute URL.
    pub url: String,
    /// In this order; the case of a name does not matter.
    pub headers: Vec<(String, Vec<u8>)>,
    /// At most 4 MiB.
    pub body: Option<Vec<u8>>,
    /// Only ever shortens the host's own time limit, in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// A response. Redirects are not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// In the order in which they came.
    pub headers: Vec<(String, Vec<u8>)>,
    /// At most 8 MiB.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host does not grant this request; the text is its reason. A host of this version grants none.
    #[error("the request is denied: {0}")]
    Denied(String),
    /// The request itself is wrong.
    #[error("the request is not valid: {0}")]
    InvalidRequest(String),
    /// It took too long.
    #[error("the request took too long")]
    Timeout,
    /// A body or a header exceeds its limit.
    #[error("a body or a header of the request or the response is too large")]
    TooLarge,
    /// The other side could not be reached, or broke off.
    #[error("the connection failed: {0}")]
    Connection(String),
}

impl Request {
    /// A request with any method.
    #[must_use]
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self { method: method.into(), url: url.into(), headers: Vec::new(), body: None, timeout_ms: None }
    }

    /// A GET request.
    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// A POST request.
    #[must_use]
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// The same request with one more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The same request with a body.
    #[must_use]
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: Some(body.into()), ..self }
    }

    /// The same request with a JSON body and its content type.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn json(self, value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let body = serde_json::to_vec(value)?;
        Ok(self.header("content-type", "application/json").body(body))
    }

    /// Sends the request and reads the whole response, whatever its status.
    ///
    /// # Errors
    /// [`Error`] when there is no response; in a native test always [`Error::Connection`].
    pub fn send(self) -> Result<Response, Error> {
        fetch(self)
    }
}

impl Response {
    /// Whether the status is 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of this name, when its value is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// The body as text; what is no UTF-8 becomes `�`.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The body as a value.
    ///
    /// # Errors
    /// When the body is no JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }
}

/// Sends a request and reads the whole response, whatever its status.
///
/// # Errors
/// As for [`Request::send`].
#[cfg(target_family = "wasm")]
pub fn fetch(request: Request) -> Result<Response, Error> {
    use crate::bindings::toolcell::tool::http as host;

    let Request { method, url, headers, body, timeout_ms } = request;
    let headers = headers.into_iter().map(|(name, value)| host::Header { name, value }).collect();
    match host::fetch(&host::Request { method, url, headers, body, timeout_ms }) {
        Ok(host::Response { status, headers, body }) => {
            let headers = headers.into_iter().map(|header| (header.name, header.value)).collect();
            Ok(Response { status, headers, body })
        }
        Err(host::Error::Denied(text)) => Err(Error::Denied(text)),
        Err(host::Error::InvalidRequest(text)) => Err(Error::InvalidRequest(text)),
        Err(host::Error::Timeout) => Err(Error::Timeout),
        Err(host::Error::TooLarge) => Err(Error::TooLarge),
        Err(host::Error::Connection(text)) => Err(Error::Connection(text)),
    }
}

/// Sends a request and reads the whole response, whatever its status.
///
/// # Errors
/// As for [`Request::send`].
#[cfg(not(target_family = "wasm"))]
pub fn fetch(request: Request) -> Result<Response, Error> {
    Err(Error::Connection(format!("{} {}: a native build has no host to send it", request.method, request.url)))
}
