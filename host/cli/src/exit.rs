//! What the exit code of the program means.

use std::process::ExitCode;

use toolcell::RunStatus;

/// The exit codes, each with one meaning for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It worked.
    Done,
    /// The tool gave an error result, or the host stopped the tool.
    ToolError,
    /// What was typed makes no sense: an unknown option or tool, arguments that are no JSON, a missing directory.
    Usage,
    /// A call waits for an answer, and nobody was there to give it.
    Pending,
    /// A limit of the run ended it.
    Incomplete,
    /// The model could not be asked.
    ModelFailed,
    /// It was cancelled with Ctrl-C.
    Cancelled,
}

/// The table that `toolcell --help` prints.
pub(crate) const TABLE: &str = "\
Exit codes:
    0  it worked
    1  the tool gave an error, or was stopped
    2  wrong usage: an unknown option or tool, arguments that are no JSON, a missing directory
    3  a call waits for an answer, and nobody was there to give it
    4  a limit ended the run
    5  the model could not be asked
  130  cancelled with Ctrl-C";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::ToolError => 1,
            Exit::Usage => 2,
            Exit::Pending => 3,
            Exit::Incomplete => 4,
            Exit::ModelFailed => 5,
            Exit::Cancelled => 130,
        })
    }
}

impl From<RunStatus> for Exit {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Done => Self::Done,
            RunStatus::Pending => Self::Pending,
            RunStatus::Incomplete => Self::Incomplete,
            RunStatus::Failed => Self::ModelFailed,
            RunStatus::Cancelled => Self::Cancelled,
        }
    }
}
