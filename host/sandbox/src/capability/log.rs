//! `toolcell:tool/log`: lines that are kept up to a limit and heard by the observer.

use crate::bindings::toolcell::tool::log::{Host, Level};
use crate::state::CallState;
use crate::{Limits, LogLevel, LogLine};

/// The kept lines of one call.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) kept: Vec<LogLine>,
    pub(crate) dropped: u64,
    bytes: usize,
}

impl Lines {
    /// Keeps a line if there is room for all of it.
    fn push(&mut self, line: LogLine, limits: &Limits) -> Option<&LogLine> {
        let bytes = self.bytes.saturating_add(line.text.len());
        if self.kept.len() >= limits.log_lines_max || bytes > limits.log_bytes_max {
            self.dropped += 1;
            return None;
        }
        self.bytes = bytes;
        self.kept.push(line);
        self.kept.last()
    }
}

impl Host for CallState {
    fn write(&mut self, level: Level, message: String) {
        let Some(observer) = &self.observer else { return };
        let line = LogLine { level: level_of(level), text: message };
        if let Some(line) = self.lines.push(line, &self.limits) {
            observer.log(line);
        }
    }
}

fn level_of(level: Level) -> LogLevel {
    match level {
        Level::Trace => LogLevel::Trace,
        Level::Debug => LogLevel::Debug,
        Level::Info => LogLevel::Info,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> LogLine {
        LogLine { level: LogLevel::Info, text: text.into() }
    }

    #[test]
    fn lines_beyond_either_limit_are_counted_and_dropped() {
        let limits = Limits { log_lines_max: 2, log_bytes_max: 5, ..Limits::default() };
        let mut lines = Lines::default();
        for text in ["abc", "too long", "de", "f"] {
            lines.push(line(text), &limits);
        }
        assert_eq!((lines.kept, lines.dropped), (vec![line("abc"), line("de")], 2));
    }
}
