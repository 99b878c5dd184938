//! What a call leaves behind beside its outcome: its log, its measures, and what it says while it runs.

use std::time::Duration;

use toolcell_contract::Outcome;

use crate::ending::Fault;
use crate::missing::Missing;
use crate::state::CallState;

/// How one call ended, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct CallReport {
    /// The tool's result, its question, or the host's failure.
    pub outcome: Outcome,
    /// What the tool printed and logged.
    pub log: CallLog,
    /// Time that it waited for a free place.
    pub queued: Duration,
    /// Time from the moment it got a place until its end.
    pub duration: Duration,
    /// The most bytes of linear memory that it had at once.
    pub memory_bytes_peak: usize,
    /// The limits that it ran into, each once, also those that it survived.
    pub limits_hit: Vec<LimitHit>,
    /// What it asked for and is not granted, each once.
    pub missing: Vec<Missing>,
}

impl CallReport {
    /// The report of a call that ran.
    pub(crate) fn new(
        ended: Result<Outcome, Fault>,
        state: &mut CallState,
        queued: Duration,
        duration: Duration,
    ) -> Self {
        let log = state.take_log();
        let mut limits_hit = state.limits_hit(&log);
        if let Some(limit) = ended.as_ref().err().and_then(|fault| fault.limit()).filter(|l| !limits_hit.contains(l)) {
            limits_hit.push(limit);
        }
        Self {
            outcome: ended.unwrap_or_else(|fault| Outcome::Failed(fault.failure())),
            log,
            queued,
            duration,
            memory_bytes_peak: state.limiter.memory_bytes_peak(),
            limits_hit,
            missing: state.traffic.take_missing(),
        }
    }

    /// The report of a call of which nothing is left.
    pub(crate) fn refused(fault: Fault, queued: Duration, duration: Duration) -> Self {
        Self {
            outcome: Outcome::Failed(fault.failure()),
            log: CallLog::default(),
            queued,
            duration,
            memory_bytes_peak: 0,
            limits_hit: fault.limit().into_iter().collect(),
            missing: Vec::new(),
        }
    }
}

/// A limit that a call ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitHit {
    /// The time limit.
    Deadline,
    /// The memory of this call.
    Memory,
    /// The memory of all calls together.
    SharedMemory,
    /// The number or size of tables.
    Tables,
    /// Core instances, memories or handles.
    Handles,
    /// The bytes of one crossing from guest to host.
    HostcallBytes,
    /// Native stack.
    Stack,
    /// Log lines or their bytes; the rest was dropped.
    Log,
    /// Progress reports; the rest was dropped.
    Progress,
    /// Kept bytes of stdout; the oldest were dropped.
    Stdout,
    /// Kept bytes of stderr; the oldest were dropped.
    Stderr,
    /// A size limit of the result.
    Output,
}

impl LimitHit {
    /// The word for it in records and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::SharedMemory => "shared-memory",
            Self::Tables => "tables",
            Self::Handles => "handles",
            Self::HostcallBytes => "hostcall-bytes",
            Self::Stack => "stack",
            Self::Log => "log",
            Self::Progress => "progress",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Output => "output",
        }
    }
}

/// What a tool printed and logged during one call. All of it is the guest's text: escape it before a terminal
/// shows it, and never give it to a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallLog {
    /// Lines of `toolcell:tool/log`, in order.
    pub lines: Vec<LogLine>,
    /// Lines beyond the limit, which were not kept.
    pub lines_dropped: u64,
    /// The end of what went to stdout; bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// Bytes of stdout that came before it.
    pub stdout_bytes_dropped: u64,
    /// The end of what went to stderr, where a panic or a traceback stands.
    pub stderr: String,
    /// Bytes of stderr that came before it.
    pub stderr_bytes_dropped: u64,
}

/// One line of a tool's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// The guest's text.
    pub text: String,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// For whoever writes the tool.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// How far a long call has come, in the guest's words.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Grows; always finite.
    pub done: f64,
    /// With it `done` is a fraction; always finite.
    pub total: Option<f64>,
    /// What is happening.
    pub message: Option<String>,
}

/// Hears what a call says while it runs.
///
/// The methods run on the thread of the guest, between two of its instructions: they must return at once, and
/// hand on what takes time through a channel.
pub trait Observer: Send + Sync {
    /// The tool reports how far it has come.
    fn progress(&self, progress: Progress) {
        let _ = progress;
    }

    /// The tool writes a line to its log; the same line is in [`CallLog::lines`] afterwards.
    fn log(&self, line: &LogLine) {
        let _ = line;
    }
}

/// An observer that hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
