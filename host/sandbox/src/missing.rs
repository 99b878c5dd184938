//! What a call would have needed and was not granted.

use std::fmt;

/// Missing grants that are kept for a call. Who is refused more often asks for the same things again.
pub(crate) const MISSING_MAX: usize = 16;

/// A power that a tool asked for and does not have. The text names it, for the guest, the model and people.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// Any key-value space.
    KeyValue,
    /// A request to an origin.
    Http {
        /// Such as `GET`.
        method: String,
        /// Such as `https://api.example.org`.
        origin: String,
        /// The path that was asked for, without its query.
        path: String,
    },
    /// The value of a secret that is granted.
    Secret {
        /// Its name in the policy.
        name: String,
        /// The origin that it is for.
        origin: String,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyValue => f.write_str("key-value storage is not granted to this tool"),
            Self::Http { method, origin, path } => {
                write!(f, "HTTP to {origin} is not granted to this tool for {method} {path}")
            }
            Self::Secret { name, origin } => write!(f, "the secret \"{name}\" for {origin} has no value"),
        }
    }
}
