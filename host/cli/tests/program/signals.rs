//! Ctrl-C and SIGTERM: a run on record is given back at once, and a program that hangs is ended by the second.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Background, Output, Place, json_lines, signal};

/// A tool that never ends, and a run that calls it.
fn spinning() -> Place {
    let place = Place::with(&["toolcell-test-guests"]);
    let script = json!({"turns": [{"calls": [{"tool": "exhaust_cpu", "arguments": {}}]}, {"say": "Interrupted."}]});
    place.write("script.json", script);
    place
}

#[test]
fn a_run_on_record_that_is_stopped_can_be_resumed_at_once() {
    for name in ["TERM", "INT"] {
        let place = spinning();
        let mut command = place.command();
        command.args(["run", "go", "--script", "script.json", "--store", "runs.db"]);
        let mut run = Background::start(command, Output::Stderr);
        run.wait_for("→ exhaust_cpu");
        let began = Instant::now();
        run.signal(name);
        let said = run.wait_for("toolcell resume run-").pop().unwrap();
        assert_eq!(run.code(), Some(130), "{name}");
        assert!(began.elapsed() < Duration::from_secs(5), "{name} took {:?}", began.elapsed());
        let head = json_lines(&place.run(&["runs", "--json", "--store", "runs.db"])).remove(0);
        assert_eq!(head["status"], "ready", "nobody has to wait for the lease");
        let id = head["run"].as_str().unwrap();
        assert!(said.ends_with(&format!("toolcell resume {id} --store runs.db")), "{said}");
        assert_eq!(place.beside(), ["runs.db", "script.json", "tools"], "the store was closed");

        // Anybody can take it now, and end it.
        let cancelled = place.run(&["runs", "cancel", id, "--store", "runs.db"]);
        assert_eq!((cancelled.code, cancelled.stderr.as_str()), (0, "cancelled\n"));
    }
}

#[test]
fn a_run_without_a_store_that_is_stopped_is_cancelled() {
    let place = spinning();
    let mut command = place.command();
    command.args(["run", "go", "--script", "script.json"]);
    let mut run = Background::start(command, Output::Stderr);
    run.wait_for("→ exhaust_cpu");
    run.signal("TERM");
    run.wait_for("cancelled");
    assert_eq!(run.code(), Some(130));
}

#[test]
fn a_second_signal_ends_a_program_that_nobody_reads() {
    let place = spinning();
    // More than a pipe holds (64 KiB on Linux), so writing it blocks.
    place.write("script.json", json!({"turns": [{"say": "x".repeat(1 << 20)}]}));
    let mut command = place.command();
    command.args(["run", "go", "--script", "script.json", "--store", "runs.db"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    signal(&child, "TERM");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "it still writes");
    let began = Instant::now();
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}
