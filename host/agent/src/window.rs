//! What of a conversation is sent to a model whose window it may no longer fit.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::compaction::{Compaction, Goal, View, Weight};
use crate::estimate;
use crate::event::RunEvent;
use crate::model::{Prompt, Usage};
use crate::transcript::Message;

/// Tokens of a question from which its count says how good estimates are. A shorter one is mostly what the provider
/// itself puts around it.
const LEARN_TOKENS_MIN: u64 = 1_000;

/// How much of a conversation is sent, and how well it was estimated.
///
/// It goes from the result of a run to the request of the next one, beside the conversation, so that the beginning of
/// what is sent stays the same and the provider's cache knows it: [`crate::RunResult::window`],
/// [`crate::RunRequest::window`]. In JSON it is a small object for no one else to read; the default sends everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Window {
    view: View,
    /// What the provider counted for one of our tokens.
    weight: Weight,
}

impl Window {
    /// The window for a conversation, whichever it was made for.
    pub(crate) fn settled(self, messages: &[Message]) -> Self {
        Self { view: self.view.settled(messages), ..self }
    }

    /// What is sent of a prompt's messages.
    pub(crate) fn messages<'m>(&self, whole: Prompt<'m>) -> Cow<'m, [Message]> {
        self.view.apply(whole)
    }

    /// Learns from what the provider counted for a question that was estimated.
    pub(crate) fn learn(&mut self, estimated_tokens: u64, usage: Usage) {
        if usage.input_tokens > 0 && estimated_tokens >= LEARN_TOKENS_MIN {
            self.weight = Weight::of(usage.input_tokens, estimated_tokens);
        }
    }

    /// Sends less when the whole prompt would take too much of a window of so many tokens.
    pub(crate) fn fit(&mut self, whole: Prompt<'_>, compaction: Compaction, window: u64) -> Option<RunEvent> {
        let goal = compaction.goal(self.tokens(whole), window)?;
        self.shrink(whole, goal)
    }

    /// Sends less because the provider refused what was sent.
    pub(crate) fn halve(&mut self, whole: Prompt<'_>) -> Option<RunEvent> {
        let tokens = self.tokens(whole);
        self.shrink(whole, Goal { target: tokens / 2, limit: tokens.saturating_sub(1) })
    }

    fn shrink(&mut self, whole: Prompt<'_>, goal: Goal) -> Option<RunEvent> {
        let before_tokens = self.tokens(whole);
        let less = Self { view: self.view.shrink(whole, self.weight, goal), ..*self };
        let after_tokens = less.tokens(whole);
        if after_tokens >= before_tokens {
            return None;
        }
        *self = less;
        let messages_left_out = self.view.left_out(whole.messages);
        Some(RunEvent::Compacted { before_tokens, after_tokens, messages_left_out })
    }

    /// Tokens of what is sent of a prompt.
    fn tokens(&self, whole: Prompt<'_>) -> u64 {
        let sent = self.messages(whole);
        self.weight.scaled(estimate::prompt(Prompt { messages: &sent, ..whole }))
    }
}
