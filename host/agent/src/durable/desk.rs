//! What people do with runs on record: start, list, answer, cancel.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, pending};
use futures::stream::{BoxStream, StreamExt as _, empty};
use serde_json::Value;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use super::worker::{Worker, WorkerOptions};
use crate::agent::Agent;
use crate::catalog::{Call, Catalog, Execution, Observer, Tool};
use crate::decision::{self, BadDecision};
use crate::event::NoEvents;
use crate::model::{Model, ModelError, ModelEvent, Prompt};
use crate::store::{
    Answered, Decision, Grant, NewRun, Page, QuestionState, RunHead, RunKey, RunStore, SlotState, StoreError,
    StoredQuestion, StoredRun, Tenant,
};
use crate::transcript::{Message, is_balanced};

/// The runs of one tenant, for people and for programs that act for them.
#[derive(Clone)]
pub struct Desk {
    store: Arc<dyn RunStore>,
    tenant: Tenant,
}

/// The longest that a grant lasts. Who wants it for longer looks at it again.
pub const GRANT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Which later calls a grant is for, besides being of the same tool and component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantScope {
    /// Those of the same run with the same arguments.
    SameArguments,
    /// Those of the same run.
    Run,
    /// Those of all runs of the tenant.
    Tenant,
}

/// Why something cannot be done with a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeskError {
    /// A grant cannot answer such a question.
    #[error(
        "this question asks for more than a yes, so it is asked each time: answer it without a grant for later calls"
    )]
    NotPlain,
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The decision makes no sense. The question stays open.
    #[error(transparent)]
    Decision(#[from] BadDecision),
    /// The question was decided otherwise before.
    #[error("the question was {} before", said(.0))]
    Conflict(Box<Decision>),
    /// The conversation has a call without its result, or a result without its call.
    #[error("the conversation is not balanced: every call needs exactly one result, straight after its turn")]
    Unbalanced,
}

fn said(decision: &Decision) -> String {
    let word = match (decision.answer.ok, decision.answer.reason.as_deref()) {
        (true, _) => "approved",
        (false, Some("expired")) => "left to expire",
        (false, Some("cancelled")) => "cancelled",
        (false, _) => "declined",
    };
    match &decision.by {
        Some(by) => format!("{word} by {by}"),
        None => word.to_owned(),
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl Desk {
    /// The desk of a tenant.
    #[must_use]
    pub fn new(store: Arc<dyn RunStore>, tenant: Tenant) -> Self {
        Self { store, tenant }
    }

    /// Whose it is.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The key of one of its runs.
    #[must_use]
    pub fn key(&self, run: impl Into<String>) -> RunKey {
        RunKey { tenant: self.tenant.clone(), run: run.into() }
    }

    /// Writes a new run for a worker to take.
    ///
    /// # Errors
    /// [`DeskError::Unbalanced`], [`DeskError::Store`].
    pub async fn start(
        &self,
        system: Option<String>,
        messages: Vec<Message>,
        model: impl Into<String>,
    ) -> Result<RunKey, DeskError> {
        if !is_balanced(&messages) {
            return Err(DeskError::Unbalanced);
        }
        let key = RunKey::fresh(self.tenant.clone());
        let run = NewRun { key: key.clone(), system, messages, model: model.into() };
        let Err(error) = self.store.create(run.clone()).await else { return Ok(key) };
        if !matches!(error, StoreError::Unavailable { .. }) {
            return Err(error.into());
        }
        // It may have been written all the same. Only here is its key known: whoever starts again would have two runs.
        match self.store.create(run).await {
            Ok(()) | Err(StoreError::Exists(_)) => Ok(key),
            Err(error) => Err(error.into()),
        }
    }

    /// Decides a question. The first decision counts; the same again is fine.
    ///
    /// # Errors
    /// [`DeskError::Decision`] when it makes no sense, [`DeskError::Conflict`] when another came first,
    /// [`StoreError::NotFound`] when there is no such question.
    pub async fn decide(&self, decision: Decision) -> Result<RunKey, DeskError> {
        let asked = self.store.question(&self.tenant, &decision.answer.id).await?;
        if asked.state == QuestionState::Open {
            let schema = match decision.arguments {
                Some(_) => self.input_schema(&asked).await?,
                None => None,
            };
            decision::check(&asked.question.request, || schema, &decision)?;
        }
        match self.store.answer(&self.tenant, decision).await? {
            Answered::First(key) | Answered::Again(key) => Ok(key),
            Answered::Conflict(other) => Err(DeskError::Conflict(Box::new(other))),
        }
    }

    /// Says yes to later calls, too: of the tool and the very component that ask this question, within `scope`, until
    /// `lasts` is over (at most [`GRANT_MAX`]).
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such question, [`DeskError::NotPlain`] when it asks for more than a yes.
    pub async fn grant(
        &self,
        question: &str,
        scope: GrantScope,
        lasts: Duration,
        by: &str,
    ) -> Result<Grant, DeskError> {
        let StoredQuestion { key, question, .. } = self.store.question(&self.tenant, question).await?;
        if !question.is_plain_approval() {
            return Err(DeskError::NotPlain);
        }
        let grant = Grant {
            id: format!("grt-{}", uuid::Uuid::new_v4().simple()),
            tool: question.tool,
            digest: question.digest,
            arguments: match (scope, question.arguments) {
                (GrantScope::SameArguments, Value::Object(arguments)) => Some(arguments),
                _ => None,
            },
            run: (scope != GrantScope::Tenant).then_some(key.run),
            uses: None,
            expires_at: OffsetDateTime::now_utc() + lasts.min(GRANT_MAX),
            by: by.to_owned(),
        };
        self.store.add_grant(&self.tenant, grant.clone()).await?;
        Ok(grant)
    }

    /// The grants that hold.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        self.store.grants(&self.tenant).await
    }

    /// Takes a grant back.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn revoke(&self, grant: &str) -> Result<(), StoreError> {
        self.store.revoke_grant(&self.tenant, grant).await
    }

    async fn input_schema(&self, asked: &StoredQuestion) -> Result<Option<serde_json::Value>, StoreError> {
        let run = self.store.run(&asked.key).await?;
        let call = run.calls.into_iter().find(|call| call.slot == asked.slot);
        Ok(call.and_then(|call| match call.state {
            SlotState::Suspended { open, .. } => Some(open.tool.input_schema),
            _ => None,
        }))
    }

    /// The open questions, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn questions(&self, page: Page) -> Result<Vec<StoredQuestion>, StoreError> {
        self.store.questions(&self.tenant, page).await
    }

    /// A question, whatever its state.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn question(&self, id: &str) -> Result<StoredQuestion, StoreError> {
        self.store.question(&self.tenant, id).await
    }

    /// The runs, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn runs(&self, page: Page) -> Result<Vec<RunHead>, StoreError> {
        self.store.runs(&self.tenant, page).await
    }

    /// A run.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn run(&self, run: &str) -> Result<StoredRun, StoreError> {
        self.store.run(&self.key(run)).await
    }

    /// Ends a run: its open questions are closed, and what is under way is stopped as soon as its worker hears of it. A run
    /// that no worker has is ended at once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn cancel(&self, run: &str) -> Result<(), StoreError> {
        let key = self.key(run);
        self.store.cancel(&key).await?;
        // Nothing of a cancelled run needs its model or its tools.
        let agent = Agent::new(Arc::new(NoModel), Arc::new(NoTools));
        let worker = Worker::new(agent, Arc::clone(&self.store), WorkerOptions::default());
        worker.go_on(&key, Arc::new(NoEvents), CancellationToken::new()).await.map(drop)
    }
}

/// The model of a run that only ends.
struct NoModel;

impl Model for NoModel {
    fn name(&self) -> &str {
        "none"
    }

    fn ask<'a>(&'a self, _prompt: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
        // The answer of nobody is one that breaks off.
        empty().boxed()
    }
}

/// The tools of a run that only ends.
struct NoTools;

impl Catalog for NoTools {
    fn tools(&self) -> Vec<Arc<Tool>> {
        Vec::new()
    }

    fn call<'a>(&'a self, _call: Call, _observer: Arc<dyn Observer>) -> BoxFuture<'a, Execution> {
        // A cancelled run drops it.
        pending().boxed()
    }
}
