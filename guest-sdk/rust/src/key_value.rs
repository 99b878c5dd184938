//! A small store of the tool's own, separate for each tenant.
//!
//! A host of this version grants no powers yet: every operation answers [`Error::Denied`]. In a native test every
//! operation is [`Error::Unavailable`].
//!
//! ```
//! use toolcell_guest::key_value;
//!
//! /// Adds one to a counter, unless somebody else does so at the same time.
//! fn count() -> Result<u64, key_value::Error> {
//!     let (value, version) = match key_value::get("counter")? {
//!         Some(entry) => (String::from_utf8_lossy(&entry.value).parse().unwrap_or(0), entry.version),
//!         None => (0, 0),
//!     };
//!     let next: u64 = value + 1;
//!     key_value::set_if("counter", next.to_string().as_bytes(), version)?;
//!     Ok(next)
//! }
//!
//! assert_eq!(count(), Err(key_value::Error::Unavailable("a native build has no host".to_owned())));
//! ```

/// What is stored under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The bytes.
    pub value: Vec<u8>,
    /// Grows with every write of this key; never 0.
    pub version: u64,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// In order.
    pub keys: Vec<String>,
    /// Where the next page begins; none after the last one.
    pub cursor: Option<String>,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host does not grant a space; the text is its reason. A host of this version grants none.
    #[error("the key-value operation is denied: {0}")]
    Denied(String),
    /// The value, the key or the total exceeds its quota.
    #[error("the key-value quota is exceeded: {0}")]
    QuotaExceeded(String),
    /// The key is empty, too long or holds a control character.
    #[error("this key is not valid: {0}")]
    InvalidKey(String),
    /// The version is no longer the expected one.
    #[error("the key was changed in the meantime")]
    Conflict,
    /// The store cannot be reached.
    #[error("the key-value store cannot be reached: {0}")]
    Unavailable(String),
}

/// Reads a key; none when there is no such key.
///
/// # Errors
/// [`Error`] as its variants say.
pub fn get(key: &str) -> Result<Option<Entry>, Error> {
    host::get(key)
}

/// Writes a key and returns its new version.
///
/// # Errors
/// [`Error`] as its variants say.
pub fn set(key: &str, value: &[u8]) -> Result<u64, Error> {
    host::set(key, value, None)
}

/// Writes a key if its version is still the expected one (0: the key must not exist), and returns the new version.
///
/// # Errors
/// [`Error::Conflict`] when it is another, and [`Error`] as its variants say.
pub fn set_if(key: &str, value: &[u8], expected: u64) -> Result<u64, Error> {
    host::set(key, value, Some(expected))
}

/// Removes a key; a key that is not there is no error.
///
/// # Errors
/// [`Error`] as its variants say.
pub fn delete(key: &str) -> Result<(), Error> {
    host::delete(key)
}

/// A page of the keys that start with `prefix`, in order; `cursor` is that of the page before.
///
/// # Errors
/// [`Error`] as its variants say.
pub fn list_keys(prefix: &str, cursor: Option<&str>) -> Result<Page, Error> {
    host::list_keys(prefix, cursor)
}

#[cfg(target_family = "wasm")]
mod host {
    //! The host's store.

    use super::{Entry, Error, Page};
    use crate::bindings::toolcell::tool::key_value as host;

    impl From<host::Error> for Error {
        fn from(error: host::Error) -> Self {
            match error {
                host::Error::Denied(text) => Self::Denied(text),
                host::Error::QuotaExceeded(text) => Self::QuotaExceeded(text),
                host::Error::InvalidKey(text) => Self::InvalidKey(text),
                host::Error::Conflict => Self::Conflict,
                host::Error::Unavailable(text) => Self::Unavailable(text),
            }
        }
    }

    pub(super) fn get(key: &str) -> Result<Option<Entry>, Error> {
        let entry = host::get(key)?;
        Ok(entry.map(|entry| Entry { value: entry.value, version: entry.version }))
    }

    pub(super) fn set(key: &str, value: &[u8], expected: Option<u64>) -> Result<u64, Error> {
        Ok(host::set(key, value, expected)?)
    }

    pub(super) fn delete(key: &str) -> Result<(), Error> {
        Ok(host::delete(key)?)
    }

    pub(super) fn list_keys(prefix: &str, cursor: Option<&str>) -> Result<Page, Error> {
        let (keys, cursor) = host::list_keys(prefix, cursor)?;
        Ok(Page { keys, cursor })
    }
}

#[cfg(not(target_family = "wasm"))]
mod host {
    //! No host, no store.

    use super::{Entry, Error, Page};

    fn nowhere<T>() -> Result<T, Error> {
        Err(Error::Unavailable("a native build has no host".to_owned()))
    }

    pub(super) fn get(_: &str) -> Result<Option<Entry>, Error> {
        nowhere()
    }

    pub(super) fn set(_: &str, _: &[u8], _: Option<u64>) -> Result<u64, Error> {
        nowhere()
    }

    pub(super) fn delete(_: &str) -> Result<(), Error> {
        nowhere()
    }

    pub(super) fn list_keys(_: &str, _: Option<&str>) -> Result<Page, Error> {
        nowhere()
    }
}
