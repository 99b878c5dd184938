//! A store whose process may end at any write, before or after it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use toolcell_agent::{
    Answered, AuditEntry, AuditHead, Claimed, Decision, Grant, Lease, NewRun, Notice, Page, Parked, Question, RunHead,
    RunKey, RunStore, Signals, Step, StoreFuture, StoredQuestion, StoredRun, Swept, Tenant, TenantSettings, Wake,
};
use toolcell_contract::Digest;

use crate::random;

/// A store that takes its process with it now and then.
pub struct Mortal {
    inner: Arc<dyn RunStore>,
    abort_one_in: u32,
}

impl Mortal {
    /// With 0 it never does.
    pub fn new(inner: Arc<dyn RunStore>, abort_one_in: u32) -> Self {
        Self { inner, abort_one_in }
    }

    fn may_die(&self) {
        if self.abort_one_in > 0 && random(self.abort_one_in.into()) == 0 {
            std::process::abort();
        }
    }
}

macro_rules! pass_on {
    ($($method:ident ( $($name:ident : $type:ty),* ) -> $result:ty;)*) => {
        $(fn $method<'a>(&'a self, $($name: $type),*) -> StoreFuture<'a, $result> {
            Box::pin(async move {
                self.may_die();
                let done = self.inner.$method($($name),*).await;
                self.may_die();
                done
            })
        })*
    };
}

impl RunStore for Mortal {
    fn wakes(&self) -> broadcast::Receiver<Wake> {
        self.inner.wakes()
    }

    pass_on! {
        create(run: NewRun) -> ();
        claim(worker: &'a str, lease: Duration, only: Option<&'a RunKey>) -> Option<Claimed>;
        renew(held: &'a Lease, lease: Duration) -> ();
        write(held: &'a Lease, step: Step) -> ();
        signals(held: &'a Lease) -> Signals;
        park(held: &'a Lease) -> Parked;
        release(held: &'a Lease) -> ();
        answer(tenant: &'a Tenant, decision: Decision) -> Answered;
        cancel(key: &'a RunKey) -> ();
        question(tenant: &'a Tenant, id: &'a str) -> StoredQuestion;
        questions(tenant: &'a Tenant, page: Page) -> Vec<StoredQuestion>;
        run(key: &'a RunKey) -> StoredRun;
        runs(tenant: &'a Tenant, page: Page) -> Vec<RunHead>;
        sweep() -> Swept;
        notices(limit: u32, lease: Duration) -> Vec<Notice>;
        settle_notice(id: &'a str, retry: Option<Duration>) -> ();
        keep_component(digest: Digest, bytes: &'a [u8]) -> ();
        component(digest: Digest) -> Option<Vec<u8>>;
        add_grant(tenant: &'a Tenant, grant: Grant) -> ();
        revoke_grant(tenant: &'a Tenant, id: &'a str) -> ();
        grants(tenant: &'a Tenant) -> Vec<Grant>;
        use_grant(key: &'a RunKey, question: &'a Question) -> Option<Grant>;
        audit(tenant: &'a Tenant, after: u64, limit: u32) -> Vec<AuditEntry>;
        audit_head(tenant: &'a Tenant) -> AuditHead;
        settings(tenant: &'a Tenant) -> TenantSettings;
        set_settings(tenant: &'a Tenant, settings: TenantSettings) -> ();
        delete_tenant(tenant: &'a Tenant) -> ();
    }
}
