//! Runs of Toolcell on record: in one SQLite file, or in PostgreSQL for several hosts.
//!
//! [`open`] takes a path or a URL. Both databases have the same tables and run the same statements; what differs is in
//! `dialect.rs`. Every change is one transaction that first locks the run it belongs to, so an answer, the worker that
//! waits for it and the clock never pass each other unseen.
//!
//! Only the database's clock counts. That of PostgreSQL is the same for all hosts, however wrong their own are. That of a
//! SQLite file is the machine's: when it jumps, leases and questions lapse early or late, and nothing else changes.
//!
//! ```
//! use toolcell_agent::{Desk, Message, Page, StoredStatus, Tenant};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! // A path, postgres://…, or memory for a test.
//! let store = toolcell_store::open(":memory:").await?;
//! let desk = Desk::new(store, Tenant::local());
//! // A worker, here or elsewhere, takes it from there.
//! let key = desk.start(None, vec![Message::user("Order the lamp.")], "my-model").await?;
//! assert_eq!(desk.run(&key.run).await?.head.status, StoredStatus::Ready);
//! assert!(desk.questions(Page::default()).await?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
mod audit;
mod claims;
mod dialect;
mod error;
mod grants;
mod key_value;
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

pub use answers::{BY_BYTES_MAX, REASON_BYTES_MAX};
pub use audit::{AuditBreak, verify_audit};
pub use grants::{GRANT_BYTES_MAX, GRANTS_MAX};
pub use key_value::{KeySpace, KeySpaceLimits, KeyWritten};
pub use lists::PAGE_MAX;
pub use place::{Options, open, open_with};
pub use store::SqlStore;
pub use toolcell_agent::StoreError;
