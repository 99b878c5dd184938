//! The words of the sandbox for a call, said in those of the agent.

use std::sync::Arc;

use toolcell_agent::{Execution, LogLine, LogSource, Observer, Progress};
use toolcell_contract::Outcome;
use toolcell_sandbox as sandbox;
use toolcell_sandbox::{CallLog, CallReport, LogLevel, Missing};

/// Passes progress on.
pub(crate) struct Forward(pub(crate) Arc<dyn Observer>);

impl sandbox::Observer for Forward {
    fn progress(&self, progress: sandbox::Progress) {
        let sandbox::Progress { done, total, message } = progress;
        self.0.progress(Progress { done, total, message });
    }
}

/// How the call ended, with its whole log, and what it was not granted.
pub(crate) fn execution(report: CallReport, remedy: impl Fn(&Missing) -> Option<String>) -> Execution {
    let CallReport { outcome, log, duration, missing, .. } = report;
    let mut log = lines(log);
    for missing in &missing {
        let remedy = remedy(missing).map(|remedy| format!(": {remedy}")).unwrap_or_default();
        log.push(host(format!("{missing}{remedy}")));
    }
    Execution { outcome: told(outcome, &missing), log, duration }
}

/// A tool that could not do what it was not granted often says no more than that it failed. The model is told why.
fn told(outcome: Outcome, missing: &[Missing]) -> Outcome {
    match outcome {
        Outcome::Done(mut result) if result.is_error => {
            for missing in missing.iter().map(Missing::to_string) {
                if !result.output.contains(&missing) {
                    result.output.push_str(&format!("\n({missing})"));
                }
            }
            Outcome::Done(result)
        }
        other => other,
    }
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
    use toolcell_contract::ToolResult;

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
    fn what_is_missing_is_told_to_the_model_where_the_tool_failed_and_to_people_always() {
        let report = |result: ToolResult| CallReport {
            outcome: Outcome::Done(result),
            log: CallLog::default(),
            queued: std::time::Duration::ZERO,
            duration: std::time::Duration::ZERO,
            memory_bytes_peak: 0,
            limits_hit: Vec::new(),
            missing: vec![Missing::KeyValue],
        };
        let remedy = |_: &Missing| Some("add [component.a.key_value] to toolcell.toml".to_owned());
        let why = "key-value storage is not granted to this tool";
        let failed = execution(report(ToolResult::error("it failed")), remedy);
        assert_eq!(failed.outcome, Outcome::Done(ToolResult::error(format!("it failed\n({why})"))));
        assert_eq!(failed.log[0].text, format!("{why}: add [component.a.key_value] to toolcell.toml"));
        let knew = execution(report(ToolResult::error(format!("Error: {why}"))), remedy);
        assert_eq!(knew.outcome, Outcome::Done(ToolResult::error(format!("Error: {why}"))));
        let managed = execution(report(ToolResult::ok("without it")), |_| None);
        assert_eq!(managed.outcome, Outcome::Done(ToolResult::ok("without it")));
        assert_eq!(managed.log[0].text, why);
    }

    #[test]
    fn a_silent_call_has_no_log() {
        assert_eq!(lines(CallLog::default()), []);
    }
}
