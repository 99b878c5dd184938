//! Runs on record: suspended in one process, answered in another, finished in a third.

use std::time::{Duration, Instant};

use crate::support::{Place, WEBHOOK_SECRET, json_lines, script, waiting};
use serde_json::{Value, json};
use toolcell_tests::{artifacts, postgres};

fn export(place: &Place, store: &str, run: &str) -> Value {
    let ended = place.run(&["runs", "export", run, "--store", store]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The same tool in another version, which says so.
fn other_version() -> Vec<u8> {
    let mut bytes = std::fs::read(artifacts::component_path("purchase-tool")).unwrap();
    let word = b"Ordered";
    let at = bytes.windows(word.len()).position(|window| window == word).expect("the tool says that it ordered");
    bytes[at..at + word.len()].copy_from_slice(b"STOLEN!");
    bytes
}

#[test]
fn the_code_that_was_approved_runs_although_its_file_was_replaced_in_between() {
    let (place, run, id) = waiting("runs.db");
    place.add("purchase-tool.wasm", &other_version());
    let answered = place.run(&["answer", &id, "--approve", "--store", "runs.db"]);
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    // With an empty cache: the code comes out of the store.
    let resume = ["resume", &run, "--script", "script.json", "--store", "runs.db", "--cache", "other-cache"];
    let ended = place.run(&resume);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "That is that."), "{}", ended.stderr);
    let output = export(&place, "runs.db", &run)["calls"][0]["record"]["result"]["output"].to_string();
    assert!(output.contains("Ordered") && !output.contains("STOLEN"), "{output}");
    // A call that nobody had approved yet runs what is there now.
    let now = place.run(&["call", "purchase", "--args", r#"{"item": "lamp", "price": 1}"#, "--yes"]);
    assert!(now.stdout.contains("STOLEN"), "{} {}", now.stdout, now.stderr);
    let again = place.run(&resume);
    assert_eq!((again.code, again.stdout.trim()), (0, "That is that."), "{}", again.stderr);
    assert!(again.stderr.contains("ended already"), "{}", again.stderr);
}

#[test]
fn a_tool_that_the_operator_took_away_does_not_run_although_it_was_approved() {
    let (place, run, id) = waiting("runs.db");
    std::fs::remove_file(place.tools().join("purchase-tool.wasm")).unwrap();
    place.run(&["answer", &id, "--approve", "--store", "runs.db"]);
    place.run(&["resume", &run, "--script", "script.json", "--store", "runs.db"]);
    let record = &export(&place, "runs.db", &run)["calls"][0]["record"];
    assert_eq!(record["code"], "tool-unavailable");
}

/// A worker that does not outlive its test.
struct Worker(std::process::Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_run_in_postgresql_is_answered_and_finished_by_a_worker() {
    let Some(server) = postgres::shared() else { return };
    let store = server.database();
    let (place, run, id) = waiting(&store);
    let worker = place
        .command()
        .args(["worker", "--script", "script.json", "--store", &store])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut worker = Worker(worker.unwrap());
    let answered = place.run(&["answer", &id, "--approve", "--store", &store]);
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    let began = Instant::now();
    while export(&place, &store, &run)["status"] != json!({"ended": "done"}) {
        assert!(began.elapsed() < Duration::from_secs(60), "the worker does not finish it");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::process::Command::new("kill").args(["-TERM", &worker.0.id().to_string()]).status().unwrap();
    assert!(worker.0.wait().unwrap().success(), "it stops when it is asked to");
}

#[test]
fn a_question_shows_what_the_host_recorded_and_takes_one_answer() {
    let (place, run, id) = waiting("runs.db");
    let list = place.run(&["pending", "--store", "runs.db"]);
    assert!(list.stdout.contains(&id) && list.stdout.contains("\"item\":\"lamp\""), "{}", list.stdout);
    let shown = place.run(&["pending", &id, "--store", "runs.db"]);
    for part in [run.as_str(), "purchase", "\"quantity\":2", "component", "until", "open"] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let answer = |args: &[&str]| place.run(&[&["answer", id.as_str(), "--store", "runs.db"], args].concat());
    assert_eq!(answer(&["--approve", "--edit-args", r#"{"item": 7}"#]).code, 2, "the tool takes no such item");
    assert_eq!(answer(&["--approve", "--edit-args", "[]"]).code, 2);
    assert_eq!(answer(&[]).code, 2, "yes or no");
    assert_eq!(answer(&["--approve", "--decline"]).code, 2);
    assert_eq!(answer(&["--decline", "--reason", "too dear"]).code, 0);
    assert_eq!(answer(&["--decline"]).code, 0, "the same again");
    let other = answer(&["--approve"]);
    assert!(other.code == 2 && other.stderr.contains("declined"), "{}", other.stderr);
    let stray = place.run(&["answer", "pnd-unknown", "--approve", "--store", "runs.db"]);
    assert!(stray.code == 2 && stray.stderr.contains("has no question"), "{}", stray.stderr);
    let ended = place.run(&["resume", &run, "--script", "script.json", "--store", "runs.db"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let record = &export(&place, "runs.db", &run)["calls"][0]["record"];
    assert_eq!((&record["code"], &record["result"]["isError"]), (&json!("declined"), &json!(true)));
}

#[test]
fn edited_arguments_are_the_ones_that_run() {
    let (place, run, id) = waiting("runs.db");
    let edit = r#"{"item": "lamp", "quantity": 1, "price": 5}"#;
    let answered = place.run(&["answer", &id, "--approve", "--edit-args", edit, "--store", "runs.db"]);
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    place.run(&["resume", &run, "--script", "script.json", "--store", "runs.db"]);
    let record = &export(&place, "runs.db", &run)["calls"][0]["record"];
    assert_eq!(record["replacedArguments"], json!({"item": "lamp", "quantity": 1, "price": 5}));
    let output = record["result"]["output"].as_str().unwrap();
    assert!(output.starts_with("executed with edited arguments: "), "{output}");
}

#[test]
fn runs_are_listed_shown_and_cancelled() {
    let (place, run, _) = waiting("runs.db");
    let list = place.run(&["runs", "--store", "runs.db"]);
    assert!(list.stdout.contains(&run) && list.stdout.contains("pending, 1 question"), "{}", list.stdout);
    let shown = place.run(&["runs", "show", &run, "--store", "runs.db"]);
    assert!(shown.stdout.contains("purchase") && shown.stdout.contains("waits: "), "{}", shown.stdout);
    assert_eq!(place.run(&["resume", &run, "--script", "script.json", "--store", "runs.db"]).code, 3);
    let cancelled = place.run(&["runs", "cancel", &run, "--store", "runs.db"]);
    assert!(cancelled.stderr.contains("cancelled"), "{}", cancelled.stderr);
    assert_eq!(export(&place, "runs.db", &run)["status"], json!({"ended": "cancelled"}));
    assert!(place.run(&["pending", "--store", "runs.db"]).stdout.is_empty());
    assert_eq!(place.run(&["runs", "show", "run-unknown", "--store", "runs.db"]).code, 2);
}

#[test]
fn a_tool_under_approval_asks_before_it_runs_and_the_run_is_on_record() {
    let place = Place::with(&["math-tool"]);
    let script = json!({"turns": [
        {"calls": [{"tool": "math", "arguments": {"expression": "6 * 7"}}]},
        {"expect": {"results": [{"tool": "math", "equals": "42"}]}, "say": "42"},
    ]});
    std::fs::write(place.dir.path().join("script.json"), script.to_string()).unwrap();
    let run = |store, approve| {
        let args = ["run", "go", "--script", "script.json", "--store", store, "--approve", approve, "--ask", "never"];
        place.run(&args).code
    };
    assert_eq!(run("a.db", "destructive"), 0, "it says that it changes nothing");
    assert_eq!(run("b.db", "always"), 3);
    let question = json_lines(&place.run(&["pending", "--json", "--store", "b.db"])).remove(0);
    assert_eq!((&question["question"]["asker"], &question["question"]["tool"]), (&json!("policy"), &json!("math")));
}

#[test]
fn a_store_that_is_none_is_left_as_it_is_and_the_message_says_what_to_do() {
    let place = Place::with(&[]);
    std::fs::write(place.dir.path().join("notes.txt"), "these are notes, and they matter\n".repeat(200)).unwrap();
    let before = std::fs::read(place.dir.path().join("notes.txt")).unwrap();
    let ended = place.run(&["pending", "--store", "notes.txt"]);
    assert_eq!(ended.code, 6, "{}", ended.stderr);
    assert!(ended.stderr.contains("restore the file"), "{}", ended.stderr);
    assert_eq!(std::fs::read(place.dir.path().join("notes.txt")).unwrap(), before);
    let ended = place.run(&["pending", "--store", "mysql://localhost/x"]);
    assert!(ended.code == 6 && ended.stderr.contains("postgres://"), "{}", ended.stderr);
    let ended = place.run(&["pending", "--store", "postgres://nobody:secret@127.0.0.1:1/x"]);
    assert!(ended.code == 6 && ended.stderr.contains("cannot be reached"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    assert_eq!((ended.stderr.lines().count(), ended.stderr.matches("refused").count()), (1, 1), "{}", ended.stderr);
    let mut command = place.command();
    command.env("TOOLCELL_STORE", "postgres://nobody:secret@127.0.0.1:1/x").args(["pending", "--help"]);
    let help = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(help.contains("TOOLCELL_STORE") && !help.contains("secret"), "{help}");
}

#[test]
fn a_store_in_a_file_is_nothing_but_the_file_when_a_command_has_ended() {
    let (place, run, id) = waiting("runs.db");
    let resume = ["resume", &run, "--script", "script.json"];
    for (command, code) in [
        (&["pending"][..], 0),
        (&["pending", "pnd-x"], 2),
        (&["answer", &id, "--approve"], 0),
        (&["answer", &id, "--decline"], 2),
        (&resume, 0),
        (&["runs", "show", &run], 0),
        (&["grants"], 0),
        (&["tenant"], 0),
        (&["audit", "--verify"], 0),
    ] {
        let ended = place.run(&[command, &["--store", "runs.db"]].concat());
        assert_eq!(ended.code, code, "{command:?}: {}", ended.stderr);
        assert_eq!(place.beside(), ["runs.db", "script.json", "tools"], "after {command:?}");
    }
}

#[test]
fn a_yes_can_be_for_later_calls_too_but_not_for_another_component() {
    let place = Place::with(&["math-tool"]);
    let compute = |n: u32| json!({"calls": [{"tool": "math", "arguments": {"expression": format!("{n} * 2")}}]});
    let script = json!({"turns": [compute(1), compute(2), {"say": "2 and 4"}]});
    std::fs::write(place.dir.path().join("script.json"), script.to_string()).unwrap();
    let args = ["run", "go", "--script", "script.json", "--store", "runs.db", "--approve", "always", "--ask", "never"];
    assert_eq!(place.run(&args).code, 3);
    let question = json_lines(&place.run(&["pending", "--json", "--store", "runs.db"])).remove(0);
    let id = question["question"]["request"]["id"].as_str().unwrap();
    let run = question["run"].as_str().unwrap();
    let answered = place.run(&["answer", id, "--approve", "--also", "tenant", "--store", "runs.db"]);
    assert!(answered.code == 0 && answered.stderr.contains("granted as grt-"), "{}", answered.stderr);
    let resume = ["resume", run, "--script", "script.json", "--store", "runs.db", "--approve", "always"];
    let ended = place.run(&resume);
    assert_eq!((ended.code, ended.stdout.trim()), (0, "2 and 4"), "{}", ended.stderr);

    // Another component of the same name, with the same tool, has to be approved anew.
    let mut other = std::fs::read(artifacts::component_path("math-tool")).unwrap();
    // A custom section (id 0) of 3 bytes, named "v2".
    other.extend([0, 3, 2, b'v', b'2']);
    place.add("math-tool.wasm", &other);
    assert_eq!(place.run(&args).code, 3);
    let listed = place.run(&["grants", "--store", "runs.db"]);
    let grant = listed.stdout.split_whitespace().next().unwrap().to_owned();
    assert_eq!(place.run(&["grants", "--revoke", &grant, "--store", "runs.db"]).code, 0);
    assert!(place.run(&["grants", "--store", "runs.db"]).stdout.is_empty());
}

#[test]
fn a_tenants_settings_are_shown_and_changed_one_by_one() {
    let (place, ..) = waiting("runs.db");
    let settings = |args: &[&str]| {
        let ended = place.run(&[&["tenant"][..], args, &["--json", "--store", "runs.db"]].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        serde_json::from_str::<Value>(&ended.stdout).unwrap()
    };
    let usual = json!({"tenant": "local", "weight": 1, "openMax": 10_000, "retentionDays": 30, "webhook": Value::Null});
    assert_eq!(settings(&[]), usual);
    settings(&["set", "--open-max", "1"]);
    settings(&["set", "--retention-days", "7", "--weight", "3"]);
    let mut command = place.command();
    command.env("TOOLCELL_WEBHOOK_SECRET", WEBHOOK_SECRET).args(["tenant", "set", "--store", "runs.db"]);
    let set = command.args(["--webhook", "https://example.org/hook"]).output().unwrap();
    assert!(set.status.success(), "{set:?}");
    assert!(!String::from_utf8_lossy(&set.stdout).contains(WEBHOOK_SECRET));
    let changed = json!({
        "tenant": "local", "weight": 3, "openMax": 1, "retentionDays": 7, "webhook": "https://example.org/hook",
    });
    assert_eq!(settings(&["show"]), changed);
    assert_eq!(settings(&["set", "--no-webhook"])["webhook"], Value::Null);

    // One question is open, so the next call that asks is refused.
    let run = ["run", "Buy more.", "--script", "script.json", "--store", "runs.db", "--ask", "never", "--json"];
    let ended = place.run(&run);
    let result: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(result["result"]["toolCalls"][0]["code"], "busy", "{}", ended.stdout);

    for bad in [&["set"][..], &["set", "--weight", "0"], &["set", "--webhook", "http://example.org"]] {
        let ended = place.run(&[&["tenant"][..], bad, &["--store", "runs.db"]].concat());
        assert_eq!(ended.code, 2, "{bad:?}: {}", ended.stderr);
    }
}

#[test]
fn a_tenant_is_removed_by_its_name_and_no_other_is() {
    let (place, run, _) = waiting("runs.db");
    let other = ["run", "Buy lamps.", "--script", "script.json", "--store", "runs.db", "--ask", "never"];
    assert_eq!(place.run(&[&other[..], &["--tenant", "acme"]].concat()).code, 3);
    let gone = place.run(&["tenant", "delete", "acme", "--tenant", "acme", "--store", "runs.db"]);
    assert_eq!(gone.code, 0, "{}", gone.stderr);
    assert_eq!(json_lines(&place.run(&["pending", "--json", "--store", "runs.db", "--tenant", "acme"])).len(), 0);
    assert_eq!(place.run(&["audit", "--store", "runs.db", "--tenant", "acme"]).stdout, "");
    assert_eq!(export(&place, "runs.db", &run)["status"], "pending");
    for other in [&["--tenant", "acme"][..], &[]] {
        let local = place.run(&[&["tenant", "delete", "local", "--store", "runs.db"], other].concat());
        assert_eq!(local.code, if other.is_empty() { 0 } else { 2 }, "{}", local.stderr);
    }
    let again = place.run(&["tenant", "delete", "acme", "--tenant", "acme", "--store", "runs.db"]);
    assert_eq!(again.code, 2, "{}", again.stderr);
}

#[test]
fn the_audit_tells_who_decided_and_a_line_that_was_changed_is_found() {
    let (place, _, id) = waiting("runs.db");
    place.run(&["answer", &id, "--approve", "--store", "runs.db"]);
    let lines = json_lines(&place.run(&["audit", "--json", "--store", "runs.db"]));
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    let asked = kinds.iter().position(|kind| *kind == "question.asked").expect("it asks");
    let answered = kinds.iter().position(|kind| *kind == "question.answered").expect("it is answered");
    assert!(asked < answered, "{kinds:?}");
    assert!(lines[answered]["body"]["by"].as_str().unwrap().ends_with("the command line"), "{}", lines[answered]);
    let rest = json_lines(&place.run(&["audit", "--json", "--after", "1", "--store", "runs.db"]));
    assert_eq!(rest, lines[1..]);

    let sound = place.run(&["audit", "--verify", "--store", "runs.db"]);
    assert_eq!(sound.code, 0, "{}", sound.stderr);
    let said = format!("{} lines, none changed or removed", lines.len());
    assert!(sound.stdout.starts_with(&said), "{}", sound.stdout);

    let path = place.dir.path().join("runs.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let word = b"question.asked";
    let at = bytes.windows(word.len()).position(|window| window == word).unwrap();
    bytes[at] = b'Q';
    std::fs::write(&path, bytes).unwrap();
    let changed = place.run(&["audit", "--verify", "--store", "runs.db"]);
    assert_eq!(changed.code, 6);
    assert!(changed.stderr.contains(&format!("broken at line {}", asked + 1)), "{}", changed.stderr);
}

#[test]
fn looking_for_runs_makes_no_store_and_says_where_there_is_none() {
    let place = Place::with(&[]);
    for command in
        [&["pending"][..], &["runs"], &["grants"], &["audit"], &["tenant"], &["answer", "pnd-x", "--approve"]]
    {
        let ended = place.run(&[command, &["--store", "typo.db"]].concat());
        assert_eq!(ended.code, 2, "{command:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("typo.db"), "{}", ended.stderr);
        assert!(!place.dir.path().join("typo.db").exists());
    }
}

#[test]
fn what_is_not_there_is_named_with_where_it_was_looked_for() {
    let (place, run, _) = waiting("runs.db");
    let said = |args: &[&str]| place.run(&[args, &["--store", "runs.db"]].concat()).stderr;
    assert!(
        said(&["answer", "pnd-x", "--approve"])
            .contains("tenant local has no question \"pnd-x\": toolcell pending --store runs.db")
    );
    assert!(said(&["pending", &run]).contains(&format!("no question \"{run}\"")));
    assert!(
        said(&["runs", "show", "run-x"]).contains("tenant local has no run \"run-x\": toolcell runs --store runs.db")
    );
    assert!(said(&["resume", "run-x"]).contains("no run \"run-x\""));
    assert!(said(&["pending", "x", "--tenant", "acme"]).contains("tenant acme has no question \"x\""));
}

#[test]
fn who_resumes_a_run_that_waits_is_asked_first() {
    let place = Place::with(&["purchase-tool"]);
    script(&place);
    let begin = ["run", "Buy lamps.", "--script", "script.json", "--store", "runs.db", "--ask", "never", "--json"];
    let ended = place.run(&begin);
    let last: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    let run = last["run"].as_str().expect("the run's id is in its result");
    let resumed = place.run(&["resume", run, "--script", "script.json", "--store", "runs.db", "--yes"]);
    assert_eq!((resumed.code, resumed.stdout.trim()), (0, "That is that."), "{}", resumed.stderr);
    let shown = place.run(&["runs", "show", run, "--store", "runs.db"]);
    assert!(shown.stdout.contains("> Buy lamps."), "{}", shown.stdout);
}

#[test]
fn later_calls_of_a_tool_that_asks_for_more_than_a_yes_cannot_be_granted() {
    let (place, _, id) = waiting("runs.db");
    let refused = place.run(&["answer", &id, "--approve", "--also", "run", "--store", "runs.db"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("asks for more than a yes"), "{}", refused.stderr);
    let open = json_lines(&place.run(&["pending", "--json", "--store", "runs.db"]));
    assert_eq!(open.len(), 1, "it was not answered either");
}
