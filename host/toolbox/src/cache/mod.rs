//! Compiled components on disk, by digest; only what this host wrote itself is ever given back.
//!
//! An entry is machine code that will run with all powers of the host, so each carries a MAC (HMAC-SHA-256) under a key
//! that only this user can read, over the component's digest, the engine's key, the definitions and the code. What does
//! not fit is ignored and built anew. Entries are written aside and renamed, so several processes may share a cache.

mod entry;
mod folder;
mod key;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use toolcell_contract::Digest;

pub(crate) use entry::Entry;
use folder::{Folder, Listed};
use key::HostKey;

use crate::error::shown;
use crate::manifest::Manifest;
use crate::options::CachePlace;

/// Bytes of one entry: five times what the largest component (32 MiB) compiles to.
const ENTRY_BYTES_MAX: u64 = 1 << 30;

/// A temporary file of this age was left behind by a process that died; writing one takes seconds.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(60 * 60);

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// What the names of entries end in.
const SUFFIX: &str = ".toolcell";

/// Why the cache, or one operation of it, is not used. The tools load all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The environment does not say where the user's cache is.
    #[error(
        "compiled code is not kept: neither XDG_CACHE_HOME nor HOME is an absolute path, so name a cache directory"
    )]
    NoHome,
    /// The directory cannot be used safely, or not at all.
    #[error("compiled code is not kept, because the cache {} is not used: {source}", shown(.path))]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An entry cannot be written, for example because the disk is full.
    #[error("the compiled code of component {} is not kept in the cache {}: {source}", .digest.short(), shown(.path))]
    NotWritten {
        /// The directory.
        path: PathBuf,
        /// Of which component.
        digest: Digest,
        /// Why.
        source: io::Error,
    },
}

/// Compiled components on disk.
pub(crate) struct Cache {
    path: PathBuf,
    folder: Folder,
    key: HostKey,
    artifact_key: String,
}

impl Cache {
    /// Opens the cache for one engine; none when it is off.
    pub(crate) fn open(place: &CachePlace, artifact_key: String) -> Result<Option<Self>, CacheError> {
        let path = match place {
            CachePlace::Off => return Ok(None),
            CachePlace::At(path) => path.clone(),
            CachePlace::User => user_cache(|name| std::env::var_os(name))?,
        };
        let unusable = |path: &Path, source| CacheError::Unusable { path: path.to_owned(), source };
        let folder = Folder::open(&path).map_err(|e| unusable(&path, e))?;
        let key = HostKey::of(&folder).map_err(|e| unusable(&path.join("key"), e))?;
        Ok(Some(Self { path, folder, key, artifact_key }))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The entry of a component. One that is damaged, foreign or of another engine counts as none.
    pub(crate) fn load(&self, digest: Digest) -> Option<Entry> {
        let name = self.name(digest);
        let bytes = match self.read(&name) {
            Ok(bytes) => bytes?,
            Err(error) => {
                tracing::warn!(entry = name, %error, "a cache entry cannot be read and is built anew");
                return None;
            }
        };
        let entry = Entry::verify(&self.key, bytes, digest, &self.artifact_key);
        if entry.is_none() {
            tracing::warn!(entry = name, "a cache entry was not written by this host and is built anew");
        }
        entry
    }

    /// Keeps a component, in place of what was kept of it before.
    pub(crate) fn store(&self, digest: Digest, manifest: Manifest, artifact: &[u8]) -> Result<(), CacheError> {
        self.write(digest, manifest, artifact).map_err(|source| {
            let path = self.path.clone();
            CacheError::NotWritten { path, digest, source }
        })
    }

    /// The key of the engine that entries must be made for.
    pub(crate) fn artifact_key(&self) -> &str {
        &self.artifact_key
    }

    /// Removes what was unused for so long, then what was used longest ago until the rest fits. A process that is
    /// reading a removed entry reads on; one that finds it gone compiles.
    pub(crate) fn evict(&self, now: SystemTime, bytes_max: u64, unused_days_max: u64) -> io::Result<()> {
        let files = self.folder.list(|name| name.ends_with(SUFFIX))?;
        let unused_max = Duration::from_secs(unused_days_max.saturating_mul(SECONDS_PER_DAY));
        superfluous(files, now, bytes_max, unused_max).iter().for_each(|name| self.folder.remove(name));
        Ok(())
    }

    fn name(&self, digest: Digest) -> String {
        let engine: String = self.artifact_key.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        format!("{digest}-{engine}{SUFFIX}")
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.folder.open_private(name)? else { return Ok(None) };
        let size = file.metadata()?.len();
        if size > ENTRY_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than any entry"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        (&file).take(ENTRY_BYTES_MAX).read_to_end(&mut bytes)?;
        // Marks it as used. Where that fails it only leaves the cache earlier.
        let _ = file.set_modified(SystemTime::now());
        Ok(Some(bytes))
    }

    fn write(&self, digest: Digest, manifest: Manifest, artifact: &[u8]) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let head = entry::head(&self.key, &manifest, artifact).ok_or_else(invalid)?;
        if (head.len() + artifact.len()) as u64 > ENTRY_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than an entry may be"));
        }
        let (temporary, mut file) = self.folder.create_temporary()?;
        // Not synced: an entry that a crash tore does not pass its MAC.
        let written = file.write_all(&head).and_then(|()| file.write_all(artifact));
        let renamed = written.and_then(|()| self.folder.rename(&temporary, &self.name(digest)));
        if renamed.is_err() {
            self.folder.remove(&temporary);
        }
        renamed
    }
}

/// Where the user's caches are, by the XDG base directory specification: a relative path is to be ignored.
fn user_cache(environment: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, CacheError> {
    let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("toolcell").join("compiled")).ok_or(CacheError::NoHome)
}

/// The names of the files to remove.
fn superfluous(mut files: Vec<Listed>, now: SystemTime, bytes_max: u64, unused_max: Duration) -> Vec<String> {
    // Newest first; a time in the future counts as now.
    files.sort_by(|a, b| b.cmp(a));
    let mut kept_bytes = 0u64;
    files.retain(|file| {
        let unused = now.duration_since(file.used).unwrap_or_default();
        if file.is_temporary() {
            return unused > TEMPORARY_AGE_MAX;
        }
        let with_it = kept_bytes.saturating_add(file.size);
        let keep = unused <= unused_max && with_it <= bytes_max;
        if keep {
            kept_bytes = with_it;
        }
        !keep
    });
    files.into_iter().map(|file| file.name).collect()
}

#[cfg(test)]
mod tests;
