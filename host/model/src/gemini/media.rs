//! Images, sounds and documents as parts, or as a line of text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use toolcell_contract::{Media, Source};

use super::Generation;
use crate::media::mime_type;

/// Where a part can stand.
#[derive(Debug, PartialEq)]
pub(super) enum Place {
    /// In a result itself.
    Result(Value),
    /// Beside results, or in what a person said.
    Content(Value),
}

/// The part that carries the media of a result; `None` when Gemini does not take them.
pub(super) fn result_part(media: &Media, generation: Generation) -> Option<Place> {
    let (mime_type, bytes) = (mime_type(media), bytes(media)?);
    let in_result = ["image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"];
    match generation {
        Generation::Since3 if in_result.contains(&mime_type) => Some(Place::Result(inline(mime_type, bytes))),
        Generation::Since3 | Generation::Before3 => content_part(media).map(Place::Content),
    }
}

/// The part that carries the media of a person; `None` when Gemini does not take them.
pub(super) fn content_part(media: &Media) -> Option<Value> {
    Some(inline(content_type(mime_type(media))?, bytes(media)?))
}

/// The bytes, if there are any. What has an address only is not sent: the provider would fetch it, and a tool without
/// any power could send what it knows to any address.
fn bytes(media: &Media) -> Option<&[u8]> {
    match media.source() {
        Source::Bytes(bytes) => Some(bytes.as_slice()).filter(|bytes| !bytes.is_empty()),
        Source::Url(_) => None,
    }
}

/// The MIME type as Gemini lists it.
fn content_type(mime_type: &str) -> Option<&'static str> {
    Some(match mime_type {
        "image/png" => "image/png",
        "image/jpeg" => "image/jpeg",
        "image/webp" => "image/webp",
        "image/heic" => "image/heic",
        "image/heif" => "image/heif",
        "application/pdf" => "application/pdf",
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "audio/wav",
        "audio/mpeg" | "audio/mp3" => "audio/mp3",
        "audio/aiff" | "audio/x-aiff" => "audio/aiff",
        "audio/aac" => "audio/aac",
        "audio/ogg" => "audio/ogg",
        "audio/flac" | "audio/x-flac" => "audio/flac",
        _ => return None,
    })
}

fn inline(mime_type: &str, bytes: &[u8]) -> Value {
    json!({"inlineData": {"mimeType": mime_type, "data": BASE64.encode(bytes)}})
}
