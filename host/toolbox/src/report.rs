//! What a load did: what was compiled, what was left out and why.

use std::path::PathBuf;
use std::sync::Arc;

use toolcell_contract::Digest;

use crate::cache::CacheError;
use crate::error::shown;

/// A file, or one tool of it, that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The name of the file, escaped for showing.
    pub file: String,
    /// The one tool that is left out; none when it is the whole file.
    pub tool: Option<String>,
    /// The fixed code, for example `not-a-component`.
    pub code: &'static str,
    /// Why, and how to mend it. What it quotes of the file is escaped.
    pub reason: String,
    /// The earlier version of the file whose tools are still offered.
    pub kept: Option<Digest>,
}

/// What a load did.
#[derive(Debug, Clone, Default)]
pub struct LoadReport {
    /// Components that were compiled.
    pub compiled: usize,
    /// Components whose code came from the cache.
    pub from_cache: usize,
    /// Components that were in use already.
    pub unchanged: usize,
    /// Whether the tools that are offered, or their code, are others than before.
    pub changed: bool,
    /// What was left out, in the order of the file names.
    pub rejected: Vec<Rejected>,
    /// What the operator should know.
    pub warnings: Vec<Warning>,
}

/// Something that the operator should know; the tools load all the same.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Compiled code is not kept, or not all of it.
    #[error(transparent)]
    Cache(#[from] Arc<CacheError>),
    /// Others can put tools into the directory.
    #[error("others may write to the tools directory {}, so they choose which code runs: run chmod o-w on it, or own it", shown(.0))]
    OpenToOthers(PathBuf),
}
