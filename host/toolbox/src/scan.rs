//! One pass over the directory: which files are there, and a component for each that can be had.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use futures::{StreamExt, stream};
use toolcell_contract::Digest;

use crate::background::blocking;
use crate::cache::CacheError;
use crate::directory::{Directory, Names};
use crate::error::Error;
use crate::loader::{Found, Load, Loaded, Loader, Origin};
use crate::names::escaped_bytes;
use crate::options::Options;
use crate::refusal::Refusal;
use crate::snapshot::{Fate, Refused, Scanned, Snapshot};

/// What a pass found.
#[derive(Default)]
pub(crate) struct Pass {
    pub(crate) files: Vec<Scanned>,
    pub(crate) compiled: usize,
    pub(crate) from_cache: usize,
    pub(crate) unchanged: usize,
    pub(crate) not_kept: Vec<CacheError>,
    pub(crate) refused: HashMap<Digest, Refused>,
}

/// A file of the directory, hashed.
struct Hashed {
    name: OsString,
    content: Result<Digest, Refusal>,
}

/// What the contents of a file turned out to be.
enum Known {
    Ready(Arc<Loaded>),
    Refused(Refused),
    /// Another file, of this name, has the same.
    Twin(String),
}

/// Goes over the directory. As many files are worked on at once as there are cores, so memory stays bounded.
pub(crate) async fn pass(
    directory: Arc<Directory>,
    names: Names,
    options: &Options,
    loader: &Loader,
    before: &Snapshot,
) -> Result<Pass, Error> {
    let hashed = hash_all(&directory, names.first, options.file_bytes_max).await?;
    let mut pass = Pass::default();
    let mut known = recall(&hashed, before, &mut pass);
    let unknown = first_of_each(&hashed, &known);
    let bytes_max = options.file_bytes_max;
    let loads = unknown.into_iter().map(|(name, digest)| {
        let found = Found { directory: directory.clone(), name, digest, bytes_max };
        async move { (digest, loader.load(found).await) }
    });
    let loads: Vec<_> = stream::iter(loads).buffer_unordered(cores()).collect().await;
    for (digest, load) in loads {
        known.insert(digest, pass.note(digest, load));
    }
    pass.files = hashed.into_iter().map(|file| file.settle(&mut known)).collect();
    if let Some((name, found)) = names.beyond {
        let refusal = Refusal::TooManyFiles { found, max: options.files_max };
        pass.files.push(Hashed { name, content: Err(refusal) }.settle(&mut known));
    }
    Ok(pass)
}

/// Reads and hashes the files, and leaves out what is gone by now.
async fn hash_all(directory: &Arc<Directory>, names: Vec<OsString>, max: u64) -> Result<Vec<Hashed>, Error> {
    let hashes = names.into_iter().map(|name| {
        let directory = directory.clone();
        blocking(move || {
            let content = match name.to_str() {
                Some(_) => directory.digest(&name, max).transpose()?,
                None => Err(Refusal::BadFileName),
            };
            Some(Hashed { name, content })
        })
    });
    let hashed: Vec<_> = stream::iter(hashes).buffered(cores()).collect().await;
    hashed.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>().map_err(Error::CutOff)
}

/// What is known of these contents from the snapshot before.
fn recall(hashed: &[Hashed], before: &Snapshot, pass: &mut Pass) -> HashMap<Digest, Known> {
    let mut known = HashMap::new();
    for digest in hashed.iter().filter_map(|file| file.content.as_ref().ok()) {
        if known.contains_key(digest) {
            continue;
        }
        if let Some(loaded) = before.by_digest.get(digest) {
            pass.unchanged += 1;
            known.insert(*digest, Known::Ready(loaded.clone()));
        } else if let Some(refused) = before.refused.get(digest) {
            pass.refused.insert(*digest, refused.clone());
            known.insert(*digest, Known::Refused(refused.clone()));
        }
    }
    known
}

/// The contents that nothing is known of, with the first file that has each.
fn first_of_each(hashed: &[Hashed], known: &HashMap<Digest, Known>) -> Vec<(String, Digest)> {
    let mut seen = std::collections::HashSet::new();
    let files = hashed.iter().filter_map(|file| Some((file.name.to_str()?, *file.content.as_ref().ok()?)));
    let new = files.filter(|(_, digest)| !known.contains_key(digest) && seen.insert(*digest));
    new.map(|(name, digest)| (name.to_owned(), digest)).collect()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Pass {
    fn note(&mut self, digest: Digest, load: Result<Load, Refusal>) -> Known {
        match load {
            Ok(load) => {
                match load.origin {
                    Origin::Compiled => self.compiled += 1,
                    Origin::Cache => self.from_cache += 1,
                }
                self.not_kept.extend(load.not_kept);
                Known::Ready(load.loaded)
            }
            Err(refusal) => {
                let refused = Refused::from(&refusal);
                if refusal.is_lasting() {
                    self.refused.insert(digest, refused.clone());
                }
                Known::Refused(refused)
            }
        }
    }
}

impl Hashed {
    /// What becomes of the file. The first one with a content gets it; a later one is its twin.
    fn settle(self, known: &mut HashMap<Digest, Known>) -> Scanned {
        let shown = escaped_bytes(self.name.as_bytes());
        let name = self.name.into_string().ok();
        let fate = match self.content {
            Err(refusal) => Fate::Refused(Refused::from(&refusal)),
            Ok(digest) => match known.get(&digest) {
                Some(Known::Ready(loaded)) => {
                    let loaded = loaded.clone();
                    known.insert(digest, Known::Twin(name.clone().unwrap_or_default()));
                    Fate::Ready(loaded)
                }
                Some(Known::Refused(refused)) => Fate::Refused(refused.clone()),
                Some(Known::Twin(of)) => Fate::Refused(Refused::from(&Refusal::DuplicateFile(of.clone()))),
                None => Fate::Refused(Refused::from(&Refusal::host_fault("it was not loaded"))),
            },
        };
        Scanned { name, shown, fate }
    }
}
