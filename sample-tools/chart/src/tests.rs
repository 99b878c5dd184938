//! The picture read back, and what is said about it.

use super::*;
use toolcell_guest::serde_json::json;
use toolcell_guest::{Source, testing, tool_of};

fn call(arguments: &toolcell_guest::serde_json::Value) -> ToolResult {
    tool_of!(chart).call(&arguments.to_string(), &testing::first_call())
}

fn picture(result: &ToolResult) -> &[u8] {
    match result.parts.as_slice() {
        [ContentPart::Media(media)] if media.mime_type() == "image/png" => match media.source() {
            Source::Bytes(bytes) => bytes,
            Source::Url(url) => panic!("{url}"),
        },
        parts => panic!("{parts:?} {}", result.output),
    }
}

/// Width, height and one palette index for each pixel.
fn decoded(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = ::png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width, info.height, pixels)
}

/// How many pixels of a column are drawn in the ink of the values.
fn column(png: &[u8], x: usize) -> usize {
    let (width, _, pixels) = decoded(png);
    pixels.chunks(width as usize).filter(|row| row[x] == canvas::Ink::Value as u8).count()
}

#[test]
fn a_bar_chart_is_a_picture_and_the_same_in_words() {
    let result = call(&json!({
        "values": [5, 2.5, 10],
        "labels": ["Mon", "Tue", "Wed"],
        "title": "Visitors",
    }));
    assert_eq!(
        result.output,
        "A bar chart \"Visitors\" of 3 values, smallest 2.5 (Tue), largest 10 (Wed): Mon 5, Tue 2.5, Wed 10"
    );
    assert_eq!(
        (result.is_error, result.metadata.clone()),
        (false, ToolResult::ok("").with_metadata("values", 3).metadata)
    );
    let png = picture(&result);
    let (width, height, _) = decoded(png);
    assert_eq!((width, height), (800, 450));
    // Through each bar; the last of its pixels lies below the axis.
    let heights: Vec<_> = [120, 400, 670].map(|x| column(png, x)).into();
    assert_eq!(heights, [179, 90, 358]);
}

#[test]
fn bars_of_negative_numbers_hang_from_zero() {
    let result = call(&json!({"values": [-4, 4]}));
    let png = picture(&result);
    let (width, _, pixels) = decoded(png);
    let rows = |x: usize| -> Vec<usize> {
        let rows = pixels.chunks(width as usize).enumerate();
        rows.filter(|(_, row)| row[x] == canvas::Ink::Value as u8).map(|(y, _)| y).collect()
    };
    let (left, right) = (rows(150), rows(700));
    assert!(left.first() > right.last(), "{left:?} {right:?}");
}

#[test]
fn a_line_chart_has_a_point_for_every_number() {
    let values: Vec<_> = (0..200).map(|x| f64::from(x % 20)).collect();
    let result = call(&json!({"values": values, "kind": "line"}));
    assert!(result.output.starts_with("A line chart of 200 values, smallest 0 (1), largest 19 (20): 1 0, 2 1,"));
    assert!(result.output.ends_with(", 50 9 and 150 more"));
    assert!((100..780).all(|x| column(picture(&result), x) > 0));
}

#[test]
fn one_number_and_equal_numbers_are_drawn() {
    for values in [json!([0]), json!([7]), json!([-7]), json!([3, 3, 3]), json!([1e15, -1e15]), json!([1e-9, 2e-9])] {
        for kind in ["bar", "line"] {
            let result = call(&json!({"values": values, "kind": kind}));
            assert_eq!(decoded(picture(&result)).0, 800, "{values} {kind}");
        }
    }
}

#[test]
fn long_texts_in_any_script_do_not_break_the_picture() {
    let long = "日本語 \n ä ".repeat(10);
    let result = call(&json!({"values": [1, 2], "labels": [long, ""], "title": long}));
    assert_eq!(decoded(picture(&result)).0, 800);
}

#[test]
fn what_cannot_be_drawn_is_refused_with_the_reason() {
    for (arguments, error) in [
        (json!({"values": []}), "values must have 1 to 200 numbers, not 0"),
        (json!({"values": vec![1; 201]}), "values must have 1 to 200 numbers, not 201"),
        (
            json!({"values": [1, 2], "labels": ["a"]}),
            "labels must be as many as values or left out: there are 1 labels for 2 values",
        ),
        (json!({"values": [1, 1e300]}), "number 2 of values is too large: draw thousands or millions instead"),
        (json!({"values": [1], "title": "x".repeat(101)}), "title must have at most 100 characters"),
        (json!({"values": [1], "labels": ["x".repeat(101)]}), "each of labels must have at most 100 characters"),
        (
            json!({"values": [1], "kind": "pie"}),
            "the argument \"kind\" does not fit: unknown variant `pie`, expected `bar` or `line`",
        ),
        (json!({"values": ["1"]}), "the argument \"values\" does not fit: invalid type: string \"1\", expected f64"),
    ] {
        assert_eq!(call(&arguments), ToolResult::error(error));
    }
}

#[test]
fn the_schema_lists_the_kinds() {
    let schema = tool_of!(chart).definition().input_schema;
    assert_eq!(
        schema["properties"]["kind"],
        json!({
            "type": "string",
            "enum": ["bar", "line"],
            "description": "How the numbers are drawn.\nbar: A bar for each number, from zero: for amounts.\n\
                            line: A line through the numbers: for a course in time.",
            "default": "bar",
        })
    );
    assert_eq!(schema["required"], json!(["values"]));
}
