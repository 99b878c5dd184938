//! What a tool may do: the operator's file `toolcell.toml`, and the rules by which a request is granted or refused. Pure: it
//! opens no file and no connection, and knows nothing of WebAssembly.
//!
//! - [`Policy`] is the file, checked, and [`Grants`] what it says of one component.
//! - [`Destination`] is a request's URL as the host reads it, and [`HttpRule`] what is granted; [`is_public`] tells which
//!   addresses belong to the world outside.

mod address;
mod destination;
mod edit;
mod explain;
mod file;
mod policy;
mod problem;
mod rule;

pub use address::is_public;
pub use destination::{Denied, Destination, Method, Scheme};
pub use edit::{Addition, with_grant};
pub use explain::{Finding, PowerKind, explain};
pub use ipnet::IpNet;
pub use policy::{
    Approve, Grants, KeyValueGrant, LimitGrants, MountGrant, POLICY_BYTES_MAX, Policy, SecretFrom, SecretGrant,
    Variable,
};
pub use problem::{PolicyError, Problem};
pub use rule::{HttpRule, RuleError};
