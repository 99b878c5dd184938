//! Outgoing HTTP: the one gate that every request of a guest passes, whichever interface it came by.

mod gate;
mod redact;
mod resolve;
mod secret;
mod traffic;

pub use gate::HttpGate;
pub use resolve::{Resolve, SystemResolver};
pub use secret::{Secret, SecretError, SecretSource, SecretValue};

pub(crate) use gate::{Incoming, Outgoing, Refusal, is_hosts_own};
pub(crate) use traffic::Traffic;

use std::time::Duration;

/// Requests of one call.
pub const REQUESTS_MAX: usize = 32;

/// Bytes of a request's body.
pub const REQUEST_BODY_BYTES_MAX: usize = 4 << 20;

/// Bytes of a response's body.
pub const RESPONSE_BODY_BYTES_MAX: usize = 8 << 20;

/// Bytes of all header names and values of a request or a response.
pub const HEADERS_BYTES_MAX: usize = 64 << 10;

/// How long names may take to be looked up.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a connection may take, with the look-up before it and the handshake of TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may say nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;
