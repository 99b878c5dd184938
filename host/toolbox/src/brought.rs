//! Components that calls wait with, brought from a store of runs: their files were replaced meanwhile.

use std::sync::Arc;

use toolcell_contract::Digest;

use crate::loader::Loaded;

/// Components that are kept so. Each has a few megabytes of code; one that was let go of is brought again.
const BROUGHT_MAX: usize = 64;

/// Components by their digests, the latest last.
#[derive(Default)]
pub(crate) struct Brought(Vec<Arc<Loaded>>);

impl Brought {
    pub(crate) fn get(&self, digest: Digest) -> Option<Arc<Loaded>> {
        self.0.iter().find(|loaded| loaded.component.digest() == digest).cloned()
    }

    pub(crate) fn add(&mut self, loaded: Arc<Loaded>) {
        self.0.retain(|other| other.component.digest() != loaded.component.digest());
        self.0.push(loaded);
        let excess = self.0.len().saturating_sub(BROUGHT_MAX);
        self.0.drain(..excess);
    }
}
