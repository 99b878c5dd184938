//! The key of this host: 32 random bytes that only its user can read, made once for each cache directory.

use std::io::{self, Read, Write};

use rustix::io::Errno;

use super::folder::Folder;

/// The name of the key's file.
const FILE: &str = "key";
const KEY_BYTES: usize = 32;

/// Proves that an entry was written by a host of this user.
pub(super) struct HostKey([u8; KEY_BYTES]);

impl HostKey {
    /// Reads the key, or makes it when there is none. Of several processes that make it at once, one wins and all
    /// use its key.
    pub(super) fn of(folder: &Folder) -> io::Result<Self> {
        if let Some(key) = Self::read(folder)? {
            return Ok(key);
        }
        let (temporary, mut file) = folder.create_temporary()?;
        let linked = file.write_all(&Self::generate()?.0).and_then(|()| folder.link(&temporary, FILE));
        folder.remove(&temporary);
        match linked {
            Err(e) if e.raw_os_error() != Some(Errno::EXIST.raw_os_error()) => return Err(e),
            _ => {}
        }
        Self::read(folder)?.ok_or_else(|| damaged("it vanished after it was made"))
    }

    /// A new one.
    pub(super) fn generate() -> io::Result<Self> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::from)?;
        Ok(Self(bytes))
    }

    /// The bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn read(folder: &Folder) -> io::Result<Option<Self>> {
        let Some(mut file) = folder.open_private(FILE)? else { return Ok(None) };
        let mut bytes = [0; KEY_BYTES];
        if file.metadata()?.len() != KEY_BYTES as u64 {
            return Err(damaged("it does not have 32 bytes"));
        }
        file.read_exact(&mut bytes)?;
        Ok(Some(Self(bytes)))
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the key file is damaged, {what}: remove it"))
}
