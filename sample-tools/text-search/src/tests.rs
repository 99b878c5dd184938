//! Searches in texts and in files, and what is refused.

use super::*;
use std::fs;
use toolcell_guest::serde_json::{self, Value, json};
use toolcell_guest::{testing, tool_of};

fn call(arguments: &Value) -> ToolResult {
    tool_of!(text_search).call(&arguments.to_string(), &testing::first_call())
}

/// The output as JSON.
fn output(arguments: &Value) -> Value {
    let result = call(arguments);
    assert!(!result.is_error, "{}", result.output);
    serde_json::from_str(&result.output).unwrap()
}

#[test]
fn matches_have_line_column_and_text() {
    let text = "a lamp\nnone\nLamp, lamp and ein Überlamp";
    let result = call(&json!({"pattern": "lamp", "text": text}));
    let matches = json!({
        "matches": [
            {"line": 1, "column": 3, "text": "a lamp"},
            {"line": 3, "column": 7, "text": "Lamp, lamp and ein Überlamp"},
            {"line": 3, "column": 24, "text": "Lamp, lamp and ein Überlamp"},
        ],
        "truncated": false,
    });
    let expected = ToolResult::ok(matches.to_string()).with_metadata("count", 3).with_metadata("truncated", false);
    assert_eq!(result, expected);
}

#[test]
fn case_is_ignored_on_request() {
    let columns = |arguments: Value| -> Vec<Value> {
        let found = output(&arguments);
        found["matches"].as_array().unwrap().iter().map(|found| found["column"].clone()).collect()
    };
    assert_eq!(columns(json!({"pattern": "A.B", "text": "a.b axb A.B", "ignore_case": true})), [1, 9]);
    assert_eq!(columns(json!({"pattern": "a.b", "text": "a.b axb A.B", "syntax": "regex"})), [1, 5]);
    let both = json!({"pattern": "a.b", "text": "a.b axb A.B", "syntax": "regex", "ignore_case": true});
    assert_eq!(columns(both), [1, 5, 9]);
}

#[test]
fn a_regular_expression_that_matches_nothing_finds_nothing() {
    let found = output(&json!({"pattern": "x*", "text": "abc\nx", "syntax": "regex"}));
    assert_eq!(found, json!({"matches": [{"line": 2, "column": 1, "text": "x"}], "truncated": false}));
}

#[test]
fn the_number_of_matches_is_bounded() {
    let search = |text: &str| call(&json!({"pattern": "x", "text": text, "max_matches": 3}));
    assert_eq!(
        search("xxx").metadata,
        ToolResult::ok("").with_metadata("count", 3).with_metadata("truncated", false).metadata
    );
    assert_eq!(
        search("xxxx").metadata,
        ToolResult::ok("").with_metadata("count", 3).with_metadata("truncated", true).metadata
    );
}

#[test]
fn a_text_of_a_megabyte_is_searched() {
    let text = "the quick brown fox jumps over the lazy dog\n".repeat(23_000);
    let found = output(&json!({"pattern": "lazy", "text": text, "max_matches": 1000}));
    assert_eq!(found["truncated"], json!(true));
    assert_eq!(found["matches"].as_array().unwrap().len(), 1000);
    let none = output(&json!({"pattern": "l.zy c[ao]t", "text": text, "syntax": "regex"}));
    assert_eq!(none, json!({"matches": [], "truncated": false}));
}

#[test]
fn long_lines_are_cut_around_the_match_and_the_output_stays_small() {
    let line = format!("{}needle{}", "ä".repeat(500), "ö".repeat(500));
    let found = output(&json!({"pattern": "needle", "text": line}));
    let text = format!("…{}needle{}…", "ä".repeat(60), "ö".repeat(134));
    assert_eq!(found["matches"], json!([{"line": 1, "column": 501, "text": text}]));

    let short = format!("{}x", "a".repeat(150));
    assert_eq!(output(&json!({"pattern": "x", "text": short}))["matches"][0]["text"], format!("…{}x", "a".repeat(60)));

    let many = call(&json!({"pattern": "ä", "text": "ä".repeat(1000), "max_matches": 1000}));
    assert!(many.output.len() < 256 << 10);
    assert_eq!(many.metadata.unwrap()["truncated"], json!(true));
}

#[test]
fn files_are_searched_in_order_without_hidden_binary_and_large_ones() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("b.txt", b"nothing\nneedle");
    write("a/z.txt", b"needle \xff");
    write("a/.git/x", b"needle");
    write(".hidden", b"needle");
    write("binary", b"needle\0");
    write("large", "needle\n".repeat(700_000).as_bytes());
    #[cfg(unix)]
    std::os::unix::fs::symlink(root.path(), root.path().join("a/circle")).unwrap();

    let path = root.path().to_str().unwrap();
    let result = call(&json!({"pattern": "needle", "path": path}));
    let matches = json!({
        "matches": [
            {"file": format!("{path}/a/z.txt"), "line": 1, "column": 1, "text": "needle �"},
            {"file": format!("{path}/b.txt"), "line": 2, "column": 1, "text": "needle"},
        ],
        "truncated": false,
    });
    let expected = ToolResult::ok(matches.to_string())
        .with_metadata("count", 2)
        .with_metadata("truncated", false)
        .with_metadata("files", 2);
    assert_eq!(result, expected);

    let one = output(&json!({"pattern": "needle", "path": format!("{path}/b.txt")}));
    assert_eq!(one["matches"].as_array().unwrap().len(), 1);
}

#[test]
fn without_time_the_result_is_marked_as_cut() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), "needle").unwrap();
    let pattern = Pattern::new("needle", Syntax::Plain, false).unwrap();
    let mut matches = Matches::new(10).unwrap();
    files::search(&pattern, root.path().to_str(), &testing::with_deadline_ms(0), &mut matches).unwrap();
    assert_eq!(matches.into_result().metadata.unwrap()["truncated"], json!(true));
}

#[test]
fn what_cannot_be_searched_is_refused_with_the_reason() {
    for (arguments, error) in [
        (json!({"pattern": "", "text": ""}), "pattern must have 1 to 1000 bytes"),
        (json!({"pattern": "x".repeat(1001), "text": ""}), "pattern must have 1 to 1000 bytes"),
        (json!({"pattern": "x", "text": "", "path": "a"}), "give text or path, not both"),
        (json!({"pattern": "x", "text": "", "max_matches": 0}), "max_matches must be 1 to 1000"),
        (json!({"pattern": "x", "text": "", "max_matches": 1001}), "max_matches must be 1 to 1000"),
        (
            json!({"pattern": "x", "path": "/no/such/place"}),
            "cannot read \"/no/such/place\": No such file or directory (os error 2); the granted directories are .",
        ),
    ] {
        assert_eq!(call(&arguments), ToolResult::error(error), "{arguments}");
    }
    for pattern in ["(", "a{1000}{1000}"] {
        let result = call(&json!({"pattern": pattern, "text": "", "syntax": "regex"}));
        assert!(result.is_error && result.output.starts_with("pattern is not a regular expression: "), "{result:?}");
    }
}

#[test]
fn without_a_directory_the_error_says_what_to_do() {
    assert_eq!(
        Error::NotGranted.to_string(),
        "no directory is granted to this tool, so it cannot read files: give the text itself as text"
    );
}
