//! Toolcell as a library: a directory of tools, a model, and who answers, wired together.
//!
//! This whole program runs offline, because its model plays a script:
//!
//! ```
//! use std::sync::Arc;
//!
//! use futures::StreamExt as _;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use toolcell::contract::{Answer, CallContext, Request, ToolResult};
//! use toolcell::model::ScriptedModel;
//! use toolcell::{CancellationToken, Host, HostOptions, NativeTool, Question, RunEvent, RunRequest, RunStatus};
//!
//! /// The arguments of a tool; the model reads these comments.
//! #[derive(Deserialize, JsonSchema)]
//! struct Mail {
//!     /// Whom it goes to.
//!     to: String,
//! }
//!
//! /// A tool that is part of this program. It asks before it does anything.
//! async fn send_mail(mail: Mail, call: CallContext) -> ToolResult {
//!     match call.answer {
//!         None => ToolResult::pending(Request::approval(format!("Send a mail to {}?", mail.to))),
//!         Some(_yes) => ToolResult::ok(format!("sent to {}", mail.to)),
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Every .wasm file in the directory is a tool, and this program's function is one beside them.
//!     let tools = std::env::temp_dir().join("toolcell-example");
//!     std::fs::create_dir_all(&tools)?;
//!     let host = Host::open(&tools, HostOptions::default())
//!         .await?
//!         .with_tool(NativeTool::new("send_mail", "Sends a mail.", send_mail)?);
//!
//!     // `model::provider_from_environment` finds a real one.
//!     let model = ScriptedModel::from_json(
//!         r#"{"turns": [
//!             {"calls": [{"tool": "send_mail", "arguments": {"to": "ada@example.org"}}]},
//!             {"say": "It is sent."}
//!         ]}"#,
//!     )?;
//!     let agent = host.agent(Arc::new(model));
//!
//!     // Nobody is there to ask, so the run waits. It is nothing but data then.
//!     let result = agent.run(RunRequest::prompt("Write to Ada.")).await?;
//!     assert_eq!(result.status(), RunStatus::Pending);
//!     let Some(waiting) = result.into_suspended() else { return Err("it should wait".into()) };
//!
//!     // Later, somebody says yes: the very call goes on, and the rest of the run comes as a stream.
//!     let answers = waiting.open().map(|call| Answer::approve(&call.request().id)).collect();
//!     let mut stream = agent.stream_resumed(waiting, answers, CancellationToken::new());
//!     while let Some(event) = stream.next().await {
//!         if let RunEvent::Text { text } = event {
//!             print!("{text}");
//!         }
//!     }
//!     let result = stream.result().await?;
//!     assert_eq!((result.status(), result.text.as_str()), (RunStatus::Done, "It is sent."));
//!     assert_eq!(result.tool_calls[0].ending.result, ToolResult::ok("sent to ada@example.org"));
//!
//!     // Or someone is there all the time: a terminal, a chat, a policy of your own.
//!     let _agent = agent.wait_for(|question: Question| async move { Some(Answer::approve(question.request.id)) });
//!     Ok(())
//! }
//! ```
//!
//! From here: [`Conversation`] for message after message, [`Hooks`] for rules of your own before and after the model and
//! each tool, [`model::provider_from_environment`] for real models, `Otlp` (feature `otlp`) for traces.

mod courier;
mod native;
#[cfg(feature = "otlp")]
mod otlp;
mod powers;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

pub use courier::{Courier, CourierError, NotDelivered, Problem, WebhookSecretError, check_webhook_secret};
pub use native::{NativeResult, NativeTool, NativeToolError};
#[cfg(feature = "otlp")]
pub use otlp::{Otlp, OtlpError};
pub use powers::{KeyValueSpaces, MemorySpaces, PowersError, StoredSpaces};
pub use time::OffsetDateTime;
pub use time::format_description::well_known::Rfc3339;
pub use tokio_util::sync::CancellationToken;
pub use toolcell_agent::{
    AfterModel, AfterTool, Agent, Answered, Answerer, ApprovalPolicy, Approvals, Approve, ArgumentSchema, Asker,
    AssistantTurn, AuditEntry, AuditHead, BadDecision, BeforeModel, BeforeTool, Budget, CONVERSATIONS_MAX, Call,
    CallEnding, CallRecord, CallRequest, CallState, Caller, Catalog, Checkpoint, Claimed, Clock, Compaction,
    CompactionError, Conversation, ConversationError, ConversationOptions, Conversations, Decision, Desk, DeskError,
    EventSink, Execution, ForeignAnswer, GRANT_MAX, Grant, GrantScope, History, Hooks, Lease, LogLine, LogSource,
    Measured, Message, Model, ModelError, ModelEvent, ModelReply, ModelWarning, NewRun, NoEvents, Nobody, NotAdded,
    Notice, Observer, OpenCall, OpenCallRecord, Page, Parked, PlannedCall, Progress, Prompt, QUEUE_MAX, Question,
    QuestionState, RETENTION_DAYS_MAX, ReplyEdit, RestartCause, RunEnd, RunError, RunEvent, RunHead, RunKey, RunLimit,
    RunRequest, RunResult, RunStatus, RunStore, RunStream, SchemaError, SendRequest, SentPrompt, Signals, Slot,
    SlotState, Step, StopReason, StoreError, StoreFuture, StoredCall, StoredEnd, StoredQuestion, StoredRecord,
    StoredReply, StoredRun, StoredStatus, SuspendedRun, Swept, Tenant, TenantError, TenantSettings, Tool, ToolReply,
    Usage, Verbatim, WEIGHT_MAX, Wake, WarningKind, Webhook, WebhookError, WhilePending, Window, Worker, WorkerEvent,
    WorkerOptions, fresh_call_id, is_balanced,
};
pub use toolcell_contract as contract;
pub use toolcell_model as model;
pub use toolcell_policy as policy;
pub use toolcell_policy::{Policy, PolicyError};
pub use toolcell_sandbox::{Config as SandboxConfig, Limits};
pub use toolcell_store as store;
pub use toolcell_toolbox::{CachePlace, Options as ToolboxOptions, Toolbox};
pub use watch::{Change, Never, WatchError};

use native::WithNative;
use powers::{OwnPlaces, PolicyApprovals, PolicyPowers, SpacesInUse};

/// What a host can be told; the defaults are meant for one person's machine.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// Limits of a call and of all calls together.
    pub sandbox: SandboxConfig,
    /// Where compiled code is kept, and how much a directory may hold.
    pub toolbox: ToolboxOptions,
    /// What the components may do beyond computing. By default nothing.
    pub policy: Policy,
    /// Files of the host's own that no grant may reach, for example its policy and its store. The directory of tools, the
    /// cache and the files of secrets are among them anyway.
    pub own_files: Vec<PathBuf>,
}

/// Why a host cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A limit makes no sense, or the machine refuses what the sandbox needs.
    #[error(transparent)]
    Sandbox(#[from] toolcell_sandbox::Error),
    /// The directory cannot be used.
    #[error(transparent)]
    Toolbox(#[from] toolcell_toolbox::Error),
    /// The policy cannot be used on this machine.
    #[error("the policy cannot be used")]
    Powers(#[from] PowersError),
}

/// A directory of tools, ready to be called, and the program's own tools beside them.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
    native: Vec<NativeTool>,
}

/// What all clones of a host share.
pub(crate) struct Shared {
    pub(crate) toolbox: Arc<Toolbox>,
    policy: RwLock<Arc<Policy>>,
    limits: Limits,
    own: OwnPlaces,
    spaces: Arc<SpacesInUse>,
}

impl Shared {
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_policy(&self, policy: Policy) -> Result<(), PowersError> {
        let powers = PolicyPowers::new(policy.clone(), &self.own, self.limits, Arc::clone(&self.spaces))?;
        self.toolbox.set_powers(Arc::new(powers));
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
        Ok(())
    }
}

impl Host {
    /// Loads every component of a directory. A bad file is reported by [`Toolbox::rejected`]; the others load.
    ///
    /// # Errors
    /// [`Error::Toolbox`] when there is no such directory, [`Error::Sandbox`] when a limit makes no sense.
    pub async fn open(tools: impl AsRef<Path>, options: HostOptions) -> Result<Self, Error> {
        let HostOptions { sandbox, toolbox, policy, own_files } = options;
        let limits = sandbox.limits;
        let toolbox = Toolbox::open(tools.as_ref(), toolcell_sandbox::Sandbox::new(sandbox)?, toolbox).await?;
        let places = [Some(toolbox.path()), toolbox.cache_path()].into_iter().flatten();
        let own = OwnPlaces::new(places.chain(own_files.iter().map(PathBuf::as_path)));
        let toolbox = Arc::new(toolbox);
        let shared = Shared { toolbox, policy: RwLock::default(), limits, own, spaces: Arc::default() };
        shared.set_policy(policy)?;
        Ok(Self { shared: Arc::new(shared), native: Vec::new() })
    }

    /// Puts another policy into use, for calls that begin from now on. One that cannot be used leaves the one before.
    ///
    /// # Errors
    /// [`PowersError`] says which grant cannot be given.
    pub fn set_policy(&self, policy: Policy) -> Result<(), PowersError> {
        self.shared.set_policy(policy)
    }

    /// Says who keeps what the components note down, for calls that begin from now on. Before that it is the memory of this
    /// process.
    pub fn keep_key_values(&self, spaces: Arc<dyn KeyValueSpaces>) {
        self.shared.spaces.set(spaces);
    }

    /// The policy in use.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.shared.policy()
    }

    /// Which calls a person approves: as the policy says at the time, and by `usual` where it says nothing.
    #[must_use]
    pub fn approvals(&self, usual: Approve) -> Arc<dyn Approvals> {
        Arc::new(PolicyApprovals { shared: Arc::clone(&self.shared), usual })
    }

    /// Keeps the tools and the policy as the files are, until the future is dropped: what changes in the directory of tools and
    /// in the file `policy` is in use a moment later, and told to `changed`. A component or a policy that is broken by then
    /// leaves its last good version in use.
    ///
    /// # Errors
    /// [`WatchError`] when the system cannot watch the directory.
    pub async fn watch(&self, policy: Option<PathBuf>, changed: impl Fn(Change) + Send) -> Result<Never, WatchError> {
        watch::watch(&self.shared, policy, changed).await
    }

    /// The same host with a tool that is a function of this program. It hides a component's tool of the same name, and
    /// replaces an own one; a call of that one that waits for an answer ends as `tool-changed`.
    #[must_use]
    pub fn with_tool(mut self, tool: NativeTool) -> Self {
        self.native.retain(|own| own.definition().name != tool.definition().name);
        self.native.push(tool);
        self
    }

    /// All tools, of the directory and of the program.
    #[must_use]
    pub fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::new(WithNative {
            native: self.native.clone(),
            others: Arc::clone(&self.shared.toolbox) as Arc<dyn Catalog>,
        })
    }

    /// The tools of the directory, with what is known about their files.
    #[must_use]
    pub fn toolbox(&self) -> &Arc<Toolbox> {
        &self.shared.toolbox
    }

    /// An agent that uses these tools, without anybody to ask. A person approves what the policy says.
    #[must_use]
    pub fn agent(&self, model: Arc<dyn Model>) -> Agent {
        Agent::new(model, self.catalog()).with_approval(self.approvals(Approve::Never))
    }
}
