//! The picture read back module by module, and what is refused.

use super::*;
use toolcell_guest::serde_json::{Value, json};
use toolcell_guest::{ContentPart, Source, testing, tool_of};

fn call(arguments: &Value) -> ToolResult {
    tool_of!(qr_code).call(&arguments.to_string(), &testing::first_call())
}

/// The side in pixels, and whether each pixel is dark.
fn decoded(result: &ToolResult) -> (u32, Vec<bool>) {
    let [ContentPart::Media(media)] = result.parts.as_slice() else { panic!("{result:?}") };
    let Source::Bytes(bytes) = media.source() else { panic!("{media:?}") };
    let mut decoder = ::png::Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_transformations(::png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.width, info.height);
    (info.width, pixels.chunks(3).map(|pixel| pixel[0] == 0).collect())
}

#[test]
fn the_picture_shows_the_code_with_its_quiet_zone() {
    let result = call(&json!({"text": "https://example.org", "size": 128}));
    let (side, pixels) = decoded(&result);
    // 25 modules and twice the quiet zone of 4, at 3 pixels each.
    assert_eq!(side, 99);
    let code = qrcode::QrCode::with_error_correction_level("https://example.org", qrcode::EcLevel::M).unwrap();
    for y in 0..99 {
        for x in 0..99 {
            let inside = (12..87).contains(&x) && (12..87).contains(&y);
            let dark = inside && code[(x / 3 - 4, y / 3 - 4)] == qrcode::Color::Dark;
            assert_eq!(pixels[y * 99 + x], dark, "{x} {y}");
        }
    }
    assert!(
        result.output.starts_with("A QR code of \"https://example.org\" (25 by 25 modules, 99 by 99 pixels, PNG, ")
    );
}

#[test]
fn more_error_correction_needs_more_modules() {
    let modules = |level: &str| {
        call(&json!({"text": "x".repeat(100), "error_correction": level})).metadata.unwrap()["modules"].clone()
    };
    assert_eq!(["low", "medium", "quartile", "high"].map(modules), [37, 41, 49, 57].map(Value::from));
}

#[test]
fn a_text_that_just_fits_is_drawn_and_a_longer_one_is_refused() {
    for (level, bytes_max) in [("low", 2_953), ("medium", 2_331), ("quartile", 1_663), ("high", 1_273)] {
        let of = |bytes: usize| call(&json!({"text": "x".repeat(bytes), "error_correction": level, "size": 1024}));
        assert_eq!(decoded(&of(bytes_max)).0, 185 * 5);
        assert_eq!(
            of(bytes_max + 1),
            ToolResult::error(format!(
                "text has {} bytes, but at most {bytes_max} fit at this error_correction: shorten it, use a lower \
                 error_correction, or encode a link to it",
                bytes_max + 1
            ))
        );
    }
}

#[test]
fn sizes_and_texts_out_of_range_are_refused() {
    for (arguments, error) in [
        (json!({"text": ""}), "text is empty: a QR code needs at least one character"),
        (json!({"text": "a", "size": 28}), "size must be 32 to 2048 pixels for this text"),
        (json!({"text": "a", "size": 2049}), "size must be 32 to 2048 pixels for this text"),
        (json!({"text": "a".repeat(2000), "size": 100}), "size must be 177 to 2048 pixels for this text"),
    ] {
        assert_eq!(call(&arguments), ToolResult::error(error), "{arguments}");
    }
    assert_eq!(decoded(&call(&json!({"text": "a", "size": 32}))).0, 29);
    assert_eq!(decoded(&call(&json!({"text": "a", "size": 2048}))).0, 29 * 70);
}
