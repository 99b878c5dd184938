//! `toolcell:tool/key-value`, which refuses every operation: no space is granted.

use crate::bindings::toolcell::tool::key_value::{Entry, Error, Host};
use crate::state::CallState;

fn denied() -> Error {
    Error::Denied("key-value storage is not granted to this tool".into())
}

impl Host for CallState {
    async fn get(&mut self, _key: String) -> Result<Option<Entry>, Error> {
        Err(denied())
    }

    async fn set(&mut self, _key: String, _value: Vec<u8>, _expected: Option<u64>) -> Result<u64, Error> {
        Err(denied())
    }

    async fn delete(&mut self, _key: String) -> Result<(), Error> {
        Err(denied())
    }

    async fn list_keys(
        &mut self,
        _prefix: String,
        _cursor: Option<String>,
    ) -> Result<(Vec<String>, Option<String>), Error> {
        Err(denied())
    }
}
