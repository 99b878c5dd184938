//! The store behind `toolcell:tool/key-value`: who keeps it, and what it may hold.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A future that lives as long as the space it asks.
pub type KeyValueFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, KeyValueError>> + Send + 'a>>;

/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 256;

/// Keys of a page. The bytes that a host gives to a guest are not bounded otherwise.
pub const KEYS_PAGE: usize = 200;

/// What a space may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyValueQuota {
    /// Bytes of one value.
    pub value_bytes_max: usize,
    /// Bytes of all keys and values together.
    pub total_bytes_max: usize,
    /// Keys.
    pub keys_max: usize,
}

impl Default for KeyValueQuota {
    fn default() -> Self {
        // What a tool notes down between calls; documents belong into files.
        Self { value_bytes_max: 64 << 10, total_bytes_max: 1 << 20, keys_max: 10_000 }
    }
}

/// What is kept under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValueEntry {
    /// The bytes.
    pub value: Vec<u8>,
    /// Grows with every write of this key; never 0.
    pub version: u64,
}

/// Why an operation failed. The text goes to the guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyValueError {
    /// It would hold more than it may.
    #[error("{0}")]
    Quota(String),
    /// The version is no longer the expected one.
    #[error("the version is no longer the expected one")]
    Conflict,
    /// Whoever keeps it cannot be reached.
    #[error("the key-value store cannot be reached")]
    Unavailable,
}

/// A space of keys and values: one tool's, for one tenant.
///
/// A write counts as soon as it returns, however the call ends: a tool that traps, runs out of its time or asks a person has
/// written what it has written.
pub trait KeyValueSpace: Send + Sync {
    /// Reads a key.
    fn get(&self, key: String) -> KeyValueFuture<'_, Option<KeyValueEntry>>;

    /// Writes a key, if its version is still `expected` (0: there is no such key), and gives its new version.
    fn set(&self, key: String, value: Vec<u8>, expected: Option<u64>) -> KeyValueFuture<'_, u64>;

    /// Removes a key; one that is not there is no error.
    fn delete(&self, key: String) -> KeyValueFuture<'_, ()>;

    /// At most [`KEYS_PAGE`] keys that begin with `prefix`, in their order, behind the key `after`.
    fn keys(&self, prefix: String, after: Option<String>) -> KeyValueFuture<'_, Vec<String>>;
}

/// A space in memory, which is gone with its process.
#[derive(Debug, Default)]
pub struct MemorySpace {
    quota: KeyValueQuota,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<String, KeyValueEntry>,
    /// Of all keys and values.
    bytes: usize,
    /// The last version that was given; a key that is removed and written again does not begin anew.
    version: u64,
}

impl MemorySpace {
    /// An empty space.
    #[must_use]
    pub fn new(quota: KeyValueQuota) -> Self {
        Self { quota, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: String, value: Vec<u8>, expected: Option<u64>) -> Result<u64, KeyValueError> {
        let mut state = self.state();
        let before = state.entries.get(&key);
        let (version, freed) = before.map_or((0, 0), |entry| (entry.version, key.len() + entry.value.len()));
        if expected.is_some_and(|expected| expected != version) {
            return Err(KeyValueError::Conflict);
        }
        let bytes = state.bytes - freed + key.len() + value.len();
        let keys = state.entries.len() + usize::from(version == 0);
        self.quota.check(value.len(), bytes, keys)?;
        state.version += 1;
        let entry = KeyValueEntry { value, version: state.version };
        state.bytes = bytes;
        state.entries.insert(key, entry);
        Ok(state.version)
    }

    fn remove(&self, key: &str) {
        let mut state = self.state();
        if let Some(entry) = state.entries.remove(key) {
            state.bytes -= key.len() + entry.value.len();
        }
    }

    fn page(&self, prefix: &str, after: Option<String>) -> Vec<String> {
        let from = match after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix.to_owned()),
        };
        let state = self.state();
        let keys = state.entries.range((from, Bound::Unbounded)).map(|(key, _)| key);
        keys.take_while(|key| key.starts_with(prefix)).take(KEYS_PAGE).cloned().collect()
    }
}

impl KeyValueQuota {
    /// Whether a space may hold so much.
    ///
    /// # Errors
    /// [`KeyValueError::Quota`] names the limit.
    pub fn check(&self, value_bytes: usize, total_bytes: usize, keys: usize) -> Result<(), KeyValueError> {
        let Self { value_bytes_max, total_bytes_max, keys_max } = *self;
        let quota = if value_bytes > value_bytes_max {
            format!("a value may have at most {value_bytes_max} bytes")
        } else if total_bytes > total_bytes_max {
            format!("all keys and values may have at most {total_bytes_max} bytes together")
        } else if keys > keys_max {
            format!("there may be at most {keys_max} keys")
        } else {
            return Ok(());
        };
        Err(KeyValueError::Quota(quota))
    }
}

impl KeyValueSpace for MemorySpace {
    fn get(&self, key: String) -> KeyValueFuture<'_, Option<KeyValueEntry>> {
        Box::pin(async move { Ok(self.state().entries.get(&key).cloned()) })
    }

    fn set(&self, key: String, value: Vec<u8>, expected: Option<u64>) -> KeyValueFuture<'_, u64> {
        Box::pin(async move { self.write(key, value, expected) })
    }

    fn delete(&self, key: String) -> KeyValueFuture<'_, ()> {
        Box::pin(async move {
            self.remove(&key);
            Ok(())
        })
    }

    fn keys(&self, prefix: String, after: Option<String>) -> KeyValueFuture<'_, Vec<String>> {
        Box::pin(async move { Ok(self.page(&prefix, after)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(value: usize, total: usize, keys: usize) -> MemorySpace {
        MemorySpace::new(KeyValueQuota { value_bytes_max: value, total_bytes_max: total, keys_max: keys })
    }

    fn write(space: &MemorySpace, key: &str, bytes: usize) -> Result<u64, KeyValueError> {
        space.write(key.to_owned(), vec![7; bytes], None)
    }

    #[test]
    fn a_write_counts_only_if_the_version_is_the_expected_one() {
        let space = space(10, 100, 10);
        assert_eq!(space.write("a".into(), vec![1], Some(0)), Ok(1));
        assert_eq!(space.write("a".into(), vec![2], Some(0)), Err(KeyValueError::Conflict));
        assert_eq!(space.write("a".into(), vec![3], Some(1)), Ok(2));
        space.remove("a");
        assert_eq!(space.write("a".into(), vec![4], Some(2)), Err(KeyValueError::Conflict));
        assert_eq!(space.write("a".into(), vec![4], Some(0)), Ok(3), "versions grow on");
    }

    #[test]
    fn a_space_takes_what_its_quota_allows_and_not_one_byte_more() {
        let space = space(10, 25, 3);
        assert!(write(&space, "a", 10).is_ok());
        assert!(matches!(write(&space, "b", 11), Err(KeyValueError::Quota(_))));
        assert!(write(&space, "b", 10).is_ok());
        assert!(matches!(write(&space, "c", 3), Err(KeyValueError::Quota(_))), "26 bytes");
        assert!(write(&space, "c", 2).is_ok());
        assert!(matches!(write(&space, "d", 0), Err(KeyValueError::Quota(_))), "a fourth key");
        assert!(write(&space, "a", 9).is_ok(), "less than before");
        space.remove("a");
        assert!(write(&space, "d", 9).is_ok(), "what is removed is free");
    }

    #[test]
    fn keys_come_in_pages_and_order() {
        let space = space(1, 1 << 20, 1_000);
        for n in 0..KEYS_PAGE + 5 {
            write(&space, &format!("n{n:04}"), 1).unwrap();
        }
        write(&space, "m", 1).unwrap();
        write(&space, "o", 1).unwrap();
        let first = space.page("n", None);
        assert_eq!((first.len(), first[0].as_str()), (KEYS_PAGE, "n0000"));
        let rest = space.page("n", first.last().cloned());
        assert_eq!(rest.len(), 5);
        assert_eq!(space.page("n", rest.last().cloned()), Vec::<String>::new());
        assert_eq!(space.page("", None)[0], "m");
    }
}
