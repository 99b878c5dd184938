//! The tools as the loop sees them: a list, and a way to call one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, ready};
use serde::{Deserialize, Serialize};
use toolcell_contract::{CallContext, Definition, Digest, Outcome};

use crate::schema::{ArgumentSchema, SchemaError};
use crate::store::Tenant;

/// A set of tools. A directory of components implements it; so may a program with tools of its own.
pub trait Catalog: Send + Sync {
    /// The tools as they are now. Names are unique.
    fn tools(&self) -> Vec<Arc<Tool>>;

    /// Executes a tool once. Arguments were checked against its schema. Dropping the future ends the execution.
    ///
    /// What comes back goes to the model and to people as it is. A catalogue of code that is not trusted holds it to
    /// [`toolcell_contract::accept`], as directories of components and native tools are; the id of a question is
    /// replaced in any case.
    fn call<'a>(&'a self, call: Call, observer: Arc<dyn Observer>) -> BoxFuture<'a, Execution>;

    /// Whether a component can be called by its digest, also when it is not offered any more.
    fn has_component(&self, digest: Digest) -> BoxFuture<'_, bool> {
        ready(self.tools().iter().any(|tool| tool.digest == Some(digest))).boxed()
    }

    /// The bytes of a component, to be kept for a call that waits.
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        let _ = digest;
        ready(None).boxed()
    }

    /// Makes a component that was kept callable by its digest, without offering its tools. One that cannot be used is passed
    /// over: calls of it end as `tool-changed`.
    fn bring_component(&self, digest: Digest, bytes: Vec<u8>) -> BoxFuture<'_, ()> {
        let _ = (digest, bytes);
        ready(()).boxed()
    }
}

/// A tool that can be called: what is known of it, and its checked schema.
#[derive(Debug)]
pub struct Tool {
    /// Name, description and schemas.
    pub definition: Definition,
    /// The component that holds it; none for a tool that is part of the host program.
    pub digest: Option<Digest>,
    /// The input schema, ready to check arguments.
    pub schema: ArgumentSchema,
}

impl Tool {
    /// Makes a definition callable.
    ///
    /// # Errors
    /// [`SchemaError`] when the input schema is no JSON Schema, or refers to anything outside itself.
    pub fn new(definition: Definition, digest: Option<Digest>) -> Result<Self, SchemaError> {
        let schema = ArgumentSchema::compile(&definition.input_schema)?;
        Ok(Self { definition, digest, schema })
    }
}

/// One execution of a tool.
#[derive(Debug, Clone)]
pub struct Call {
    /// The tool, and with its digest the very code.
    pub tool: Arc<Tool>,
    /// A JSON object that fits the tool's schema.
    pub arguments: String,
    /// Whose call it is: what a tool keeps for one tenant does not exist for another.
    pub tenant: Tenant,
    /// What the call knows about itself.
    pub context: CallContext,
}

/// How an execution ended, and what it printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The end.
    pub outcome: Outcome,
    /// What the tool printed and logged, bounded. For its author; the model never sees it.
    pub log: Vec<LogLine>,
    /// How long it took.
    pub duration: Duration,
}

/// What happens while a tool runs.
pub trait Observer: Send + Sync {
    /// The tool says how far it has come.
    fn progress(&self, progress: Progress);
}

/// How far a long call has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Grows.
    pub done: f64,
    /// With it, `done` is a fraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is happening.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A line that a tool printed or logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Where it came from.
    pub source: LogSource,
    /// The text; a guest's own words.
    pub text: String,
}

/// Where a log line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogSource {
    /// Standard output.
    Stdout,
    /// Standard error: a panic's message, for one.
    Stderr,
    /// The log interface, at this level.
    Trace,
    /// The log interface, at this level.
    Debug,
    /// The log interface, at this level.
    Info,
    /// The log interface, at this level.
    Warn,
    /// The log interface, at this level.
    Error,
    /// The host itself, for example to say how much was dropped.
    Host,
}

impl fmt::Display for LogSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Host => "host",
        })
    }
}
