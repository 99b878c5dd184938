//! Runs of Toolcell on record: in one SQLite file, or in PostgreSQL for several hosts.
//!
//! [`open`] takes a path or a URL. Both databases have the same tables and run the same statements; what differs is in
//! `dialect.rs`. Every change is one transaction that first locks the run it belongs to, so an answer, the worker that
//! waits for it and the clock never pass each other unseen.
//!
//! Only the database's clock counts. That of PostgreSQL is the same for all hosts, however wrong their own are. That of a
//! SQLite file is the machine's: when it jumps, leases and questions lapse early or late, and nothing else changes.

mod answers;
mod audit;
mod claims;
mod dialect;
mod error;
mod grants;
mod lists;
mod migrate;
mod notices;
mod place;
mod read;
mod steps;
mod store;
mod sweep;
mod tenants;
mod tx;
mod wakes;

pub use audit::{AuditBreak, verify_audit};
pub use place::{Options, open, open_with};
pub use store::SqlStore;
