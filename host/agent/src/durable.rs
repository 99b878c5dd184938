//! Runs on record: the engine that works from a store of runs, so that a run survives the process it is in.
//!
//! A run goes through the same loop as any other. It only writes down each thing before it goes on (`journal.rs`), and
//! can be brought back from what was written (`restore.rs`).

mod desk;
mod journal;
mod restore;
mod worker;

pub use desk::{Desk, DeskError, GRANT_MAX, GrantScope};
pub use worker::{Worker, WorkerEvent, WorkerOptions};
