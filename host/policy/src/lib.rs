//! What a tool may do. Pure: it opens no file and no connection, and knows nothing of WebAssembly.
//!
//! - [`Destination`] is a request's URL as the host reads it, and [`HttpRule`] what is granted; [`is_public`] tells which
//!   addresses belong to the world outside.

mod address;
mod destination;
mod rule;

pub use address::is_public;
pub use destination::{Denied, Destination, Method, Scheme};
pub use ipnet::IpNet;
pub use rule::{HttpRule, RuleError};
