//! What is known of a component without its code, as it is written beside the code in the cache.

use serde::{Deserialize, Serialize};
use toolcell_contract::{Definition, Digest};

/// What is known of a component without its code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The SHA-256 of the component.
    pub(crate) digest: Digest,
    /// The bytes of the component.
    pub(crate) size: u64,
    /// The engine and configuration for which it was compiled.
    pub(crate) artifact_key: String,
    /// Its tools, as the sandbox has checked them.
    pub(crate) definitions: Vec<Definition>,
}
