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
    /// The host itself failed, for example because a disk is full.
    HostFailed,
    /// It was stopped with Ctrl-C or SIGTERM.
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
    6  the host itself failed, for example because a disk is full
  130  stopped with Ctrl-C or SIGTERM";

/// Marks an error that is the host's own and not what was typed.
#[derive(Debug)]
pub(crate) struct HostFailure;

impl std::fmt::Display for HostFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the host failed")
    }
}

impl Exit {
    /// The exit code of an error that ended a command.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if error.is::<HostFailure>() { Self::HostFailed } else { Self::Usage }
    }

    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::ToolError => 1,
            Self::Usage => 2,
            Self::Pending => 3,
            Self::Incomplete => 4,
            Self::ModelFailed => 5,
            Self::HostFailed => 6,
            Self::Cancelled => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
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
