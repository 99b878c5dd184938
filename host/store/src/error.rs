//! What an error of the database means for whoever uses the store.

use std::time::Duration;

use sqlx::error::ErrorKind;
use toolcell_agent::StoreError;

/// Turns an error of the database into one of the store.
pub(crate) fn store_error(error: sqlx::Error) -> StoreError {
    let message = match &error {
        sqlx::Error::PoolTimedOut => {
            "all connections to the database are in use, or it does not answer; it is tried again, and if this goes on allow \
             more connections"
                .to_owned()
        }
        error if is_silence(error) => format!("{error}; it is tried again over another connection"),
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => {
            "the database cannot be reached; check its address, and that it runs".to_owned()
        }
        sqlx::Error::Database(database) => match code(database.as_ref()) {
            Code::Full => "there is no room on the disk; make some, and it goes on".to_owned(),
            Code::Disk => format!(
                "the disk cannot be read or written ({}); see that it has room, that no quota or limit of the size of files is \
                 reached and that it is sound, and it goes on",
                database.message()
            ),
            Code::FileDamaged => {
                let message = format!(
                    "{}; nothing was changed: restore the file from a backup, or copy what is left of it with `sqlite3 FILE \
                     .recover`",
                    database.message()
                );
                return StoreError::Damaged { message };
            }
            Code::ServerDamaged => {
                let message = format!(
                    "{}; nothing was changed: see what `pg_amcheck` says, rebuild a damaged index with `reindex`, restore a \
                     damaged table from a backup",
                    database.message()
                );
                return StoreError::Damaged { message };
            }
            Code::ReadOnly => {
                "the database cannot be written; check the rights of the file, of what is beside it (-wal and -shm) and of the \
                 directory"
                    .to_owned()
            },
            Code::Busy => "another process has the database to itself; it is tried again".to_owned(),
            Code::Other => database.message().to_owned(),
        },
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            let message = format!("a value cannot be read: {error}; restore it from a backup");
            return StoreError::Damaged { message };
        }
        other => other.to_string(),
    };
    StoreError::Unavailable { message, source: Some(Box::new(error)) }
}

/// What to say when a transaction was to be written and nobody has said that it was.
pub(crate) fn unsure(error: sqlx::Error) -> StoreError {
    match store_error(error) {
        StoreError::Unavailable { message, source } => {
            let message = format!(
                "it is not known whether the last change was written, whole or not at all; do it again, which changes nothing \
                 if it was: {message}"
            );
            StoreError::Unavailable { message, source }
        }
        other => other,
    }
}

/// Whether a commit that failed with this has written nothing, as the database says.
pub(crate) fn is_given_up(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(database) = error else { return false };
    // Class 23 of PostgreSQL: a constraint does not hold.
    let is_constraint = database.code().is_some_and(|code| code.len() == 5 && code.starts_with("23"));
    is_worth_another_try(error) || is_constraint || matches!(code(database.as_ref()), Code::Full | Code::Busy)
}

/// Whether another process has a SQLite file to itself.
pub(crate) fn is_in_use(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(database) if matches!(code(database.as_ref()), Code::Busy))
}

/// Whether what the database holds cannot be read.
pub(crate) fn is_damage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(database) => {
            matches!(code(database.as_ref()), Code::FileDamaged | Code::ServerDamaged)
        }
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => true,
        _ => false,
    }
}

/// Whether a connection is of no use any more.
pub(crate) fn is_broken(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        // Operator intervention: the server ends, or has ended this connection.
        sqlx::Error::Database(database) => database.code().is_some_and(|code| code.starts_with("57P")),
        _ => false,
    }
}

/// Nothing was heard of the database for so long.
pub(crate) fn silent(max: Duration) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, Silent(max)))
}

/// Whether this is [`silent`].
pub(crate) fn is_silence(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Silent>()))
}

#[derive(Debug, thiserror::Error)]
#[error("the database has not answered for {} ms", .0.as_millis())]
struct Silent(Duration);

/// JSON that the store wrote and cannot read.
pub(crate) fn unreadable(what: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Damaged { message: format!("{what} cannot be read: {error}") }
}

/// A value that makes no sense.
pub(crate) fn damaged(what: impl Into<String>) -> StoreError {
    StoreError::Damaged { message: what.into() }
}

/// Whether the same transaction may work when it is tried again: the databases say so.
pub(crate) fn is_worth_another_try(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(database) = error else { return false };
    // serialization_failure and deadlock_detected (PostgreSQL, appendix A); SQLITE_BUSY_SNAPSHOT. Not SQLITE_BUSY: it has
    // waited for the lock already, for as long as it may.
    matches!(database.code().as_deref(), Some("40001" | "40P01" | "517"))
}

/// Whether a row of that key was there already.
pub(crate) fn is_duplicate(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(database) if database.kind() == ErrorKind::UniqueViolation)
}

enum Code {
    Full,
    Disk,
    FileDamaged,
    ServerDamaged,
    ReadOnly,
    Busy,
    Other,
}

fn code(error: &dyn sqlx::error::DatabaseError) -> Code {
    let code = error.code().unwrap_or_default();
    // SQLite's are numbers, with the kind in the lower byte (https://sqlite.org/rescode.html); PostgreSQL's have five
    // characters (appendix A).
    match code.parse::<u32>().map(|number| number & 0xff) {
        Ok(13) if code.len() < 5 => Code::Full,
        Ok(10) if code.len() < 5 => Code::Disk,
        Ok(11 | 26) if code.len() < 5 => Code::FileDamaged,
        Ok(3 | 8 | 14) if code.len() < 5 => Code::ReadOnly,
        Ok(5 | 6) if code.len() < 5 => Code::Busy,
        _ if code == "53100" => Code::Full,
        // data_corrupted and index_corrupted. XX000, internal_error, is said of much else, too: that a table was changed in the
        // meantime, or that a connection pooler cannot reach its server.
        _ if matches!(&*code, "XX001" | "XX002") => Code::ServerDamaged,
        _ => Code::Other,
    }
}
