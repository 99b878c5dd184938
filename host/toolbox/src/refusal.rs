//! Why one file, or one tool of it, is left out, with a fixed code.

use std::io;

use toolcell_agent::SchemaError;
use toolcell_sandbox::LoadError;

use crate::names::escaped;

/// Why one file, or one tool of it, is left out. Texts from outside are escaped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The sandbox does not take the component.
    #[error(transparent)]
    Component(#[from] LoadError),
    /// It is a symbolic link.
    #[error("it is a symbolic link, and what it leads to could change unseen: put the file itself into the directory")]
    Symlink,
    /// It is neither file nor link.
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    /// Its name is no UTF-8.
    #[error("its name is not valid UTF-8: rename it")]
    BadFileName,
    /// The system does not let it be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// It is larger than a component may be.
    #[error("it has {size} bytes; a component may have {max}")]
    FileTooLarge { size: u64, max: u64 },
    /// It had another content a moment ago.
    #[error("it changed while it was read: it is read again at the next reload")]
    Changing,
    /// Another file has the same content.
    #[error("it has the same content as \"{}\", whose tools are offered once: remove one of the two", escaped(.0))]
    DuplicateFile(String),
    /// The directory holds more files than the limit.
    #[error(
        "the directory holds {found} .wasm files and only the first {max} by name are read: {} are left out, from \
         this one on; remove some or raise files_max",
        found - max
    )]
    TooManyFiles { found: usize, max: usize },
    /// The tools of the files before it fill the limit.
    #[error("with its {more} tools the directory would offer more than {max}: remove some or raise tools_max")]
    TooManyTools { more: usize, max: usize },
    /// Another file offers a tool of this name.
    #[error(
        "the tool name \"{tool}\" is taken by \"{}\", which comes first by file name: rename or remove one of the two",
        escaped(.by)
    )]
    DuplicateTool { tool: String, by: String },
    /// The host keeps the name for itself.
    #[error("the tool name \"{0}\" is reserved by the host: choose another")]
    ReservedName(String),
    /// The input schema cannot check anything.
    #[error("the tool \"{tool}\" cannot be offered: {}", escaped(&.source.to_string()))]
    InputSchema { tool: String, source: SchemaError },
    /// The output schema cannot check anything.
    #[error("the tool \"{tool}\" cannot be offered: the output schema is not usable: {}", escaped(.problem))]
    OutputSchema { tool: String, problem: String },
}

impl Refusal {
    /// A fault of the host, not of the file.
    pub(crate) fn host_fault(what: &str) -> Self {
        Self::Component(LoadError::HostFault(what.to_owned()))
    }

    /// The fixed code.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Component(error) => error.code(),
            Self::Symlink | Self::NotAFile(_) => "not-a-file",
            Self::BadFileName => "bad-file-name",
            Self::Unreadable(_) => "unreadable",
            Self::FileTooLarge { .. } => "too-large",
            Self::Changing => "changing",
            Self::DuplicateFile(_) => "duplicate-file",
            Self::TooManyFiles { .. } => "too-many-files",
            Self::TooManyTools { .. } => "too-many-tools",
            Self::DuplicateTool { .. } => "duplicate-tool",
            Self::ReservedName(_) => "reserved-name",
            Self::InputSchema { .. } | Self::OutputSchema { .. } => "bad-schema",
        }
    }

    /// Whether the same bytes would be refused again, so that they need not be compiled again.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Component(error) => !matches!(
                error,
                LoadError::HostFault(_)
                    | LoadError::ListTimeout(_)
                    | LoadError::ListFailed { .. }
                    | LoadError::CompileLimit(_)
            ),
            Self::ReservedName(_) | Self::InputSchema { .. } | Self::OutputSchema { .. } => true,
            _ => false,
        }
    }
}
