//! The toolbox over real directories, real components and the real sandbox.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test's helpers fail as its test does")]

mod cache;
mod definitions;
mod files;
mod guest;
mod reload;
mod support;
