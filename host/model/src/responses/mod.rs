//! The wire format of OpenAI Responses, used without anything kept at the server.
//!
//! [`encode`] makes a request of a prompt, [`decode`] a turn of a response; both are pure. A turn goes back as the items
//! that came, unchanged and in order: the reasoning among them is encrypted, and a call is refused without it.

mod decode;
mod encode;
mod items;
mod media;
#[cfg(test)]
mod regression_tests;
mod strict;

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};

use toolcell_agent::{ModelError, Prompt};

use crate::ask::{Delivery, Exchange, MediaUse, RequestBody};
use crate::call::fresh_id;
use crate::provider_error::Failed;

/// The name of this wire in [`toolcell_agent::Verbatim::wire`].
pub(crate) const WIRE: &str = "openai-responses";

/// In which ways a server of Responses differs from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponsesQuirks {
    /// MIME types of the images that it accepts.
    pub images: &'static [&'static str],
    /// Whether it accepts PDF files.
    pub pdf: bool,
    /// Whether a result carries its own media. If not, they follow all results in a message of the user.
    pub media_in_results: bool,
}

impl ResponsesQuirks {
    /// OpenAI itself.
    pub const OPENAI: Self =
        Self { images: &["image/png", "image/jpeg", "image/webp", "image/gif"], pdf: true, media_in_results: true };
}

/// One question in this wire format.
pub(crate) struct ResponsesExchange<'a> {
    prompt: Prompt<'a>,
    model: &'a str,
    quirks: &'a ResponsesQuirks,
    output_tokens_max: Option<NonZeroU32>,
    delivery: Delivery,
    /// Whether the encrypted reasoning is asked for. Models without reasoning refuse that.
    asks_for_reasoning: bool,
    /// Where it is kept for the next question that the model refuses them.
    refuses_reasoning: Option<&'a AtomicBool>,
}

impl<'a> ResponsesExchange<'a> {
    /// A question to a model, in a server's dialect.
    pub(crate) fn new(
        prompt: Prompt<'a>,
        model: &'a str,
        quirks: &'a ResponsesQuirks,
        output_tokens_max: Option<NonZeroU32>,
        delivery: Delivery,
    ) -> Self {
        let (asks_for_reasoning, refuses_reasoning) = (true, None);
        Self { prompt, model, quirks, output_tokens_max, delivery, asks_for_reasoning, refuses_reasoning }
    }

    /// The same question, which knows of a refusal before it and tells the next of its own.
    pub(crate) fn remembering(self, refuses_reasoning: &'a AtomicBool) -> Self {
        let asks_for_reasoning = !refuses_reasoning.load(Ordering::Relaxed);
        Self { asks_for_reasoning, refuses_reasoning: Some(refuses_reasoning), ..self }
    }
}

impl Exchange for ResponsesExchange<'_> {
    type Decoder = decode::Decoder;

    fn path(&self) -> Cow<'_, str> {
        "responses".into()
    }

    fn encode(&self, media: MediaUse) -> RequestBody {
        let (body, media) = encode::encode(self, media);
        RequestBody { json: body.to_string().into(), media, warnings: Vec::new() }
    }

    /// "Encrypted content is not supported with this model": it has no reasoning that could be lost.
    fn concede(&mut self, refused: &Failed) -> bool {
        let ModelError::Refused { status: 400 | 404 | 422, message } = &refused.error else { return false };
        let message = message.to_ascii_lowercase();
        let is_about_it = ["encrypted content", "encrypted_content"].iter().any(|words| message.contains(words));
        let is_conceded = is_about_it && std::mem::take(&mut self.asks_for_reasoning);
        if let Some(refuses) = self.refuses_reasoning.filter(|_| is_conceded) {
            refuses.store(true, Ordering::Relaxed);
        }
        is_conceded
    }

    fn decoder(&self) -> decode::Decoder {
        decode::Decoder::new(fresh_id)
    }
}
