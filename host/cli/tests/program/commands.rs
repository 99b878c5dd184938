//! What the commands print, what they ask, and their exit codes.

use crate::support::{Ended, Place};
use serde_json::{Value, json};

const PURCHASE: &str = r#"{"item":"desk lamp","quantity":3,"price":40.0}"#;

fn assert_clear(ended: &Ended, code: i32, message: &str) {
    assert_eq!(ended.code, code, "{ended:?}");
    assert!(ended.stderr.contains(message), "{message:?} is not in {:?}", ended.stderr);
    for noise in ["panicked", "backtrace", "RUST_BACKTRACE", "thread '"] {
        assert!(!ended.stderr.contains(noise), "{:?}", ended.stderr);
    }
}

#[test]
fn a_component_that_is_dropped_into_a_directory_can_be_called() {
    let place = Place::with(&["math-tool"]);
    let ended = place.run(&["call", "math", "--args", r#"{"expression":"2 + 2"}"#]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "4\n", ""));
}

#[test]
fn an_error_of_the_tool_is_on_standard_error_with_exit_code_1() {
    let place = Place::with(&["math-tool"]);
    let ended = place.run(&["call", "math", "--args", r#"{"expression":"sqrt(-1)"}"#]);
    assert_clear(&ended, 1, "negative");
    assert_eq!(ended.stdout, "");
}

#[test]
fn the_list_shows_schema_digest_size_and_what_is_asked_for() {
    let place = Place::with(&["math-tool", "text-search-tool"]);
    let ended = place.run(&["tools"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for text in ["math ", "math-tool.wasm (", "sha256 ", "asks for   nothing", "asks for   files", "expression: string"]
    {
        assert!(ended.stdout.contains(text), "{text:?} is not in {}", ended.stdout);
    }
    let json: Value = serde_json::from_str(&place.run(&["tools", "--json"]).stdout).unwrap();
    let math = &json["tools"][0];
    assert_eq!((&math["name"], &math["file"]), (&json!("math"), &json!("math-tool.wasm")));
    assert_eq!(math["inputSchema"]["type"], "object");
    assert_eq!(math["digest"].as_str().unwrap().len(), 64);
    assert_eq!(json["rejected"], json!([]));
    assert!(place.run(&["tools", "--schema"]).stdout.contains("\"type\": \"object\""));
}

#[test]
fn a_directory_that_is_not_there_or_empty_says_so() {
    let place = Place::with(&[]);
    assert_clear(&place.run(&["tools", "--tools", "nowhere"]), 2, "nowhere");
    place.write("a-file", "");
    assert_clear(&place.run(&["tools", "--tools", "a-file"]), 2, "a-file is not a directory: name the directory");
    assert_clear(&place.run(&["tools"]), 0, "tools holds no tools: put .wasm components into it");
    assert_clear(&place.run(&["call", "math"]), 2, "there is no tool \"math\": tools holds no tools");
}

#[test]
fn bad_files_are_reported_and_the_others_work() {
    let place = Place::with(&["math-tool"]);
    place.add("a-note.wasm", b"not wasm at all");
    place.add("b-module.wasm", b"\0asm\x01\0\0\0");
    place.add("c-empty-component.wasm", b"\0asm\x0d\0\x01\0");
    let ended = place.run(&["tools"]);
    for (file, code, words) in [
        ("a-note.wasm", "not-a-component", "not"),
        ("b-module.wasm", "not-a-component", "core module"),
        ("c-empty-component.wasm", "wrong-world", "toolcell:tool/tools"),
    ] {
        let start = format!("refused {file} [{code}]: ");
        let line = ended.stderr.lines().find(|line| line.starts_with(&start));
        assert!(line.is_some_and(|line| line.contains(words)), "{start:?} is not in {}", ended.stderr);
    }
    assert!(ended.stdout.contains("math "), "{ended:?}");
    assert_eq!(ended.code, 0);
}

#[test]
fn what_cannot_be_called_is_said_clearly() {
    let place = Place::with(&["math-tool"]);
    assert_clear(&place.run(&["call", "maths"]), 2, "there is no tool \"maths\" in tools: it has math");
    assert_clear(&place.run(&["call", "math", "--args", "{"]), 2, "not valid JSON");
    assert_clear(&place.run(&["call", "math", "--args", "[]"]), 2, "they must be a JSON object");
    assert_clear(&place.run(&["call", "math"]), 2, "\"expression\" is a required property");
    assert_clear(&place.run(&["call", "math", "--args", r#"{"expression":1}"#]), 2, "/expression: ");
    assert_clear(&place.run(&["call", "math", "--args-file", "nothing.json"]), 2, "cannot read nothing.json");
    assert_clear(&place.run(&["dance"]), 2, "unrecognized subcommand");
}

#[test]
fn large_arguments_come_from_a_file_or_from_standard_input() {
    let place = Place::with(&["text-search-tool"]);
    let text = format!("{}needle\n", "hay on a line\n".repeat(40_000));
    let arguments = json!({"pattern": "needle", "text": text}).to_string();
    let ended = place.run_with_input(&["call", "text-search", "--args-file", "-"], &arguments);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("40001"), "{}", ended.stdout);
    let too_large = json!({"pattern": "needle", "text": "x".repeat(1 << 20)}).to_string();
    let ended = place.run_with_input(&["call", "text-search", "--args-file", "-"], &too_large);
    assert_clear(&ended, 2, "at most 1048576 are accepted");
}

#[test]
fn a_tool_that_waits_is_answered_in_the_terminal() {
    let place = Place::with(&["purchase-tool"]);
    let call = ["call", "purchase", "--args", PURCHASE, "--ask", "always"];
    let bought = place.run_with_input(&call, "y\n\n\n\n");
    assert_eq!(bought.code, 0, "{bought:?}");
    assert!(bought.stderr.contains("purchase asks for approval"), "{bought:?}");
    assert!(bought.stderr.contains("\"desk lamp\""), "the host shows the arguments: {bought:?}");
    let declined = place.run_with_input(&call, "n\n");
    assert_clear(&declined, 1, "declined/expired: ");
    let nobody = place.run_with_input(&call, "");
    assert_eq!(nobody.code, 3, "{nobody:?}");
}

#[test]
fn fields_are_asked_for_until_they_fit_the_schema_of_the_answer() {
    let place = Place::with(&["toolcell-test-guests"]);
    let seats = json!({"schema": {
        "type": "object",
        "properties": {"seat": {"enum": ["1A", "1B"]}, "bags": {"type": "integer", "maximum": 2}},
        "required": ["seat"],
    }});
    let arguments = seats.to_string();
    let call = ["call", "ask_with_data", "--ask", "always", "--args", &arguments];
    let ended = place.run_with_input(&call, "2Z\n1\n1A\n2\n");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("that does not fit"), "{ended:?}");
    assert!(ended.stdout.contains(r#"{"seat":"1A","bags":2}"#), "{ended:?}");
    let declined = place.run_with_input(&call, "!\n");
    assert_clear(&declined, 1, "declined/expired: Buy 3 lamps?");
}

#[test]
fn an_answer_that_cannot_be_typed_declines_instead_of_asking_for_ever() {
    let place = Place::with(&["toolcell-test-guests"]);
    let arguments = json!({"schema": {"type": "object", "required": ["x"]}}).to_string();
    let ended = place.run_with_input(&["call", "ask_with_data", "--ask", "always", "--args", &arguments], "y\n");
    assert_clear(&ended, 1, "wants an answer that cannot be typed here");
}

#[test]
fn nothing_is_approved_that_nobody_answered() {
    let place = Place::with(&["toolcell-test-guests"]);
    let ask = |schema: Value, input: &str| {
        let arguments = json!({"schema": schema}).to_string();
        place.run_with_input(&["call", "ask_with_data", "--ask", "always", "--args", &arguments], input)
    };
    let optional = json!({"type": "object", "properties": {"note": {"type": "string"}}});
    assert_eq!(ask(optional.clone(), "").code, 3, "the input ended before anything was typed");
    assert_eq!(ask(optional, "\n").code, 0, "an empty line leaves the field out");
    assert_eq!(ask(json!({"type": "object"}), "").code, 3, "without fields a yes is asked for");
    assert_eq!(ask(json!({"type": "object"}), "n\n").code, 1);
    assert_eq!(ask(json!({"type": "object"}), "y\n").code, 0);
    let broken = json!({"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": ["so"]}}});
    assert_clear(&ask(broken, "1\n2\n"), 1, "");
    let wants = json!({"schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}});
    let ended = place.run(&["call", "ask_with_data", "--yes", "--args", &wants.to_string()]);
    assert_clear(&ended, 3, "it wants n, which --yes cannot type");
}

#[test]
fn nobody_reads_standard_error_either() {
    let place = Place::with(&["math-tool"]);
    let mut child = place
        .command()
        .args(["call", "math", "--args", r#"{"expression":"1+"}"#])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_tool_that_waits_with_nobody_there_ends_with_exit_code_3() {
    let place = Place::with(&["purchase-tool", "calendar-login-tool"]);
    let ended = place.run(&["call", "purchase", "--args", PURCHASE]);
    assert_clear(&ended, 3, "the tool waits for an answer");
    let ended = place.run(&["call", "purchase", "--args", PURCHASE, "--json"]);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let id = result["metadata"]["pending"]["id"].as_str().unwrap();
    assert!(id.starts_with("pnd-") && id.len() == 36, "{id}");
    assert_eq!((ended.code, &result["isError"]), (3, &json!(true)));
    let ended = place.run(&["call", "calendar-login", "--args", r#"{"date":"2026-12-01"}"#, "--ask", "never"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains("\nhttps://"), "prompt and url stand on two lines: {ended:?}");
    let ended = place.run(&["call", "calendar-login", "--args", r#"{"date":"2026-12-01"}"#, "--yes"]);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn parts_are_described_and_saved_on_request() {
    let place = Place::with(&["chart-tool", "qr-code-tool"]);
    let chart = ["call", "chart", "--args", r#"{"values":[3,1,2]}"#, "--save-parts", "out"];
    let ended = place.run(&chart);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.contains("image (image/png, "), "{ended:?}");
    let saved = |ended: &Ended| ended.stderr.lines().find_map(|line| line.strip_prefix("saved ").map(str::to_owned));
    let path = place.dir.path().join(saved(&ended).unwrap());
    assert!(std::fs::read(&path).unwrap().starts_with(b"\x89PNG\r\n"));
    let again = saved(&place.run(&chart)).unwrap();
    assert_ne!(place.dir.path().join(again), path, "nothing is overwritten");
    let ended = place.run(&["call", "qr-code", "--args", r#"{"text":"https://example.org"}"#, "--json"]);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(result["parts"][0]["type"], "image");
}

#[test]
fn what_a_guest_prints_cannot_touch_the_terminal() {
    let place = Place::with(&["toolcell-test-guests"]);
    let ended = place.run(&["call", "trap_panic"]);
    assert_clear_of_escapes(&ended);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("tool error [trap]"), "{ended:?}");
    assert!(ended.stderr.contains("stderr: "), "the author sees the message of the panic: {ended:?}");
}

#[test]
fn a_pipe_gets_the_output_as_it_is_and_json_holds_nothing_that_a_terminal_obeys() {
    let place = Place::with(&["toolcell-test-guests"]);
    let arguments = json!({"text": "\u{1b}[2J\u{9b}31m\u{202e}x\r\n"}).to_string();
    let ended = place.run(&["call", "echo", "--args", &arguments, "--json"]);
    assert_clear_of_escapes(&ended);
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let plain = place.run(&["call", "echo", "--args", &arguments]);
    assert_eq!(plain.stdout, format!("{}\n", result["output"].as_str().unwrap()));
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let place = Place::with(&["math-tool"]);
    let mut child = place
        .command()
        .args(["tools", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}

fn assert_clear_of_escapes(ended: &Ended) {
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert!(!all.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{all:?}");
}

#[test]
fn hostile_guests_end_with_their_code_and_the_program_lives() {
    let place = Place::with(&["toolcell-test-guests"]);
    for (tool, code) in [
        ("exhaust_memory", "memory-limit"),
        ("exhaust_stack", "stack-overflow"),
        ("trap_unreachable", "trap"),
        ("exit_zero", "guest-exit"),
        ("flood_output", "output-too-large"),
    ] {
        let ended = place.run(&["call", tool]);
        assert_eq!(ended.code, 1, "{tool}: {ended:?}");
        assert!(ended.stderr.contains(&format!("tool error [{code}]: ")), "{tool}: {}", ended.stderr);
    }
}

#[test]
fn help_names_every_exit_code() {
    let ended = Place::with(&[]).run(&["--help"]);
    for text in ["tools", "call", "run", "Exit codes:", "  3  a call waits for an answer", "toolcell call math --args"]
    {
        assert!(ended.stdout.contains(text), "{text:?} is not in {}", ended.stdout);
    }
}
