//! The operator's file: what it grants is there for a tool, what is wrong with it is said, and commands write and explain it.

use serde_json::{Value, json};

use crate::support::Place;

const POLICY: &str = "tools/toolcell.toml";

fn write(place: &Place, text: &str) {
    std::fs::write(place.dir.path().join(POLICY), text).unwrap();
}

#[test]
fn a_tool_has_what_the_file_beside_it_grants_and_nothing_else() {
    let place = Place::with(&["toolcell-test-guests"]);
    let environment = || place.run(&["call", "with_environment"]).stdout;
    assert_eq!(environment().trim(), "");
    write(
        &place,
        "[component.toolcell-test-guests]\nenvironment = { LANGUAGE = \"de\", FROM_HOST = { from = \"HOME\" } }\n",
    );
    let home = place.dir.path().display();
    assert_eq!(environment().trim(), format!("FROM_HOST={home}\nLANGUAGE=de"));
    write(&place, "[component.other]\nenvironment = { LANGUAGE = \"de\" }\n");
    assert_eq!(environment().trim(), "", "it is for another component");
    std::fs::write(place.dir.path().join("else.toml"), "[component.toolcell-test-guests]\nenvironment = { A = \"b\" }")
        .unwrap();
    assert_eq!(place.run(&["call", "with_environment", "--policy", "else.toml"]).stdout.trim(), "A=b");
}

#[test]
fn a_policy_that_is_not_understood_is_refused_with_its_place_and_nothing_runs() {
    let place = Place::with(&["math-tool"]);
    let call = || place.run(&["call", "math", "--args", r#"{"expression": "1 + 1"}"#]);
    for (text, expected) in [
        ("[component.math-tool]\nmount = []\n", "tools/toolcell.toml:2:1: unknown field `mount`"),
        (
            "[component.math-tool]\nlimits = { time_seconds = 0 }\n",
            "tools/toolcell.toml:2:10: time_seconds is 0: give 1 to 300",
        ),
        (
            "[[component.math-tool.mounts]]\nhost = \"/proc\"\nguest = \"/data\"\naccess = \"read-only\"\n",
            "/proc may not be granted",
        ),
    ] {
        write(&place, text);
        let refused = call();
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    let tools = place.tools().canonicalize().unwrap();
    let own = format!(
        "[[component.math-tool.mounts]]\nhost = \"{}\"\nguest = \"/data\"\naccess = \"read-write\"\n",
        tools.display()
    );
    write(&place, &own);
    let refused = call().stderr;
    assert!(refused.contains("belongs to the host"), "who writes there could grant itself more: {refused}");
    assert_eq!(
        place.run(&["call", "math", "--args", "{}", "--policy", "none.toml"]).code,
        2,
        "a named one must be there"
    );
    write(&place, "");
    assert_eq!(call().stdout.trim(), "2");
}

#[test]
fn grant_shows_what_it_adds_and_check_explains_it() {
    let place = Place::with(&["toolcell-test-guests"]);
    let name = "toolcell-test-guests";
    let unseen = place.run(&["grant", name, "--env", "LANGUAGE=de"]);
    assert_eq!(unseen.code, 2, "nobody has confirmed it");
    assert!(unseen.stdout.contains("+ environment = { LANGUAGE = \"de\" }"), "{}", unseen.stdout);
    assert!(!place.dir.path().join(POLICY).exists());

    let http = ["--http", "https://api.example.org", "--method", "GET", "--method", "POST", "--path", "/v1"];
    let granted = place.run(&[&["grant", name, "--yes", "--env", "LANGUAGE=de", "--key-value"][..], &http].concat());
    assert_eq!(granted.code, 0, "{}", granted.stderr);
    assert_eq!(place.run(&["call", "with_environment"]).stdout.trim(), "LANGUAGE=de");

    let checked = place.run(&["check", "--json"]);
    let line: Value = serde_json::from_str(&checked.stdout).unwrap();
    let power =
        |name: &str| line["powers"].as_array().unwrap().iter().find(|power| power["power"] == name).unwrap().clone();
    assert_eq!(power("http")["granted"], json!(["GET,POST https://api.example.org/v1"]));
    assert_eq!(power("environment")["granted"], json!(["LANGUAGE"]));
    assert_eq!(power("key-value")["granted"], json!(["1024 KiB"]));
    assert_eq!(power("files")["granted"], json!([]));
    let remedy = power("files")["remedy"].as_str().unwrap().to_owned();
    assert!(remedy.starts_with(&format!("toolcell grant {name} --mount ")), "{remedy}");
    let text = place.run(&["check"]).stdout;
    assert!(text.contains("http         GET,POST https://api.example.org/v1"), "{text}");

    let bad = place.run(&["grant", name, "--yes", "--http", "api.example.org", "--method", "GET"]);
    assert_eq!(bad.code, 2, "{}", bad.stderr);
    assert!(bad.stderr.contains("the URL must be absolute"), "{}", bad.stderr);
    assert_eq!(place.run(&["check", "--schema"]).code, 0);
}

#[test]
fn a_tool_that_lacks_a_grant_is_told_and_so_is_the_person() {
    let place = Place::with(&["toolcell-test-guests"]);
    let denied = place.run(&["call", "deny_http"]);
    let why = "HTTP to http://169.254.169.254 is not granted to this tool for GET /";
    assert!(denied.stdout.contains(why), "{}", denied.stdout);
    let remedy = "toolcell grant toolcell-test-guests --http http://169.254.169.254 --method GET";
    assert!(denied.stderr.contains(remedy), "{}", denied.stderr);
}

#[test]
fn the_policy_says_what_a_person_approves() {
    let place = Place::with(&["math-tool"]);
    write(&place, "[component.math-tool]\napprove = \"always\"\n");
    let script =
        json!({"turns": [{"calls": [{"tool": "math", "arguments": {"expression": "1 + 1"}}]}, {"say": "Done."}]});
    std::fs::write(place.dir.path().join("script.json"), script.to_string()).unwrap();
    let waits = place.run(&["run", "go", "--script", "script.json", "--ask", "never"]);
    assert_eq!(waits.code, 3, "{}", waits.stderr);
    let over = place.run(&["run", "go", "--script", "script.json", "--yes"]);
    assert_eq!((over.code, over.stdout.trim()), (0, "Done."));
}
