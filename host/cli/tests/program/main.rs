//! The program as a person uses it, with real components.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod commands;
mod documents;
mod run;
mod support;
