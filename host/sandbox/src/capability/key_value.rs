//! `toolcell:tool/key-value`, in the space that the call was granted.

use std::sync::Arc;

use crate::bindings::toolcell::tool::key_value::{Entry, Error, Host};
use crate::key_value::{KEY_BYTES_MAX, KEYS_PAGE, KeyValueError, KeyValueSpace};
use crate::missing::Missing;
use crate::state::CallState;

impl Host for CallState {
    async fn get(&mut self, key: String) -> Result<Option<Entry>, Error> {
        let (space, key) = (self.space()?, checked(key)?);
        let entry = space.get(key).await?;
        Ok(entry.map(|entry| Entry { value: entry.value, version: entry.version }))
    }

    async fn set(&mut self, key: String, value: Vec<u8>, expected: Option<u64>) -> Result<u64, Error> {
        let (space, key) = (self.space()?, checked(key)?);
        Ok(space.set(key, value, expected).await?)
    }

    async fn delete(&mut self, key: String) -> Result<(), Error> {
        let (space, key) = (self.space()?, checked(key)?);
        Ok(space.delete(key).await?)
    }

    /// The cursor is the last key of a page.
    async fn list_keys(
        &mut self,
        prefix: String,
        cursor: Option<String>,
    ) -> Result<(Vec<String>, Option<String>), Error> {
        let space = self.space()?;
        if prefix.len() > KEY_BYTES_MAX || cursor.as_ref().is_some_and(|cursor| cursor.len() > KEY_BYTES_MAX) {
            return Err(Error::InvalidKey(TOO_LONG.into()));
        }
        let keys = space.keys(prefix, cursor).await?;
        let next = if keys.len() < KEYS_PAGE { None } else { keys.last().cloned() };
        Ok((keys, next))
    }
}

const TOO_LONG: &str = "a key has at most 256 bytes";

impl CallState {
    fn space(&mut self) -> Result<Arc<dyn KeyValueSpace>, Error> {
        match &self.capabilities.key_value {
            Some(space) => Ok(Arc::clone(space)),
            None => Err(Error::Denied(self.missing(Missing::KeyValue))),
        }
    }
}

fn checked(key: String) -> Result<String, Error> {
    if key.is_empty() {
        return Err(Error::InvalidKey("a key has at least one byte".into()));
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::InvalidKey(TOO_LONG.into()));
    }
    if key.chars().any(char::is_control) {
        return Err(Error::InvalidKey("a key holds no control characters".into()));
    }
    Ok(key)
}

impl From<KeyValueError> for Error {
    fn from(error: KeyValueError) -> Self {
        match error {
            KeyValueError::Quota(limit) => Self::QuotaExceeded(limit),
            KeyValueError::Conflict => Self::Conflict,
            KeyValueError::Unavailable => Self::Unavailable(error.to_string()),
        }
    }
}
