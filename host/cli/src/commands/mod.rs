//! One file for each command.

pub(crate) mod answer;
pub(crate) mod audit;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod grant;
pub(crate) mod pending;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod tenant;
pub(crate) mod tools;
pub(crate) mod worker;
