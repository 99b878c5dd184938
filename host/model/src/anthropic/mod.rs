//! The wire format of Anthropic Messages, and in which ways its servers differ.
//!
//! [`encode`] makes a request of a prompt, [`decode`] a turn of a response; both are pure.

mod blocks;
mod decode;
mod encode;
mod media;
#[cfg(test)]
mod regression_tests;
mod tools;

use std::borrow::Cow;
use std::num::NonZeroU32;

use toolcell_agent::Prompt;

use crate::ask::{Delivery, Exchange, MediaUse, RequestBody};

/// The name of this wire in [`toolcell_agent::Verbatim::wire`].
pub(crate) const WIRE: &str = "anthropic-messages";

/// The longest answer, in tokens, where none is chosen: the wire demands a number. It holds a long reasoning and a file
/// in the arguments of a call; every model in service takes it; and an answer that is asked for whole ends within ten
/// minutes.
const OUTPUT_TOKENS_DEFAULT: NonZeroU32 = NonZeroU32::new(16_384).unwrap();

/// In which ways a server of Anthropic Messages differs from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnthropicQuirks {
    /// The version of the wire, which every request names in the header `anthropic-version`.
    pub version: &'static str,
    /// How the key travels.
    pub key: AnthropicKey,
    /// Whether it accepts PDF and text files. What it does not accept, a line of text stands for.
    pub documents: bool,
    /// Whether a thought without a signature goes back: Anthropic refuses it, servers that sign nothing want it.
    pub unsigned_thinking: bool,
}

/// How the key travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnthropicKey {
    /// In the header `x-api-key`.
    ApiKey,
    /// In the header `authorization`, as gateways have it.
    Bearer,
}

impl AnthropicQuirks {
    /// Anthropic itself, at the newest version of the wire that is spoken here.
    pub const ANTHROPIC: Self =
        Self { version: "2026-10-21", key: AnthropicKey::ApiKey, documents: true, unsigned_thinking: false };

    /// What other servers understand: the first version of the wire, which Anthropic goes on serving.
    pub const COMPATIBLE: Self =
        Self { version: "2023-06-01", key: AnthropicKey::Bearer, documents: false, unsigned_thinking: true };
}

/// One question in this wire format.
pub(crate) struct AnthropicExchange<'a> {
    /// What is asked.
    pub(crate) prompt: Prompt<'a>,
    /// Whom.
    pub(crate) model: &'a str,
    /// In which dialect.
    pub(crate) quirks: &'a AnthropicQuirks,
    /// The longest answer, in tokens.
    pub(crate) output_tokens_max: Option<NonZeroU32>,
    /// In pieces or whole.
    pub(crate) delivery: Delivery,
}

impl Exchange for AnthropicExchange<'_> {
    type Decoder = decode::Decoder;

    fn path(&self) -> Cow<'_, str> {
        "messages".into()
    }

    fn encode(&self, media: MediaUse) -> RequestBody {
        let (body, media, warnings) = encode::encode(self, media);
        RequestBody { json: body.to_string().into(), media, warnings }
    }

    fn decoder(&self) -> decode::Decoder {
        decode::Decoder::default()
    }
}
