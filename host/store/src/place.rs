//! Opening a store: a file, a PostgreSQL, or memory.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt as _;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{Connection as _, Executor as _};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use toolcell_agent::StoreError;

use crate::dialect::Dialect;
use crate::error::store_error;
use crate::store::SqlStore;
use crate::tx::{Access, Patience};
use crate::{migrate, wakes};

/// How a store is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Connections to the database at the same time. A SQLite file is written by one at a time anyway.
    pub connections_max: NonZeroU32,
    /// How long a transaction waits for a connection, or for the lock of a SQLite file, before the store counts as away.
    pub wait_max: Duration,
    /// How long PostgreSQL may take for what is done in a transaction, and for its end, before its connection counts as lost: a
    /// network that has failed says nothing. Longer than a statement may take (30 s).
    pub answer_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        const CONNECTIONS: NonZeroU32 = NonZeroU32::new(10).unwrap();
        Self {
            connections_max: CONNECTIONS,
            wait_max: Duration::from_secs(5),
            answer_max: STATEMENT_MAX + Duration::from_secs(10),
        }
    }
}

/// The longest statement in PostgreSQL. One that takes longer waits for something that will not come.
pub(crate) const STATEMENT_MAX: Duration = Duration::from_secs(30);

/// The oldest PostgreSQL that its makers still mend.
const POSTGRES_MIN: i64 = 14;

/// The largest SQLite file that is looked at whole when it is opened, in bytes: that takes some tenths of a second, while every
/// command would wait for minutes with a file of many gigabytes. Of a larger one the beginning, the tables and the length are
/// looked at; a page that is damaged is told when it is read, and SQLite does not write to a page that it cannot read. The size
/// decides, and not how the file was left: it is after a crash that a store must be back soon, and the log (WAL) mends what a
/// crash leaves.
const CHECK_MAX: u64 = 64 << 20;

/// How often somebody looks whether another process has got on with making a file.
const MAKING: Duration = Duration::from_millis(20);

/// Opens a store: `postgres://…` or `postgresql://…`, `:memory:`, or the path of a SQLite file, which is made when it is not
/// there.
///
/// # Errors
/// [`StoreError`], which says what is wrong and how to mend it. A file that is no store of ours is left as it is.
pub async fn open(place: &str) -> Result<Arc<SqlStore>, StoreError> {
    open_with(place, Options::default()).await.map(Arc::new)
}

/// [`open`] with options.
///
/// # Errors
/// As for [`open`].
pub async fn open_with(place: &str, options: Options) -> Result<SqlStore, StoreError> {
    sqlx::any::install_default_drivers();
    if place.starts_with("postgres://") || place.starts_with("postgresql://") {
        postgres(place, &options).await
    } else if place == ":memory:" {
        memory(&options).await
    } else if let Some((scheme, _)) = place.split_once("://") {
        let message = format!("\"{scheme}\" is no kind of store: give the path of a file, or a postgres:// URL");
        Err(StoreError::Unavailable { message, source: None })
    } else {
        file(Path::new(place), &options).await
    }
}

async fn postgres(url: &str, options: &Options) -> Result<SqlStore, StoreError> {
    let connect = AnyConnectOptions::from_str(url).map_err(|error| StoreError::Unavailable {
        message: "the address of the database cannot be read: postgres://user:password@host:port/name".to_owned(),
        source: Some(Box::new(error)),
    })?;
    // Once without the pool, which would only say that it has no connection.
    let first = async {
        let mut first = sqlx::AnyConnection::connect_with(&connect).await.map_err(store_error)?;
        check_server(&mut first).await?;
        first.close().await.map_err(store_error)
    };
    tokio::time::timeout(options.wait_max, first)
        .await
        .map_err(|_elapsed| store_error(sqlx::Error::PoolTimedOut))??;
    // What a host that is not heard of any more has locked is free after the last of them.
    let settings = format!(
        "set statement_timeout = {0}; set lock_timeout = {0}; set idle_in_transaction_session_timeout = {1}",
        STATEMENT_MAX.as_millis(),
        STATEMENT_MAX.min(options.answer_max).as_millis()
    );
    let patience =
        Patience { begin_max: Some(options.wait_max), answer_max: Some(options.answer_max), silence: Arc::default() };
    let silence = Arc::clone(&patience.silence);
    let pool = AnyPoolOptions::new()
        .max_connections(options.connections_max.get())
        .acquire_timeout(options.wait_max)
        // Whether it still is one is found out when a transaction begins.
        .test_before_acquire(false)
        .before_acquire(move |_connection, found| {
            let is_sound = !silence.is_younger_than(found.age);
            Box::pin(async move { Ok(is_sound) })
        })
        .after_connect(move |connection, _| {
            let settings = settings.clone();
            Box::pin(async move { connection.execute(sqlx::AssertSqlSafe(settings)).await.map(drop) })
        })
        .connect_with(connect)
        .await
        .map_err(store_error)?;
    migrate::migrate(&mut *pool.acquire().await.map_err(store_error)?, Dialect::Postgres).await?;
    let (sender, _) = broadcast::channel(wakes::UNTAKEN_MAX);
    let stop = CancellationToken::new();
    let listen = wakes::listen(url.to_owned(), sender.clone());
    let listen = stop.clone().run_until_cancelled_owned(listen).map(drop);
    let access = Access { pool, dialect: Dialect::Postgres, patience };
    Ok(SqlStore::new(access, sender, stop, tokio::spawn(listen)))
}

/// Refuses a database that could not do what is asked of it later.
async fn check_server(connection: &mut sqlx::AnyConnection) -> Result<(), StoreError> {
    let ask = "select cast(current_setting('server_version_num') as bigint) as version, \
               current_setting('server_encoding') as encoding";
    let (version, encoding): (i64, String) = sqlx::query_as(ask).fetch_one(connection).await.map_err(store_error)?;
    let wrong = if version < POSTGRES_MIN * 10_000 {
        format!("PostgreSQL {} is too old: {POSTGRES_MIN} or later is needed", version / 10_000)
    } else if encoding == "UTF8" || encoding == "SQL_ASCII" {
        // The second takes any bytes for text, and gives them back as they are.
        return Ok(());
    } else {
        format!(
            "the database has the encoding {encoding}, which does not have every character: make one with \
             `create database NAME encoding 'UTF8' template template0`"
        )
    };
    Err(StoreError::Unavailable { message: wrong, source: None })
}

async fn memory(options: &Options) -> Result<SqlStore, StoreError> {
    let url = format!("sqlite:file:toolcell-{}?mode=memory&cache=shared", uuid::Uuid::new_v4().simple());
    // It lives as long as a connection to it. The pool may give up its own when a transaction is dropped half-way.
    let keeper = sqlx::AnyConnection::connect(&url).await.map_err(store_error)?;
    let pool = AnyPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(options.wait_max)
        .after_connect(|connection, _| {
            Box::pin(async { connection.execute("pragma foreign_keys = on").await.map(drop) })
        })
        .connect(&url)
        .await
        .map_err(store_error)?;
    migrate::migrate(&mut *pool.acquire().await.map_err(store_error)?, Dialect::Sqlite).await?;
    let (sender, _) = broadcast::channel(wakes::UNTAKEN_MAX);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = tokio::spawn(async move {
        stopped.cancelled().await;
        drop(keeper);
    });
    let access = Access { pool, dialect: Dialect::Sqlite, patience: Patience::default() };
    Ok(SqlStore::new(access, sender, stop, task))
}

async fn file(path: &Path, options: &Options) -> Result<SqlStore, StoreError> {
    let is_new = prepare(path)?;
    if !is_new {
        check(path, options.wait_max).await?;
    }
    let url = url(path, Mode::Write)?;
    let failed = |error| named(path, store_error(error));
    let wait = options.wait_max.as_millis();
    // What a suspension promises must survive a power cut: FULL. Readers do not wait for the writer: WAL.
    let settings = format!(
        "pragma busy_timeout = {wait}; pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on"
    );
    let pool = AnyPoolOptions::new()
        .max_connections(options.connections_max.get())
        .acquire_timeout(options.wait_max)
        .after_connect(move |connection, _| {
            let settings = settings.clone();
            Box::pin(async move { connection.execute(sqlx::AssertSqlSafe(settings)).await.map(drop) })
        })
        .connect(&url)
        .await
        .map_err(failed)?;
    migrate::migrate(&mut *pool.acquire().await.map_err(failed)?, Dialect::Sqlite)
        .await
        .map_err(|error| named(path, error))?;
    let (sender, _) = broadcast::channel(wakes::UNTAKEN_MAX);
    // A connection of its own: the pool's may all be in use.
    let watching = sqlx::AnyConnection::connect(&url).await.map_err(failed)?;
    let stop = CancellationToken::new();
    let task = tokio::spawn(wakes::poll(watching, sender.clone(), stop.clone()));
    let access = Access { pool, dialect: Dialect::Sqlite, patience: Patience::default() };
    Ok(SqlStore::new(access, sender, stop, task))
}

/// Says which file an error is about.
fn named(path: &Path, error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { message, source } => {
            StoreError::Unavailable { message: format!("{}: {message}", path.display()), source }
        }
        StoreError::Damaged { message } => StoreError::Damaged { message: format!("{}: {message}", path.display()) },
        other => other,
    }
}

/// Makes the file and its directory, for nobody else to read. Whether it was made now.
fn prepare(path: &Path) -> Result<bool, StoreError> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

    let cannot = |what: &str, error: std::io::Error| StoreError::Unavailable {
        message: format!("{what} {}: {error}", path.display()),
        source: Some(Box::new(error)),
    };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(|error| cannot("cannot make the directory of", error))?;
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => {
            let message = format!("{} is a symbolic link: name the file itself", path.display());
            Err(StoreError::Unavailable { message, source: None })
        }
        Ok(found) if !found.is_file() => {
            let message = format!("{} is no file", path.display());
            Err(StoreError::Unavailable { message, source: None })
        }
        // SQLite would take it for reading only, and leave a log beside it that stays so when its rights are given back.
        Ok(_) => match std::fs::OpenOptions::new().read(true).write(true).open(path) {
            Ok(_) => Ok(false),
            Err(error) => Err(cannot("the rights of the file or its directory do not allow to write", error)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            match made {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(cannot("cannot make", error)),
            }
        }
        Err(error) => Err(cannot("cannot look at", error)),
    }
}

/// For what a file is opened.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// Nothing is written to it, not even when it is closed.
    Look,
    Write,
}

/// The URL of a file. SQLx takes a path with any character in it only when it is escaped.
fn url(path: &Path, mode: Mode) -> Result<String, StoreError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    let Some(text) = path.to_str() else {
        let message = format!("the path {} is not UTF-8", path.display());
        return Err(StoreError::Unavailable { message, source: None });
    };
    let escaped: String = text
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect();
    let mode = match mode {
        Mode::Look => "ro",
        Mode::Write => "rw",
    };
    Ok(format!("sqlite://{escaped}?mode={mode}"))
}

/// Looks at a file before anything is written to it. One that is damaged, or no database of ours, stays as it is.
async fn check(path: &Path, wait_max: Duration) -> Result<(), StoreError> {
    let is_empty = || std::fs::metadata(path).is_ok_and(|found| found.len() == 0);
    // It may be in the making, by another process.
    let filled = async {
        while is_empty() {
            tokio::time::sleep(MAKING).await;
        }
    };
    if tokio::time::timeout(wait_max, filled).await.is_err() {
        let message = format!(
            "{} is empty, as no store is: restore the file from a backup, or remove it (and what is beside it, -wal and \
             -shm) to begin a new one",
            path.display()
        );
        return Err(StoreError::Damaged { message });
    }
    let failed = |error| named(path, store_error(error));
    // One that may write would write its log (-wal) into a file that is damaged when it is closed.
    let mut connection = sqlx::AnyConnection::connect(&url(path, Mode::Look)?).await.map_err(failed)?;
    let foreign: i64 =
        sqlx::query_scalar("select count(*) from sqlite_master").fetch_one(&mut connection).await.map_err(failed)?;
    if foreign > 0 && migrate::version(&mut connection, Dialect::Sqlite).await.map_err(|error| named(path, error))? == 0
    {
        let message = format!("{} is a database of another program; it was left as it is", path.display());
        return Err(StoreError::Damaged { message });
    }
    let length = std::fs::metadata(path).map_or(0, |found| found.len());
    if length > CHECK_MAX {
        return connection.close().await.map_err(failed);
    }
    // Quick: without looking at the contents of indexes.
    let verdict: String =
        sqlx::query_scalar("pragma quick_check(1)").fetch_one(&mut connection).await.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    if verdict == "ok" {
        return Ok(());
    }
    let message = format!(
        "{}: {verdict}; nothing was changed: restore the file from a backup, or copy what is left of it with `sqlite3 FILE \
         .recover`",
        path.display()
    );
    Err(StoreError::Damaged { message })
}
