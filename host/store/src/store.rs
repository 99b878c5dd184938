//! The store: one pool, one dialect, and the trait's methods, each of which is a transaction of another file.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Answered, AuditEntry, AuditHead, Claimed, Decision, Grant, Lease, NewRun, Notice, Page, Parked, Question, RunHead,
    RunKey, RunStore, Signals, Step, StoreError, StoreFuture, StoredQuestion, StoredRun, Swept, Tenant, TenantSettings,
    Wake,
};
use toolcell_contract::Digest;

use crate::claims::Look;
use crate::tx::{Access, Tx, TxError, Way};
use crate::{answers, audit, claims, grants, lists, notices, read, steps, tenants};

/// Pieces in which a tenant is removed before the rest goes at once: as many as a tenant of ten million runs has. One that
/// gets new runs as fast as they are removed is removed all the same.
const PIECES_MAX: u32 = 10_000;

/// Runs in SQLite or PostgreSQL.
#[derive(Debug)]
pub struct SqlStore {
    access: Access,
    wakes: broadcast::Sender<Wake>,
    /// Ends the listener, which then closes its connection.
    stop: CancellationToken,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for SqlStore {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A method that is one transaction: the arguments are cloned for each try.
macro_rules! in_tx {
    ($store:ident . $way:ident, $($name:ident),* => |$tx:ident| $work:expr) => {{
        async move {
            $store
                .$way(move |$tx| {
                    $(let $name = $name.clone();)*
                    async move { $work.await }.boxed()
                })
                .await
        }
        .boxed()
    }};
}
pub(crate) use in_tx;

impl SqlStore {
    pub(crate) fn new(
        access: Access,
        wakes: broadcast::Sender<Wake>,
        stop: CancellationToken,
        listener: JoinHandle<()>,
    ) -> Self {
        Self { access, wakes, stop, listener: Mutex::new(Some(listener)) }
    }

    /// Closes all connections; what is under way is finished first. The last one of a SQLite file leaves nothing beside it.
    pub async fn close(&self) {
        self.stop.cancel();
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listener) = listener {
            // It has nothing to say at its end.
            let _ = listener.await;
        }
        self.access.pool.close().await;
    }

    /// Runs a statement of a test's.
    ///
    /// # Errors
    /// [`StoreError`].
    #[doc(hidden)]
    pub async fn meddle(&self, sql: &str) -> Result<(), StoreError> {
        let sql = sql.to_owned();
        in_tx!(self.tx, sql => |tx| async { tx.run(&sql, Vec::new()).await.map(drop) }).await
    }

    /// Lets the file have no more than so many pages, on the connection that comes first.
    ///
    /// # Errors
    /// [`StoreError`].
    #[doc(hidden)]
    pub async fn limit_pages(&self, pages: u32) -> Result<(), StoreError> {
        let limit = sqlx::AssertSqlSafe(format!("pragma max_page_count = {pages}"));
        sqlx::query(limit).fetch_all(&self.access.pool).await.map(drop).map_err(crate::error::store_error)
    }

    /// Reads something as it is at one moment.
    pub(crate) async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        W: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T, TxError>>,
    {
        let way = Way::Together(self.access.dialect.begin_reading());
        self.access.transact(way, work).await.map(|(done, _)| done).map_err(TxError::into_store)
    }

    /// Reads something with one statement.
    pub(crate) async fn look<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        W: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T, TxError>>,
    {
        self.access.transact(Way::Alone, work).await.map(|(done, _)| done).map_err(TxError::into_store)
    }

    /// Does something in one transaction, and tells who waits for it.
    pub(crate) async fn tx<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        W: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T, TxError>>,
    {
        self.try_tx(work).await.map_err(TxError::into_store)
    }

    async fn try_tx<T, W>(&self, work: W) -> Result<T, TxError>
    where
        W: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T, TxError>>,
    {
        let (done, woken) = self.access.transact(Way::Together(self.access.dialect.begin()), work).await?;
        for key in woken {
            // Nobody listens: then nobody has to be told.
            let _ = self.wakes.send(Wake(Some(key)));
        }
        Ok(done)
    }

    /// Takes the next run that goes on. What cannot be read is set aside, in a transaction of its own: the one in which it
    /// was met may be of no use any more.
    async fn claim_next(&self, worker: &str, lease: Duration) -> Result<Option<Claimed>, StoreError> {
        for _ in 0..claims::ASIDE_MAX {
            match self.try_tx(|tx| claims::claim_next(tx, worker.to_owned(), lease).boxed()).await {
                Ok(Look::Taken(claimed)) => return Ok(Some(*claimed)),
                Ok(Look::Nothing) => return Ok(None),
                Ok(Look::Aside) => {}
                Err(TxError::OfRun(found)) => {
                    tracing::error!(tenant = %found.key.tenant, run = found.key.run, "a run cannot go on: {}", found.message);
                    let aside = self.tx(|tx| claims::set_aside_unreadable(tx, *found.clone()).boxed()).await;
                    if let Err(StoreError::Damaged { message }) = aside {
                        tracing::error!(tenant = %found.key.tenant, "what belongs to the tenant cannot be read: {message}");
                        self.tx(|tx| claims::set_aside_silently(tx, *found.clone()).boxed()).await?;
                    } else {
                        aside?;
                    }
                }
                Err(error) => return Err(error.into_store()),
            }
        }
        // There may be more: whoever works looks again at once, and hears in between that it is to stop.
        let _ = self.wakes.send(Wake(None));
        Ok(None)
    }
}

impl RunStore for SqlStore {
    fn create(&self, run: NewRun) -> StoreFuture<'_, ()> {
        in_tx!(self.tx, run => |tx| claims::create(tx, run))
    }

    fn claim<'a>(
        &'a self,
        worker: &'a str,
        lease: Duration,
        only: Option<&'a RunKey>,
    ) -> StoreFuture<'a, Option<Claimed>> {
        let Some(key) = only.cloned() else { return self.claim_next(worker, lease).boxed() };
        let worker = worker.to_owned();
        in_tx!(self.tx, worker, key => |tx| claims::claim_one(tx, worker, lease, key))
    }

    fn renew<'a>(&'a self, held: &'a Lease, lease: Duration) -> StoreFuture<'a, ()> {
        let held = held.clone();
        in_tx!(self.tx, held => |tx| claims::renew(tx, held, lease))
    }

    fn write<'a>(&'a self, held: &'a Lease, step: Step) -> StoreFuture<'a, ()> {
        let held = held.clone();
        in_tx!(self.tx, held, step => |tx| steps::write(tx, held, step))
    }

    fn signals<'a>(&'a self, held: &'a Lease) -> StoreFuture<'a, Signals> {
        let held = held.clone();
        in_tx!(self.look, held => |tx| claims::signals(tx, held))
    }

    fn park<'a>(&'a self, held: &'a Lease) -> StoreFuture<'a, Parked> {
        let held = held.clone();
        in_tx!(self.tx, held => |tx| claims::park(tx, held))
    }

    fn release<'a>(&'a self, held: &'a Lease) -> StoreFuture<'a, ()> {
        let held = held.clone();
        in_tx!(self.tx, held => |tx| claims::release(tx, held))
    }

    fn answer<'a>(&'a self, tenant: &'a Tenant, decision: Decision) -> StoreFuture<'a, Answered> {
        let tenant = tenant.clone();
        in_tx!(self.tx, tenant, decision => |tx| answers::answer(tx, tenant, decision))
    }

    fn cancel<'a>(&'a self, key: &'a RunKey) -> StoreFuture<'a, ()> {
        let key = key.clone();
        in_tx!(self.tx, key => |tx| answers::cancel(tx, key))
    }

    fn question<'a>(&'a self, tenant: &'a Tenant, id: &'a str) -> StoreFuture<'a, StoredQuestion> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        in_tx!(self.look, tenant, id => |tx| lists::question(tx, tenant, id))
    }

    fn questions<'a>(&'a self, tenant: &'a Tenant, page: Page) -> StoreFuture<'a, Vec<StoredQuestion>> {
        let tenant = tenant.clone();
        in_tx!(self.look, tenant, page => |tx| lists::questions(tx, tenant, page))
    }

    fn run<'a>(&'a self, key: &'a RunKey) -> StoreFuture<'a, StoredRun> {
        let key = key.clone();
        in_tx!(self.read, key => |tx| read::run(tx, key))
    }

    fn runs<'a>(&'a self, tenant: &'a Tenant, page: Page) -> StoreFuture<'a, Vec<RunHead>> {
        let tenant = tenant.clone();
        in_tx!(self.look, tenant, page => |tx| lists::runs(tx, tenant, page))
    }

    fn wakes(&self) -> broadcast::Receiver<Wake> {
        self.wakes.subscribe()
    }

    fn sweep(&self) -> StoreFuture<'_, Swept> {
        self.sweep_all().boxed()
    }

    fn notices(&self, limit: u32, lease: Duration) -> StoreFuture<'_, Vec<Notice>> {
        in_tx!(self.tx, => |tx| notices::due(tx, limit, lease))
    }

    fn settle_notice<'a>(&'a self, id: &'a str, retry: Option<Duration>) -> StoreFuture<'a, ()> {
        let id = id.to_owned();
        in_tx!(self.tx, id => |tx| notices::settle(tx, id, retry))
    }

    fn keep_component<'a>(&'a self, digest: Digest, bytes: &'a [u8]) -> StoreFuture<'a, ()> {
        let bytes = bytes.to_vec();
        in_tx!(self.tx, bytes => |tx| tenants::keep_component(tx, digest, bytes))
    }

    fn component(&self, digest: Digest) -> StoreFuture<'_, Option<Vec<u8>>> {
        in_tx!(self.look, => |tx| tenants::component(tx, digest))
    }

    fn add_grant<'a>(&'a self, tenant: &'a Tenant, grant: Grant) -> StoreFuture<'a, ()> {
        let tenant = tenant.clone();
        in_tx!(self.tx, tenant, grant => |tx| grants::add(tx, tenant, grant))
    }

    fn revoke_grant<'a>(&'a self, tenant: &'a Tenant, id: &'a str) -> StoreFuture<'a, ()> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        in_tx!(self.tx, tenant, id => |tx| grants::revoke(tx, tenant, id))
    }

    fn grants<'a>(&'a self, tenant: &'a Tenant) -> StoreFuture<'a, Vec<Grant>> {
        let tenant = tenant.clone();
        in_tx!(self.look, tenant => |tx| grants::list(tx, tenant))
    }

    fn use_grant<'a>(&'a self, key: &'a RunKey, question: &'a Question) -> StoreFuture<'a, Option<Grant>> {
        let (key, id) = (key.clone(), question.request.id.clone());
        in_tx!(self.tx, key, id => |tx| grants::take(tx, &key, &id))
    }

    fn audit<'a>(&'a self, tenant: &'a Tenant, after: u64, limit: u32) -> StoreFuture<'a, Vec<AuditEntry>> {
        let tenant = tenant.clone();
        in_tx!(self.look, tenant => |tx| audit::list(tx, tenant, after, limit))
    }

    fn audit_head<'a>(&'a self, tenant: &'a Tenant) -> StoreFuture<'a, AuditHead> {
        let tenant = tenant.clone();
        in_tx!(self.look, tenant => |tx| audit::head(tx, tenant))
    }

    fn settings<'a>(&'a self, tenant: &'a Tenant) -> StoreFuture<'a, TenantSettings> {
        let tenant = tenant.clone();
        in_tx!(self.look, tenant => |tx| tenants::settings(tx, tenant))
    }

    fn set_settings<'a>(&'a self, tenant: &'a Tenant, settings: TenantSettings) -> StoreFuture<'a, ()> {
        async move {
            let (set, tenant) = ((tenant.clone(), settings), tenant.clone());
            self.tx(|tx| tenants::set_settings(tx, set.0.clone(), set.1.clone()).boxed()).await?;
            let mut over = Some((i64::MIN, String::new()));
            while let Some(after) = over {
                over = self.tx(|tx| tenants::keep_as_set(tx, tenant.clone(), after.clone()).boxed()).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn delete_tenant<'a>(&'a self, tenant: &'a Tenant) -> StoreFuture<'a, ()> {
        async move {
            // Nobody waits for the whole of it, however much there is. Who goes on in the meantime is part of the last piece.
            for _ in 0..PIECES_MAX {
                if !self.tx(|tx| tenants::delete_piece(tx, tenant.clone()).boxed()).await? {
                    break;
                }
            }
            self.tx(|tx| tenants::delete(tx, tenant.clone()).boxed()).await
        }
        .boxed()
    }
}
