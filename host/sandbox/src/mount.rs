//! Directories of the host that a guest sees.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

/// Directories below which nothing is granted: what is there are other programs' secrets and the machine itself.
const FORBIDDEN: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/boot"];

/// What a guest may do in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read and list.
    ReadOnly,
    /// Also create, change and remove. There is no quota in WASI: give such a directory a file system of its own size.
    ReadWrite,
}

/// A directory of the host under a name of the guest's.
///
/// It is the very directory that was opened, whatever is put in its place later: then calls end as `tool-unavailable` until
/// the mount is opened again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    host: PathBuf,
    guest: String,
    access: Access,
    identity: Identity,
}

/// Which directory it is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// Why a directory cannot be granted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// It is not there, is no directory, or may not be read.
    #[error("cannot open the directory {path}: {source}")]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Its path is not the plain one.
    #[error("{path} is reached through a link or is not absolute: write {real}")]
    NotPlain {
        /// The path that was given.
        path: PathBuf,
        /// The same directory.
        real: PathBuf,
    },
    /// It holds what no tool may see.
    #[error("{path} may not be granted: it is the whole machine, or holds what belongs to the system")]
    Forbidden {
        /// The directory.
        path: PathBuf,
    },
    /// The guest would not find it.
    #[error("the guest's path \"{guest}\" must be absolute and without . or .. , for example /data")]
    GuestPath {
        /// The path that was given.
        guest: String,
    },
}

impl Mount {
    /// Opens a directory for a guest, which sees it as `guest`.
    ///
    /// # Errors
    /// [`MountError`] says why it cannot be granted.
    pub fn open(host: impl Into<PathBuf>, guest: impl Into<String>, access: Access) -> Result<Self, MountError> {
        let (host, guest) = (host.into(), guest.into());
        let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        if !guest.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_plain)) {
            return Err(MountError::GuestPath { guest });
        }
        let unreadable = |source| MountError::Unreadable { path: host.clone(), source };
        let real = host.canonicalize().map_err(unreadable)?;
        if real != host {
            return Err(MountError::NotPlain { path: host, real });
        }
        if is_forbidden(&real) {
            return Err(MountError::Forbidden { path: host });
        }
        let (_, identity) = open_directory(&real).map_err(unreadable)?;
        Ok(Self { host: real, guest, access, identity })
    }

    /// The directory on the host.
    #[must_use]
    pub fn host(&self) -> &Path {
        &self.host
    }

    /// Its name in the guest.
    #[must_use]
    pub fn guest(&self) -> &str {
        &self.guest
    }

    /// What the guest may do there.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Puts the directory into a guest's context. An error when another is in its place by now.
    pub(crate) fn grant(&self, context: &mut WasiCtxBuilder) -> io::Result<()> {
        let (directory, identity) = open_directory(&self.host)?;
        if identity != self.identity {
            return Err(io::Error::other("another directory is in its place"));
        }
        let permissions = match self.access {
            Access::ReadOnly => FsPerms::ReadOnly,
            Access::ReadWrite => FsPerms::ReadWrite,
        };
        // By its handle where the system can do so: the path may be changed at any moment.
        context.preopened_dir(by_handle(&directory, &self.host), &self.guest, permissions).map_err(io::Error::other)?;
        Ok(())
    }
}

fn is_forbidden(path: &Path) -> bool {
    path.parent().is_none() || FORBIDDEN.iter().any(|forbidden| path.starts_with(forbidden))
}

#[cfg(target_os = "linux")]
fn by_handle(directory: &File, _path: &Path) -> PathBuf {
    use std::os::fd::AsRawFd as _;
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn by_handle(_directory: &File, path: &Path) -> PathBuf {
    path.to_owned()
}

#[cfg(unix)]
fn open_directory(path: &Path) -> io::Result<(File, Identity)> {
    use std::os::unix::fs::MetadataExt as _;
    let directory = File::open(path)?;
    let metadata = directory.metadata()?;
    if !metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    Ok((directory, Identity { device: metadata.dev(), inode: metadata.ino() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(host: impl Into<PathBuf>, guest: &str) -> MountError {
        Mount::open(host, guest, Access::ReadOnly).unwrap_err()
    }

    #[test]
    fn the_machine_itself_is_never_granted() {
        for path in ["/", "/proc", "/proc/self", "/sys", "/dev", "/dev/shm", "/run"] {
            if Path::new(path).exists() {
                let refused = refusal(path, "/data");
                assert!(
                    matches!(refused, MountError::Forbidden { .. } | MountError::NotPlain { .. }),
                    "{path}: {refused}"
                );
            }
        }
    }

    #[test]
    fn a_path_says_plainly_which_directory_it_is() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("data")).unwrap();
        std::os::unix::fs::symlink(real.join("data"), real.join("link")).unwrap();
        std::fs::write(real.join("file"), "").unwrap();
        assert!(Mount::open(real.join("data"), "/data", Access::ReadOnly).is_ok());
        for path in [real.join("link"), real.join("data/../data"), PathBuf::from(".")] {
            assert!(matches!(refusal(path, "/data"), MountError::NotPlain { .. }));
        }
        assert!(matches!(refusal(real.join("file"), "/data"), MountError::Unreadable { .. }));
        assert!(matches!(refusal(real.join("none"), "/data"), MountError::Unreadable { .. }));
    }

    #[test]
    fn a_guests_path_is_absolute_and_plain() {
        let real = tempfile::tempdir().unwrap().path().canonicalize().unwrap();
        for guest in ["", "/", "data", "/data/", "/a/../b", "/a/./b", "//a", "/a\0b"] {
            assert!(matches!(refusal(real.clone(), guest), MountError::GuestPath { .. }), "{guest:?}");
        }
    }
}
