//! Images, sounds and files as content parts of a user message, or as a line of text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use toolcell_contract::{Media, Source};

use super::MediaSupport;
use crate::media::{data_url, mime_type};

/// A content part that carries the media; `None` when the server does not take it.
pub(super) fn content_part(media: &Media, support: &MediaSupport) -> Option<Value> {
    let mime_type = mime_type(media);
    let takes_image = support.images.contains(&mime_type);
    match media.source() {
        // The provider would fetch it: a tool without any power could send what it knows to any address.
        Source::Url(_) => None,
        // No server takes an image of no bytes.
        Source::Bytes(bytes) if bytes.is_empty() => None,
        Source::Bytes(bytes) if takes_image => Some(image(&data_url(mime_type, bytes))),
        Source::Bytes(bytes) if mime_type == "application/pdf" && support.pdf => {
            let filename = media.name().unwrap_or("file.pdf");
            let file_data = data_url(mime_type, bytes);
            Some(json!({"type": "file", "file": {"filename": filename, "file_data": file_data}}))
        }
        Source::Bytes(bytes) => {
            let format = audio_format(mime_type).filter(|format| support.audio.contains(format))?;
            Some(json!({"type": "input_audio", "input_audio": {"data": BASE64.encode(bytes), "format": format}}))
        }
    }
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn audio_format(mime_type: &str) -> Option<&'static str> {
    match mime_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    }
}
