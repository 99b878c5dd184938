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
use toolcell_agent::{RunStore, StoreError};

use crate::dialect::Dialect;
use crate::error::store_error;
use crate::store::SqlStore;
use crate::{migrate, wakes};

/// How a store is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Connections to the database at the same time. A SQLite file is written by one at a time anyway.
    pub connections_max: NonZeroU32,
    /// How long a transaction waits for a connection, or for the lock of a SQLite file, before the store counts as away.
    pub wait_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        const CONNECTIONS: NonZeroU32 = NonZeroU32::new(10).unwrap();
        Self { connections_max: CONNECTIONS, wait_max: Duration::from_secs(5) }
    }
}

/// The longest statement in PostgreSQL. One that takes longer waits for something that will not come.
const STATEMENT_MAX: Duration = Duration::from_secs(30);

/// Opens a store: `postgres://…` or `postgresql://…`, `:memory:`, or the path of a SQLite file, which is made when it is not
/// there.
///
/// # Errors
/// [`StoreError`], which says what is wrong and how to mend it. A file that is no store of ours is left as it is.
pub async fn open(place: &str) -> Result<Arc<dyn RunStore>, StoreError> {
    open_with(place, Options::default()).await.map(|store| Arc::new(store) as Arc<dyn RunStore>)
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
    let first = tokio::time::timeout(options.wait_max, sqlx::AnyConnection::connect_with(&connect)).await;
    first.map_err(|_elapsed| store_error(sqlx::Error::PoolTimedOut))?.map_err(store_error)?.close().await.ok();
    let settings = format!(
        "set statement_timeout = {0}; set lock_timeout = {0}; set idle_in_transaction_session_timeout = {0}",
        STATEMENT_MAX.as_millis()
    );
    let pool = AnyPoolOptions::new()
        .max_connections(options.connections_max.get())
        .acquire_timeout(options.wait_max)
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
    Ok(SqlStore::new(pool, Dialect::Postgres, sender, stop, tokio::spawn(listen)))
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
    Ok(SqlStore::new(pool, Dialect::Sqlite, sender, stop, task))
}

async fn file(path: &Path, options: &Options) -> Result<SqlStore, StoreError> {
    prepare(path)?;
    let url = url(path)?;
    check(path, &url).await?;
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
        .map_err(store_error)?;
    migrate::migrate(&mut *pool.acquire().await.map_err(store_error)?, Dialect::Sqlite).await?;
    let (sender, _) = broadcast::channel(wakes::UNTAKEN_MAX);
    // A connection of its own: the pool's may all be in use.
    let watching = sqlx::AnyConnection::connect(&url).await.map_err(store_error)?;
    let stop = CancellationToken::new();
    let task = tokio::spawn(wakes::poll(watching, sender.clone(), stop.clone()));
    Ok(SqlStore::new(pool, Dialect::Sqlite, sender, stop, task))
}

/// Makes the file and its directory, for nobody else to read.
fn prepare(path: &Path) -> Result<(), StoreError> {
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
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            match made {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(cannot("cannot make", error)),
            }
        }
        Err(error) => Err(cannot("cannot look at", error)),
    }
}

/// The URL of a file. SQLx takes a path with any character in it only when it is escaped.
fn url(path: &Path) -> Result<String, StoreError> {
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
    Ok(format!("sqlite://{escaped}?mode=rw"))
}

/// Looks at a file before anything is written to it. One that is damaged, or no database of ours, stays as it is.
async fn check(path: &Path, url: &str) -> Result<(), StoreError> {
    let is_empty = std::fs::metadata(path).is_ok_and(|found| found.len() == 0);
    let has_log =
        path.with_file_name(format!("{}-wal", path.file_name().unwrap_or_default().to_string_lossy())).exists();
    match (is_empty, has_log) {
        (true, false) => return Ok(()),
        (true, true) => {
            let message = format!(
                "{} is empty, but there is a log of changes beside it: restore the file, or move both away",
                path.display()
            );
            return Err(StoreError::Damaged { message });
        }
        (false, _) => {}
    }
    let mut connection = sqlx::AnyConnection::connect(url).await.map_err(store_error)?;
    let ours = "select count(*) from sqlite_master where name in ('toolcell_schema', 'run')";
    let ours: i64 = sqlx::query_scalar(ours).fetch_one(&mut connection).await.map_err(store_error)?;
    let foreign: i64 = sqlx::query_scalar("select count(*) from sqlite_master")
        .fetch_one(&mut connection)
        .await
        .map_err(store_error)?;
    if ours == 0 && foreign > 0 {
        let message = format!("{} is a database of another program; it was left as it is", path.display());
        return Err(StoreError::Damaged { message });
    }
    // Quick: without looking at the contents of indexes.
    let verdict: String =
        sqlx::query_scalar("pragma quick_check(1)").fetch_one(&mut connection).await.map_err(store_error)?;
    connection.close().await.map_err(store_error)?;
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
