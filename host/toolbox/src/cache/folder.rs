//! A directory that belongs to this user alone, and the files in it.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// What temporary files begin with; sixteen random hexadecimal digits follow.
const TEMPORARY_PREFIX: &str = ".new-";

/// A directory of mode 0700 that belongs to this user.
pub(super) struct Folder(OwnedFd);

/// A file, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listed {
    /// When it was used last.
    pub(super) used: SystemTime,
    /// Its name.
    pub(super) name: String,
    /// Its bytes.
    pub(super) size: u64,
}

impl Listed {
    /// Whether it is a file that some process is writing, or once began to.
    pub(super) fn is_temporary(&self) -> bool {
        self.name.starts_with(TEMPORARY_PREFIX)
    }
}

impl Folder {
    /// Opens the directory, and makes it and its parents with mode 0700 where they are missing.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::PermissionDenied`], with the way to mend it, when others could read or write it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            // For a link the two systems have one of these each.
            Err(Errno::LOOP | Errno::NOTDIR) => {
                return Err(refused("it is a symbolic link: name the directory itself"));
            }
            other => other?,
        };
        check_private(&rustix::fs::fstat(&fd)?, "chmod 700")?;
        Ok(Self(fd))
    }

    /// Opens a file for reading; none when there is none. A file that others could have written is refused.
    pub(super) fn open_private(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refused("it is not a file: remove it"));
        }
        check_private(&stat, "chmod 600")?;
        Ok(Some(File::from(fd)))
    }

    /// A new file of mode 0600 and its name.
    pub(super) fn create_temporary(&self) -> io::Result<(String, File)> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::from)?;
        let name = format!("{TEMPORARY_PREFIX}{:016x}", u64::from_le_bytes(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.0, &name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok((name, File::from(fd)))
    }

    /// Gives a file a second name, unless something has it already.
    pub(super) fn link(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?)
    }

    /// Gives a file another name, in place of whatever has it.
    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file. That it is not there, or cannot be removed, changes nothing for the caller.
    pub(super) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.0, name, AtFlags::empty());
    }

    /// The files whose names are wanted.
    pub(super) fn list(&self, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<Listed>> {
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
            let Some(name) = name.to_str().filter(|name| name.starts_with(TEMPORARY_PREFIX) || is_wanted(name)) else {
                continue;
            };
            // Another process may have removed it since.
            let Ok(stat) = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            files.push(Listed {
                used: used(&stat),
                name: name.to_owned(),
                size: u64::try_from(stat.st_size).unwrap_or(0),
            });
        }
        Ok(files)
    }
}

fn used(stat: &Stat) -> SystemTime {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn check_private(stat: &Stat, remedy: &str) -> io::Result<()> {
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused("it belongs to another user: choose another place"));
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o077 != 0 {
        return Err(refused(&format!("others may use it (mode {mode:04o}): run {remedy} on it")));
    }
    Ok(())
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
}
