//! `toolcell answer`: what it takes, and what it says when it takes nothing.

use serde_json::{Value, json};

use crate::support::{Ended, Place, json_lines, script, waiting};

/// The one line that an error is.
fn error(ended: &Ended) -> &str {
    assert_eq!(ended.code, 2, "{ended:?}");
    let line = ended.stderr.strip_suffix('\n').expect("a whole line");
    assert!(!line.contains('\n'), "{line}");
    line.strip_prefix("error: ").unwrap_or(line)
}

#[test]
fn data_that_do_not_fit_are_refused_with_the_field_and_what_was_asked_for() {
    let (place, _, id) = waiting("runs.db");
    let answer = |args: &[&str]| place.run(&[&["answer", id.as_str(), "--store", "runs.db"], args].concat());
    let wrong = answer(&["--data", r#"{"note": 7}"#]);
    assert_eq!(
        error(&wrong),
        "the answer does not fit the question: /note: 7 is not of type \"string\"; it asks for note (string; optional; A note \
         for the seller), purchase_order (string; optional; Your purchase order number)"
    );
    let wrong = answer(&["--approve", "--edit-args", r#"{"item": 7}"#]);
    assert_eq!(
        error(&wrong),
        "the edited arguments do not fit the tool: \"price\" is a required property; /item: 7 is not of type \"string\""
    );
    for (text, says) in [("{", "--data is not valid JSON, for example"), ("[1]", "--data must be a JSON object")] {
        let wrong = answer(&["--data", text]);
        assert!(error(&wrong).starts_with(says), "{}", wrong.stderr);
    }
    for flags in [&["--approve", "--decline"][..], &["--decline", "--data", "{}"], &["--decline", "--also", "run"]] {
        let wrong = answer(flags);
        assert_eq!(wrong.code, 2);
        assert!(wrong.stderr.contains("cannot be used with"), "{}", wrong.stderr);
    }
    assert_eq!(answer(&["--edit-args", "{}"]).code, 2, "neither yes nor no");
    assert_eq!(json_lines(&place.run(&["pending", "--json", "--store", "runs.db"])).len(), 1, "it is still open");
    assert_eq!(answer(&["--data", r#"{"note": "soon"}"#]).code, 0);
}

#[test]
fn a_second_answer_is_told_who_gave_the_first_when_and_what_it_was() {
    let (place, _, id) = waiting("runs.db");
    let answer = |args: &[&str]| {
        let mut command = place.command();
        command.env("USER", "ada").args(["answer", &id, "--store", "runs.db"]).args(args);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(answer(&["--data", r#"{"note": "soon"}"#]).0, Some(0));
    let at = json_lines(&place.run(&["audit", "--json", "--store", "runs.db"]))
        .into_iter()
        .find(|line| line["kind"] == "question.answered")
        .map(|line| line["at"].as_str().unwrap()[.."2026-12-07T10:00:00".len()].to_owned())
        .unwrap();
    let (code, said) = answer(&["--decline"]);
    assert_eq!(code, Some(2));
    let start = format!("error: the question was approved by ada at the command line on {at}");
    assert!(said.starts_with(&start), "{said}");
    assert!(said.contains(r#"(with {"note":"soon"}), and the first answer counts"#), "{said}");
    assert!(said.ends_with(&format!("toolcell pending {id} --store runs.db shows it\n")), "{said}");
}

#[test]
fn the_question_of_a_run_that_was_cancelled_is_closed() {
    let (place, run, id) = waiting("runs.db");
    assert_eq!(place.run(&["runs", "cancel", &run, "--store", "runs.db"]).code, 0);
    let late = place.run(&["answer", &id, "--approve", "--store", "runs.db"]);
    assert!(error(&late).contains(": its run was cancelled"), "{}", late.stderr);
    let again = place.run(&["runs", "cancel", &run, "--store", "runs.db"]);
    assert_eq!((again.code, again.stderr.as_str()), (0, "it has ended already: cancelled\n"));
}

#[test]
fn what_has_to_be_typed_is_shown_with_the_question() {
    let place = Place::with(&["toolcell-test-guests"]);
    let seat = json!({"type": "object", "properties": {"seat": {"enum": ["1A", "1B"]}}, "required": ["seat"]});
    let script =
        json!({"turns": [{"calls": [{"tool": "ask_with_data", "arguments": {"schema": seat}}]}, {"say": "?"}]});
    place.write("script.json", script);
    let ended = place.run(&["run", "go", "--script", "script.json", "--store", "runs.db", "--ask", "never"]);
    assert!(ended.stderr.contains(r#" --data '{"seat": …}' --store runs.db"#), "{}", ended.stderr);
    let question = json_lines(&place.run(&["pending", "--json", "--store", "runs.db"])).remove(0);
    let id = question["question"]["request"]["id"].as_str().unwrap();
    let shown = place.run(&["pending", id, "--store", "runs.db"]).stdout;
    assert!(shown.contains("seat (value; one of 1A, 1B; required)"), "{shown}");
    let wrong = place.run(&["answer", id, "--approve", "--store", "runs.db"]);
    assert!(error(&wrong).contains("\"seat\" is a required property; it asks for seat"), "{}", wrong.stderr);
}

#[test]
fn input_that_ends_in_a_form_orders_nothing_and_the_question_stays_open() {
    let place = Place::with(&["purchase-tool"]);
    script(&place);
    let open = "the input has ended before there was an answer: the question stays open";
    // A yes, and for the first of two optional fields the end of input.
    let run = ["run", "Buy lamps.", "--script", "script.json", "--ask", "always", "--json"];
    let ended = place.run_with_input(&run, "y\n");
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains(open), "{}", ended.stderr);
    let last: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["result"]["status"], "pending");

    let ended = place.run_with_input(&[&run[..], &["--store", "runs.db"]].concat(), "y\n");
    assert_eq!(ended.code, 3, "{ended:?}");
    let question = json_lines(&place.run(&["pending", "--json", "--store", "runs.db"])).remove(0);
    assert_eq!(question["state"], "open");
    let run = question["run"].as_str().unwrap();
    let resume = ["resume", run, "--script", "script.json", "--store", "runs.db", "--ask", "always"];
    let ended = place.run_with_input(&resume, "y\nby Friday\n");
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stderr.contains(open) && ended.stderr.contains("toolcell answer pnd-"), "{}", ended.stderr);
    let ended = place.run_with_input(&resume, "y\nby Friday\n\n");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "That is that.\n"), "{}", ended.stderr);
}

#[test]
fn ctrl_d_at_a_field_in_a_terminal_orders_nothing() {
    let place = Place::with(&["purchase-tool"]);
    let buy = json!({"item": "lamp", "quantity": 2, "price": 10});
    let script = json!({"turns": [{"calls": [{"tool": "purchase", "arguments": buy}]}, {"say": "Never said."}]});
    let mut terminal = place.play_in_terminal(&script);
    terminal.exp_string("approve? [y/n]").unwrap();
    terminal.send_line("y").unwrap();
    terminal.exp_string("note (string; optional").unwrap();
    terminal.send_control('d').unwrap();
    terminal.exp_string("the question stays open").unwrap();
    terminal.exp_string("nobody answered").unwrap();
    let status = format!("{:?}", terminal.process().wait().unwrap());
    assert!(status.ends_with(", 3)"), "{status}");
}

#[test]
fn a_run_that_has_ended_is_shown_without_a_model() {
    let (place, run, id) = waiting("runs.db");
    assert_eq!(place.run(&["answer", &id, "--approve", "--store", "runs.db"]).code, 0);
    let resume = ["resume", run.as_str(), "--store", "runs.db"];
    assert_eq!(place.run(&resume).code, 2, "it needs a model");
    assert_eq!(place.run(&[&resume[..], &["--script", "script.json"]].concat()).code, 0);
    let again = place.run(&resume);
    assert_eq!((again.code, again.stdout.as_str()), (0, "That is that.\n"), "{}", again.stderr);
}
