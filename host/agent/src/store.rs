//! Runs on record: what a store of runs keeps and promises. The engine that works from it is in `durable/`.
//!
//! The store decides who may write (leases with a fencing epoch, by its own clock) and which answer counts (the first).
//! It knows nothing of models and tools: what a call or a turn holds is data that it keeps and gives back.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::sync::broadcast;
use toolcell_contract::{Answer, Digest, Object};

use crate::answerer::Question;
use crate::model::{StopReason, Usage};
use crate::run::RunStatus;
use crate::transcript::{AssistantTurn, Message};

mod record;

pub use record::{Checkpoint, OpenCallRecord, StoredEnd, StoredRecord};

/// What a store of runs is asked for takes this long, and may fail.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Whose run it is. What belongs to one tenant does not exist for another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(String);

/// A text is no name of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tenant's name has 1 to 64 characters of a-z, 0-9, \"-\", \"_\" and \".\"")]
pub struct TenantError;

impl Tenant {
    /// The only tenant of a machine that has no others.
    #[must_use]
    pub fn local() -> Self {
        Self("local".into())
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Tenant {
    /// [`Tenant::local`].
    fn default() -> Self {
        Self::local()
    }
}

impl FromStr for Tenant {
    type Err = TenantError;

    fn from_str(name: &str) -> Result<Self, TenantError> {
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        if (1..=64).contains(&name.len()) && name.chars().all(is_allowed) {
            Ok(Self(name.into()))
        } else {
            Err(TenantError)
        }
    }
}

impl TryFrom<String> for Tenant {
    type Error = TenantError;

    fn try_from(name: String) -> Result<Self, TenantError> {
        name.parse()
    }
}

impl From<Tenant> for String {
    fn from(tenant: Tenant) -> Self {
        tenant.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunKey {
    /// Whose it is.
    pub tenant: Tenant,
    /// Unguessable: `run-` and 122 random bits.
    pub run: String,
}

impl RunKey {
    /// A key that no other run has.
    #[must_use]
    pub fn fresh(tenant: Tenant) -> Self {
        Self { tenant, run: format!("run-{}", uuid::Uuid::new_v4().simple()) }
    }
}

/// A run that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Which.
    pub key: RunKey,
    /// Standing instructions for the model.
    pub system: Option<String>,
    /// The conversation so far; the last message is the person's.
    pub messages: Vec<Message>,
    /// The name of the model that it is meant for; for lists.
    pub model: String,
}

/// Where a run stands in its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoredStatus {
    /// It waits for a worker. One that several workers in a row have taken in vain waits for longer each time; the audit
    /// tells of it (`run.stalled`).
    Ready,
    /// A worker has it.
    Running,
    /// It waits for an answer.
    Pending,
    /// It has ended so.
    Ended(RunStatus),
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunHead {
    /// Which.
    #[serde(flatten)]
    pub key: RunKey,
    /// Where it stands.
    pub status: StoredStatus,
    /// The name of its model.
    pub model: String,
    /// Times that the model answered.
    pub turns: u32,
    /// Questions that are open.
    pub open: u32,
    /// When it began, by the store's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When something last happened in it, by the store's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

/// A run with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRun {
    /// What a list shows of it.
    #[serde(flatten)]
    pub head: RunHead,
    /// Standing instructions for the model.
    pub system: Option<String>,
    /// The conversation that it began with.
    pub messages: Vec<Message>,
    /// What the model said, turn by turn. The slots of turn `n` (from 0) belong to entry `n`.
    pub replies: Vec<StoredReply>,
    /// The calls of all turns, ordered by turn and place.
    pub calls: Vec<StoredCall>,
    /// What cannot be told from the rest; none before the first answer.
    pub checkpoint: Option<Checkpoint>,
    /// Whether somebody wants it to end.
    pub is_cancelled: bool,
    /// How it ended.
    pub end: Option<StoredEnd>,
}

/// An answer of the model, written before any of its calls runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredReply {
    /// What it said.
    pub turn: AssistantTurn,
    /// Why it ended.
    pub stop: StopReason,
    /// What it took.
    pub usage: Usage,
    /// Calls that hooks denied, by the provider's id of the call, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub denied: BTreeMap<String, String>,
}

/// Which call of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slot {
    /// The turn, from 0.
    pub turn: u32,
    /// The place in the turn, from 0.
    pub place: u32,
}

impl Slot {
    /// The host's id of the call in a run. It is the same for every execution, on every host.
    #[must_use]
    pub fn call_id(self, run: &str) -> String {
        format!("{run}.{}.{}", self.turn, self.place)
    }

    /// The slot of a call by its id, if it is one of this run.
    #[must_use]
    pub fn of_call(run: &str, call_id: &str) -> Option<Self> {
        let (turn, place) = call_id.strip_prefix(run)?.strip_prefix('.')?.split_once('.')?;
        Some(Self { turn: turn.parse().ok()?, place: place.parse().ok()? })
    }
}

/// A call of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCall {
    /// Which.
    #[serde(flatten)]
    pub slot: Slot,
    /// Where it stands.
    #[serde(flatten)]
    pub state: SlotState,
    /// Executions that began.
    pub attempts: u32,
}

/// Where a call of a run stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum SlotState {
    /// It has not begun.
    Requested,
    /// It began, and nobody has written how it ended. With the question and its answer when it had waited before.
    Executing {
        /// What it had waited for.
        waited: Option<Box<(OpenCallRecord, Decision)>>,
    },
    /// It waits, or has an answer that was not acted on.
    Suspended {
        /// The call and its question.
        open: Box<OpenCallRecord>,
        /// The answer that counts.
        decision: Option<Box<Decision>>,
    },
    /// It has its result.
    Done {
        /// The result.
        record: Box<StoredRecord>,
    },
}

/// What somebody decided on a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The answer.
    pub answer: Answer,
    /// Arguments to run with instead of the model's; only with a yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Object>,
    /// Who decided, for the record: a user, a policy, a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Self {
        Self { answer, arguments: None, by: None }
    }
}

impl Decision {
    /// Whether two decisions on one question are the same. The reason of a no is only a remark, and so is who decided.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.answer.ok, &self.answer.data, &self.arguments) == (other.answer.ok, &other.answer.data, &other.arguments)
    }
}

/// The right to write a run, until it lapses or another host takes the run over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Which run.
    pub key: RunKey,
    /// Grows with each claim: what is written with an older one is refused.
    pub epoch: i64,
    /// Random, of this claim alone: a store that was brought back from a backup counts the same epoch again.
    pub token: String,
}

/// A run that this host may work on.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The right to write it.
    pub lease: Lease,
    /// The run.
    pub run: StoredRun,
}

/// What is written of a run, each in one transaction and only under a lease that holds. Writing a step twice is writing it
/// once: who does not know whether it was written writes it again.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The model answered. Its calls get their slots.
    Replied {
        /// The turn, from 0. Writing it twice changes nothing.
        turn: u32,
        /// The answer; its calls are in it.
        reply: Box<StoredReply>,
        /// What cannot be told from the rest.
        checkpoint: Checkpoint,
    },
    /// A call is about to execute. A decision that it had waited for is used up by it.
    Executing {
        /// Which.
        slot: Slot,
    },
    /// A call waits. Its question can be listed and answered as soon as this is written.
    Suspended {
        /// Which.
        slot: Slot,
        /// The call and its question.
        open: Box<OpenCallRecord>,
    },
    /// A call has its result. Its open question, if it has one, is closed.
    Finished {
        /// Which.
        slot: Slot,
        /// The result.
        record: Box<StoredRecord>,
    },
    /// The run has ended; the lease with it.
    Ended {
        /// How.
        end: StoredEnd,
    },
}

/// Whether a run was set down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// It waits for an answer; the lease has ended.
    Parked,
    /// There is something to do: an answer that was not acted on, or it is to be cancelled. The lease still holds.
    HasWork,
}

/// What others have done to a run while a host works on it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signals {
    /// Every decision on a question of it that was not used up.
    pub decisions: Vec<Decision>,
    /// Whether somebody wants it to end.
    pub is_cancelled: bool,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// It counts, and its run goes on.
    First(RunKey),
    /// The same was decided before; nothing has changed.
    Again(RunKey),
    /// Another decision came first.
    Conflict(Decision),
}

/// Where a question stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionState {
    /// It waits for an answer.
    Open,
    /// It was answered; the call has not gone on yet.
    Answered,
    /// The call has gone on with the answer.
    Consumed,
    /// It lapsed.
    Expired,
    /// Its run or call was cancelled.
    Cancelled,
}

/// A question on record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredQuestion {
    /// Which run asks.
    #[serde(flatten)]
    pub key: RunKey,
    /// Which of its calls.
    pub slot: Slot,
    /// What the person decides on, as the host recorded it.
    pub question: Question,
    /// Where it stands.
    pub state: QuestionState,
    /// What was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// When it was asked, by the store's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub asked_at: OffsetDateTime,
    /// When it lapses, by the store's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
}

/// A part of a long list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Entries after the one with this id; none: from the start.
    pub after: Option<String>,
    /// At most so many. A store may give fewer, however many are asked for (those of `toolcell-store` at most 1 000): a list
    /// has ended when a page is empty.
    pub limit: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self { after: None, limit: 100 }
    }
}

/// The largest share of the workers: a thousand times that of a tenant without settings.
pub const WEIGHT_MAX: u32 = 1_000;

/// The longest that runs are kept after they have ended: a hundred years.
pub const RETENTION_DAYS_MAX: u32 = 36_500;

/// What a tenant may do, and what is done for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantSettings {
    /// Its share of the workers against other tenants': 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// Questions of it that may be open at once. A call that asks one more is `busy`.
    pub open_max: u32,
    /// How long runs are kept after they have ended, in days: at most [`RETENTION_DAYS_MAX`].
    pub retention_days: u32,
    /// Where `run.pending`, `run.done` and `run.stalled` are told.
    pub webhook: Option<Webhook>,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self { weight: 1, open_max: 10_000, retention_days: 30, webhook: None }
    }
}

/// Where a tenant is told of its runs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedWebhook")]
pub struct Webhook {
    url: String,
    secret: String,
}

/// A webhook as it is written down, by whomever.
#[derive(Deserialize)]
struct UncheckedWebhook {
    url: String,
    secret: String,
}

impl TryFrom<UncheckedWebhook> for Webhook {
    type Error = WebhookError;

    fn try_from(written: UncheckedWebhook) -> Result<Self, WebhookError> {
        Self::new(written.url, written.secret)
    }
}

/// An address is no webhook's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a webhook is an https:// URL, or http:// to this machine (localhost, 127.0.0.1, [::1])")]
pub struct WebhookError;

impl Webhook {
    /// A webhook.
    ///
    /// # Errors
    /// [`WebhookError`] when what is told could be read on its way.
    pub fn new(url: impl Into<String>, secret: impl Into<String>) -> Result<Self, WebhookError> {
        let (url, secret) = (url.into(), secret.into());
        let host = |rest: &str| rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned();
        let is_here = |host: &str| {
            let port =
                |rest: &str| rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
            ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| host.strip_prefix(name).is_some_and(port))
        };
        let is_safe = match url.split_once("://") {
            Some(("https", rest)) => !host(rest).is_empty(),
            Some(("http", rest)) => is_here(&host(rest)),
            _ => false,
        };
        if is_safe { Ok(Self { url, secret }) } else { Err(WebhookError) }
    }

    /// An https URL, or http to this machine.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The key of the signature (HMAC-SHA256).
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Something to tell a tenant, at least once.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The same each time it is told.
    pub id: String,
    /// Whose run.
    pub tenant: Tenant,
    /// `run.pending`, `run.done` or `run.stalled`.
    pub topic: String,
    /// What is told, as JSON.
    pub body: String,
    /// Where.
    pub webhook: Webhook,
    /// Times that it was tried.
    pub attempts: u32,
}

/// A yes that holds for later calls too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Its id.
    pub id: String,
    /// For this tool.
    pub tool: String,
    /// And this very code: another component needs another grant.
    pub digest: Option<Digest>,
    /// And these very arguments; none: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Object>,
    /// And this run only; none: all runs of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// So many more times; none: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// Until then.
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
    /// Who gave it.
    pub by: String,
}

/// One line of a tenant's audit, each chained to the one before by its hash.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// From 1, without gaps.
    pub seq: u64,
    /// When, by the store's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// What happened: `question.asked`, `question.answered`, `question.refused`, `call.executed`, `call.finished`,
    /// `run.stalled` …
    pub kind: String,
    /// The particulars: ids, digests and codes; never what was said.
    pub body: serde_json::Value,
    /// SHA-256 over the hash of the entry before and all of this one, in hexadecimal digits.
    pub hash: String,
}

/// Where a tenant's audit ends. Whoever notes it down elsewhere can tell later that nothing before it was changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditHead {
    /// The number of the last line; 0 when there is none.
    pub seq: u64,
    /// Its hash; empty when there is none.
    pub hash: String,
}

/// What a look at the clock has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Questions that lapsed.
    pub expired: u64,
    /// Runs whose worker was not heard of any more.
    pub relapsed: u64,
    /// Runs that were ready without anybody having been told.
    pub woken: u64,
    /// Runs that were kept long enough.
    pub purged: u64,
}

/// Something may have happened to a run: it is ready, has an answer or is to be cancelled. None: to any run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake(pub Option<RunKey>);

/// Why a store does not do what it is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another host has the run now: what this one does no longer counts.
    #[error("another host has taken the run over")]
    Fenced,
    /// There is no such thing, or it belongs to another tenant.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// There is a run of this id already.
    #[error("there is a run with the id \"{0}\" already")]
    Exists(String),
    /// The tenant has too many open questions.
    #[error("the tenant has {0} open questions, as many as it may have: answer some of them first")]
    TooManyOpen(u32),
    /// Something is larger than a store keeps. Nothing was written.
    #[error("{what}: at most {max} are allowed")]
    TooLarge {
        /// What, and in which unit.
        what: &'static str,
        /// How much there may be.
        max: u64,
    },
    /// A later version of Toolcell has written the store.
    #[error(
        "the store has schema {found}, this version knows up to {known}: use the version that wrote it, or a later one"
    )]
    Newer {
        /// The store's.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// It cannot be reached, or has no room. Nothing was written, unless the connection broke while the change was being
    /// written: then it is there whole or not at all, and the message says that this is not known. To do the same again is
    /// safe: a step, an answer and the use of a grant count once, and a run that is created again is [`StoreError::Exists`].
    #[error("the store cannot be used now: {message}")]
    Unavailable {
        /// What is wrong, and how to mend it.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// What it holds makes no sense. Nothing was changed.
    #[error("the store is damaged: {message}")]
    Damaged {
        /// What is wrong, and how to mend it.
        message: String,
    },
}

/// A store of runs.
///
/// Every method that names a run or a question takes its tenant with it, and does not find another's. Times are the
/// store's own: those of the database where there is one.
pub trait RunStore: Send + Sync {
    // A run, by the host that works on it.

    /// Writes a new run, ready for a worker. Who does not know whether it was written does it again: it is
    /// [`StoreError::Exists`] then.
    fn create(&self, run: NewRun) -> StoreFuture<'_, ()>;

    /// Takes a run that is ready, or whose lease has lapsed: the one of `only`, or the next in the order that is fair
    /// between tenants. None when there is none. The lease holds for `lease` from now. What several workers in a row have
    /// taken without getting on with it is set aside, for longer each time, unless it is the one of `only`.
    fn claim<'a>(
        &'a self,
        worker: &'a str,
        lease: Duration,
        only: Option<&'a RunKey>,
    ) -> StoreFuture<'a, Option<Claimed>>;

    /// Makes a lease hold for `lease` from now.
    fn renew<'a>(&'a self, held: &'a Lease, lease: Duration) -> StoreFuture<'a, ()>;

    /// Writes a step of a run.
    fn write<'a>(&'a self, held: &'a Lease, step: Step) -> StoreFuture<'a, ()>;

    /// What others have done to the run.
    fn signals<'a>(&'a self, held: &'a Lease) -> StoreFuture<'a, Signals>;

    /// Sets a run down until there is an answer. Its open questions are told to the tenant (`run.pending`).
    fn park<'a>(&'a self, held: &'a Lease) -> StoreFuture<'a, Parked>;

    /// Gives a run back as it is, for another worker: this one stops.
    fn release<'a>(&'a self, held: &'a Lease) -> StoreFuture<'a, ()>;

    // A run, by others.

    /// Decides a question. The first decision counts, atomically, also between two hosts; one after the question's end finds
    /// it expired. Whether the decision makes sense is checked before.
    fn answer<'a>(&'a self, tenant: &'a Tenant, decision: Decision) -> StoreFuture<'a, Answered>;

    /// Wants a run to end. Nothing when it has.
    fn cancel<'a>(&'a self, key: &'a RunKey) -> StoreFuture<'a, ()>;

    /// A question, whatever its state.
    fn question<'a>(&'a self, tenant: &'a Tenant, id: &'a str) -> StoreFuture<'a, StoredQuestion>;

    /// The open questions of a tenant, oldest first.
    fn questions<'a>(&'a self, tenant: &'a Tenant, page: Page) -> StoreFuture<'a, Vec<StoredQuestion>>;

    /// A run.
    fn run<'a>(&'a self, key: &'a RunKey) -> StoreFuture<'a, StoredRun>;

    /// The runs of a tenant, newest first.
    fn runs<'a>(&'a self, tenant: &'a Tenant, page: Page) -> StoreFuture<'a, Vec<RunHead>>;

    // What goes on beside the runs.

    /// Hears of runs that something may have happened to. Nothing is lost when a wake is missed: [`RunStore::sweep`] finds
    /// it.
    fn wakes(&self) -> broadcast::Receiver<Wake>;

    /// Looks at the clock: lets questions lapse, takes runs from workers that were not heard of, finds what nobody was told
    /// of, and removes what was kept long enough.
    fn sweep(&self) -> StoreFuture<'_, Swept>;

    /// What is to be told to tenants now; it is nobody else's for `lease`.
    fn notices(&self, limit: u32, lease: Duration) -> StoreFuture<'_, Vec<Notice>>;

    /// A notice was told, or is to be told again after `retry`.
    fn settle_notice<'a>(&'a self, id: &'a str, retry: Option<Duration>) -> StoreFuture<'a, ()>;

    /// Keeps a component, found by its digest.
    fn keep_component<'a>(&'a self, digest: Digest, bytes: &'a [u8]) -> StoreFuture<'a, ()>;

    /// A component that was kept.
    fn component(&self, digest: Digest) -> StoreFuture<'_, Option<Vec<u8>>>;

    /// Gives a grant. It holds for at most [`GRANT_MAX`](crate::GRANT_MAX) from now, whatever it says.
    fn add_grant<'a>(&'a self, tenant: &'a Tenant, grant: Grant) -> StoreFuture<'a, ()>;

    /// Takes a grant back.
    fn revoke_grant<'a>(&'a self, tenant: &'a Tenant, id: &'a str) -> StoreFuture<'a, ()>;

    /// The grants that hold.
    fn grants<'a>(&'a self, tenant: &'a Tenant) -> StoreFuture<'a, Vec<Grant>>;

    /// Uses a grant that covers this question, if there is one, and decides the question by it, in one. What the store has
    /// on record of the question counts. No lease is needed: a grant is used once for a question that is open, whoever asks
    /// and however often, and each time it is the same grant.
    fn use_grant<'a>(&'a self, key: &'a RunKey, question: &'a Question) -> StoreFuture<'a, Option<Grant>>;

    /// The audit of a tenant, oldest first.
    fn audit<'a>(&'a self, tenant: &'a Tenant, after: u64, limit: u32) -> StoreFuture<'a, Vec<AuditEntry>>;

    /// Where the audit of a tenant ends.
    fn audit_head<'a>(&'a self, tenant: &'a Tenant) -> StoreFuture<'a, AuditHead>;

    /// The settings of a tenant; the defaults for one that has none.
    fn settings<'a>(&'a self, tenant: &'a Tenant) -> StoreFuture<'a, TenantSettings>;

    /// Changes the settings of a tenant. [`StoreError::TooLarge`] for one that is out of its range.
    fn set_settings<'a>(&'a self, tenant: &'a Tenant, settings: TenantSettings) -> StoreFuture<'a, ()>;

    /// Removes a tenant and all that belongs to it. A worker that has one of its runs is fenced off.
    fn delete_tenant<'a>(&'a self, tenant: &'a Tenant) -> StoreFuture<'a, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_by_its_id_and_only_in_its_run() {
        let slot = Slot { turn: 3, place: 12 };
        assert_eq!(slot.call_id("run-a"), "run-a.3.12");
        assert_eq!(Slot::of_call("run-a", "run-a.3.12"), Some(slot));
        for other in ["run-b.3.12", "run-a.3", "run-a.3.x", "run-a3.12", "", "run-a.-1.2"] {
            assert_eq!(Slot::of_call("run-a", other), None, "{other}");
        }
    }

    #[test]
    fn a_webhook_cannot_be_read_on_its_way() {
        for good in ["https://example.org/hook", "http://localhost:8080/x", "http://127.0.0.1", "http://[::1]:9/"] {
            assert!(Webhook::new(good, "s").is_ok(), "{good}");
        }
        for bad in [
            "http://example.org",
            "http://localhost.example.org",
            "http://localhost@example.org",
            "ftp://x",
            "https://",
            "",
        ] {
            assert!(Webhook::new(bad, "s").is_err(), "{bad}");
            let written = serde_json::json!({"url": bad, "secret": "s"});
            assert!(serde_json::from_value::<Webhook>(written).is_err(), "{bad}");
        }
        assert!(!format!("{:?}", Webhook::new("https://example.org", "key").unwrap()).contains("key"));
    }

    #[test]
    fn a_tenant_has_a_plain_name() {
        for good in ["local", "a", "acme-2.eu_west"] {
            assert_eq!(good.parse::<Tenant>().map(|tenant| tenant.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "A", "a b", "a/b", "ä", &"x".repeat(65)] {
            assert!(bad.parse::<Tenant>().is_err(), "{bad:?}");
        }
    }
}
