//! How many tokens something takes, estimated without a network. Rather too many than too few: an estimate that is too
//! high shortens a conversation early, one that is too low makes the provider refuse it.

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

/// Media of which only the address is known become a line of text.
const LINK_TOKENS: u64 = 50;

/// Tokens of a text. English prose has four letters for a token, marks and digits four for three, other alphabets two
/// and Chinese, Japanese and Korean one character.
pub(crate) fn text(text: &str) -> u64 {
    const FIRST_IDEOGRAPH: char = '\u{2e80}';
    let (mut letters, mut marks, mut others, mut ideographs) = (0_u64, 0_u64, 0_u64, 0_u64);
    for c in text.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | ' ' => letters += 1,
            _ if c.is_ascii() => marks += 1,
            _ if c < FIRST_IDEOGRAPH => others += 1,
            _ => ideographs += 1,
        }
    }
    letters.div_ceil(4) + (3 * marks).div_ceil(4) + others.div_ceil(2) + ideographs
}

/// Tokens of a message.
pub(crate) fn message(message: &Message) -> u64 {
    match message {
        Message::User { content } => FRAME_TOKENS + parts(content),
        Message::Assistant(AssistantTurn { text: said, calls, .. }) => {
            FRAME_TOKENS + text(said) + calls.iter().map(call).sum::<u64>()
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

fn call(call: &CallRequest) -> u64 {
    FRAME_TOKENS + text(&call.name) + text(&call.arguments)
}

fn reply(reply: &ToolReply) -> u64 {
    let ToolResult { output, parts: own, .. } = &reply.result;
    FRAME_TOKENS + text(&reply.name) + text(output) + parts(own)
}

fn definition(tool: &Definition) -> u64 {
    FRAME_TOKENS + text(&tool.name) + text(&tool.description) + text(&tool.input_schema.to_string())
}

fn parts(parts: &[ContentPart]) -> u64 {
    let tokens = |part: &ContentPart| match part {
        ContentPart::Text(more) => text(more),
        ContentPart::Media(item) => media(item),
    };
    parts.iter().map(tokens).sum()
}

fn media(media: &Media) -> u64 {
    let Source::Bytes(bytes) = media.source() else { return LINK_TOKENS };
    let bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mime_type = media.mime_type();
    if mime_type.starts_with("image/") {
        IMAGE_TOKENS
    } else if mime_type.starts_with("audio/") {
        LINK_TOKENS + bytes / SOUND_BYTES_PER_TOKEN
    } else {
        LINK_TOKENS + bytes / FILE_BYTES_PER_TOKEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with the number of tokens that OpenAI's o200k_base makes of them.
    const KNOWN: [(&str, u64); 9] = [
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("{\"city\":\"Paris\",\"days\":[1,2,3]}", 13),
        ("{\n  \"expression\": \"2 * (3 + 4) ^ 2\",\n  \"unit\": null\n}", 25),
        ("fn main() { println!(\"{}\", 6 * 7); }", 13),
        ("https://example.org/a/b?c=1&d=2", 14),
        ("3.14159265358979", 7),
        ("Größe und Länge", 4),
        ("Ошибка: файл не найден", 5),
        ("今日はいい天気ですね", 5),
    ];

    #[test]
    fn an_estimate_is_at_least_the_truth_and_hardly_more_than_twice_as_much() {
        for (known, tokens) in KNOWN {
            let estimate = text(known);
            assert!((tokens..=tokens * 5 / 2).contains(&estimate), "{known}: {estimate} for {tokens}");
        }
    }

    #[test]
    fn more_text_never_takes_fewer_tokens() {
        let whole = "Toolcell runs tools: {\"a\": 1} – für alle 工具.";
        let ends: Vec<_> = whole.char_indices().map(|(at, _)| text(&whole[..at])).collect();
        assert!(ends.is_sorted(), "{ends:?}");
    }

    #[test]
    fn a_picture_takes_the_same_however_many_bytes_it_has() {
        let picture =
            |bytes| Message::User { content: vec![ContentPart::from_bytes(vec![0; bytes], "image/png").unwrap()] };
        assert_eq!(message(&picture(10)), message(&picture(1 << 20)));
        assert!(message(&picture(10)) > 1_000);
    }
}
