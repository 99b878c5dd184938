//! Where the two databases differ.

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// Begins a transaction that may write. SQLite's takes the write lock at once: one that took it later could find that
    /// what it has read is old.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "begin immediate",
            Self::Postgres => "begin",
        }
    }

    /// Begins a transaction that only reads, and sees one moment.
    pub(crate) fn begin_reading(self) -> &'static str {
        match self {
            Self::Sqlite => "begin",
            Self::Postgres => "begin isolation level repeatable read read only",
        }
    }

    /// Microseconds since 1970 by the database's clock.
    pub(crate) fn now(self) -> &'static str {
        match self {
            Self::Sqlite => "cast(unixepoch('now', 'subsec') * 1000000 as integer)",
            // Not clock_timestamp(), which could change within a statement: no index would serve a comparison with it.
            Self::Postgres => "cast(extract(epoch from statement_timestamp()) * 1000000 as bigint)",
        }
    }

    /// As [`Dialect::now`], but in the columns of a select that locks a row: the time at which it has the lock.
    pub(crate) fn clock(self) -> &'static str {
        match self {
            Self::Sqlite => self.now(),
            Self::Postgres => "cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)",
        }
    }

    /// Ends an update of runs, each of which those who listen are told of when it is certain. SQLite's are told by the process.
    /// The channel is [`crate::wakes::CHANNEL`].
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " returning cast(pg_notify('toolcell_runs', tenant || ' ' || id) as text) as told",
        }
    }

    /// Ends a select whose rows are locked until the transaction ends. SQLite has one writer at a time anyway.
    ///
    /// Keys do not change, so it lets others write rows that refer to these: with a plain `for update` two transactions that
    /// have each written a row of one tenant would wait for each other.
    pub(crate) fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " for no key update",
        }
    }

    /// As [`Dialect::for_update`], passing over rows that others have locked.
    pub(crate) fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " for no key update skip locked",
        }
    }

    /// As [`Dialect::skip_locked`], of the rows of the table that is called `o` in a join.
    pub(crate) fn skip_locked_of_o(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " for no key update of o skip locked",
        }
    }

    /// The type of bytes.
    pub(crate) fn blob(self) -> &'static str {
        match self {
            Self::Sqlite => "blob",
            Self::Postgres => "bytea",
        }
    }
}
