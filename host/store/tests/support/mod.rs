//! The stores that each test runs on.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod runs;

use std::sync::Arc;

use tempfile::TempDir;
use toolcell_agent::{RunStore, StoreError};
use toolcell_store::{Options, SqlStore, open_with};
use toolcell_tests::postgres;

/// A place where a store is. Several stores may be opened on it, as several hosts do.
pub enum Place {
    Memory(Arc<SqlStore>),
    File(TempDir),
    Postgres(String),
}

impl Place {
    pub async fn memory() -> Option<Self> {
        Some(Self::Memory(Arc::new(open_with(":memory:", Options::default()).await.unwrap())))
    }

    pub async fn sqlite() -> Option<Self> {
        Some(Self::File(TempDir::new().unwrap()))
    }

    pub async fn postgres() -> Option<Self> {
        postgres::shared().map(|server| Self::Postgres(server.database()))
    }

    pub fn address(&self) -> String {
        match self {
            Self::Memory(_) => ":memory:".into(),
            Self::File(dir) => dir.path().join("runs.db").to_str().unwrap().to_owned(),
            Self::Postgres(url) => url.clone(),
        }
    }

    /// Another host's store. In memory there is one host.
    pub async fn open(&self) -> Arc<SqlStore> {
        match self {
            Self::Memory(store) => Arc::clone(store),
            _ => Arc::new(open_with(&self.address(), Options::default()).await.unwrap()),
        }
    }

    pub async fn store(&self) -> Arc<dyn RunStore> {
        self.open().await
    }

    /// Times that the database found statements that wait for each other.
    pub fn deadlocks(&self) -> u64 {
        let Self::Postgres(url) = self else { return 0 };
        // What a connection has counted is told when it is idle for a moment.
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        let sql = "select deadlocks from pg_stat_database where datname = current_database()";
        postgres::shared().unwrap().sql(url, sql).unwrap().parse().unwrap()
    }

    /// Changes rows behind the store's back.
    pub async fn sql(&self, sql: &str) {
        match self {
            Self::Postgres(url) => drop(postgres::shared().unwrap().sql(url, sql).unwrap()),
            Self::File(_) | Self::Memory(_) => self.open().await.meddle(sql).await.unwrap(),
        }
    }
}

pub fn is_not_found<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotFound(_)))
}

/// Runs each case on each kind of store, as a test of its own.
#[allow(unused_macros, reason = "each test binary uses its own part")]
macro_rules! on_every_store {
    ($($case:ident),* $(,)?) => {
        mod memory { $(#[tokio::test(flavor = "multi_thread")] async fn $case() {
            if let Some(place) = crate::support::Place::memory().await { super::$case(place).await; }
        })* }
        mod sqlite { $(#[tokio::test(flavor = "multi_thread")] async fn $case() {
            if let Some(place) = crate::support::Place::sqlite().await { super::$case(place).await; }
        })* }
        mod postgres { $(#[tokio::test(flavor = "multi_thread")] async fn $case() {
            if let Some(place) = crate::support::Place::postgres().await { super::$case(place).await; }
        })* }
    };
}
#[allow(unused_imports, reason = "each test binary uses its own part")]
pub(crate) use on_every_store;
