//! The terminal: the model's text on standard output, everything else on standard error, a spinner while one waits.

use std::io::IsTerminal as _;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use toolcell::contract::{FailureCode, ToolResult};
use toolcell::{LogLine, Progress, RestartCause, RunEvent};

use crate::output::{self, note, note_part};
use crate::printable::{one_line, printable};

/// As much of a call or a result as fits a line or two.
const PREVIEW_CHARS_MAX: usize = 160;

/// The terminal.
pub(crate) struct Screen {
    state: Mutex<State>,
    show_log: bool,
    /// Whether a person reads the model's text while it comes. A file or a program gets it when it stands: what was
    /// written there cannot be taken back.
    is_live: bool,
    /// What the spinner says when no call runs; none when nothing happens then.
    idle: Option<&'static str>,
}

/// Whether what tools print and log is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    Shown,
    Hidden,
}

#[derive(Default)]
struct State {
    /// The model's text of this turn that nobody has read yet.
    held: String,
    /// The model's text stands in the middle of a line.
    mid_line: bool,
    /// A person is being asked; until the answer nothing moves, and what others say goes above the prompt.
    asking: Option<String>,
    /// Id and name of each call that runs.
    running: Vec<(String, String)>,
    spinner: Option<ProgressBar>,
}

impl Screen {
    /// For a single call: what the tool prints is shown.
    pub(crate) fn for_call() -> Self {
        Self { state: Mutex::default(), show_log: true, is_live: is_read_live(), idle: None }
    }

    /// For a run.
    pub(crate) fn for_run(log: Log) -> Self {
        let (show_log, idle) = (log == Log::Shown, Some("waiting for the model"));
        Self { state: Mutex::default(), show_log, is_live: is_read_live(), idle }
    }

    /// Shows what happened in a run.
    pub(crate) fn show(&self, event: &RunEvent) {
        match event {
            RunEvent::Text { text } => self.text(text),
            RunEvent::Restarted { cause, reason } => {
                self.state().held.clear();
                self.line(&void_line(*cause, reason));
            }
            RunEvent::Usage { .. } => self.stands(),
            RunEvent::Compacted { before_tokens, after_tokens, .. } => self.line(&format!(
                "the conversation is sent shorter: about {after_tokens} tokens instead of {before_tokens}"
            )),
            RunEvent::Warning { warning } => self.line(&format!("warning: {}", printable(&warning.message))),
            RunEvent::ToolCall { call_id, name, arguments } => {
                self.line(&format!("→ {} {}", one_line(name, 64), one_line(arguments, PREVIEW_CHARS_MAX)));
                self.runs(call_id, name);
            }
            RunEvent::Progress { name, progress, .. } => self.spin(&format!("{name} {}", fraction(progress))),
            RunEvent::Log { name, line, .. } if self.show_log => self.log_line(name, line),
            RunEvent::Pending { call_id, .. } => self.rests(call_id),
            RunEvent::Answered { call_id, name, ok: true } => self.runs(call_id, name),
            RunEvent::ToolResult { call_id, name, result, code } => {
                self.result(name, result, *code);
                self.rests(call_id);
            }
            RunEvent::Done { .. } => self.finish(),
            _ => {}
        }
    }

    fn runs(&self, call_id: &str, name: &str) {
        self.state().running.push((call_id.to_owned(), one_line(name, 64)));
        self.spin_for_calls();
    }

    fn rests(&self, call_id: &str) {
        self.state().running.retain(|(id, _)| id != call_id);
        self.spin_for_calls();
    }

    fn spin_for_calls(&self) {
        let message = match self.state().running.as_slice() {
            [] => self.idle.map(str::to_owned),
            [(_, name)] => Some(format!("{name} runs")),
            calls => Some(format!("{} calls run", calls.len())),
        };
        match message {
            Some(message) => self.spin(&message),
            None => self.finish(),
        }
    }

    /// A line on standard error, on a line of its own.
    pub(crate) fn line(&self, text: &str) {
        self.apart(|| note!("{text}"));
    }

    /// From now until the guard is dropped a person is asked: nothing is drawn beside the prompt.
    pub(crate) fn asking(&self) -> Asking<'_> {
        self.state().asking = Some(String::new());
        Asking(self)
    }

    /// A question on standard error; the answer is typed behind it.
    pub(crate) fn prompt(&self, text: &str) {
        self.state().asking = Some(text.to_owned());
        self.apart(|| {});
    }

    /// The answer was typed, and the cursor is on the next line.
    pub(crate) fn answered(&self) {
        self.state().asking = Some(String::new());
    }

    /// What a tool printed or logged; each of its lines is marked, so that none looks like the host's.
    pub(crate) fn log_line(&self, name: &str, line: &LogLine) {
        for text in printable(line.text.trim_end()).lines() {
            self.line(&format!("  {name} {}: {text}", line.source));
        }
    }

    /// Says that something takes time.
    pub(crate) fn spin(&self, message: &str) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let mut state = self.state();
        if state.mid_line || state.asking.is_some() {
            return;
        }
        if let Some(spinner) = &state.spinner {
            spinner.set_message(message.to_owned());
            return;
        }
        let spinner = ProgressBar::new_spinner().with_message(message.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            spinner.set_style(style);
        }
        spinner.enable_steady_tick(Duration::from_millis(120));
        state.spinner = Some(spinner);
    }

    /// Takes the spinner away and ends a line of text that the model left open.
    pub(crate) fn finish(&self) {
        self.apart(|| {});
    }

    fn text(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut state = self.state();
        if self.is_live {
            state.write(text);
        } else {
            state.held.push_str(text);
        }
    }

    /// The model's turn is over, and its text counts.
    fn stands(&self) {
        let mut state = self.state();
        let text = mem::take(&mut state.held);
        if !text.is_empty() {
            state.write(&text);
        }
    }

    fn result(&self, name: &str, result: &ToolResult, code: Option<FailureCode>) {
        let mark = if result.is_error { "✗" } else { "✓" };
        let text = if code == Some(FailureCode::Cancelled) { "cancelled" } else { &result.output };
        let text = text.lines().collect::<Vec<_>>().join("; ");
        self.line(&format!("{mark} {} {}", one_line(name, 64), one_line(&text, PREVIEW_CHARS_MAX)));
        for part in &result.parts {
            self.line(&format!("    {}", one_line(&part.describe(), PREVIEW_CHARS_MAX)));
        }
    }

    /// Runs `print` with the spinner away and the cursor at the start of a line.
    fn apart(&self, print: impl FnOnce()) {
        let mut state = self.state();
        state.clear_spinner();
        if mem::take(&mut state.mid_line) {
            output::write("\n");
        }
        let prompt = state.asking.as_deref().filter(|prompt| !prompt.is_empty());
        if prompt.is_some() && std::io::stderr().is_terminal() {
            // The line with the prompt, which is printed again below.
            note_part!("\r\x1b[K");
        }
        print();
        if let Some(prompt) = prompt {
            note_part!("{prompt}");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A person is being asked while this is held.
pub(crate) struct Asking<'a>(&'a Screen);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.state().asking = None;
    }
}

impl State {
    fn write(&mut self, text: &str) {
        self.clear_spinner();
        output::write(text);
        self.mid_line = !text.ends_with('\n');
    }

    fn clear_spinner(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }
}

fn is_read_live() -> bool {
    std::io::stdout().is_terminal()
}

/// What is said when a part of an answer is void.
fn void_line(cause: RestartCause, reason: &str) -> String {
    let reason = one_line(reason, PREVIEW_CHARS_MAX);
    match cause {
        RestartCause::BrokeOff => format!("{reason} – the model starts this answer again"),
        RestartCause::TooLong => format!("{reason} – the model is asked again with less of it"),
        RestartCause::Changed => format!("{reason} – this one counts:"),
        _ => format!("{reason} – what it said is void"),
    }
}

fn fraction(progress: &Progress) -> String {
    let message = progress.message.as_deref().map(|text| one_line(text, 80)).unwrap_or_default();
    match progress.total {
        Some(total) if total > 0.0 => format!("{:.0} % {message}", (progress.done / total * 100.0).clamp(0.0, 100.0)),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_broke_off_is_said_to_start_again() {
        let line = |cause| void_line(cause, "so it was");
        assert_eq!(line(RestartCause::BrokeOff), "so it was – the model starts this answer again");
        assert_eq!(line(RestartCause::Changed), "so it was – this one counts:");
        assert_eq!(line(RestartCause::TooLong), "so it was – the model is asked again with less of it");
        assert_eq!(line(RestartCause::Withheld), "so it was – what it said is void");
    }
}
