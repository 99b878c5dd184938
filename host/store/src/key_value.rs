//! What tools note down: a space of keys and values for each tenant and component.

use futures::future::FutureExt as _;
use toolcell_agent::{StoreError, Tenant};

use crate::error::damaged;
use crate::store::{SqlStore, in_tx};
use crate::tenants;
use crate::tx::{Tx, TxError, Value, values};

/// Whose keys they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeySpace {
    /// The tenant.
    pub tenant: Tenant,
    /// The component: the name of its file without `.wasm`.
    pub component: String,
}

/// What a space may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpaceLimits {
    /// Keys.
    pub keys_max: u64,
    /// Bytes of all keys and values together.
    pub bytes_max: u64,
}

/// What came of writing a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyWritten {
    /// It is written, and this is its version.
    At(u64),
    /// Its version is not the expected one.
    Conflict,
    /// The space would hold more than it may; nothing was written.
    Full {
        /// Keys that it would have.
        keys: u64,
        /// Bytes that it would have.
        bytes: u64,
    },
}

/// Keys and values of tools. Each method is one transaction: what is written counts when it returns, however the call of the
/// tool ends.
impl SqlStore {
    /// The value and the version of a key.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read_key(&self, space: &KeySpace, key: &str) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
        let (space, key) = (space.clone(), key.to_owned());
        in_tx!(self.look, space, key => |tx| read(tx, space, key)).await
    }

    /// Writes a key, if its version is still `expected` (0: there is no such key).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn write_key(
        &self,
        space: &KeySpace,
        key: &str,
        value: &[u8],
        expected: Option<u64>,
        limits: KeySpaceLimits,
    ) -> Result<KeyWritten, StoreError> {
        let (space, key, value) = (space.clone(), key.to_owned(), value.to_vec());
        in_tx!(self.tx, space, key, value => |tx| write(tx, space, key, value, expected, limits)).await
    }

    /// Removes a key; one that is not there is no error.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn remove_key(&self, space: &KeySpace, key: &str) -> Result<(), StoreError> {
        let (space, key) = (space.clone(), key.to_owned());
        in_tx!(self.tx, space, key => |tx| remove(tx, space, key)).await
    }

    /// At most `count` keys that begin with `prefix`, in the order of their bytes, behind the key `after`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn list_keys(
        &self,
        space: &KeySpace,
        prefix: &str,
        after: Option<&str>,
        count: u32,
    ) -> Result<Vec<String>, StoreError> {
        let (space, from, to) = (space.clone(), first_of(prefix, after), end_of(prefix));
        in_tx!(self.look, space, from, to => |tx| list(tx, space, from, to, count)).await
    }
}

async fn read(tx: &mut Tx<'_>, space: KeySpace, key: String) -> Result<Option<(Vec<u8>, u64)>, TxError> {
    let read = "select value, version from key_value where tenant = $1 and component = $2 and name = $3";
    let row = tx.row(read, values![&space.tenant, space.component, Value::Bytes(key.into())]).await?;
    Ok(row.map(|row| Ok::<_, StoreError>((row.bytes("value")?, count(row.int("version")?)))).transpose()?)
}

async fn write(
    tx: &mut Tx<'_>,
    space: KeySpace,
    key: String,
    value: Vec<u8>,
    expected: Option<u64>,
    limits: KeySpaceLimits,
) -> Result<KeyWritten, TxError> {
    let held = match lock(tx, &space).await? {
        Some(held) => held,
        None => begin(tx, &space).await?,
    };
    let before = size(tx, &space, &key).await?;
    let version = before.map_or(0, |before| before.version);
    if expected.is_some_and(|expected| expected != version) {
        return Ok(KeyWritten::Conflict);
    }
    let keys = held.keys + u64::from(before.is_none());
    let bytes = held.bytes - before.map_or(0, |before| before.bytes) + (key.len() + value.len()) as u64;
    if keys > limits.keys_max || bytes > limits.bytes_max {
        return Ok(KeyWritten::Full { keys, bytes });
    }
    let version = held.version + 1;
    let put = "insert into key_value (tenant, component, name, value, version) values ($1, $2, $3, $4, $5) \
               on conflict (tenant, component, name) do update set value = $4, version = $5";
    let name = Value::Bytes(key.into());
    let written = values![&space.tenant, space.component.as_str(), name, Value::Bytes(value), signed(version)];
    tx.run(put, written).await?;
    hold(tx, &space, Held { keys, bytes, version }).await?;
    Ok(KeyWritten::At(version))
}

async fn remove(tx: &mut Tx<'_>, space: KeySpace, key: String) -> Result<(), TxError> {
    let Some(held) = lock(tx, &space).await? else { return Ok(()) };
    let Some(before) = size(tx, &space, &key).await? else { return Ok(()) };
    let remove = "delete from key_value where tenant = $1 and component = $2 and name = $3";
    tx.run(remove, values![&space.tenant, space.component.as_str(), Value::Bytes(key.into())]).await?;
    hold(tx, &space, Held { keys: held.keys - 1, bytes: held.bytes - before.bytes, ..held }).await
}

async fn list(
    tx: &mut Tx<'_>,
    space: KeySpace,
    from: Vec<u8>,
    to: Vec<u8>,
    count: u32,
) -> Result<Vec<String>, TxError> {
    let list = "select name from key_value where tenant = $1 and component = $2 and name >= $3 and name < $4 \
                order by name limit $5";
    let within = values![&space.tenant, space.component, Value::Bytes(from), Value::Bytes(to), count];
    let rows = tx.rows(list, within).await?;
    let name = |row: &crate::tx::Columns| {
        String::from_utf8(row.bytes("name")?).map_err(|_no_text| damaged("the name of a key is no text".to_owned()))
    };
    Ok(rows.iter().map(name).collect::<Result<_, StoreError>>()?)
}

/// The first key of a page.
fn first_of(prefix: &str, after: Option<&str>) -> Vec<u8> {
    match after {
        // The next one in the order of bytes.
        Some(after) if after >= prefix => [after.as_bytes(), &[0]].concat(),
        _ => prefix.into(),
    }
}

/// What comes behind every key that begins with `prefix`. No byte of UTF-8 is 255, so one more is always a byte.
fn end_of(prefix: &str) -> Vec<u8> {
    match prefix.as_bytes() {
        [] => vec![u8::MAX],
        [rest @ .., last] => [rest, &[last + 1]].concat(),
    }
}

/// What a space holds.
#[derive(Clone, Copy)]
struct Held {
    keys: u64,
    bytes: u64,
    version: u64,
}

async fn lock(tx: &mut Tx<'_>, space: &KeySpace) -> Result<Option<Held>, TxError> {
    let lock = "select keys, bytes, version from key_value_space where tenant = $1 and component = $2{for_update}";
    let Some(row) = tx.row(lock, values![&space.tenant, space.component.as_str()]).await? else { return Ok(None) };
    let (keys, bytes, version) = (row.int("keys")?, row.int("bytes")?, row.int("version")?);
    Ok(Some(Held { keys: count(keys), bytes: count(bytes), version: count(version) }))
}

/// Makes a space, and locks it: another host may have made it at the same moment.
async fn begin(tx: &mut Tx<'_>, space: &KeySpace) -> Result<Held, TxError> {
    tenants::ensure(tx, &space.tenant).await?;
    let begin =
        "insert into key_value_space (tenant, component) values ($1, $2) on conflict (tenant, component) do nothing";
    tx.run(begin, values![&space.tenant, space.component.as_str()]).await?;
    Ok(lock(tx, space).await?.ok_or(StoreError::NotFound("tenant"))?)
}

async fn hold(tx: &mut Tx<'_>, space: &KeySpace, held: Held) -> Result<(), TxError> {
    let hold = "update key_value_space set keys = $3, bytes = $4, version = $5 where tenant = $1 and component = $2";
    let Held { keys, bytes, version } = held;
    let holds = values![&space.tenant, space.component.as_str(), signed(keys), signed(bytes), signed(version)];
    tx.run(hold, holds).await.map(drop)
}

/// A key that is there.
#[derive(Clone, Copy)]
struct Size {
    bytes: u64,
    version: u64,
}

async fn size(tx: &mut Tx<'_>, space: &KeySpace, key: &str) -> Result<Option<Size>, TxError> {
    let size = "select cast(length(name) + length(value) as bigint) as bytes, version from key_value \
                where tenant = $1 and component = $2 and name = $3";
    let name = Value::Bytes(key.into());
    let Some(row) = tx.row(size, values![&space.tenant, space.component.as_str(), name]).await? else {
        return Ok(None);
    };
    Ok(Some(Size { bytes: count(row.int("bytes")?), version: count(row.int("version")?) }))
}

/// The columns are never negative.
fn count(column: i64) -> u64 {
    u64::try_from(column).unwrap_or(0)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_that_does_not_begin_so() {
        for (prefix, within, behind) in [("a", "a\u{10ffff}", "b"), ("é", "é!", "ê"), ("", "\u{10ffff}", "")] {
            assert!(within.as_bytes() < end_of(prefix).as_slice() && within.as_bytes() >= prefix.as_bytes());
            assert!(behind.is_empty() || behind.as_bytes() >= end_of(prefix).as_slice(), "{prefix}");
        }
        assert_eq!(first_of("n", Some("n1")), b"n1\0");
        assert_eq!(first_of("n", Some("a")), b"n", "a cursor of another list");
    }
}
