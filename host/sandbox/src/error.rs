//! What can go wrong before a call: at the start of a sandbox, and while a component is loaded.

use toolcell_contract::NameError;
use toolcell_contract::limits::TOOLS_PER_COMPONENT_MAX;

/// Why a sandbox cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A limit of the configuration is zero or absurd.
    #[error("the limit {field} cannot be {value}: {rule}")]
    BadLimit {
        /// The name of the field.
        field: &'static str,
        /// What it was set to.
        value: u64,
        /// What it may be.
        rule: String,
    },
    /// Wasmtime does not start on this machine.
    #[error("cannot start the WebAssembly engine")]
    Engine(#[source] wasmtime::Error),
    /// The threads that run guests cannot be started.
    #[error("cannot start the threads that run tools")]
    Threads(#[source] std::io::Error),
    /// A component's machine code cannot be written out.
    #[error("cannot serialize the machine code of component {digest}")]
    Artifact {
        /// Of which component.
        digest: crate::Digest,
        /// Why.
        #[source]
        source: wasmtime::Error,
    },
}

/// Why a component is not loaded. For its operator and its author, never for a model; what it quotes of the
/// component is escaped and cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The bytes are not a WebAssembly component.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// It is a component, but it needs a proposal that this host switches off.
    #[error("the component uses a WebAssembly feature that this host switches off: {0}; build it without that feature")]
    UnsupportedFeature(String),
    /// It does not export the interface of a tool.
    #[error("the component does not export toolcell:tool/tools@0.1.0, so it is no tool; {found}")]
    WrongWorld {
        /// What it exports instead, as a clause.
        found: String,
    },
    /// It imports what this host does not provide.
    #[error("the component imports what this host does not provide: {}; build it without them", .0.join(", "))]
    UnknownImport(Vec<String>),
    /// It, or what it needs at once, is larger than a limit.
    #[error("the component is too large: {0}")]
    TooLarge(String),
    /// Compiling it takes more time or memory than allowed.
    #[error("compiling the component exceeds a limit: {0}")]
    CompileLimit(String),
    /// Its list of tools did not come in time.
    #[error("list-tools did not return within {0} ms: it must return a constant list and compute nothing")]
    ListTimeout(u64),
    /// Its list of tools ended in a failure.
    #[error("list-tools failed: {reason}; it must return a constant list and use no capability{}", stderr_note(.stderr))]
    ListFailed {
        /// In the host's words.
        reason: String,
        /// The end of what the guest wrote to stderr, escaped.
        stderr: String,
    },
    /// A tool has a name that no provider takes.
    #[error("the component offers a tool with a bad name: {0}")]
    BadName(#[from] NameError),
    /// A tool's schema or its texts break a rule.
    #[error("the definition of tool \"{tool}\" breaks a rule: {rule}")]
    BadSchema {
        /// The tool.
        tool: String,
        /// Which rule, and how to keep it.
        rule: String,
    },
    /// It offers too many tools.
    #[error("the component offers {found} tools and may offer {TOOLS_PER_COMPONENT_MAX}: split it")]
    TooManyTools {
        /// How many, as far as they were counted.
        found: String,
    },
    /// It offers a name twice, or another component has it already.
    #[error("the tool name \"{0}\" is taken: every tool needs a name of its own")]
    DuplicateTool(String),
    /// It offers a name that the host keeps for itself.
    #[error("the tool name \"{0}\" is reserved by the host: choose another")]
    ReservedName(String),
    /// The sandbox itself failed; the component may be good.
    #[error("the host failed while it loaded the component: {0}")]
    HostFault(String),
}

impl LoadError {
    /// The fixed code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAComponent(_) => "not-a-component",
            Self::UnsupportedFeature(_) => "unsupported-feature",
            Self::WrongWorld { .. } => "wrong-world",
            Self::UnknownImport(_) => "unknown-import",
            Self::TooLarge(_) => "too-large",
            Self::CompileLimit(_) => "compile-limit",
            Self::ListTimeout(_) => "list-timeout",
            Self::ListFailed { .. } => "list-failed",
            Self::BadName(_) => "bad-name",
            Self::BadSchema { .. } => "bad-schema",
            Self::TooManyTools { .. } => "too-many-tools",
            Self::DuplicateTool(_) => "duplicate-tool",
            Self::ReservedName(_) => "reserved-name",
            Self::HostFault(_) => "host-fault",
        }
    }
}

fn stderr_note(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; it wrote: {stderr}") }
}
