//! The core: the loop between a model and its tools, and calls that wait for an answer.
//!
//! It knows nothing of WebAssembly, HTTP, SQL or any provider's JSON. What it needs of them are two narrow traits:
//! [`Catalog`] (list tools, call one) and [`Model`] (ask, read a stream); and, for runs that outlive their process, a
//! [`RunStore`]. A program puts rules of its own between them with [`Hooks`].

mod agent;
mod answerer;
mod approval;
mod board;
mod budget;
mod call;
mod call_record;
mod catalog;
mod clock;
mod compaction;
mod conversation;
mod decision;
mod durable;
mod estimate;
mod event;
mod hooks;
mod journal;
mod measured;
mod model;
mod run;
mod schema;
mod store;
mod stream;
mod suspension;
mod telemetry;
mod transcript;
mod window;
mod work_clock;

pub use agent::{Agent, RunError, RunRequest};
pub use answerer::{Answerer, Asker, Nobody, Question};
pub use approval::{ApprovalPolicy, Approvals, Approve};
pub use budget::{Budget, RunLimit};
pub use call::{CallState, Caller, ForeignAnswer, OpenCall, fresh_call_id};
pub use call_record::{CallEnding, CallRecord};
pub use catalog::{Call, Catalog, Execution, LogLine, LogSource, Observer, Progress, Tool};
pub use clock::Clock;
pub use compaction::{Compaction, CompactionError};
pub use conversation::{
    CONVERSATIONS_MAX, Conversation, ConversationError, ConversationOptions, Conversations, History, NotAdded,
    QUEUE_MAX, SendRequest, WhilePending,
};
pub use decision::BadDecision;
pub use durable::{Desk, DeskError, GRANT_MAX, GrantScope, Worker, WorkerEvent, WorkerOptions};
pub use event::{EventSink, NoEvents, RestartCause, RunEvent};
pub use hooks::{AfterModel, AfterTool, BeforeModel, BeforeTool, Hooks, PlannedCall, ReplyEdit, SentPrompt};
pub use measured::Measured;
pub use model::{Model, ModelError, ModelEvent, ModelReply, ModelWarning, Prompt, StopReason, Usage, WarningKind};
pub use run::{RunEnd, RunResult, RunStatus, SuspendedRun};
pub use schema::{ArgumentSchema, SchemaError};
pub use store::{
    Answered, AuditEntry, AuditHead, Checkpoint, Claimed, Decision, Grant, Lease, NewRun, Notice, OpenCallRecord, Page,
    Parked, QuestionState, RETENTION_DAYS_MAX, RunHead, RunKey, RunStore, Signals, Slot, SlotState, Step, StoreError,
    StoreFuture, StoredCall, StoredEnd, StoredQuestion, StoredRecord, StoredReply, StoredRun, StoredStatus, Swept,
    Tenant, TenantError, TenantSettings, WEIGHT_MAX, Wake, Webhook, WebhookError,
};
pub use stream::RunStream;

pub use transcript::{AssistantTurn, CallRequest, Message, ToolReply, Verbatim, is_balanced};
pub use window::Window;
