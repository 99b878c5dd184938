//! How many tokens something takes, estimated without a network. Rather too many than too few: an estimate that is too
//! high shortens a conversation early, one that is too low makes the provider refuse it.

use serde_json::Value;
use toolcell_contract::{ContentPart, Definition, Media, Source, ToolResult};

use crate::model::Prompt;
use crate::transcript::{AssistantTurn, CallRequest, Message, ToolReply};

/// Tokens around each message and each call: roles, ids, separators.
const FRAME_TOKENS: u64 = 8;

/// An image: what the large providers take for one of full size (Anthropic 1,600, OpenAI up to 1,445, Gemini 1,290 for a
/// tiled square). Small ones cost less.
const IMAGE_TOKENS: u64 = 1_600;

/// Bytes of a sound for one token: a minute of 64 kbit/s speech has 480 kB, and 1,920 tokens with Gemini.
const SOUND_BYTES_PER_TOKEN: u64 = 250;

/// Bytes of another file for one token: a page of a PDF has 30 to 100 kB, and 1,500 to 3,000 tokens with Anthropic.
const FILE_BYTES_PER_TOKEN: u64 = 20;

/// Around a part of a message.
const PART_TOKENS: u64 = 2;

/// What stands around media that are no image: a name, a type.
const LINK_TOKENS: u64 = 50;

/// Bytes of a provider's JSON for one token, where it holds what our own form does not.
const VERBATIM_BYTES_PER_TOKEN: u64 = 4;

/// What each character of a text costs, in hundredths of a token, by what stands before it. Fitted to OpenAI's o200k_base:
/// never less than the truth for the texts in `estimate_texts.json`, and as little more as that allows.
mod cost {
    /// The first letter of a word.
    pub(super) const WORD: u64 = 80;
    /// A letter after a digit, or a capital after a small letter: a name of two words has few of them, a key many.
    pub(super) const CHANGE: u64 = 225;
    /// Another letter of a word.
    pub(super) const LETTER: u64 = 25;
    /// A letter of a word that has more than [`super::WORD_LETTERS`].
    pub(super) const FAR_LETTER: u64 = 65;
    /// The first digit of a number.
    pub(super) const NUMBER: u64 = 130;
    /// Another digit: three are a token.
    pub(super) const DIGIT: u64 = 40;
    /// A mark of ASCII.
    pub(super) const MARK: u64 = 80;
    /// A space between words.
    pub(super) const SPACE: u64 = 45;
    /// A line feed or a tab, and a space after another blank.
    pub(super) const BLANK: u64 = 90;
    /// A space after a space: 80 are a token.
    pub(super) const SAME_SPACE: u64 = 2;
    /// A line feed after a line feed: 16 are a token.
    pub(super) const SAME_BLANK: u64 = 7;
    /// A mark or a rare character after the same one.
    pub(super) const SAME_MARK: u64 = 50;
    /// A letter with an accent.
    pub(super) const LATIN: u64 = 50;
    /// Greek, Cyrillic, Armenian, Hebrew, Arabic.
    pub(super) const ALPHABET: u64 = 45;
    /// The scripts of India and its neighbours, Georgian, Khmer, Vietnamese accents, Korean.
    pub(super) const SYLLABLE: u64 = 70;
    /// Japanese, Chinese and their marks.
    pub(super) const IDEOGRAPH: u64 = 100;
    /// Dashes, quotes, joiners.
    pub(super) const PUNCTUATION: u64 = 160;
    /// Symbols, and scripts of which tokenizers know single bytes.
    pub(super) const RARE: u64 = 345;
    /// Emoji, and what else has four bytes.
    pub(super) const FOUR_BYTES: u64 = 425;
}

/// Letters of a word up to which it may well be one that a tokenizer knows.
const WORD_LETTERS: u64 = 12;

/// Tokens of a text.
pub(crate) fn text(text: &str) -> u64 {
    let (mut hundredths, mut before, mut letters) = (0, None, 0);
    for c in text.chars() {
        letters = if c.is_ascii_alphabetic() { letters + 1 } else { 0 };
        if before.is_some_and(|before| is_change(before, c)) {
            letters = 1;
        }
        hundredths += cost_of(c, before, letters);
        before = Some(c);
    }
    hundredths.div_ceil(100)
}

/// Whether a letter begins something new although no space and no mark stands before it.
fn is_change(before: char, c: char) -> bool {
    (before.is_ascii_digit() && c.is_ascii_alphabetic()) || (before.is_ascii_lowercase() && c.is_ascii_uppercase())
}

/// What a character costs, after another one and as the so-manieth letter of its word.
fn cost_of(c: char, before: Option<char>, letters: u64) -> u64 {
    let is_same = before == Some(c);
    match c {
        'a'..='z' | 'A'..='Z' => match before {
            Some(before) if is_change(before, c) => cost::CHANGE,
            Some(before) if before.is_ascii_alphabetic() => {
                if letters > WORD_LETTERS {
                    cost::FAR_LETTER
                } else {
                    cost::LETTER
                }
            }
            _ => cost::WORD,
        },
        '0'..='9' => {
            if before.is_some_and(|before| before.is_ascii_digit()) {
                cost::DIGIT
            } else {
                cost::NUMBER
            }
        }
        ' ' if is_same => cost::SAME_SPACE,
        '\n' | '\t' if is_same => cost::SAME_BLANK,
        ' ' if !before.is_some_and(is_blank) => cost::SPACE,
        _ if is_blank(c) => cost::BLANK,
        '!'..='~' | '\u{2000}'..='\u{2e7f}' if is_same => cost::SAME_MARK,
        '\0'..='\u{9f}' => cost::MARK,
        '\u{a0}'..='\u{24f}' => cost::LATIN,
        '\u{370}'..='\u{6ff}' => cost::ALPHABET,
        '\u{900}'..='\u{eff}'
        | '\u{1000}'..='\u{10ff}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{1e00}'..='\u{1fff}'
        | '\u{ac00}'..='\u{d7ff}' => cost::SYLLABLE,
        '\u{2000}'..='\u{206f}' => cost::PUNCTUATION,
        '\u{3000}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}' => cost::IDEOGRAPH,
        _ if c < '\u{10000}' => cost::RARE,
        _ => cost::FOUR_BYTES,
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Tokens of a message.
pub(crate) fn message(message: &Message) -> u64 {
    match message {
        Message::User { content } => FRAME_TOKENS + parts(content),
        Message::Assistant(turn) => {
            let AssistantTurn { text: said, calls, verbatim } = turn;
            let beyond = verbatim.as_ref().map_or(0, |verbatim| beyond_own_form(turn, &verbatim.value));
            FRAME_TOKENS + text(said) + calls.iter().map(call).sum::<u64>() + beyond
        }
        Message::Tool { replies } => replies.iter().map(reply).sum(),
    }
}

/// Tokens of what stands before the messages: instructions and tools.
pub(crate) fn fixed(prompt: Prompt<'_>) -> u64 {
    prompt.system.map_or(0, |system| FRAME_TOKENS + text(system))
        + prompt.tools.iter().map(|tool| definition(tool)).sum::<u64>()
}

/// Tokens of a whole prompt.
pub(crate) fn prompt(prompt: Prompt<'_>) -> u64 {
    fixed(prompt) + prompt.messages.iter().map(message).sum::<u64>()
}

/// Tokens of what the provider's own JSON of a turn holds beyond our form, which it is sent in the place of: encrypted
/// reasoning, signatures. Four bytes of them are a token at least.
fn beyond_own_form(turn: &AssistantTurn, value: &Value) -> u64 {
    let call_bytes = |call: &CallRequest| call.id.len() + call.name.len() + call.arguments.len();
    let own_bytes = turn.text.len() + turn.calls.iter().map(call_bytes).sum::<usize>();
    let mut written = Length(0);
    // A value always has a JSON form, and the length takes all of it.
    let _ = serde_json::to_writer(&mut written, value);
    u64::try_from(written.0.saturating_sub(own_bytes)).unwrap_or(u64::MAX).div_ceil(VERBATIM_BYTES_PER_TOKEN)
}

/// Counts what is written, and keeps nothing.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn call(call: &CallRequest) -> u64 {
    FRAME_TOKENS + text(&call.name) + text(&call.arguments)
}

fn reply(reply: &ToolReply) -> u64 {
    FRAME_TOKENS + text(&reply.name) + result(&reply.result)
}

/// Tokens of what the model sees of a result.
pub(crate) fn result(result: &ToolResult) -> u64 {
    text(&result.output) + parts(&result.parts)
}

fn definition(tool: &Definition) -> u64 {
    FRAME_TOKENS + text(&tool.name) + text(&tool.description) + text(&tool.input_schema.to_string())
}

fn parts(parts: &[ContentPart]) -> u64 {
    parts.iter().map(part).sum()
}

/// Tokens of a part.
pub(crate) fn part(part: &ContentPart) -> u64 {
    let inside = match part {
        ContentPart::Text(more) => text(more),
        ContentPart::Media(item) => media(item),
    };
    PART_TOKENS + inside
}

fn media(media: &Media) -> u64 {
    // What is behind a link is fetched by the provider. Of a picture the price is known all the same.
    let is_image = media.mime_type().starts_with("image/");
    match media.source() {
        _ if is_image => IMAGE_TOKENS,
        Source::Url(url) => LINK_TOKENS + text(url),
        Source::Bytes(bytes) => {
            let bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let is_sound = media.mime_type().starts_with("audio/");
            LINK_TOKENS + bytes / if is_sound { SOUND_BYTES_PER_TOKEN } else { FILE_BYTES_PER_TOKEN }
        }
    }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
