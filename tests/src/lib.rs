//! What the tests of several crates share: guests that are built from source, and small ones made of text.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: whoever calls it wants the test to fail"
)]

pub mod aimock;
pub mod artifacts;
pub mod postgres;
pub mod small;

/// The tool in the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
