//! What of a conversation is sent to a model whose window it may no longer fit.

use std::borrow::Cow;

use crate::compaction::{Compaction, View, scaled};
use crate::estimate;
use crate::event::RunEvent;
use crate::model::{Prompt, Usage};
use crate::transcript::Message;

/// How far an estimate may be corrected. A provider that counts ten times as much counts something else.
const WEIGHT: std::ops::RangeInclusive<f64> = 0.25..=4.0;

/// How much of the conversation is sent, and how well the estimates of this run were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Window {
    view: View,
    /// Tokens that the provider counted for one of ours.
    weight: f64,
}

impl Default for Window {
    fn default() -> Self {
        Self { view: View::default(), weight: 1.0 }
    }
}

impl Window {
    /// What is sent.
    pub(crate) fn messages<'m>(&self, messages: &'m [Message]) -> Cow<'m, [Message]> {
        self.view.apply(messages)
    }

    /// Learns from what the provider counted.
    pub(crate) fn learn(&mut self, sent: Prompt<'_>, usage: Usage) {
        if usage.input_tokens > 0 {
            self.weight = ratio(usage.input_tokens, estimate::prompt(sent)).clamp(*WEIGHT.start(), *WEIGHT.end());
        }
    }

    /// Sends less when the whole prompt would take too much of a window of so many tokens.
    pub(crate) fn fit(&mut self, whole: Prompt<'_>, compaction: Compaction, window: u64) -> Option<RunEvent> {
        let target = compaction.target(self.tokens(whole), window)?;
        self.shrink(whole, target)
    }

    /// Sends less because the provider refused what was sent.
    pub(crate) fn halve(&mut self, whole: Prompt<'_>) -> Option<RunEvent> {
        let target = self.tokens(whole) / 2;
        self.shrink(whole, target)
    }

    fn shrink(&mut self, whole: Prompt<'_>, target: u64) -> Option<RunEvent> {
        let before_tokens = self.tokens(whole);
        let view = self.view.shrink(whole.messages, estimate::fixed(whole), self.weight, target);
        if view == self.view {
            return None;
        }
        self.view = view;
        let messages_left_out = view.left_out(whole.messages);
        Some(RunEvent::Compacted { before_tokens, after_tokens: self.tokens(whole), messages_left_out })
    }

    /// Tokens of what is sent of a prompt.
    fn tokens(&self, whole: Prompt<'_>) -> u64 {
        let sent = self.messages(whole.messages);
        scaled(estimate::prompt(Prompt { messages: &sent, ..whole }), self.weight)
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn ratio(counted: u64, estimated: u64) -> f64 {
    counted as f64 / estimated.max(1) as f64
}
