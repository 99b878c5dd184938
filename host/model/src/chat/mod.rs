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
use std::sync::atomic::{AtomicBool, Ordering};

use toolcell_agent::{ModelError, Prompt};

use crate::ask::{Delivery, Exchange, MediaUse, RequestBody};
use crate::call::fresh_id;
use crate::echo::IdRule;
use crate::provider_error::Failed;

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
    prompt: Prompt<'a>,
    model: &'a str,
    quirks: &'a ChatQuirks,
    output_tokens_max: Option<NonZeroU32>,
    delivery: Delivery,
    /// Whether ids of calls have the form that Mistral's models want. It is not told by a model's name, and other models
    /// read their own ids, so it is done where it was demanded.
    has_nine_char_ids: bool,
    /// Where it is kept for the next question that they are demanded.
    wants_nine_char_ids: Option<&'a AtomicBool>,
}

impl<'a> ChatExchange<'a> {
    /// A question to a model, in a server's dialect.
    pub(crate) fn new(
        prompt: Prompt<'a>,
        model: &'a str,
        quirks: &'a ChatQuirks,
        output_tokens_max: Option<NonZeroU32>,
        delivery: Delivery,
    ) -> Self {
        let (has_nine_char_ids, wants_nine_char_ids) = (false, None);
        Self { prompt, model, quirks, output_tokens_max, delivery, has_nine_char_ids, wants_nine_char_ids }
    }

    /// The same question, which knows of a demand before it and tells the next of its own.
    pub(crate) fn remembering(self, wants_nine_char_ids: &'a AtomicBool) -> Self {
        let has_nine_char_ids = wants_nine_char_ids.load(Ordering::Relaxed);
        Self { has_nine_char_ids, wants_nine_char_ids: Some(wants_nine_char_ids), ..self }
    }

    fn call_ids(&self) -> IdRule {
        let chars_max = self.quirks.call_id_chars_max.unwrap_or(usize::MAX);
        if self.has_nine_char_ids { IdRule::Nine } else { IdRule::Chars(chars_max) }
    }
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

    /// "Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9" says Mistral's tokenizer, also in vLLM; "Tool
    /// call IDs should be alphanumeric strings with length 9!" say the templates of its models, in llama.cpp with 500.
    fn concede(&mut self, refused: &Failed) -> bool {
        let (ModelError::Refused { status: 400 | 404 | 422, message }
        | ModelError::Unavailable { status: 500, message }) = &refused.error
        else {
            return false;
        };
        let message = message.to_ascii_lowercase();
        let is_about_it =
            message.contains("tool call id") && ["length 9", "length of 9"].iter().any(|words| message.contains(words));
        let is_conceded = is_about_it && !self.has_nine_char_ids;
        self.has_nine_char_ids |= is_conceded;
        if let Some(wants) = self.wants_nine_char_ids.filter(|_| is_conceded) {
            wants.store(true, Ordering::Relaxed);
        }
        is_conceded
    }

    fn decoder(&self) -> decode::Decoder {
        decode::Decoder::new(fresh_id)
    }
}
