//! Why a directory as a whole cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::names::escaped;

/// Why a directory of tools cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such directory.
    #[error("there is no tools directory at {}: create it and put .wasm components into it", shown(.path))]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The path leads to something else.
    #[error("{} is not a directory: name the directory that holds the .wasm components", shown(.path))]
    NotADirectory {
        /// What was named.
        path: PathBuf,
    },
    /// The system does not let it be read.
    #[error("cannot read the tools directory {}", shown(.path))]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A limit of the options is zero.
    #[error("the option {0} cannot be 0: it is a limit, choose at least 1")]
    ZeroLimit(&'static str),
    /// The work in the background was cut off: the runtime is shutting down, or the host has a fault.
    #[error("loading the tools was cut off")]
    CutOff(#[source] tokio::task::JoinError),
}

/// A path as it may be shown.
pub(crate) fn shown(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}
