//! What of HTTP is granted: an origin, methods, and a part of its paths.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use url::Host;

use crate::destination::{Denied, Destination, Method, Scheme, is_name};

/// A grant of HTTP.
///
/// ```
/// use toolcell_policy::{Destination, HttpRule, Method};
///
/// let rule = HttpRule::for_origin("https://*.example.org", [Method::Get])?;
/// assert!(rule.allows(&Destination::parse("GET", "https://api.example.org/v1")?));
/// assert!(!rule.allows(&Destination::parse("POST", "https://api.example.org/v1")?));
/// assert!(!rule.allows(&Destination::parse("GET", "https://example.org/v1")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRule {
    scheme: Scheme,
    host: HostPattern,
    port: u16,
    methods: BTreeSet<Method>,
    path: Option<String>,
    private: Vec<IpNet>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    /// This name, and no other.
    Name(String),
    /// Any name of at least one more label before this one.
    Below(String),
    /// This address, written as such.
    Address(IpAddr),
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The origin cannot be read.
    #[error("{0}")]
    Origin(Denied),
    /// The origin is more than an origin.
    #[error("an origin is scheme, host and port, for example https://api.example.org: put the path into `path`")]
    NotAnOrigin,
    /// The wildcard is not the first label, or there is nothing behind it.
    #[error("a wildcard is the whole first label before at least two others, for example https://*.example.org")]
    Wildcard,
    /// No method is named.
    #[error("name at least one method, for example methods = [\"GET\"]")]
    NoMethod,
    /// The path does not begin at the root, or two readers could read it in two ways.
    #[error("a path begins with / and holds no dots as segments, no // and no escapes, for example /v1/")]
    Path,
}

impl HttpRule {
    /// A grant of everything below an origin, with these methods.
    ///
    /// # Errors
    /// [`RuleError`] says what is wrong with the origin, or that there is no method.
    pub fn for_origin(origin: &str, methods: impl IntoIterator<Item = Method>) -> Result<Self, RuleError> {
        let methods: BTreeSet<_> = methods.into_iter().collect();
        if methods.is_empty() {
            return Err(RuleError::NoMethod);
        }
        let (plain, is_below) = match origin.split_once("://*.") {
            Some((scheme, below)) => (format!("{scheme}://{below}"), true),
            None => (origin.to_owned(), false),
        };
        if plain.contains('*') {
            return Err(RuleError::Wildcard);
        }
        let read = Destination::parse("GET", &plain).map_err(RuleError::Origin)?;
        let is_bare = read.path() == "/" && read.url().query().is_none() && !plain.contains('#');
        if !is_bare {
            return Err(RuleError::NotAnOrigin);
        }
        let host = match (read.host(), is_below) {
            (Host::Domain(name), false) => HostPattern::Name(name.clone()),
            // A wildcard before a name of one label would be a whole top-level domain.
            (Host::Domain(name), true) if name.contains('.') && is_name(name) => HostPattern::Below(name.clone()),
            (_, true) => return Err(RuleError::Wildcard),
            (Host::Ipv4(address), false) => HostPattern::Address(IpAddr::V4(*address)),
            (Host::Ipv6(address), false) => HostPattern::Address(IpAddr::V6(*address)),
        };
        let (scheme, port) = (read.scheme(), read.port());
        Ok(Self { scheme, host, port, methods, path: None, private: Vec::new() })
    }

    /// The same grant for this path and what is below it only: `/v1` is `/v1` and `/v1/…`, not `/v10`.
    ///
    /// # Errors
    /// [`RuleError::Path`].
    pub fn below_path(self, path: &str) -> Result<Self, RuleError> {
        let read = Destination::parse("GET", &format!("https://a.example{path}"));
        let is_plain = path.starts_with('/') && is_plain_path(path) && read.is_ok_and(|read| read.path() == path);
        if is_plain { Ok(Self { path: Some(path.to_owned()), ..self }) } else { Err(RuleError::Path) }
    }

    /// The same grant, also where the name leads to one of these networks of the operator's own.
    #[must_use]
    pub fn with_private(self, networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self { private: networks.into_iter().collect(), ..self }
    }

    /// Whether a request is granted, as far as its text tells. Where its name leads is another question:
    /// [`HttpRule::allows_address`].
    #[must_use]
    pub fn allows(&self, destination: &Destination) -> bool {
        self.is_for(destination) && self.methods.contains(&destination.method())
    }

    /// Whether a request has this grant's origin and path, whatever its method.
    #[must_use]
    pub fn is_for(&self, destination: &Destination) -> bool {
        self.scheme == destination.scheme()
            && self.port == destination.port()
            && self.host.is(destination.host())
            && self.path.as_deref().is_none_or(|path| is_below(destination.path(), path))
    }

    /// Whether a connection to this address is granted: one of the world outside, or of a network that the grant names.
    #[must_use]
    pub fn allows_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        crate::is_public(address) || self.private.iter().any(|network| network.contains(&address))
    }

    /// Scheme, host and port, the port only where it is not the usual one.
    #[must_use]
    pub fn origin(&self) -> String {
        let shown = Self { methods: BTreeSet::new(), path: Some(String::new()), ..self.clone() }.to_string();
        shown.trim_start().to_owned()
    }

    /// Whether it is for more than one host.
    #[must_use]
    pub fn is_for_many_hosts(&self) -> bool {
        matches!(self.host, HostPattern::Below(_))
    }

    /// Whether what is sent could be read on its way: by http, and not to this machine itself.
    #[must_use]
    pub fn is_in_the_clear(&self) -> bool {
        let is_here = match &self.host {
            HostPattern::Name(name) => name == "localhost",
            HostPattern::Below(_) => false,
            HostPattern::Address(address) => address.is_loopback(),
        };
        self.scheme == Scheme::Http && !is_here
    }

    /// The methods.
    #[must_use]
    pub fn methods(&self) -> &BTreeSet<Method> {
        &self.methods
    }
}

impl HostPattern {
    fn is(&self, host: &Host<String>) -> bool {
        match (self, host) {
            (Self::Name(granted), Host::Domain(name)) => granted == name,
            (Self::Below(granted), Host::Domain(name)) => {
                name.strip_suffix(granted.as_str()).is_some_and(|before| before.len() > 1 && before.ends_with('.'))
            }
            (Self::Address(granted), Host::Ipv4(address)) => *granted == IpAddr::V4(*address),
            (Self::Address(granted), Host::Ipv6(address)) => *granted == IpAddr::V6(*address),
            _ => false,
        }
    }
}

/// The grant as it is written, without its networks.
impl fmt::Display for HttpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port, methods, path, private: _ } = self;
        let names: Vec<_> = methods.iter().map(|method| method.as_str()).collect();
        write!(f, "{} {}://", names.join(","), scheme.as_str())?;
        match host {
            HostPattern::Name(name) => f.write_str(name)?,
            HostPattern::Below(name) => write!(f, "*.{name}")?,
            HostPattern::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            HostPattern::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
        }
        let usual = match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        if *port != usual {
            write!(f, ":{port}")?;
        }
        f.write_str(path.as_deref().unwrap_or("/"))
    }
}

/// Whether a path is a granted one or below it. Where servers read it in two ways it is not.
fn is_below(path: &str, granted: &str) -> bool {
    let rest = path.strip_prefix(granted.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) && is_plain_path(path)
}

/// Whether every server finds the same segments in a path: no `//`, no `..` in any dress, no escaped separator or dot.
fn is_plain_path(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    !path.contains("//")
        && !["%2e", "%2f", "%5c", "%00", "%25"].iter().any(|escape| lower.contains(escape))
        && !path.split('/').any(|segment| segment == "." || segment.starts_with(".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origin: &str) -> HttpRule {
        HttpRule::for_origin(origin, [Method::Get, Method::Post]).unwrap()
    }

    fn is_allowed(rule: &HttpRule, url: &str) -> bool {
        Destination::parse("GET", url).is_ok_and(|destination| rule.allows(&destination))
    }

    #[test]
    fn an_origin_is_that_scheme_host_and_port_alone() {
        let exact = rule("https://allowed.com");
        for url in ["https://allowed.com/", "https://ALLOWED.com./x?y", "https://allowed.com:443/"] {
            assert!(is_allowed(&exact, url), "{url}");
        }
        for url in [
            "http://allowed.com/",
            "https://allowed.com:8443/",
            "https://allowed.com.evil.com/",
            "https://evilallowed.com/",
            "https://www.allowed.com/",
            "https://allowed.co/",
            "https://xn--llowed-3ya.com/",
            "https://allowed.com@evil.com/",
            "https://93.184.216.34/",
        ] {
            assert!(!is_allowed(&exact, url), "{url}");
        }
        assert!(is_allowed(&rule("http://allowed.com:8080"), "http://allowed.com:8080/"));
    }

    #[test]
    fn a_wildcard_stands_for_one_label_or_more() {
        let below = rule("https://*.example.org");
        for url in ["https://a.example.org/", "https://a.b.example.org/"] {
            assert!(is_allowed(&below, url), "{url}");
        }
        for url in [
            "https://example.org/",
            "https://aexample.org/",
            "https://a.example.org.evil.com/",
            "https://.example.org/",
        ] {
            assert!(!is_allowed(&below, url), "{url}");
        }
    }

    #[test]
    fn an_address_is_granted_only_as_it_is_written() {
        assert!(is_allowed(&rule("http://127.0.0.1:8080"), "http://127.1:8080/"));
        assert!(!is_allowed(&rule("http://localhost:8080"), "http://127.0.0.1:8080/"));
        assert!(!is_allowed(&rule("https://*.example.org"), "https://[::1]/"));
    }

    #[test]
    fn a_path_is_granted_with_what_is_below_it_and_in_no_disguise() {
        for granted in ["/v1", "/v1/"] {
            let rule = rule("https://a.example").below_path(granted).unwrap();
            for path in ["/v1", "/v1/", "/v1/users?x=..", "/v1/a.b"] {
                assert!(is_allowed(&rule, &format!("https://a.example{path}")), "{path}");
            }
            for path in [
                "/",
                "/v10",
                "/v1/../admin",
                "/v1/%2e%2e/admin",
                "/v1/..%2fadmin",
                "/v1/..;/admin",
                "/v1//admin",
                "/v1/%252e%252e/admin",
                "/v1/a%5c..",
                "/V1",
                "//v1",
            ] {
                assert!(!is_allowed(&rule, &format!("https://a.example{path}")), "{path}");
            }
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_reason() {
        let refusal = |origin: &str| HttpRule::for_origin(origin, [Method::Get]).unwrap_err();
        assert_eq!(refusal("api.example.org"), RuleError::Origin(Denied::NoUrl));
        assert_eq!(refusal("https://a.example/v1"), RuleError::NotAnOrigin);
        assert_eq!(refusal("https://a.example/?q"), RuleError::NotAnOrigin);
        assert_eq!(refusal("https://u:p@a.example"), RuleError::Origin(Denied::UserInfo));
        for origin in ["https://*", "https://*.org", "https://a.*.org", "https://*a.example.org", "https://*.*.org"] {
            assert!(matches!(refusal(origin), RuleError::Wildcard | RuleError::Origin(_)), "{origin}");
        }
        assert_eq!(HttpRule::for_origin("https://a.example", []).unwrap_err(), RuleError::NoMethod);
        for path in ["v1", "", "/a/../b", "/a//b", "/%2e", "/a b", "/a?b"] {
            assert_eq!(rule("https://a.example").below_path(path).unwrap_err(), RuleError::Path, "{path}");
        }
    }

    #[test]
    fn addresses_of_the_operators_own_need_their_network_to_be_named() {
        let (local, plain) =
            (rule("http://a.example").with_private(["10.1.0.0/16".parse().unwrap()]), rule("http://a.example"));
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(plain.allows_address(address("93.184.216.34")) && local.allows_address(address("93.184.216.34")));
        assert!(local.allows_address(address("10.1.2.3")) && local.allows_address(address("::ffff:10.1.2.3")));
        assert!(!local.allows_address(address("10.2.0.1")) && !plain.allows_address(address("10.1.2.3")));
    }

    #[test]
    fn a_rule_is_shown_as_it_is_meant() {
        let shown = rule("https://*.example.org:8443").below_path("/v1").unwrap().to_string();
        assert_eq!(shown, "GET,POST https://*.example.org:8443/v1");
        assert_eq!(rule("http://[::1]").to_string(), "GET,POST http://[::1]/");
    }
}
