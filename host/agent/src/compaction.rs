//! Making a conversation fit the model's window. Pure: what is sent becomes shorter, the transcript stays whole.
//!
//! Older messages give way first, each step only as far as it must: images, sounds and files become their description,
//! long outputs of tools keep their ends, and then whole exchanges are left out, a call always with its result. The
//! person's newest message and the latest exchange stay as they are, and the words of the first message stay.

use std::borrow::Cow;
use std::collections::BTreeMap;

use toolcell_contract::{ContentPart, ToolResult};

use crate::estimate;
use crate::transcript::{Message, ToolReply};

/// Characters of an older output that stay at each of its ends.
const ENDS_CHARS: usize = 600;

/// Tokens of the note that stands for what is left out.
const NOTE_TOKENS: u64 = 60;

/// When a conversation is made shorter, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// It begins when the next question would take more of the model's window than this, in percent. The rest is room
    /// for the answer.
    pub start_percent: u8,
    /// It goes on until the question takes no more than this, in percent. The distance to the start keeps the beginning
    /// of the conversation the same for many turns, which is what providers' caches live on.
    pub target_percent: u8,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { start_percent: 80, target_percent: 50 }
    }
}

impl Compaction {
    /// The tokens to shrink to, when a question of `tokens` takes too much of `window`.
    pub(crate) fn target(self, tokens: u64, window: u64) -> Option<u64> {
        let share = |percent: u8| window.saturating_mul(u64::from(percent.min(100))) / 100;
        (tokens > share(self.start_percent)).then(|| share(self.target_percent.min(self.start_percent)))
    }
}

/// How the messages before certain places are sent. The places only ever move on, so that the sent conversation does
/// not change its beginning from turn to turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Before this place media are described.
    described: usize,
    /// Before this place long outputs are shortened.
    shortened: usize,
    /// Before this place exchanges are left out.
    left_out: usize,
}

/// Which messages stay, whatever happens.
struct Kept {
    /// The person's first message, when the conversation begins with it.
    first: Option<usize>,
    /// The person's newest message.
    newest: Option<usize>,
    /// The latest exchange begins here.
    tail: usize,
}

impl Kept {
    fn of(messages: &[Message]) -> Self {
        let is_user = |message: &Message| matches!(message, Message::User { .. });
        let newest = messages.iter().rposition(is_user);
        let turn = messages.iter().rposition(|message| matches!(message, Message::Assistant(_)));
        // The newest message alone is an exchange that has only begun.
        let tail = match (newest, turn) {
            (Some(newest), Some(turn)) => newest.max(turn),
            (newest, turn) => newest.or(turn).unwrap_or(0),
        };
        Self { first: messages.first().filter(|first| is_user(first)).map(|_| 0), newest, tail }
    }

    fn has(&self, index: usize) -> bool {
        self.first == Some(index) || self.is_untouched(index)
    }

    fn is_untouched(&self, index: usize) -> bool {
        self.newest == Some(index) || index >= self.tail
    }
}

impl View {
    /// Messages that are not sent.
    pub(crate) fn left_out(&self, messages: &[Message]) -> usize {
        let kept = Kept::of(messages);
        (0..self.left_out).filter(|index| !kept.has(*index)).count()
    }

    /// What is sent.
    pub(crate) fn apply<'m>(&self, messages: &'m [Message]) -> Cow<'m, [Message]> {
        if *self == Self::default() {
            return Cow::Borrowed(messages);
        }
        let kept = Kept::of(messages);
        let mut sent: Vec<Message> = Vec::with_capacity(messages.len());
        let stays = |index: usize| index >= self.left_out || kept.has(index);
        let missing = messages.iter().enumerate().filter(|(index, _)| !stays(*index)).map(|(_, message)| message);
        let mut note = note(missing);
        for (index, message) in messages.iter().enumerate().filter(|(index, _)| stays(*index)) {
            // The note stands where the gap is: after the first message, or before all others.
            let is_after_gap = kept.first != Some(index);
            if let Some(note) = note.take_if(|_| is_after_gap) {
                add_user(&mut sent, vec![ContentPart::text(note)]);
            }
            match self.seen(index, message, &kept) {
                Message::User { content } => add_user(&mut sent, content),
                other => sent.push(other),
            }
        }
        Cow::Owned(sent)
    }

    fn seen(&self, index: usize, message: &Message, kept: &Kept) -> Message {
        let mut message = message.clone();
        if !kept.is_untouched(index) {
            if index < self.described {
                describe(&mut message);
            }
            if index < self.shortened {
                shorten(&mut message);
            }
        }
        message
    }

    /// The view that goes on from this one until what is sent takes no more than `target` tokens, or nothing more can
    /// give way. `fixed` are the tokens before the messages, `weight` how much more a token of ours is than one of the
    /// model's.
    pub(crate) fn shrink(self, messages: &[Message], fixed: u64, weight: f64, target: u64) -> Self {
        let mut view = self;
        let (kept, costs) = (Kept::of(messages), messages.iter().map(Costs::of).collect::<Vec<_>>());
        let fits = |view: Self| scaled(fixed + view.tokens(&costs, &kept), weight) <= target;
        view.described = smallest(view.described, kept.tail, |described| fits(Self { described, ..view }));
        view.shortened = smallest(view.shortened, kept.tail, |shortened| fits(Self { shortened, ..view }));
        view.left_out = smallest(view.left_out, kept.tail, |left_out| fits(Self { left_out, ..view }));
        // Not between a call and its result.
        while matches!(messages.get(view.left_out), Some(Message::Tool { .. })) {
            view.left_out += 1;
        }
        view
    }

    fn tokens(&self, costs: &[Costs], kept: &Kept) -> u64 {
        let cost = |(index, cost): (usize, &Costs)| match () {
            () if index < self.left_out && !kept.has(index) => 0,
            () if kept.is_untouched(index) => cost.whole,
            () if index < self.shortened => cost.shortened,
            () if index < self.described => cost.described,
            () => cost.whole,
        };
        let note = if self.left_out > 0 { NOTE_TOKENS } else { 0 };
        note + costs.iter().enumerate().map(cost).sum::<u64>()
    }
}

/// Tokens of a message at each step. What is shortened was described before.
struct Costs {
    whole: u64,
    described: u64,
    shortened: u64,
}

impl Costs {
    fn of(message: &Message) -> Self {
        let whole = estimate::message(message);
        let mut message = message.clone();
        describe(&mut message);
        let described = estimate::message(&message);
        shorten(&mut message);
        Self { whole, described, shortened: estimate::message(&message) }
    }
}

/// Tokens of the model for tokens of ours.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate; a float that does not fit becomes the nearest number"
)]
pub(crate) fn scaled(tokens: u64, weight: f64) -> u64 {
    (tokens as f64 * weight) as u64
}

/// The smallest place from `low` to `high` that fits, or `high` when none does. What fits at a place fits after it too,
/// except at `low` itself: the first message that is left out costs a note.
fn smallest(low: usize, high: usize, fits: impl Fn(usize) -> bool) -> usize {
    if fits(low) {
        return low;
    }
    let (mut low, mut high) = (low, high.max(low));
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle + 1 }
    }
    high
}

/// Two messages of the person one after the other are one: some models' templates refuse them otherwise.
fn add_user(sent: &mut Vec<Message>, content: Vec<ContentPart>) {
    match sent.last_mut() {
        Some(Message::User { content: before }) => before.extend(content),
        _ => sent.push(Message::User { content }),
    }
}

/// What the model reads in the place of messages that are left out; none when there are none.
fn note<'m>(missing: impl Iterator<Item = &'m Message>) -> Option<String> {
    let (mut count, mut calls) = (0, BTreeMap::<&str, usize>::new());
    for message in missing {
        count += 1;
        if let Message::Assistant(turn) = message {
            turn.calls.iter().for_each(|call| *calls.entry(&call.name).or_default() += 1);
        }
    }
    let calls: Vec<_> = calls.iter().map(|(name, times)| format!("{name} ({times})")).collect();
    let calls =
        if calls.is_empty() { String::new() } else { format!("; tools that were called: {}", calls.join(", ")) };
    (count > 0).then(|| format!("[{count} earlier messages are left out to save room{calls}]"))
}

/// Media become their description; a result's go to its output.
fn describe(message: &mut Message) {
    match message {
        Message::User { content } => {
            for part in content {
                if matches!(part, ContentPart::Media(_)) {
                    *part = ContentPart::text(format!("[{}]", part.describe()));
                }
            }
        }
        Message::Tool { replies } => replies.iter_mut().for_each(|reply| describe_result(&mut reply.result)),
        Message::Assistant(_) => {}
    }
}

fn describe_result(result: &mut ToolResult) {
    for part in std::mem::take(&mut result.parts) {
        let line = match part {
            ContentPart::Text(text) => text,
            media @ ContentPart::Media(_) => format!("[{}]", media.describe()),
        };
        if !result.output.is_empty() {
            result.output.push('\n');
        }
        result.output.push_str(&line);
    }
}

fn shorten(message: &mut Message) {
    if let Message::Tool { replies } = message {
        for ToolReply { result, .. } in replies {
            shorten_text(&mut result.output);
        }
    }
}

fn shorten_text(text: &mut String) {
    let chars = text.chars().count();
    // A text that is hardly longer than its ends would become longer by the mark.
    let Some(missing) = chars.checked_sub(2 * ENDS_CHARS).filter(|missing| *missing > ENDS_CHARS) else { return };
    let head: String = text.chars().take(ENDS_CHARS).collect();
    let tail: String = text.chars().skip(ENDS_CHARS + missing).collect();
    *text = format!("{head}\n[{missing} characters are left out]\n{tail}");
}

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
