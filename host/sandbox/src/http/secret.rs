//! Secrets that the host adds to requests, so that no guest ever holds them.

use std::fmt;
use std::sync::Arc;

use reqwest::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use toolcell_policy::{Destination, HttpRule};

/// Bytes of a secret. A shorter one could not be told from other text when a server gives it back.
const SECRET_BYTES_MIN: usize = 8;

/// The value of a secret. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// A value; spaces and line ends around it are no part of it.
    ///
    /// # Errors
    /// [`SecretError`] when it is too short, or cannot stand in a header.
    pub fn new(value: &str) -> Result<Self, SecretError> {
        let value = value.trim();
        if value.len() < SECRET_BYTES_MIN {
            return Err(SecretError::TooShort);
        }
        if !value.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
            return Err(SecretError::NoHeaderValue);
        }
        Ok(Self(value.to_owned()))
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// Where the value of a secret comes from.
pub trait SecretSource: Send + Sync {
    /// Its value now; none when there is none. Called for each request that needs it, where blocking is allowed.
    fn value(&self) -> Option<SecretValue>;
}

impl<F: Fn() -> Option<SecretValue> + Send + Sync> SecretSource for F {
    fn value(&self) -> Option<SecretValue> {
        self()
    }
}

/// Why there is no such secret. The texts quote nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It could not be told from other text.
    #[error("a secret has at least {SECRET_BYTES_MIN} characters")]
    TooShort,
    /// It cannot be sent.
    #[error("a secret is printable ASCII on one line")]
    NoHeaderValue,
    /// Its header has no such name, or is the host's own.
    #[error("this header cannot carry a secret: use authorization, or one such as x-api-key")]
    Header,
    /// It could be read on its way.
    #[error("a secret is sent over https only, or to this machine")]
    InTheClear,
}

/// A secret for one origin, in one header.
#[derive(Clone)]
pub struct Secret {
    name: String,
    rule: HttpRule,
    header: HeaderName,
    prefix: String,
    source: Arc<dyn SecretSource>,
}

impl Secret {
    /// A secret that is sent with every request that `rule` is for, as `prefix` and its value in `header`.
    ///
    /// # Errors
    /// [`SecretError`] when the header cannot carry it, or it could be read on its way.
    pub fn new(
        name: impl Into<String>,
        rule: HttpRule,
        header: &str,
        prefix: impl Into<String>,
        source: Arc<dyn SecretSource>,
    ) -> Result<Self, SecretError> {
        let header = HeaderName::from_bytes(header.as_bytes()).map_err(|_| SecretError::Header)?;
        if super::gate::is_hosts_own(&header) || header == CONTENT_LENGTH {
            return Err(SecretError::Header);
        }
        if rule.is_in_the_clear() {
            return Err(SecretError::InTheClear);
        }
        let prefix = prefix.into();
        HeaderValue::from_str(&prefix).map_err(|_| SecretError::NoHeaderValue)?;
        Ok(Self { name: name.into(), rule, header, prefix, source })
    }

    /// Its name, which is no secret.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_for(&self, destination: &Destination) -> bool {
        self.rule.is_for(destination)
    }

    pub(super) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The value of its header, and what must not come back.
    pub(super) fn reveal(&self) -> Option<(HeaderValue, SecretValue)> {
        let value = self.source.value()?;
        let mut header = HeaderValue::from_str(&format!("{}{}", self.prefix, value.reveal())).ok()?;
        header.set_sensitive(true);
        Some((header, value))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).field("header", &self.header).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_policy::Method;

    fn secret(origin: &str, header: &str) -> Result<Secret, SecretError> {
        let rule = HttpRule::for_origin(origin, [Method::Get]).unwrap();
        Secret::new("key", rule, header, "Bearer ", Arc::new(|| SecretValue::new("0123456789").ok()))
    }

    #[test]
    fn a_secret_travels_unread_and_in_a_header_of_its_own() {
        assert!(secret("https://api.example.org", "authorization").is_ok());
        assert!(secret("http://127.0.0.1:8080", "x-api-key").is_ok());
        assert_eq!(secret("http://api.example.org", "authorization").unwrap_err(), SecretError::InTheClear);
        for header in ["host", "Content-Length", "connection", "a b", "", "x\r\ny"] {
            assert_eq!(secret("https://api.example.org", header).unwrap_err(), SecretError::Header, "{header:?}");
        }
    }

    #[test]
    fn what_is_too_short_or_no_text_is_no_secret() {
        assert_eq!(SecretValue::new("1234567").unwrap_err(), SecretError::TooShort);
        assert_eq!(SecretValue::new("1234567\u{1}").unwrap_err(), SecretError::NoHeaderValue);
        assert_eq!(SecretValue::new(" 12345678\n").unwrap().reveal(), "12345678");
    }

    #[test]
    fn a_secret_cannot_be_printed() {
        let value = SecretValue::new("canary-0123").unwrap();
        assert!(!format!("{value:?} {:?}", secret("https://api.example.org", "authorization")).contains("0123"));
    }
}
