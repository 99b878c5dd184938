//! The words of the sandbox for a call, said in those of the agent.

use std::sync::Arc;

use toolcell_agent::{Execution, LogLine, LogSource, Observer, Progress};
use toolcell_sandbox as sandbox;
use toolcell_sandbox::{CallLog, CallReport, LogLevel};

/// Passes progress on.
pub(crate) struct Forward(pub(crate) Arc<dyn Observer>);

impl sandbox::Observer for Forward {
    fn progress(&self, progress: sandbox::Progress) {
        let sandbox::Progress { done, total, message } = progress;
        self.0.progress(Progress { done, total, message });
    }
}

/// How the call ended, with its whole log.
pub(crate) fn execution(report: CallReport) -> Execution {
    Execution { outcome: report.outcome, log: lines(report.log), duration: report.duration }
}

/// The lines of the log interface, then stdout, then stderr: their order among each other is not known. After each the
/// host says what it dropped.
fn lines(log: CallLog) -> Vec<LogLine> {
    let mut lines: Vec<_> =
        log.lines.into_iter().map(|line| LogLine { source: source(line.level), text: line.text }).collect();
    if log.lines_dropped > 0 {
        lines.push(host(format!("{} more log lines were dropped: the log of a call is bounded", log.lines_dropped)));
    }
    for (source, text, dropped) in [
        (LogSource::Stdout, log.stdout, log.stdout_bytes_dropped),
        (LogSource::Stderr, log.stderr, log.stderr_bytes_dropped),
    ] {
        if dropped > 0 {
            lines.push(host(format!("the first {dropped} bytes of {source} were dropped: only its end is kept")));
        }
        lines.extend(text.lines().map(|line| LogLine { source, text: line.to_owned() }));
    }
    lines
}

fn host(text: String) -> LogLine {
    LogLine { source: LogSource::Host, text }
}

fn source(level: LogLevel) -> LogSource {
    match level {
        LogLevel::Trace => LogSource::Trace,
        LogLevel::Debug => LogSource::Debug,
        LogLevel::Info => LogSource::Info,
        LogLevel::Warn => LogSource::Warn,
        LogLevel::Error => LogSource::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(source: LogSource, text: &str) -> LogLine {
        LogLine { source, text: text.to_owned() }
    }

    #[test]
    fn a_log_is_told_in_full_with_what_was_dropped() {
        let log = CallLog {
            lines: vec![sandbox::LogLine { level: LogLevel::Warn, text: "hot".to_owned() }],
            lines_dropped: 3,
            stdout: "one\ntwo\n".to_owned(),
            stdout_bytes_dropped: 0,
            stderr: "at line 7".to_owned(),
            stderr_bytes_dropped: 12,
        };
        assert_eq!(
            lines(log),
            [
                line(LogSource::Warn, "hot"),
                line(LogSource::Host, "3 more log lines were dropped: the log of a call is bounded"),
                line(LogSource::Stdout, "one"),
                line(LogSource::Stdout, "two"),
                line(LogSource::Host, "the first 12 bytes of stderr were dropped: only its end is kept"),
                line(LogSource::Stderr, "at line 7"),
            ]
        );
    }

    #[test]
    fn a_silent_call_has_no_log() {
        assert_eq!(lines(CallLog::default()), []);
    }
}
