//! Toolcell as a library: a directory of tools, a model, and who answers, wired together.
//!
//! ```
//! use std::sync::Arc;
//!
//! use toolcell::contract::Answer;
//! use toolcell::model::ScriptedModel;
//! use toolcell::{Host, HostOptions, Question, RunRequest, RunStatus};
//!
//! # let directory = tempfile::tempdir()?;
//! # let tools = directory.path();
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! // Every .wasm file in `tools` is a tool now.
//! let host = Host::open(tools, HostOptions::default()).await?;
//! // A model that plays a script; `model::provider_from_environment` finds a real one.
//! let model = ScriptedModel::from_json(r#"{"turns": [{"say": "2 + 2 is 4."}]}"#)?;
//! // Who is asked when a tool waits. This one agrees to everything.
//! let agent = host
//!     .agent(Arc::new(model))
//!     .with_answerer(|question: Question| async move { Some(Answer::approve(question.request.id)) });
//!
//! let result = agent.run(RunRequest::prompt("What is 2 + 2?")).await?;
//! assert_eq!((result.status(), result.text.as_str()), (RunStatus::Done, "2 + 2 is 4."));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod native;
#[cfg(feature = "otlp")]
mod otlp;

use std::path::Path;
use std::sync::Arc;

pub use native::{NativeTool, NativeToolError};
#[cfg(feature = "otlp")]
pub use otlp::{Otlp, OtlpError};
pub use tokio_util::sync::CancellationToken;
pub use toolcell_agent::{
    Agent, Answerer, Budget, Call, CallEnding, CallRecord, CallRequest, CallState, Caller, Catalog, EventSink,
    Execution, LogLine, LogSource, Message, Model, ModelError, ModelEvent, NoEvents, Nobody, Observer, OpenCall,
    Progress, Prompt, Question, RunEnd, RunError, RunEvent, RunLimit, RunRequest, RunResult, RunStatus, SuspendedRun,
    Tool, fresh_call_id,
};
pub use toolcell_agent::{ArgumentSchema, SchemaError};
pub use toolcell_contract as contract;
pub use toolcell_model as model;
pub use toolcell_sandbox::{Config as SandboxConfig, Limits};
pub use toolcell_toolbox::{CachePlace, Options as ToolboxOptions, Toolbox};

use native::WithNative;

/// What a host can be told; the defaults are meant for one person's machine.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// Limits of a call and of all calls together.
    pub sandbox: SandboxConfig,
    /// Where compiled code is kept, and how much a directory may hold.
    pub toolbox: ToolboxOptions,
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
}

/// A directory of tools, ready to be called, and the program's own tools beside them.
#[derive(Clone)]
pub struct Host {
    toolbox: Arc<Toolbox>,
    native: Vec<NativeTool>,
}

impl Host {
    /// Loads every component of a directory. A bad file is reported by [`Toolbox::rejected`]; the others load.
    ///
    /// # Errors
    /// [`Error::Toolbox`] when there is no such directory, [`Error::Sandbox`] when a limit makes no sense.
    pub async fn open(tools: impl AsRef<Path>, options: HostOptions) -> Result<Self, Error> {
        let sandbox = toolcell_sandbox::Sandbox::new(options.sandbox)?;
        let toolbox = Toolbox::open(tools.as_ref(), sandbox, options.toolbox).await?;
        Ok(Self { toolbox: Arc::new(toolbox), native: Vec::new() })
    }

    /// The same host with a tool that is a function of this program. It hides a component's tool of the same name, and
    /// replaces an own one.
    #[must_use]
    pub fn with_tool(mut self, tool: NativeTool) -> Self {
        self.native.retain(|own| own.definition().name != tool.definition().name);
        self.native.push(tool);
        self
    }

    /// All tools, of the directory and of the program.
    #[must_use]
    pub fn catalog(&self) -> Arc<dyn Catalog> {
        let components = Arc::clone(&self.toolbox) as Arc<dyn Catalog>;
        if self.native.is_empty() {
            return components;
        }
        Arc::new(WithNative { native: self.native.clone(), others: components })
    }

    /// The tools of the directory, with what is known about their files.
    #[must_use]
    pub fn toolbox(&self) -> &Arc<Toolbox> {
        &self.toolbox
    }

    /// An agent that uses these tools, without anybody to ask.
    #[must_use]
    pub fn agent(&self, model: Arc<dyn Model>) -> Agent {
        Agent::new(model, self.catalog())
    }
}
