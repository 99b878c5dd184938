//! The address of a provider's API, parsed once.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

/// The paths that wires add themselves; people often paste them with the base URL.
const WIRE_PATHS: [&str; 4] = ["/chat/completions", "/responses", "/messages", "/models"];

/// The address under which a provider's API lives, for example `https://api.openai.com/v1`: http or https, with a
/// host, without credentials, query or fragment, and without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// Why a text is not a base URL. The texts never quote the URL, which might hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// It does not parse, or is relative.
    #[error("it is not a URL; write it with its scheme, as in https://api.openai.com/v1")]
    NotAUrl,
    /// It has another scheme.
    #[error("it must begin with http:// or https://")]
    Scheme,
    /// It holds a user name or a password.
    #[error("it holds a user name or a password; give the key apart from it")]
    Credentials,
    /// It holds a query or a fragment.
    #[error("it must not hold \"?\" or \"#\"")]
    Query,
}

impl BaseUrl {
    /// Parses a base URL, with or without a slash at its end.
    ///
    /// # Errors
    /// [`BaseUrlError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        let mut url = Url::parse(text.trim()).map_err(|_| BaseUrlError::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BaseUrlError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BaseUrlError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlError::Query);
        }
        let path = url.path().trim_end_matches('/');
        let bare = WIRE_PATHS.iter().find_map(|suffix| path.strip_suffix(suffix));
        let path = bare.unwrap_or(path).trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The same address with the version of an API at its end, unless that is there already.
    pub(crate) fn with_version(mut self, version: &str) -> Self {
        let path = self.0.path().trim_end_matches('/');
        if !path.ends_with(version) {
            let path = format!("{path}{version}");
            self.0.set_path(&path);
        }
        self
    }

    /// The address of one operation: its path, perhaps with a query.
    pub(crate) fn join(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}/{path}", self.0.path().trim_end_matches('/')));
        url.set_query(query);
        url
    }

    /// Scheme, host and port, for messages.
    #[must_use]
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// The host, as it is written in the URL.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The port, also when it is the scheme's own.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.0.port_or_known_default()
    }

    /// Whether everything that is sent can be read on the way.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.0.scheme() == "http"
    }

    /// Whether the server is this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || host.ends_with(".localhost")
            || literal.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> BaseUrl {
        BaseUrl::parse(text).unwrap()
    }

    #[test]
    fn a_slash_at_the_end_makes_no_difference() {
        for text in [
            "http://localhost:11434/v1",
            "http://localhost:11434/v1/",
            " http://localhost:11434/v1//\n",
            "http://localhost:11434/v1/chat/completions",
        ] {
            let url = parse(text);
            assert_eq!(url.to_string(), "http://localhost:11434/v1", "{text}");
            assert_eq!(url.join("chat/completions").as_str(), "http://localhost:11434/v1/chat/completions", "{text}");
        }
        let bare = parse("https://api.deepseek.com");
        assert_eq!(bare.to_string(), "https://api.deepseek.com");
        assert_eq!(bare.join("chat/completions").as_str(), "https://api.deepseek.com/chat/completions");
    }

    #[test]
    fn what_is_no_base_url_is_refused_with_its_reason() {
        for (text, reason) in [
            ("", BaseUrlError::NotAUrl),
            ("api.openai.com/v1", BaseUrlError::NotAUrl),
            ("localhost:11434/v1", BaseUrlError::Scheme),
            ("ftp://example.org", BaseUrlError::Scheme),
            ("https://me:secret@example.org/v1", BaseUrlError::Credentials),
            ("https://example.org/v1?key=secret", BaseUrlError::Query),
            ("https://example.org/v1#x", BaseUrlError::Query),
        ] {
            assert_eq!(BaseUrl::parse(text), Err(reason), "{text}");
        }
    }

    #[test]
    fn this_machine_is_told_from_others() {
        for here in
            ["http://localhost:1", "http://127.0.0.1", "http://127.9.9.9", "http://[::1]:2", "http://a.localhost"]
        {
            assert!(parse(here).is_loopback(), "{here}");
        }
        for there in ["http://10.0.0.1", "http://localhost.example.org", "http://0.0.0.0", "http://example.org"] {
            assert!(!parse(there).is_loopback(), "{there}");
        }
    }
}
