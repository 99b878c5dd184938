//! Images and files as parts of a message or of a result. The wire has no part for sounds.

use serde_json::{Value, json};
use toolcell_contract::{Media, Source};

use super::ResponsesQuirks;
use crate::media::{data_url, mime_type};

/// Characters of an image as a `data:` URL that OpenAI accepts.
const IMAGE_URL_CHARS_MAX: usize = 20_971_520;

/// Characters of a file as a `data:` URL that OpenAI accepts.
const FILE_DATA_CHARS_MAX: usize = 73_400_320;

/// A part that carries the media; `None` when the server does not take it.
pub(super) fn input_part(media: &Media, quirks: &ResponsesQuirks) -> Option<Value> {
    let mime_type = mime_type(media);
    let bytes = match media.source() {
        Source::Bytes(bytes) if !bytes.is_empty() => bytes,
        // The provider would fetch it: a tool without any power could send what it knows to any address.
        Source::Url(_) | Source::Bytes(_) => return None,
    };
    let chars = data_url_chars(mime_type, bytes.len());
    if quirks.images.contains(&mime_type) && chars <= IMAGE_URL_CHARS_MAX {
        return Some(json!({"type": "input_image", "image_url": data_url(mime_type, bytes), "detail": "auto"}));
    }
    let is_file = mime_type == "application/pdf" && quirks.pdf && chars <= FILE_DATA_CHARS_MAX;
    let filename = media.name().filter(|name| !name.is_empty()).unwrap_or("file.pdf");
    is_file.then(|| json!({"type": "input_file", "filename": filename, "file_data": data_url(mime_type, bytes)}))
}

/// The length of a `data:` URL, before it is made.
fn data_url_chars(mime_type: &str, bytes: usize) -> usize {
    "data:;base64,".len() + mime_type.len() + bytes.div_ceil(3) * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_contract::ContentPart;

    fn part(mime_type: &str, size: usize) -> Option<Value> {
        let ContentPart::Media(media) = ContentPart::from_bytes(vec![1; size], mime_type).unwrap() else {
            panic!("no media");
        };
        input_part(&media, &ResponsesQuirks::OPENAI)
    }

    #[test]
    fn the_length_of_a_data_url_is_known_before_it_is_made() {
        for size in 1..8 {
            let url = data_url("image/png", &vec![1; size]);
            assert_eq!(data_url_chars("image/png", size), url.len());
        }
    }

    #[test]
    fn an_image_may_be_as_long_as_the_limit_and_no_longer() {
        let size = (IMAGE_URL_CHARS_MAX - "data:image/png;base64,".len()) / 4 * 3;
        assert!(part("image/png", size).is_some());
        assert_eq!(part("image/png", size + 1), None);
    }

    #[test]
    fn a_file_may_be_as_long_as_the_limit_and_no_longer() {
        let size = (FILE_DATA_CHARS_MAX - "data:application/pdf;base64,".len()) / 4 * 3;
        assert!(part("application/pdf", size).is_some());
        assert_eq!(part("application/pdf", size + 1), None);
    }
}
