//! A request's method and URL as the host reads them, before anything is asked of the network.

use std::fmt;

use url::{Host, Url};

/// Bytes of a URL. Longer ones are refused by most servers.
const URL_BYTES_MAX: usize = 8 << 10;

/// What a request may do at its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
}

impl Method {
    /// All methods that can be granted. CONNECT would make the host a tunnel, TRACE gives back what the host has added.
    pub const ALL: [Self; 7] = [Self::Get, Self::Head, Self::Post, Self::Put, Self::Patch, Self::Delete, Self::Options];

    /// The method of this name. Case matters (RFC 9110).
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a request travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// In the clear, on port 80.
    Http,
    /// Under TLS, on port 443.
    Https,
}

impl Scheme {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Http, Self::Https].into_iter().find(|scheme| scheme.as_str() == name)
    }
}

/// Where a request goes, read in one way only: the URL that is sent is [`Destination::url`], and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    method: Method,
    scheme: Scheme,
    host: Host<String>,
    port: u16,
    url: Url,
}

/// Why a request has no destination. The texts quote nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The method cannot be granted to anybody.
    #[error("the method must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    Method,
    /// The URL is no URL, or not an absolute one.
    #[error("the URL must be absolute, for example https://api.example.org/v1")]
    NoUrl,
    /// The URL is longer than any server takes.
    #[error("the URL may have at most {URL_BYTES_MAX} bytes")]
    TooLong,
    /// The scheme is neither of the two.
    #[error("the scheme must be https or http")]
    Scheme,
    /// Two readers could read it in two ways.
    #[error("the URL holds characters that must be escaped: spaces, backslashes, control characters or non-ASCII")]
    Ambiguous,
    /// It carries a name and a password.
    #[error("the URL holds a user name or a password: a secret of the policy is added by the host")]
    UserInfo,
    /// The host's name is empty or cannot be a name.
    #[error("the host of the URL is no name and no address")]
    Host,
    /// The port is not there to be reached.
    #[error("the port of the URL cannot be 0")]
    Port,
}

impl Destination {
    /// Reads a request's method and URL.
    ///
    /// # Errors
    /// [`Denied`] when they could mean two things, or nothing that a policy could grant.
    pub fn parse(method: &str, url: &str) -> Result<Self, Denied> {
        let method = Method::parse(method).ok_or(Denied::Method)?;
        if url.len() > URL_BYTES_MAX {
            return Err(Denied::TooLong);
        }
        // Before any parser: these are what parsers read differently.
        if url.bytes().any(|byte| byte <= b' ' || byte == b'\\' || byte >= 0x7f) {
            return Err(Denied::Ambiguous);
        }
        let (name, rest) = url.split_once("://").ok_or(Denied::NoUrl)?;
        let scheme = Scheme::parse(&name.to_ascii_lowercase()).ok_or(Denied::Scheme)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(Denied::UserInfo);
        }
        if authority.is_empty() || authority.starts_with(':') {
            return Err(Denied::Host);
        }
        let mut url = Url::parse(url).map_err(|_| Denied::NoUrl)?;
        url.set_fragment(None);
        let host = plain_host(&url)?;
        if let Host::Domain(name) = &host {
            url.set_host(Some(name)).map_err(|_| Denied::Host)?;
        }
        let port = url.port_or_known_default().filter(|port| *port != 0).ok_or(Denied::Port)?;
        Ok(Self { method, scheme, host, port, url })
    }

    /// What it asks for.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// How it travels.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host: a name in small letters without a dot at its end, or an address.
    #[must_use]
    pub fn host(&self) -> &Host<String> {
        &self.host
    }

    /// The port, also where the URL names none.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path, which begins with `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        self.url.path()
    }

    /// The URL that is sent.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Scheme, host and port, the port only where it is not the usual one (RFC 6454).
    #[must_use]
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

/// The host without a dot at its end, which means the same name.
fn plain_host(url: &Url) -> Result<Host<String>, Denied> {
    match url.host().ok_or(Denied::Host)?.to_owned() {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(&name);
            if is_name(name) { Ok(Host::Domain(name.to_owned())) } else { Err(Denied::Host) }
        }
        address => Ok(address),
    }
}

/// Whether this is a name that DNS can hold (RFC 1035), in small letters.
pub(crate) fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn get(url: &str) -> Result<Destination, Denied> {
        Destination::parse("GET", url)
    }

    #[test]
    fn a_url_is_read_in_one_way() {
        let table = [
            ("https://api.example.org", "https://api.example.org/"),
            ("HTTPS://API.Example.ORG./v1?q=%20#part", "https://api.example.org/v1?q=%20"),
            ("http://api.example.org:8080/a/../b/./c", "http://api.example.org:8080/b/c"),
            ("https://api.example.org:443/", "https://api.example.org/"),
            ("https://[2606:4700::1]/", "https://[2606:4700::1]/"),
            ("http://2130706433/", "http://127.0.0.1/"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("http://0177.0.0.1/", "http://127.0.0.1/"),
            ("http://127.1/", "http://127.0.0.1/"),
            ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
        ];
        for (url, read) in table {
            assert_eq!(get(url).unwrap().url().as_str(), read, "{url}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let table = [
            ("api.example.org/v1", Denied::NoUrl),
            ("//api.example.org/", Denied::NoUrl),
            ("ftp://api.example.org/", Denied::Scheme),
            ("file:///etc/passwd", Denied::Scheme),
            ("https://", Denied::Host),
            ("https:///path", Denied::Host),
            ("https://:443/", Denied::Host),
            ("https://user@api.example.org/", Denied::UserInfo),
            ("https://api.example.org:80@evil.example/", Denied::UserInfo),
            ("https://api.example.org\\@evil.example/", Denied::Ambiguous),
            ("https://api.example.org/a b", Denied::Ambiguous),
            ("https://api.example.org/\r\nHost: evil", Denied::Ambiguous),
            ("https://b\u{fc}cher.example/", Denied::Ambiguous),
            ("https://api..example.org/", Denied::Host),
            ("https://.example.org/", Denied::Host),
            ("https://api.example.org../", Denied::Host),
            ("https://-a.example.org/", Denied::Host),
            ("https://a%2eb.example.org:0/", Denied::Port),
            ("https://api.example.org:0/", Denied::Port),
            ("https://api.example.org:65536/", Denied::NoUrl),
            ("https://[fe80::1%25eth0]/", Denied::NoUrl),
        ];
        for (url, denied) in table {
            assert_eq!(get(url).unwrap_err(), denied, "{url}");
        }
        assert_eq!(get(&format!("https://a.example/{}", "x".repeat(URL_BYTES_MAX))).unwrap_err(), Denied::TooLong);
    }

    #[test]
    fn methods_that_make_the_host_a_tunnel_or_an_echo_do_not_exist() {
        for method in ["CONNECT", "TRACE", "get", "G ET", "", "GET\r\nX: y"] {
            assert_eq!(Destination::parse(method, "https://a.example/").unwrap_err(), Denied::Method);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_what_is_read_is_read_the_same_again(text in "\\PC{0,80}") {
            for url in [text.clone(), format!("https://{text}"), format!("http://a.example/{text}")] {
                if let Ok(read) = get(&url) {
                    prop_assert_eq!(&get(read.url().as_str()).unwrap(), &read);
                    // Nothing of what is sent is for another host than the one that was judged.
                    let sent = Url::parse(read.url().as_str()).unwrap();
                    prop_assert_eq!(sent.host().map(|host| host.to_owned()), Some(read.host().clone()));
                    prop_assert_eq!(sent.port_or_known_default(), Some(read.port()));
                    prop_assert!(sent.username().is_empty() && sent.password().is_none());
                }
            }
        }
    }
}
