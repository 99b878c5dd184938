//! What an error of the database means for whoever uses the store.

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
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => {
            "the database cannot be reached; check its address, and that it runs".to_owned()
        }
        sqlx::Error::Database(database) => match code(database.as_ref()) {
            Code::Full => "there is no room on the disk; make some, and it goes on".to_owned(),
            Code::Damaged => {
                let message = format!(
                    "{}; nothing was changed: restore the file from a backup, or copy what is left of it with `sqlite3 FILE \
                     .recover`",
                    database.message()
                );
                return StoreError::Damaged { message };
            }
            Code::ReadOnly => "the database cannot be written; check the rights of the file and its directory".to_owned(),
            Code::Busy => "another process has the database to itself; it is tried again".to_owned(),
            Code::Other => database.message().to_owned(),
        },
        other => other.to_string(),
    };
    StoreError::Unavailable { message, source: Some(Box::new(error)) }
}

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
    Damaged,
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
        Ok(11 | 26) if code.len() < 5 => Code::Damaged,
        Ok(8 | 14) if code.len() < 5 => Code::ReadOnly,
        Ok(5 | 6) if code.len() < 5 => Code::Busy,
        _ if code == "53100" => Code::Full,
        _ if code.starts_with("XX") => Code::Damaged,
        _ => Code::Other,
    }
}
