//! Images and files as content blocks. A block that Anthropic cannot read is refused together with the conversation, so
//! the bytes decide what they are, not the type that somebody wrote beside them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use toolcell_contract::limits::OUTPUT_BYTES_MAX;
use toolcell_contract::{Media, Source};

/// The longest image, in characters of base64; a longer one is refused together with the conversation.
const IMAGE_BASE64_MAX: usize = 10 << 20;

/// The longest text file: as long as what a tool may say itself. A longer one would fill the model's context.
const TEXT_BYTES_MAX: usize = OUTPUT_BYTES_MAX;

/// How far into a PDF its signature may stand (ISO 32000-1, annex H, note 13).
const PDF_SIGNATURE_WITHIN: usize = 1024;

/// A content block that carries the media; `None` when the server does not take it.
pub(super) fn block(media: &Media, documents: bool) -> Option<Value> {
    // The provider would fetch a URL: a tool without any power could send what it knows to any address.
    let Source::Bytes(bytes) = media.source() else { return None };
    if media.mime_type().starts_with("text/") {
        return documents.then(|| text_document(media, bytes)).flatten();
    }
    if let Some(media_type) = image_type(bytes) {
        let fits = base64::encoded_len(bytes.len(), true).is_some_and(|size| size <= IMAGE_BASE64_MAX);
        return fits.then(|| json!({"type": "image", "source": base64_source(media_type, bytes)}));
    }
    let is_pdf = documents && media.mime_type() == "application/pdf" && has_pdf_signature(bytes);
    is_pdf.then(|| document(media, base64_source("application/pdf", bytes)))
}

fn text_document(media: &Media, bytes: &[u8]) -> Option<Value> {
    let text =
        std::str::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty() && text.len() <= TEXT_BYTES_MAX)?;
    Some(document(media, json!({"type": "text", "media_type": "text/plain", "data": text})))
}

fn document(media: &Media, source: Value) -> Value {
    let mut block = json!({"type": "document", "source": source});
    if let Some(name) = media.name().filter(|name| !name.trim().is_empty()) {
        block["title"] = json!(name);
    }
    block
}

fn base64_source(media_type: &str, bytes: &[u8]) -> Value {
    json!({"type": "base64", "media_type": media_type, "data": BASE64.encode(bytes)})
}

/// The type of an image that the wire carries, told by its first bytes.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn has_pdf_signature(bytes: &[u8]) -> bool {
    let begin = bytes.get(..PDF_SIGNATURE_WITHIN).unwrap_or(bytes);
    begin.windows(5).any(|window| window == b"%PDF-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_contract::ContentPart;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

    fn sent(bytes: &[u8], mime_type: &str) -> Option<Value> {
        let ContentPart::Media(media) = ContentPart::from_bytes(bytes, mime_type).unwrap() else { panic!("no media") };
        block(&media, true)
    }

    #[test]
    fn an_image_gets_the_type_that_its_bytes_have() {
        for (bytes, media_type) in [
            (PNG, "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\x01\x02\x03\x04WEBPVP8 ", "image/webp"),
        ] {
            for declared in [media_type, "image/png", "image/jpg", "application/octet-stream"] {
                let source = json!({"type": "base64", "media_type": media_type, "data": BASE64.encode(bytes)});
                assert_eq!(sent(bytes, declared), Some(json!({"type": "image", "source": source})), "{declared}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_image_are_not_sent_as_one() {
        for bytes in [&b""[..], b"\x01\x02\x03", b"\x89PNG", b"RIFF\x01\x02\x03\x04WAVE", b"BM\x01\x02", b"<svg/>"] {
            assert_eq!(sent(bytes, "image/png"), None);
        }
        assert_eq!(sent(b"RIFF\x01\x02\x03\x04WAVE", "audio/wav"), None);
        assert_eq!(sent(b"no pdf", "application/pdf"), None);
    }

    #[test]
    fn an_image_may_be_as_long_as_the_limit_and_no_longer() {
        let image = |base64_size: usize| {
            let mut bytes = PNG.to_vec();
            bytes.resize(base64_size / 4 * 3, 0);
            let media = Media::new("image/png", Source::Bytes(bytes), None).unwrap();
            block(&media, true).is_some()
        };
        assert!(image(IMAGE_BASE64_MAX));
        assert!(!image(IMAGE_BASE64_MAX + 4));
    }

    #[test]
    fn a_text_file_is_a_document_up_to_its_limit() {
        let part = ContentPart::from_bytes(b"a,b".to_vec(), "text/csv").unwrap().named("t.csv");
        let ContentPart::Media(media) = part else { panic!("no media") };
        let source = json!({"type": "text", "media_type": "text/plain", "data": "a,b"});
        assert_eq!(block(&media, true), Some(json!({"type": "document", "source": source, "title": "t.csv"})));
        assert_eq!(block(&media, false), None);
        assert!(sent(&vec![b'a'; TEXT_BYTES_MAX], "text/plain").is_some());
        assert!(sent(&vec![b'a'; TEXT_BYTES_MAX + 1], "text/plain").is_none());
        assert_eq!((sent(b" \n", "text/plain"), sent(b"\xff", "text/plain")), (None, None));
    }
}
