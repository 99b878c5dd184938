//! `toolcell worker`: what it says, what it takes up without a restart, and webhooks that are not taken.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};
use toolcell_tests::artifacts;

use crate::support::{Background, Output, Place, WEBHOOK_SECRET, waiting};

fn worker(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command();
    command.args(["worker", "--script", "script.json", "--store", "runs.db"]).args(args);
    command
}

#[test]
fn a_worker_says_what_it_works_with_and_what_becomes_of_each_run() {
    let (place, run, id) = waiting("runs.db");
    let mut worker = Background::start(worker(&place, &["--runs-at-once", "4"]), Output::Stderr);
    let began = worker.wait_for("works on").pop().unwrap();
    assert!(
        began.ends_with(" works on the runs in runs.db, with 1 tools of tools, up to 4 at once; Ctrl-C stops it"),
        "{began}"
    );
    assert_eq!(place.run(&["answer", &id, "--approve", "--store", "runs.db"]).code, 0);
    let lines = worker.wait_for(": done");
    assert_eq!(lines, [format!("{run} of local is taken"), format!("{run} of local: done")]);
    worker.signal("TERM");
    assert!(worker.rest().pop().unwrap().ends_with(" has stopped"));
    assert_eq!(worker.code(), Some(0));
    assert_eq!(place.beside(), ["runs.db", "script.json", "tools"], "the store was closed");
}

#[test]
fn the_same_is_said_as_json_on_standard_output() {
    let (place, run, id) = waiting("runs.db");
    let mut worker = Background::start(worker(&place, &["--json"]), Output::Stdout);
    let mut lines = worker.wait_for("started");
    assert_eq!(place.run(&["answer", &id, "--decline", "--store", "runs.db"]).code, 0);
    lines.extend(worker.wait_for("put-down"));
    worker.signal("INT");
    lines.extend(worker.rest());
    assert_eq!(worker.code(), Some(0));
    let said: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let name = &said[0]["worker"];
    assert_eq!(
        said,
        [
            json!({
                "type": "started", "worker": name, "store": "runs.db", "tools": 1, "directory": "tools", "runsAtOnce": 16,
            }),
            json!({"type": "taken", "run": run, "tenant": "local"}),
            json!({"type": "put-down", "run": run, "tenant": "local", "status": "done"}),
            json!({"type": "stopped", "worker": name}),
        ]
    );
}

#[test]
fn a_worker_gives_its_runs_back_when_it_is_asked_to_stop_twice() {
    let place = Place::with(&["toolcell-test-guests"]);
    let script = json!({"turns": [
        {"calls": [{"tool": "ask", "arguments": {}}]},
        {"calls": [{"tool": "exhaust_cpu", "arguments": {}}]},
        {"say": "?"},
    ]});
    place.write("script.json", script);
    let ended = place.run(&["run", "go", "--script", "script.json", "--store", "runs.db", "--ask", "never"]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let mut worker = Background::start(worker(&place, &[]), Output::Stderr);
    let pending = crate::support::json_lines(&place.run(&["pending", "--json", "--store", "runs.db"])).remove(0);
    let id = pending["question"]["request"]["id"].as_str().unwrap();
    assert_eq!(place.run(&["answer", id, "--approve", "--store", "runs.db"]).code, 0);
    worker.wait_for("is taken");
    worker.signal("TERM");
    std::thread::sleep(std::time::Duration::from_millis(300));
    worker.signal("TERM");
    let lines = worker.wait_for("has stopped");
    assert!(lines[0].ends_with(" of local: given back"), "{lines:?}");
    assert_eq!(worker.code(), Some(0));
    let runs = place.run(&["runs", "--store", "runs.db"]).stdout;
    assert!(runs.contains("  ready  "), "{runs}");
}

#[test]
fn new_tools_and_a_changed_policy_are_used_without_a_restart() {
    let (place, run, id) = waiting("runs.db");
    let purchase = std::fs::read(place.tools().join("purchase-tool.wasm")).unwrap();
    std::fs::remove_file(place.tools().join("purchase-tool.wasm")).unwrap();
    let worker = Background::start(worker(&place, &[]), Output::Stderr);
    worker.wait_for("with 0 tools");
    place.add("purchase-tool.wasm", &purchase);
    worker.wait_for("the directory of tools has changed: 1 tools for calls from now on");
    place.add("toolcell.toml", b"[component.purchase-tool]\napprov = 1\n");
    let said = worker.wait_for("the last good policy stays in use: ").pop().unwrap();
    assert!(said.contains("tools/toolcell.toml:2:1: unknown field `approv`"), "{said}");
    place.add("toolcell.toml", b"[component.purchase-tool]\napprove = \"never\"\n");
    worker.wait_for("the policy has changed");
    assert_eq!(place.run(&["answer", &id, "--approve", "--store", "runs.db"]).code, 0);
    worker.wait_for(": done");
    let shown = place.run(&["runs", "show", &run, "--store", "runs.db"]).stdout;
    assert!(shown.contains("Ordered 2 × lamp"), "{shown}");
    let broken = artifacts::component_path("math-tool");
    place.add("math-tool.wasm", &std::fs::read(broken).unwrap()[..1_000]);
    let said = worker.wait_for("refused math-tool.wasm [");
    assert!(said[0].ends_with("1 tools for calls from now on"), "{said:?}");
}

#[test]
fn a_webhook_that_is_not_taken_is_told_once() {
    let (place, _, id) = waiting("runs.db");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ =
                stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    let url = format!("http://{host}/hook?key=s3cret");
    let mut command = worker(&place, &["--webhook", &url]);
    command.env("TOOLCELL_WEBHOOK_SECRET", WEBHOOK_SECRET);
    let mut worker = Background::start(command, Output::Stderr);
    worker.wait_for("works on");
    assert_eq!(place.run(&["answer", &id, "--approve", "--store", "runs.db"]).code, 0);
    let said = worker.wait_for("the webhook of").pop().unwrap();
    assert_eq!(
        said,
        format!(
            "the webhook of local cannot be delivered to {host}: HTTP 503; next try in 5 s, then later and later for about a day"
        )
    );
    // Another notice that is not taken: the same kind, and nothing new.
    let again = place.run(&["run", "Buy more.", "--script", "script.json", "--store", "runs.db", "--ask", "never"]);
    assert_eq!(again.code, 3);
    std::thread::sleep(std::time::Duration::from_secs(2));
    worker.signal("TERM");
    let rest = worker.rest();
    assert!(!rest.iter().any(|line| line.contains("webhook")), "{rest:?}");
    assert_eq!(worker.code(), Some(0));
}

#[test]
fn a_webhook_secret_of_another_form_is_refused_before_anything_changes() {
    let (place, ..) = waiting("runs.db");
    let url = "https://example.org/hook";
    let set = |secret: &str| {
        let mut command = place.command();
        command.env("TOOLCELL_WEBHOOK_SECRET", secret).args(["tenant", "set", "--store", "runs.db", "--webhook", url]);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (secret, problem) in [
        ("s3cret", "it does not begin so"),
        ("whsec_s3cret!", "what follows is not base64"),
        ("whsec_czNjcmV0", "it has 6"),
    ] {
        let (code, said) = set(secret);
        assert_eq!(code, Some(2), "{said}");
        let expected =
            "the key in TOOLCELL_WEBHOOK_SECRET cannot be used: it must be whsec_ and the base64 of 24 to 64";
        assert!(said.contains(expected) && said.contains(problem), "{said}");
        assert!(!said.contains(secret), "{said}");
    }
    assert!(set("").1.contains("put the key into TOOLCELL_WEBHOOK_SECRET"));
    assert!(place.run(&["tenant", "--store", "runs.db"]).stdout.contains("webhook         none"));
    assert_eq!(set(WEBHOOK_SECRET).0, Some(0));
    let help = place.run(&["tenant", "--help"]).stdout;
    assert!(help.contains("TOOLCELL_WEBHOOK_SECRET") && help.contains("whsec_"), "{help}");
    let started = place.run(&["worker", "--script", "script.json", "--store", "new.db", "--webhook", url]);
    assert_eq!(started.code, 2, "{}", started.stderr);
    assert_eq!(place.beside(), ["runs.db", "script.json", "tools"], "no store was made");
}
