use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn decode(text: Value) -> Result<ContentPart, String> {
    serde_json::from_value(text).map_err(|e| e.to_string())
}

fn media(part: ContentPart) -> Media {
    match part {
        ContentPart::Media(media) => media,
        ContentPart::Text(text) => panic!("text instead of media: {text}"),
    }
}

#[test]
fn the_type_comes_from_the_mime_type() {
    for (mime_type, kind) in [
        ("image/png", PartKind::Image),
        ("audio/wav", PartKind::Audio),
        ("application/pdf", PartKind::File),
        ("text/csv", PartKind::File),
    ] {
        let part = ContentPart::from_bytes([1], mime_type).unwrap();
        assert_eq!(part.kind(), kind, "{mime_type}");
        assert_eq!(serde_json::to_value(part).unwrap()["type"], json!(kind.to_string()));
    }
}

#[test]
fn describe_counts_decoded_bytes() {
    let part = decode(json!({"type": "image", "mimeType": "image/png", "data": BASE64.encode([0; 82])})).unwrap();
    assert_eq!(part.describe(), "image (image/png, 82 bytes)");
    assert_eq!(ContentPart::text("four").describe(), "text (4 bytes)");
}

#[test]
fn a_path_gives_type_and_name_but_never_enters_the_part() {
    let dir = tempfile::tempdir().unwrap();
    for (extension, mime_type) in MIME_TYPES {
        let path = dir.path().join(format!("shot.{extension}"));
        std::fs::write(&path, b"bytes").unwrap();
        let part = media(ContentPart::from_path(&path).unwrap());
        assert_eq!(part.mime_type(), mime_type);
        assert_eq!(part.source(), &Source::Bytes(b"bytes".to_vec()));
        assert_eq!(part.name(), Some(format!("shot.{extension}").as_str()));
        let text = serde_json::to_string(&ContentPart::Media(part)).unwrap();
        assert!(!text.contains(dir.path().to_str().unwrap()), "{text}");
    }
}

#[test]
fn an_unknown_extension_is_an_error_that_names_it() {
    let error = ContentPart::from_path("/tmp/notes.xyz").unwrap_err();
    assert!(matches!(&error, PartError::UnknownExtension(extension) if extension == "xyz"), "{error}");
    assert!(error.to_string().starts_with("unknown file extension \"xyz\""), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_an_io_error() {
    assert!(matches!(ContentPart::from_path("/no/such/file.png"), Err(PartError::Io(_))));
}

#[test]
fn a_reader_may_give_as_much_as_a_part_may_hold_and_no_more() {
    let inside = ContentPart::from_reader(std::io::repeat(1).take(PART_BYTES_MAX as u64), "image/png").unwrap();
    assert_eq!(inside.describe(), "image (image/png, 4194304 bytes)");
    let outside = ContentPart::from_reader(std::io::repeat(1), "image/png");
    assert!(matches!(outside, Err(PartError::TooLarge)));
}

#[test]
fn a_url_keeps_its_place_and_a_data_url_is_decoded() {
    let part = media(ContentPart::from_url("https://example.org/a/b.PNG?size=1#x").unwrap());
    assert_eq!(part.mime_type(), "image/png");
    assert_eq!(part.source(), &Source::Url("https://example.org/a/b.PNG?size=1#x".into()));
    for (url, mime_type, bytes) in [
        ("data:image/png;base64,BwcH", "image/png", &[7, 7, 7][..]),
        ("DATA:audio/wav;base64,BwcH", "audio/wav", &[7, 7, 7]),
        ("data:text/plain;charset=utf-8,a%20b", "text/plain", b"a b"),
        ("data:,plain", "text/plain", b"plain"),
    ] {
        let part = media(ContentPart::from_url(url).unwrap());
        assert_eq!((part.mime_type(), part.source()), (mime_type, &Source::Bytes(bytes.to_vec())), "{url}");
    }
    assert!(matches!(ContentPart::from_url("data:image/png;base64"), Err(PartError::BadDataUrl)));
    assert!(matches!(ContentPart::from_url("data:image/png;base64,***"), Err(PartError::BadBase64(_))));
    assert!(matches!(ContentPart::from_url("data:,%zz"), Err(PartError::BadDataUrl)));
    assert!(matches!(ContentPart::from_url("https://example.org/shot"), Err(PartError::UnknownExtension(_))));
    assert!(ContentPart::from_url_as("https://example.org/shot", "image/png").is_ok());
}

#[test]
fn a_data_url_in_json_is_decoded_too() {
    let part = decode(json!({"type": "image", "mimeType": "image/png", "url": "data:image/png;base64,BwcH"}));
    assert_eq!(part, Ok(ContentPart::from_bytes([7, 7, 7], "image/png").unwrap()));
}

#[test]
fn exactly_one_of_data_and_url() {
    let both = json!({"type": "image", "mimeType": "image/png", "data": "BwcH", "url": "https://example.org/a.png"});
    assert_eq!(decode(both), Err("a media part has both data and url: give exactly one of them".into()));
    let neither = json!({"type": "image", "mimeType": "image/png"});
    assert_eq!(decode(neither), Err("a media part has neither data nor url: give exactly one of them".into()));
}

#[test]
fn a_part_that_contradicts_itself_is_refused() {
    for (text, message) in [
        (json!({"type": "text"}), "a part of type \"text\" needs the key \"text\""),
        (json!({"type": "file", "data": ""}), "a part of type \"file\" needs the key \"mimeType\""),
        (
            json!({"type": "image", "mimeType": "audio/wav", "data": ""}),
            "a part of type \"image\" cannot have the MIME type \"audio/wav\"",
        ),
        (json!({"type": "image", "mimeType": "image/png", "data": "*"}), "the data of a part is not base64"),
    ] {
        assert_eq!(decode(text.clone()), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn a_mime_type_is_a_type_and_a_subtype() {
    for bad in ["", "png", "image/", "/png", "image/png\r\nX: y", "image/png; q=1", "a/b/c", "image/ png"] {
        assert!(matches!(ContentPart::from_bytes([1], bad), Err(PartError::BadMimeType(_))), "{bad:?}");
    }
    assert!(ContentPart::from_bytes([1], &format!("image/{}", "x".repeat(300))).is_err());
    assert_eq!(media(ContentPart::from_bytes([1], "Image/SVG+xml").unwrap()).mime_type(), "image/svg+xml");
}

proptest! {
    #[test]
    fn every_part_survives_json(bytes in proptest::collection::vec(any::<u8>(), 0..64), name in any::<Option<String>>()) {
        let part = ContentPart::Media(Media::new("image/png", Source::Bytes(bytes), name).unwrap());
        let text = serde_json::to_string(&part).unwrap();
        prop_assert_eq!(serde_json::from_str::<ContentPart>(&text).unwrap(), part);
    }

    #[test]
    fn no_url_panics(url in "\\PC*") {
        let _ = ContentPart::from_url(url.clone());
        let _ = ContentPart::from_url(format!("data:{url}"));
    }
}
