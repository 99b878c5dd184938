//! The program as a person uses it, with real components.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod answer;
mod commands;
mod documents;
mod policy;
mod run;
#[path = "../../../model/tests/support/schema.rs"]
#[allow(dead_code, reason = "the schemas themselves are checked where the wires are")]
mod schema;
mod signals;
mod stored;
mod support;
mod worker;
