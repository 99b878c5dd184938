//! One file for each command.

pub(crate) mod call;
pub(crate) mod run;
pub(crate) mod tools;
