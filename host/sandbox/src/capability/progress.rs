//! `toolcell:tool/progress`: reports that are passed to the observer, up to a limit.

use crate::Progress;
use crate::bindings::toolcell::tool::progress::Host;
use crate::state::CallState;

/// Bytes of a report's message; it is one line on a screen.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// The reports of one call.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    passed: usize,
    pub(crate) dropped: u64,
}

impl Host for CallState {
    fn report(&mut self, done: f64, total: Option<f64>, message: Option<String>) {
        let Some(observer) = &self.observer else { return };
        if self.reports.passed >= self.limits.progress_reports_max || !done.is_finite() {
            self.reports.dropped += 1;
            return;
        }
        self.reports.passed += 1;
        let message = message.map(|mut text| {
            text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
            text
        });
        observer.progress(Progress { done, total: total.filter(|total| total.is_finite()), message });
    }
}
