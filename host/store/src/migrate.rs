//! The tables, made and changed forward only, each step in one transaction.

use std::time::{Duration, Instant};

use sqlx::{AnyConnection, AssertSqlSafe, Connection as _};
use toolcell_agent::StoreError;

use crate::dialect::Dialect;
use crate::error::{is_in_use, store_error};

/// Every step, in order. A released one is never changed.
const STEPS: [&str; 4] = [
    include_str!("../migrations/0001_runs.sql"),
    include_str!("../migrations/0002_order.sql"),
    include_str!("../migrations/0003_stalled.sql"),
    include_str!("../migrations/0004_key_value.sql"),
];

/// The schema that this version writes.
pub(crate) const SCHEMA: i64 = STEPS.len() as i64;

/// A number of our own for PostgreSQL's advisory lock: one host at a time changes the tables.
const LOCK: i64 = 0x746f_6f6c_6365_6c6c;

/// How long a SQLite file that another process changes is waited for: as many rows as a machine has, and an index over them.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// The pause before it is looked at again.
const PAUSE: Duration = Duration::from_millis(100);

/// Brings the tables up to date.
///
/// # Errors
/// [`StoreError::Newer`] when a later version has changed them; nothing is touched then.
pub(crate) async fn migrate(connection: &mut AnyConnection, dialect: Dialect) -> Result<(), StoreError> {
    let began = Instant::now();
    let mut tx = loop {
        if version(connection, dialect).await? == SCHEMA {
            return Ok(());
        }
        match (*connection).begin_with(dialect.begin()).await {
            Ok(tx) => break tx,
            // Another process changes the tables of the file, or uses it otherwise: it is looked at again.
            Err(error) if dialect == Dialect::Sqlite && is_in_use(&error) && began.elapsed() < WAIT_MAX => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(store_error(error)),
        }
    };
    if dialect == Dialect::Postgres {
        // An index over very many rows takes as long as it takes, and another host may be at it.
        run(&mut tx, "set local statement_timeout = 0").await?;
        run(&mut tx, "set local lock_timeout = 0").await?;
        run(&mut tx, &format!("select pg_advisory_xact_lock({LOCK})")).await?;
    }
    let found = version(&mut tx, dialect).await?;
    if found > SCHEMA {
        return Err(StoreError::Newer { found, known: SCHEMA });
    }
    run(&mut tx, "create table if not exists toolcell_schema (version bigint not null)").await?;
    for (step, number) in STEPS.iter().zip(1..).filter(|(_, number)| *number > found) {
        let step = step.replace("{blob}", dialect.blob());
        for statement in statements(&step) {
            run(&mut tx, statement).await?;
        }
        run(&mut tx, "delete from toolcell_schema").await?;
        run(&mut tx, &format!("insert into toolcell_schema (version) values ({number})")).await?;
    }
    tx.commit().await.map_err(store_error)
}

/// Refuses tables of this schema when a later version has changed them since they were opened.
pub(crate) fn is_ours(schema: Option<i64>) -> Result<(), StoreError> {
    match schema {
        Some(found) if found > SCHEMA => Err(StoreError::Newer { found, known: SCHEMA }),
        _ => Ok(()),
    }
}

/// The schema of the tables; 0 when there are none.
pub(crate) async fn version(connection: &mut AnyConnection, dialect: Dialect) -> Result<i64, StoreError> {
    let is_there = match dialect {
        Dialect::Sqlite => "select count(*) from sqlite_master where type = 'table' and name = 'toolcell_schema'",
        Dialect::Postgres => {
            "select count(*) from information_schema.tables where table_schema = current_schema() and table_name = \
             'toolcell_schema'"
        }
    };
    let count: i64 = sqlx::query_scalar(is_there).fetch_one(&mut *connection).await.map_err(store_error)?;
    if count == 0 {
        return Ok(0);
    }
    let version: Option<i64> = sqlx::query_scalar("select max(version) from toolcell_schema")
        .fetch_one(connection)
        .await
        .map_err(store_error)?;
    Ok(version.unwrap_or(0))
}

async fn run(connection: &mut AnyConnection, sql: &str) -> Result<(), StoreError> {
    sqlx::query(AssertSqlSafe(sql.to_owned())).execute(connection).await.map(drop).map_err(store_error)
}

/// The statements of a step. Comments stand on lines of their own.
fn statements(step: &str) -> impl Iterator<Item = &str> {
    let has_code =
        |statement: &&str| statement.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with("--"));
    step.split(";\n").filter(has_code)
}
