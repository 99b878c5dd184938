//! Reads the files of the tools directory, of which none is trusted: no link is followed, nothing is waited for, no
//! size is believed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use toolcell_contract::Digest;

use crate::error::Error;
use crate::refusal::Refusal;

/// Bytes that are read at once. Larger blocks make hashing no faster.
const BLOCK_BYTES: usize = 64 << 10;

/// An open directory: what is read belongs to it, also when its path is moved meanwhile.
pub(crate) struct Directory(OwnedFd);

/// The `.wasm` names of a directory.
pub(crate) struct Names {
    /// The first ones, in order.
    pub(crate) first: Vec<OsString>,
    /// The one after them, and how many there are in all.
    pub(crate) beyond: Option<(OsString, usize)>,
}

impl Directory {
    /// Opens a directory; its own path may hold links, because the operator named it.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self(fd)),
            Err(Errno::NOENT) => Err(Error::Missing { path: path.to_owned() }),
            Err(Errno::NOTDIR) => Err(Error::NotADirectory { path: path.to_owned() }),
            Err(e) => Err(Error::Unreadable { path: path.to_owned(), source: e.into() }),
        }
    }

    /// Whether somebody else could put files into it: everybody may write, or it belongs to another user.
    pub(crate) fn is_open_to_others(&self) -> bool {
        let Ok(stat) = rustix::fs::fstat(&self.0) else { return true };
        let own = stat.st_uid == rustix::process::geteuid().as_raw() || stat.st_uid == 0;
        !own || stat.st_mode & 0o002 != 0
    }

    /// The names that end in `.wasm` and are not hidden, the first `max` by their bytes. Memory stays bounded however
    /// many there are.
    pub(crate) fn names(&self, max: usize) -> io::Result<Names> {
        let mut first = BTreeSet::new();
        let mut found = 0;
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if !is_candidate(name) {
                continue;
            }
            found += 1;
            first.insert(name.to_owned());
            if first.len() > max.saturating_add(1) {
                first.pop_last();
            }
        }
        let beyond = if first.len() > max { first.pop_last().map(|name| (name, found)) } else { None };
        Ok(Names { first: first.into_iter().collect(), beyond })
    }

    /// The digest of a file; none when it is gone.
    pub(crate) fn digest(&self, name: &OsStr, max: u64) -> Result<Option<Digest>, Refusal> {
        let Some(file) = self.open_file(name, max)? else { return Ok(None) };
        let mut hash = Sha256::new();
        read_blocks(file, max, |block| hash.update(block))?;
        Ok(Some(Digest::from_bytes(hash.finalize().into())))
    }

    /// The bytes of a file, if they still have this digest.
    pub(crate) fn read(&self, name: &OsStr, digest: Digest, max: u64) -> Result<Vec<u8>, Refusal> {
        let file = self.open_file(name, max)?.ok_or(Refusal::Changing)?;
        let mut bytes = Vec::new();
        read_blocks(file, max, |block| bytes.extend_from_slice(block))?;
        let is_same = Sha256::digest(&bytes).as_slice() == digest.as_bytes();
        if is_same { Ok(bytes) } else { Err(Refusal::Changing) }
    }

    /// Opens a regular file of at most `max` bytes. What it is, is asked before it is opened, because opening a device
    /// can have effects, and again afterwards, because it may have been exchanged in between.
    fn open_file(&self, name: &OsStr, max: u64) -> Result<Option<File>, Refusal> {
        let before = match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(Refusal::Unreadable(e.into())),
        };
        check_kind(FileType::from_raw_mode(before.st_mode))?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(Refusal::Symlink),
            Err(e) => return Err(Refusal::Unreadable(e.into())),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|e| Refusal::Unreadable(e.into()))?;
        check_kind(FileType::from_raw_mode(stat.st_mode))?;
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > max {
            return Err(Refusal::FileTooLarge { size, max });
        }
        Ok(Some(File::from(fd)))
    }
}

fn is_candidate(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".wasm") && !name.starts_with(b".")
}

fn check_kind(kind: FileType) -> Result<(), Refusal> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(Refusal::Symlink),
        FileType::Directory => Err(Refusal::NotAFile("a directory")),
        FileType::Fifo => Err(Refusal::NotAFile("a named pipe")),
        FileType::Socket => Err(Refusal::NotAFile("a socket")),
        FileType::CharacterDevice | FileType::BlockDevice => Err(Refusal::NotAFile("a device")),
        _ => Err(Refusal::NotAFile("something else")),
    }
}

/// Reads to the end, and not beyond `max` bytes: a file may grow while it is read.
fn read_blocks(file: File, max: u64, mut take: impl FnMut(&[u8])) -> Result<(), Refusal> {
    let mut file = file.take(max.saturating_add(1));
    let mut block = vec![0; BLOCK_BYTES];
    let mut size = 0;
    loop {
        let n = match file.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Refusal::Unreadable(e)),
        };
        size += n as u64;
        if size > max {
            return Err(Refusal::FileTooLarge { size, max });
        }
        take(&block[..n]);
    }
}
