//! A transaction, and the few ways in which the store's statements are run.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AnyPool, AssertSqlSafe, Connection as _, Row as _, Transaction};
use time::OffsetDateTime;
use toolcell_agent::{RunKey, StoreError, Tenant};

use crate::dialect::Dialect;
use crate::error::{
    damaged, is_broken, is_damage, is_given_up, is_silence, is_worth_another_try, silent, store_error, unreadable,
    unsure,
};
use crate::tenants::{self, TenantRow};

/// Times that a transaction is tried which the database gave up because of another.
const TRIES: u32 = 5;

/// The pause before the second try; it doubles.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a connection that goes back to the pool may take to say that it is one still.
const RETURN_MAX: Duration = Duration::from_secs(5);

/// A value in a statement.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    NoInt,
    NoText,
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&Tenant> for Value {
    fn from(tenant: &Tenant) -> Self {
        tenant.as_str().into()
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Self::NoInt, Self::Int)
    }
}

impl From<Option<String>> for Value {
    fn from(value: Option<String>) -> Self {
        value.map_or(Self::NoText, Self::Text)
    }
}

/// The values of a statement, in the order of its `$1`, `$2` ….
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::tx::Value::from($value)),*] };
}
pub(crate) use values;

/// How statements are held together.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// As one transaction, which begins so.
    Together(&'static str),
    /// Not at all: there is one, and it reads.
    Alone,
}

/// A connection, in a transaction or as it is.
enum Inner<'c> {
    Together(Transaction<'c, Any>),
    Alone(&'c mut AnyConnection),
}

/// A transaction.
pub(crate) struct Tx<'c> {
    inner: Inner<'c>,
    pub(crate) dialect: Dialect,
    /// Tenants that it has to do with, as it leaves them.
    pub(crate) tenants: Vec<TenantRow>,
    /// What happened, to be told when it is certain.
    pub(crate) woken: Vec<RunKey>,
}

/// The way to the database.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) pool: AnyPool,
    pub(crate) dialect: Dialect,
    pub(crate) patience: Patience,
}

impl Access {
    /// Runs `work` in one transaction, again when the database gave it up because of another. Returns what it gave, and the
    /// runs that something happened to.
    pub(crate) async fn transact<T, W>(&self, way: Way, work: W) -> Result<(T, Vec<RunKey>), TxError>
    where
        W: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T, TxError>>,
    {
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            match self.once(way, &work).await {
                Err(TxError::Database(error)) if is_worth_another_try(&error) => tokio::time::sleep(pause).await,
                done => return done,
            }
            pause *= 2;
        }
        self.once(way, &work).await
    }

    async fn once<T, W>(&self, way: Way, work: &W) -> Result<(T, Vec<RunKey>), TxError>
    where
        W: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T, TxError>>,
    {
        // Every connection of the pool may be one that broke while nobody used it, as after a restart of the server: to find
        // out takes no question of its own, for nothing is lost when a transaction does not begin.
        let mut stale_max = self.pool.options().get_max_connections();
        loop {
            let mut lent = Lent { connection: self.pool.acquire().await?, is_sound: true };
            let done = self.on(&mut lent.connection, way, work).await;
            let is_stale = matches!(done, Err(TxError::NotBegun(_))) && self.dialect == Dialect::Postgres;
            // A database that is full or broken may have ended the transaction by itself: what is known of the connection is
            // not to be relied on any more.
            lent.is_sound = matches!(&done, Err(TxError::Store(_)) | Ok(_))
                || matches!(&done, Err(TxError::Database(error)) if is_worth_another_try(error));
            if let Err(TxError::NotBegun(error) | TxError::Database(error) | TxError::Unsure(error)) = &done
                && is_silence(error)
            {
                self.patience.silence.notice();
                // The others that are as old are not taken any more: the next is new.
                stale_max = stale_max.min(1);
            }
            if !is_stale || stale_max == 0 {
                return done;
            }
            stale_max -= 1;
        }
    }

    async fn on<T, W>(&self, connection: &mut AnyConnection, way: Way, work: &W) -> Result<(T, Vec<RunKey>), TxError>
    where
        W: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T, TxError>>,
    {
        let inner = match way {
            Way::Together(begin) => {
                let begun = heard(self.patience.begin_max, connection.begin_with(begin)).await;
                Inner::Together(begun.and_then(|begun| begun).map_err(TxError::NotBegun)?)
            }
            Way::Alone => Inner::Alone(connection),
        };
        let mut tx = Tx { inner, dialect: self.dialect, tenants: Vec::new(), woken: Vec::new() };
        let all = async {
            let done = work(&mut tx).await?;
            tenants::save(&mut tx).await?;
            Ok(done)
        };
        let done = match (heard(self.patience.answer_max, all).await.unwrap_or_else(|error| Err(error.into())), way) {
            (Err(TxError::Database(error)), Way::Alone) if is_broken(&error) => return Err(TxError::NotBegun(error)),
            (done, _) => done?,
        };
        let Tx { inner, woken, .. } = tx;
        if let Inner::Together(inner) = inner {
            let committed = heard(self.patience.answer_max, inner.commit()).await.and_then(|committed| committed);
            committed.map_err(|error| match is_given_up(&error) {
                true => TxError::Database(error),
                false => TxError::Unsure(error),
            })?;
        }
        Ok((done, woken))
    }
}

/// How long the database may take. A file does not fall silent; a network does, without a word.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patience {
    /// To begin a transaction, for which it waits for nobody.
    pub(crate) begin_max: Option<Duration>,
    /// For what is done in it, and for its end.
    pub(crate) answer_max: Option<Duration>,
    pub(crate) silence: Arc<Silence>,
}

/// When a connection was last found to be silent.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<Option<Instant>>);

impl Silence {
    fn notice(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a connection of this age is as old as one that was silent: then it may be silent, too.
    pub(crate) fn is_younger_than(&self, age: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|noticed| noticed.elapsed() <= age)
    }
}

/// Waits for the database, for as long as it may take.
async fn heard<T>(max: Option<Duration>, answer: impl Future<Output = T>) -> Result<T, sqlx::Error> {
    let Some(max) = max else { return Ok(answer.await) };
    tokio::time::timeout(max, answer).await.map_err(|_elapsed| silent(max))
}

/// A connection of the pool while it is used.
struct Lent {
    connection: PoolConnection<Any>,
    is_sound: bool,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.is_sound {
            // The pool asks whether it is one still, and would wait for ever for one that is silent.
            let back = self.connection.return_to_pool();
            tokio::spawn(async move { tokio::time::timeout(RETURN_MAX, back).await });
        } else {
            self.connection.close_on_drop();
        }
    }
}

/// Why a transaction was given up.
#[derive(Debug)]
pub(crate) enum TxError {
    /// The database says so. Nothing was written.
    Database(sqlx::Error),
    /// It could not begin.
    NotBegun(sqlx::Error),
    /// It was to be written, and nobody has said that it was.
    Unsure(sqlx::Error),
    /// The store says so.
    Store(StoreError),
    /// This run, which was to be taken, cannot be read.
    OfRun(Box<Unreadable>),
}

/// A run that cannot be read, as it was found.
#[derive(Debug, Clone)]
pub(crate) struct Unreadable {
    pub(crate) key: RunKey,
    pub(crate) epoch: i64,
    pub(crate) tries: i64,
    pub(crate) message: String,
}

impl TxError {
    /// Whether what the database holds cannot be read.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Database(error) => is_damage(error),
            Self::Store(error) => matches!(error, StoreError::Damaged { .. }),
            Self::OfRun(_) => true,
            Self::NotBegun(_) | Self::Unsure(_) => false,
        }
    }

    pub(crate) fn into_store(self) -> StoreError {
        match self {
            Self::Database(error) | Self::NotBegun(error) => store_error(error),
            Self::Unsure(error) => unsure(error),
            Self::Store(error) => error,
            Self::OfRun(run) => StoreError::Damaged { message: run.message },
        }
    }
}

impl From<sqlx::Error> for TxError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for TxError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Tx<'_> {
    fn connection(&mut self) -> &mut AnyConnection {
        match &mut self.inner {
            Inner::Together(inner) => inner,
            Inner::Alone(inner) => inner,
        }
    }

    /// Runs a statement. `{now}` in it is the database's clock when the statement began, `{clock}` when the row was locked;
    /// `{for_update}`, `{skip_locked}` and `{skip_locked_of_o}` lock the rows it selects.
    pub(crate) async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, TxError> {
        let sql = self.text(sql).into_owned();
        let done = bound(&sql, values).execute(self.connection()).await?;
        Ok(done.rows_affected())
    }

    /// As [`Tx::run`], of a statement that changes a run and ends with `{told}`: tells whoever listens, when this is certain,
    /// that something happened to it.
    pub(crate) async fn run_and_tell(&mut self, sql: &str, key: &RunKey, values: Vec<Value>) -> Result<(), TxError> {
        self.rows(sql, values).await?;
        self.woken.push(key.clone());
        Ok(())
    }

    /// The rows of a statement.
    pub(crate) async fn rows(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Columns>, TxError> {
        let sql = self.text(sql).into_owned();
        let rows = bound(&sql, values).fetch_all(self.connection()).await?;
        Ok(rows.into_iter().map(Columns).collect())
    }

    /// The row of a statement, if there is one.
    pub(crate) async fn row(&mut self, sql: &str, values: Vec<Value>) -> Result<Option<Columns>, TxError> {
        let sql = self.text(sql).into_owned();
        // Not `fetch_optional`: a statement that is not read to its end would keep its lock in SQLite.
        let rows = bound(&sql, values).fetch_all(self.connection()).await?;
        Ok(rows.into_iter().next().map(Columns))
    }

    /// The time, by the database's clock.
    pub(crate) async fn now(&mut self) -> Result<i64, TxError> {
        let row = self.row("select {now} as now", values![]).await?;
        Ok(row.ok_or(sqlx::Error::RowNotFound)?.int("now")?)
    }

    /// Tells whoever listens, when this is certain, that something happened to a run.
    pub(crate) async fn wake(&mut self, key: &RunKey) -> Result<(), TxError> {
        if self.dialect == Dialect::Postgres {
            let payload = format!("{} {}", key.tenant, key.run);
            self.rows("select cast(pg_notify($1, $2) as text) as told", values![crate::wakes::CHANNEL, payload])
                .await?;
        }
        self.woken.push(key.clone());
        Ok(())
    }

    fn text<'s>(&self, sql: &'s str) -> Cow<'s, str> {
        if !sql.contains('{') {
            return Cow::Borrowed(sql);
        }
        let sql = sql
            .replace("{now}", self.dialect.now())
            .replace("{clock}", self.dialect.clock())
            .replace("{told}", self.dialect.told())
            .replace("{for_update}", self.dialect.for_update())
            .replace("{skip_locked}", self.dialect.skip_locked())
            .replace("{skip_locked_of_o}", self.dialect.skip_locked_of_o());
        Cow::Owned(sql)
    }
}

/// A statement of ours with its values. Nothing from outside is ever part of its text.
fn bound(sql: &str, values: Vec<Value>) -> Query<'_, Any, AnyArguments> {
    let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
    values.into_iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind(value),
        // PostgreSQL has no text with a NUL in it. Bodies are JSON, which escapes it; here it is a name, or an id that
        // nobody gave.
        Value::Text(value) if value.contains('\0') => query.bind(value.replace('\0', "\u{fffd}")),
        Value::Text(value) => query.bind(value),
        Value::Bytes(value) => query.bind(value),
        Value::NoInt => query.bind(None::<i64>),
        Value::NoText => query.bind(None::<String>),
    })
}

/// A row, read by the names of its columns.
pub(crate) struct Columns(AnyRow);

impl Columns {
    pub(crate) fn int(&self, name: &str) -> Result<i64, StoreError> {
        self.0.try_get(name).map_err(store_error)
    }

    pub(crate) fn maybe_int(&self, name: &str) -> Result<Option<i64>, StoreError> {
        self.0.try_get(name).map_err(store_error)
    }

    pub(crate) fn text(&self, name: &str) -> Result<String, StoreError> {
        self.0.try_get(name).map_err(store_error)
    }

    pub(crate) fn maybe_text(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.0.try_get(name).map_err(store_error)
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        self.0.try_get(name).map_err(store_error)
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.int(name)? != 0)
    }

    pub(crate) fn small(&self, name: &str) -> Result<u32, StoreError> {
        u32::try_from(self.int(name)?).map_err(|_| damaged(format!("the number in {name} is none that was written")))
    }

    pub(crate) fn time(&self, name: &str) -> Result<OffsetDateTime, StoreError> {
        time(self.int(name)?)
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        from_json(name, &self.text(name)?)
    }

    pub(crate) fn maybe_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        self.maybe_text(name)?.map(|text| from_json(name, &text)).transpose()
    }

    pub(crate) fn key(&self) -> Result<RunKey, StoreError> {
        let tenant = self.text("tenant")?.parse().map_err(|_| damaged("a tenant has no name"))?;
        Ok(RunKey { tenant, run: self.text("run")? })
    }
}

/// A time of the database.
pub(crate) fn time(micros: i64) -> Result<OffsetDateTime, StoreError> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000)
        .map_err(|_| damaged(format!("{micros} is no time")))
}

/// A time for the database.
pub(crate) fn micros(time: OffsetDateTime) -> i64 {
    i64::try_from(time.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}

/// A length of time for the database.
pub(crate) fn span(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| damaged(format!("a value has no JSON form: {error}")))
}

pub(crate) fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| unreadable(what, &error))
}
