//! Making a conversation fit the model's window. Pure: what is sent becomes shorter, the transcript stays whole.
//!
//! Older messages give way first, each step only as far as it must: images, sounds and files become their description,
//! long outputs of tools keep their ends, and then exchanges are left out: a person's message and all that answers it,
//! and in the latest exchange turns from its beginning, a call always with its result. The person's newest message and
//! the latest turn with its results stay as they are, and the words of the first message stay. Only when all this is
//! not enough for the model to take it, long outputs of the latest turn and a person's older long words keep their ends.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use toolcell_contract::ContentPart;

use crate::estimate;
use crate::model::Prompt;
use crate::transcript::Message;

use form::{Form, seen};
use note::note;

mod form;
mod note;

/// When a conversation is made shorter, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    start_percent: u8,
    target_percent: u8,
}

/// Why there is no such rule for compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// A share is no share of the window, or none of it.
    #[error("{percent} is not a share of the window: give 1 to 100 percent")]
    NoShare {
        /// What was given.
        percent: u8,
    },
    /// It would end before it begins.
    #[error("the target of {target_percent} percent is more than the start at {start_percent} percent")]
    TargetAboveStart {
        /// Where it begins.
        start_percent: u8,
        /// Where it ends.
        target_percent: u8,
    },
}

impl Default for Compaction {
    fn default() -> Self {
        Self { start_percent: 80, target_percent: 50 }
    }
}

impl Compaction {
    /// A rule: it begins when the next question would take more of the model's window than `start_percent`; the rest is
    /// room for the answer. It goes on until the question takes no more than `target_percent`: the distance to the start
    /// keeps the beginning of the conversation the same for many turns, which is what providers' caches live on.
    ///
    /// # Errors
    /// [`CompactionError::NoShare`] when one of them is not within 1 to 100, [`CompactionError::TargetAboveStart`] when
    /// the target is more than the start.
    pub fn new(start_percent: u8, target_percent: u8) -> Result<Self, CompactionError> {
        if let Some(percent) = [start_percent, target_percent].into_iter().find(|share| !(1..=100).contains(share)) {
            return Err(CompactionError::NoShare { percent });
        }
        if target_percent > start_percent {
            return Err(CompactionError::TargetAboveStart { start_percent, target_percent });
        }
        Ok(Self { start_percent, target_percent })
    }

    /// The goal when a question of `tokens` takes too much of `window`.
    pub(crate) fn goal(self, tokens: u64, window: u64) -> Option<Goal> {
        let share = |percent: u8| window.saturating_mul(u64::from(percent)) / 100;
        let goal = Goal { target: share(self.target_percent), limit: share(self.start_percent) };
        (tokens > goal.limit).then_some(goal)
    }
}

/// How short a question should become, in tokens of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Goal {
    /// So far everything gives way that may.
    pub(crate) target: u64,
    /// What gives way only at last does so above this.
    pub(crate) limit: u64,
}

/// How much more a token of ours is than one of the model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub(crate) struct Weight {
    thousandths: u32,
}

impl Weight {
    /// A provider that counts less may count what it has in its cache more cheaply, but not send it; one that counts
    /// many times as much counts something else.
    const THOUSANDTHS: std::ops::RangeInclusive<u32> = 700..=4_000;

    /// The weight that makes an estimate what was counted.
    pub(crate) fn of(counted: u64, estimated: u64) -> Self {
        u32::try_from(counted.saturating_mul(1_000) / estimated.max(1)).unwrap_or(u32::MAX).into()
    }

    /// Tokens of the model for tokens of ours.
    pub(crate) fn scaled(self, tokens: u64) -> u64 {
        tokens.saturating_mul(u64::from(self.thousandths)) / 1_000
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self { thousandths: 1_000 }
    }
}

impl From<u32> for Weight {
    fn from(thousandths: u32) -> Self {
        Self { thousandths: thousandths.clamp(*Self::THOUSANDTHS.start(), *Self::THOUSANDTHS.end()) }
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.thousandths
    }
}

/// How the messages before certain places are sent. The places only ever move on, so that the sent conversation does
/// not change its beginning from turn to turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct View {
    /// Before this place media are described.
    described: usize,
    /// Before this place long outputs are shortened.
    shortened: usize,
    /// Before this place messages are left out.
    left_out: usize,
    /// Before this place long outputs were shortened although they were the latest.
    pressed: usize,
    /// Before this place a person's long words are shortened.
    words: usize,
    /// The person's message that was the newest when the places last moved. It stays as it is until they move again.
    spared: Option<usize>,
}

fn is_user(message: &Message) -> bool {
    matches!(message, Message::User { .. })
}

/// The messages of a person that end before a place, without the message at it.
fn users_before(messages: &[Message], end: usize) -> Range<usize> {
    let others = messages.iter().take(end).rposition(|message| !is_user(message));
    others.map_or(0, |other| other + 1)..end
}

/// Whether an exchange begins at a place: with a person's message that follows no other of his.
fn is_start(messages: &[Message], place: usize) -> bool {
    messages.get(place).is_some_and(is_user) && users_before(messages, place).is_empty()
}

fn newest(messages: &[Message]) -> Option<usize> {
    messages.iter().rposition(is_user)
}

/// Where the latest turn begins, or the newest message when nothing has answered it.
fn tail(messages: &[Message]) -> usize {
    let turn = messages.iter().rposition(|message| matches!(message, Message::Assistant(_)));
    newest(messages).max(turn).unwrap_or(0)
}

/// The places before which messages may be left out, in order. No turn goes on without the message that it answers:
/// they are where exchanges begin, and in the latest one, whose own beginning stays, also between its turns.
fn cuts(messages: &[Message]) -> Vec<usize> {
    let latest = newest(messages).map_or(0, |newest| users_before(messages, newest).start);
    let is_cut = |place: &usize| match messages.get(*place) {
        Some(Message::User { .. }) => is_start(messages, *place),
        Some(Message::Assistant(_)) => *place > latest,
        Some(Message::Tool { .. }) | None => false,
    };
    (0..=tail(messages)).filter(is_cut).collect()
}

impl View {
    /// The view for a conversation, whatever it was made for: no place lies where none could have come to.
    pub(crate) fn settled(self, messages: &[Message]) -> Self {
        let (tail, all) = (tail(messages), messages.len());
        let described = self.described.max(self.shortened).min(tail);
        let is_cut = |place: &usize| !matches!(messages.get(*place), Some(Message::Tool { .. }));
        Self {
            described,
            shortened: self.shortened.min(described),
            left_out: (self.left_out.min(tail)..=tail).find(is_cut).unwrap_or(tail),
            pressed: self.pressed.min(all),
            words: self.words.min(all),
            spared: self.spared.filter(|spared| messages.get(*spared).is_some_and(is_user)),
        }
    }

    /// Messages that are not sent.
    pub(crate) fn left_out(&self, messages: &[Message]) -> usize {
        let sent = Sent::of(self, messages);
        (0..messages.len()).filter(|index| !sent.has(*index)).count()
    }

    /// What is sent of a prompt's messages.
    pub(crate) fn apply<'m>(&self, whole: Prompt<'m>) -> Cow<'m, [Message]> {
        if *self == Self::default() {
            return Cow::Borrowed(whole.messages);
        }
        let sent = Sent::of(self, whole.messages);
        let mut messages: Vec<Message> = Vec::with_capacity(whole.messages.len());
        let mut note = note(sent.missing(), whole.tools);
        for (index, message) in whole.messages.iter().enumerate().filter(|(index, _)| sent.has(*index)) {
            // The note stands where the gap is: after the first message, or before all others.
            if let Some(note) = note.take_if(|_| sent.first != Some(index)) {
                add_user(&mut messages, vec![ContentPart::text(note)]);
            }
            match seen(message, sent.form(index)).into_owned() {
                Message::User { content } => add_user(&mut messages, content),
                other => messages.push(other),
            }
        }
        Cow::Owned(messages)
    }

    /// The view that goes on from this one until what is sent reaches the goal, or nothing more can give way.
    pub(crate) fn shrink(self, whole: Prompt<'_>, weight: Weight, goal: Goal) -> Self {
        let messages = whole.messages;
        let (fixed, costs) = (estimate::fixed(whole), messages.iter().map(Costs::of).collect::<Vec<_>>());
        let tokens = |view: Self| weight.scaled(fixed + view.tokens(whole, &costs));
        let fits = |view: Self| tokens(view) <= goal.target;
        if fits(self) {
            return self;
        }
        let (tail, all) = (tail(messages), messages.len());
        let mut view = Self { spared: newest(messages), ..self };
        view.described = smallest(view.described, tail, |described| fits(Self { described, ..view }));
        view.shortened = smallest(view.shortened, tail, |shortened| fits(Self { shortened, ..view }));
        let cuts: Vec<_> = cuts(messages).into_iter().filter(|cut| *cut > view.left_out).collect();
        let cut_at = |cuts_in: usize| {
            let left_out = cuts_in.checked_sub(1).and_then(|last| cuts.get(last)).copied();
            Self { left_out: left_out.unwrap_or(view.left_out), ..view }
        };
        let cut = cut_at(smallest(0, cuts.len(), |cuts_in| fits(cut_at(cuts_in))));
        // A few short messages may take less than the note that would stand for them.
        if tokens(cut) < tokens(view) {
            view = cut;
        }
        for at_last in [Self { pressed: all, ..view }, Self { pressed: all, words: all, ..view }] {
            if tokens(view) > goal.limit {
                view = at_last;
            }
        }
        view
    }

    /// Tokens of the messages that are sent, each of them for itself.
    fn tokens(&self, whole: Prompt<'_>, costs: &[Costs]) -> u64 {
        let sent = Sent::of(self, whole.messages);
        let messages = costs.iter().enumerate().filter(|(index, _)| sent.has(*index));
        let note = if self.left_out > 0 { note(sent.missing(), whole.tools) } else { None };
        let note = note.map_or(0, |note| estimate::message(&Message::user(note)));
        note + messages.map(|(index, costs)| costs.in_form(sent.form(index))).sum::<u64>()
    }
}

/// What a view makes of a conversation.
struct Sent<'a> {
    view: &'a View,
    messages: &'a [Message],
    /// The person's first message, when the conversation begins with it.
    first: Option<usize>,
    newest: Option<usize>,
    /// What the first turn that is sent answers, when the turns between are left out.
    answered: Range<usize>,
}

impl<'a> Sent<'a> {
    fn of(view: &'a View, messages: &'a [Message]) -> Self {
        let cut = view.left_out.min(messages.len());
        let answered = if is_start(messages, cut) {
            0..0
        } else {
            let end = newest(&messages[..cut]).map_or(0, |last| last + 1);
            users_before(messages, end)
        };
        let first = messages.first().filter(|first| is_user(first)).map(|_| 0);
        Self { view, messages, first, newest: newest(messages), answered }
    }

    fn has(&self, index: usize) -> bool {
        index >= self.view.left_out || self.first == Some(index) || self.answered.contains(&index)
    }

    fn missing(&self) -> impl Iterator<Item = &'a Message> {
        self.messages.iter().enumerate().filter(|(index, _)| !self.has(*index)).map(|(_, message)| message)
    }

    fn form(&self, index: usize) -> Form {
        let View { described, shortened, pressed, words, spared, .. } = *self.view;
        match () {
            () if self.newest == Some(index) || spared == Some(index) => Form::Whole,
            () if index < words => Form::Pressed,
            () if index < shortened || index < pressed => Form::Shortened,
            () if index < described => Form::Described,
            () => Form::Whole,
        }
    }
}

/// Tokens of a message in each form.
struct Costs {
    whole: u64,
    described: u64,
    shortened: u64,
    pressed: u64,
}

impl Costs {
    fn of(message: &Message) -> Self {
        let cost = |form| estimate::message(&seen(message, form));
        Self {
            whole: cost(Form::Whole),
            described: cost(Form::Described),
            shortened: cost(Form::Shortened),
            pressed: cost(Form::Pressed),
        }
    }

    fn in_form(&self, form: Form) -> u64 {
        match form {
            Form::Whole => self.whole,
            Form::Described => self.described,
            Form::Shortened => self.shortened,
            Form::Pressed => self.pressed,
        }
    }
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

#[cfg(test)]
#[path = "compaction_tests.rs"]
mod tests;
