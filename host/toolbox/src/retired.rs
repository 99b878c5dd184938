//! Components that were replaced while somebody still holds a tool of theirs: what was begun ends on the old code.

use std::sync::Arc;

use toolcell_contract::Digest;

use crate::loader::Loaded;
use crate::snapshot::Snapshot;

/// Replaced components that are kept. Each has a few megabytes of code; a directory that changes faster than its
/// calls end would fill the memory otherwise.
const RETIRED_MAX: usize = 64;

/// Components that were replaced, in that order.
#[derive(Default)]
pub(crate) struct Retired(Vec<Old>);

struct Old {
    /// The file that held it.
    file: String,
    loaded: Arc<Loaded>,
}

impl Old {
    fn digest(&self) -> Digest {
        self.loaded.component.digest()
    }
}

impl Retired {
    /// The component, if it is still kept.
    pub(crate) fn get(&self, digest: Digest) -> Option<Arc<Loaded>> {
        self.0.iter().find(|old| old.digest() == digest).map(|old| old.loaded.clone())
    }

    /// Takes in what `next` no longer offers.
    pub(crate) fn add(&mut self, before: &Snapshot, next: &Snapshot) {
        let replaced = before.files.iter().filter(|file| !next.by_digest.contains_key(&file.digest()));
        self.0.extend(replaced.map(|file| Old { file: file.name().to_owned(), loaded: file.loaded().clone() }));
    }

    /// Lets go of what nobody holds any more, of what is offered again, and of the oldest beyond the limit. What was
    /// removed, file and all, is not kept either: the operator took it away.
    pub(crate) fn prune(&mut self, current: &Snapshot) {
        self.0.retain(|old| {
            let is_offered = current.by_digest.contains_key(&old.digest());
            !is_offered && current.is_present(&old.file) && old.loaded.is_held()
        });
        let excess = self.0.len().saturating_sub(RETIRED_MAX);
        self.0.drain(..excess);
    }
}
