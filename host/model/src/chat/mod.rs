//! The wire format of OpenAI chat completions, and in which ways its many servers differ.
//!
//! [`encode`] makes a request of a prompt, [`decode`] a turn of a response; both are pure.

mod calls;
mod decode;
mod encode;
mod media;
mod reasoning;
#[cfg(test)]
mod regression_tests;

use std::borrow::Cow;
use std::num::NonZeroU32;

use toolcell_agent::Prompt;

use crate::ask::{Delivery, Exchange, MediaUse, RequestBody};
use crate::call::fresh_id;

/// The name of this wire in [`toolcell_agent::Verbatim::wire`].
pub(crate) const WIRE: &str = "openai-chat";

/// In which ways a server of chat completions differs from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatQuirks {
    /// The key of the longest answer, in tokens: OpenAI's reasoning models refuse the older name, most others know
    /// only that.
    pub output_limit_key: &'static str,
    /// What becomes of a turn's reasoning when the turn is sent back.
    pub reasoning: ReasoningEcho,
    /// Which images, sounds and files it accepts in a user message.
    pub media: MediaSupport,
    /// The longest id of a call that it accepts, where it is known to refuse one.
    pub call_id_chars_max: Option<usize>,
}

/// What becomes of a turn's reasoning, and of other fields beyond OpenAI's, when the turn is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningEcho {
    /// It stays away: OpenAI refuses fields that it does not know.
    Dropped,
    /// It goes back unchanged, so that the model can go on with its train of thought.
    Sent,
    /// It goes back, and every turn with calls has `reasoning_content`, if need be an empty one: DeepSeek refuses the
    /// conversation without.
    Required,
}

/// Which media a server accepts in a user message. What it does not accept, a line of text stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaSupport {
    /// MIME types of images.
    pub images: &'static [&'static str],
    /// Formats of sounds, `wav` and `mp3`.
    pub audio: &'static [&'static str],
    /// Whether PDF files are accepted.
    pub pdf: bool,
}

impl MediaSupport {
    /// Text only.
    pub const NONE: Self = Self { images: &[], audio: &[], pdf: false };

    /// Everything that the wire carries, as bytes.
    pub const ALL: Self =
        Self { images: &["image/png", "image/jpeg", "image/webp", "image/gif"], audio: &["wav", "mp3"], pdf: true };
}

impl ChatQuirks {
    /// What most servers understand.
    pub const COMPATIBLE: Self = Self {
        output_limit_key: "max_tokens",
        reasoning: ReasoningEcho::Sent,
        media: MediaSupport::ALL,
        call_id_chars_max: None,
    };
}

/// One question in this wire format.
pub(crate) struct ChatExchange<'a> {
    /// What is asked.
    pub(crate) prompt: Prompt<'a>,
    /// Whom.
    pub(crate) model: &'a str,
    /// In which dialect.
    pub(crate) quirks: &'a ChatQuirks,
    /// The longest answer, in tokens.
    pub(crate) output_tokens_max: Option<NonZeroU32>,
    /// In pieces or whole.
    pub(crate) delivery: Delivery,
}

impl Exchange for ChatExchange<'_> {
    type Decoder = decode::Decoder;

    fn path(&self) -> Cow<'_, str> {
        "chat/completions".into()
    }

    fn encode(&self, media: MediaUse) -> RequestBody {
        let support = match media {
            MediaUse::Sent => &self.quirks.media,
            MediaUse::Described => &MediaSupport::NONE,
        };
        let (body, media) = encode::encode(self, support);
        RequestBody { json: body.to_string().into(), media, warnings: Vec::new() }
    }

    fn decoder(&self) -> decode::Decoder {
        decode::Decoder::new(fresh_id)
    }
}
