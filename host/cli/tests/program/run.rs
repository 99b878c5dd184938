//! `toolcell run`: a model, scripted or behind HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use crate::schema;
use crate::support::Place;
use serde_json::{Value, json};

fn demo_script() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    root.join("sample-tools/demo.json").to_str().unwrap().to_owned()
}

#[test]
fn the_demo_calls_ok_error_parts_and_pending_tools() {
    let place = Place::with_samples();
    let ended = place.run(&["run", "go", "--script", &demo_script(), "--yes", "--json"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let events: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let result = &events.last().unwrap()["result"];
    assert_eq!((&events.last().unwrap()["type"], &result["status"]), (&json!("result"), &json!("done")));
    let calls = result["toolCalls"].as_array().unwrap();
    assert!(calls.iter().any(|call| call["isError"] == false && call.get("parts").is_none()), "ok");
    assert!(calls.iter().any(|call| call["isError"] == true), "error");
    assert!(calls.iter().any(|call| call["parts"][0]["mimeType"] == "image/png"), "parts");
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert!(count("pending") >= 2 && count("pending") == count("answered"), "pending");
    assert_eq!(count("tool-call"), calls.len());
    assert!(count("text") > 10, "the text is streamed");
}

#[test]
fn the_demo_without_anybody_ends_as_pending() {
    let place = Place::with_samples();
    let ended = place.run(&["run", "go", "--script", &demo_script()]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("waits for an answer"), "{}", ended.stderr);
}

#[test]
fn a_person_at_a_real_terminal_approves() {
    let place = Place::with(&["purchase-tool"]);
    let script = json!({"turns": [
        {"calls": [{"tool": "purchase", "arguments": {"item": "lamp", "quantity": 2, "price": 10}}]},
        {"expect": {"results": [{"tool": "purchase", "is_error": false}]}, "say": "Ordered."},
    ]});
    let mut terminal = place.play_in_terminal(&script);
    terminal.exp_string("asks for approval").unwrap();
    terminal.exp_string("approve? [y/n]").unwrap();
    terminal.send_line("perhaps").unwrap();
    terminal.exp_string("type y or n").unwrap();
    terminal.send_line("y").unwrap();
    // A tool may ask for optional fields after the yes; empty lines leave them out.
    for _ in 0..3 {
        terminal.send_line("").unwrap();
    }
    terminal.exp_string("Ordered.").unwrap();
    let status = format!("{:?}", terminal.process().wait().unwrap());
    assert!(status.starts_with("Exited(") && status.ends_with(", 0)"), "{status}");
}

#[test]
fn what_was_typed_for_one_question_does_not_approve_the_next() {
    let place = Place::with(&["purchase-tool", "toolcell-test-guests"]);
    let buy = json!({"item": "lamp", "quantity": 2, "price": 10});
    let script = json!({"turns": [
        {"calls": [{"tool": "ask", "arguments": {}}]},
        {"calls": [{"tool": "purchase", "arguments": buy}]},
        {"expect": {"results": [{"tool": "purchase", "is_error": true}]}, "say": "Not bought."},
    ]});
    let mut terminal = place.play_in_terminal(&script);
    terminal.exp_string("done? [y/n]").unwrap();
    terminal.send("y\ny\ny\n").unwrap();
    terminal.flush().unwrap();
    terminal.exp_string("purchase asks for approval").unwrap();
    terminal.exp_string("approve? [y/n]").unwrap();
    terminal.send_line("n").unwrap();
    terminal.exp_string("Not bought.").unwrap();
}

#[test]
fn a_call_that_ends_while_a_person_is_asked_leaves_the_prompt_where_the_answer_is_typed() {
    let place = Place::with(&["toolcell-test-guests"]);
    let script = json!({"turns": [
        {"calls": [{"tool": "ask", "arguments": {}}, {"tool": "flood_stdout", "arguments": {}}]},
        {"expect": {"results": [{"tool": "ask", "is_error": false}, {"tool": "flood_stdout"}]}, "say": "Both."},
    ]});
    let mut terminal = place.play_in_terminal(&script);
    terminal.exp_string("done? [y/n]").unwrap();
    terminal.exp_string("flood_stdout printed").unwrap();
    let between = terminal.exp_string("done? [y/n]").unwrap();
    assert!(!between.contains("waiting for the model"), "{between:?}");
    terminal.send_line("y").unwrap();
    terminal.exp_string("Both.").unwrap();
}

#[test]
fn without_key_and_server_the_message_says_what_to_set() {
    let place = Place::with(&["math-tool"]);
    let ended = place.run(&["run", "hello"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    for text in ["OPENAI_API_KEY", "--base-url", "cargo xtask demo"] {
        assert!(ended.stderr.contains(text), "{text:?} is not in {}", ended.stderr);
    }
}

#[test]
fn the_help_names_every_provider() {
    let help = Place::with(&[]).run(&["run", "--help"]).stdout;
    for vendor in &toolcell::model::VENDORS {
        assert!(help.contains(vendor.name), "{} is not in {help}", vendor.name);
    }
}

#[test]
fn the_help_names_every_variable_of_an_address() {
    let help = Place::with(&[]).run(&["run", "--help"]).stdout;
    for address in toolcell::model::VENDORS.iter().filter_map(|vendor| vendor.address.as_ref()) {
        assert!(help.contains(address.variable), "{} is not in {help}", address.variable);
    }
}

#[test]
fn the_key_and_the_conversation_go_to_the_gateway_that_the_environment_names() {
    let place = Place::with(&["math-tool"]);
    let (url, bodies) = serve(vec![turn(&json!({"content": "Hello."}), "stop")]);
    let mut command = place.command();
    command.args(["run", "Hi", "--provider", "openai", "--model", "m"]);
    let output = command.env("OPENAI_BASE_URL", url).env("OPENAI_API_KEY", "sk-gateway-1").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello.\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(bodies.recv().unwrap()["model"], "m");
}

#[test]
fn the_help_says_how_much_can_be_attached() {
    let help = Place::with(&[]).run(&["run", "--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("at most 4 MiB a file, and 12 MiB all together"), "{help}");
}

#[test]
fn a_limit_of_no_tokens_is_wrong_usage() {
    for option in ["--output-tokens-max", "--context-tokens"] {
        let ended = Place::with(&[]).run(&["run", "Hi", option, "0"]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(option) && ended.stderr.contains("zero"), "{}", ended.stderr);
    }
}

#[test]
fn what_an_answer_said_before_it_broke_off_is_not_in_a_pipe() {
    let place = Place::with(&["math-tool"]);
    let whole = turn(&json!({"content": "It was"}), "stop");
    let cut = whole.split_inclusive("\n\n").next().unwrap().to_owned();
    let (url, _bodies) = serve(vec![cut, turn(&json!({"content": "It is 4."}), "stop")]);
    let ended = place.run(&["run", "2+2?", "--base-url", &url, "--model", "m"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "It is 4.\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("the model starts this answer again"), "{}", ended.stderr);
}

#[test]
fn an_answer_is_asked_for_whole() {
    let place = Place::with(&["math-tool"]);
    let message = json!({"role": "assistant", "content": "Hello."});
    let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    let (url, bodies) = serve(vec![whole.to_string()]);
    let ended =
        place.run(&["run", "Hi", "--no-stream", "--output-tokens-max", "9", "--base-url", &url, "--model", "m"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Hello.\n"), "{}", ended.stderr);
    let body = bodies.recv().unwrap();
    assert_eq!((body.get("stream"), &body["max_tokens"]), (None, &json!(9)));
}

#[test]
fn a_server_that_is_not_there_is_exit_code_5() {
    let place = Place::with(&["math-tool"]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/v1");
    let ended = place.run(&["run", "hello", "--base-url", &url, "--model", "m"]);
    assert_eq!(ended.code, 5, "{ended:?}");
    let said = &ended.stderr;
    assert!(said.contains("cannot reach the model at"), "{said}");
    assert_eq!((said.lines().count(), said.matches("refused").count()), (1, 1), "it is said once: {said}");
}

#[test]
fn a_model_behind_http_calls_a_component_and_answers() {
    let place = Place::with(&["math-tool"]);
    let first = json!({"tool_calls": [{"index": 0, "id": "call_a", "type": "function",
        "function": {"name": "math", "arguments": "{\"expression\":\"6 * 7\"}"}}]});
    let (url, bodies) = serve(vec![turn(&first, "tool_calls"), turn(&json!({"content": "It is 42."}), "stop")]);
    let ended = place.run(&["run", "What is six times seven?", "--base-url", &url, "--model", "small"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "It is 42.\n"), "{}", ended.stderr);
    let first: Value = bodies.recv().unwrap();
    assert_eq!(first["model"], "small");
    assert_eq!(first["tools"][0]["function"]["name"], "math");
    let second: Value = bodies.recv().unwrap();
    let reply = second["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(reply, &json!({"role": "tool", "tool_call_id": "call_a", "content": "42"}));
}

#[test]
fn files_are_attached_to_the_prompt() {
    let place = Place::with(&["math-tool"]);
    std::fs::write(place.dir.path().join("a.png"), b"\x89PNG").unwrap();
    std::fs::write(place.dir.path().join("notes.md"), "Buy milk.").unwrap();
    let (url, bodies) = serve(vec![turn(&json!({"content": "A dot."}), "stop")]);
    let ended = place.run(&[
        "run",
        "What is it?",
        "--attach",
        "a.png",
        "--attach",
        "notes.md",
        "--base-url",
        &url,
        "--model",
        "m",
    ]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(
        bodies.recv().unwrap()["messages"][0]["content"],
        json!([
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            {"type": "text", "text": "notes.md:\nBuy milk."},
        ])
    );
    std::fs::write(place.dir.path().join("a.bin"), [0, 255, 7]).unwrap();
    for (file, words) in
        [("b.png", "cannot attach b.png"), ("a.bin", "neither text nor"), ("tools", "cannot attach tools")]
    {
        let ended = place.run(&["run", "?", "--attach", file, "--base-url", &url, "--model", "m"]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_has_no_end_is_not_attached_and_a_pipe_that_ends_is() {
    let place = Place::with(&["math-tool"]);
    let pipe = place.dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let write = |bytes: Vec<u8>| {
        let pipe = pipe.clone();
        // It ends early when nobody reads on.
        std::thread::spawn(move || std::fs::write(pipe, bytes).is_ok())
    };
    let attach = |file: &str, url: &str| {
        let ended = place.run(&["run", "?", "--attach", file, "--base-url", url, "--model", "m"]);
        (ended.code, ended.stderr)
    };
    let nowhere = "http://127.0.0.1:9/v1";
    let (code, stderr) = attach("/dev/zero", nowhere);
    assert!(code == 2 && stderr.contains("cannot attach /dev/zero: it has more than the 4194304 bytes"), "{stderr}");
    let writer = write(vec![b'a'; 5 << 20]);
    let (code, stderr) = attach("pipe", nowhere);
    assert!(code == 2 && stderr.contains("cannot attach pipe: it has more than"), "{stderr}");
    assert!(!writer.join().unwrap());
    let writer = write(b"Buy milk.".to_vec());
    let (url, bodies) = serve(vec![turn(&json!({"content": "Yes."}), "stop")]);
    assert_eq!(attach("pipe", &url).0, 0);
    assert!(writer.join().unwrap());
    assert!(bodies.recv().unwrap().to_string().contains("Buy milk."));
}

#[test]
fn all_attachments_together_have_a_limit() {
    let place = Place::with(&["math-tool"]);
    for (name, bytes) in [("a.txt", (4 << 20) - 99), ("b.png", 4 << 20), ("c.txt", (4 << 20) - 99), ("d.txt", 999)] {
        std::fs::write(place.dir.path().join(name), vec![b'a'; bytes]).unwrap();
    }
    let run = |files: &[&str], url: &str| {
        let attached = files.iter().flat_map(|file| ["--attach", *file]);
        place.run(&["run", "?", "--base-url", url, "--model", "m"].into_iter().chain(attached).collect::<Vec<_>>())
    };
    let (url, _bodies) = serve(vec![turn(&json!({"content": "So much."}), "stop")]);
    let inside = run(&["a.txt", "b.png", "c.txt"], &url);
    assert_eq!(inside.code, 0, "{}", inside.stderr);
    let outside = run(&["a.txt", "b.png", "c.txt", "d.txt"], &url);
    assert_eq!(outside.code, 2, "{}", outside.stderr);
    let words = "cannot attach d.txt: all attachments together may have at most 12582912 bytes";
    assert!(outside.stderr.contains(words), "{}", outside.stderr);
}

#[test]
fn a_conversation_goes_on_from_its_file() {
    let place = Place::with(&["math-tool"]);
    let (url, bodies) =
        serve(vec![turn(&json!({"content": "Hello, Ada."}), "stop"), turn(&json!({"content": "Ada."}), "stop")]);
    let run = |prompt: &str| place.run(&["run", prompt, "--history", "talk.json", "--base-url", &url, "--model", "m"]);
    assert_eq!(run("I am Ada.").code, 0);
    assert_eq!(run("Who am I?").stdout, "Ada.\n");
    let _first = bodies.recv().unwrap();
    let second = bodies.recv().unwrap();
    let said: Vec<_> = second["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(said, ["I am Ada.", "Hello, Ada.", "Who am I?"]);
    let saved = std::fs::read_to_string(place.dir.path().join("talk.json")).unwrap();
    let held: Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(held["messages"].as_array().unwrap().len(), 4);
    assert!(held["window"].is_object(), "{held}");

    // The server is gone: the file stays as it was.
    let failed = run("Once more.");
    assert_eq!(failed.code, 5);
    assert!(failed.stderr.contains("talk.json stays as it was"), "{}", failed.stderr);
    assert_eq!(std::fs::read_to_string(place.dir.path().join("talk.json")).unwrap(), saved);

    std::fs::write(place.dir.path().join("talk.json"), "{}").unwrap();
    let refused = run("Hm?");
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("talk.json does not hold a conversation"), "{}", refused.stderr);
}

#[test]
fn the_file_of_a_conversation_that_is_typed_counts_more_than_the_variable_of_a_store() {
    let place = Place::with(&["math-tool"]);
    place.write("script.json", json!({"turns": [{"say": "Hello."}]}));
    let run = |args: &[&str]| {
        let mut command = place.command();
        command.env("TOOLCELL_STORE", "runs.db").args(["run", "Hi", "--script", "script.json"]).args(args);
        command.output().unwrap()
    };
    let output = run(&["--history", "talk.json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(place.beside(), ["script.json", "talk.json", "tools"]);
    let both = run(&["--history", "talk.json", "--store", "other.db"]);
    assert_eq!(both.status.code(), Some(2));
    let said = String::from_utf8_lossy(&both.stderr).into_owned();
    assert!(said.contains("'--history <FILE>' cannot be used with '--store <PLACE>'"), "{said}");
    assert!(run(&[]).status.success());
    assert_eq!(place.beside(), ["runs.db", "script.json", "talk.json", "tools"], "the variable counts alone");
    let help = place.run(&["run", "--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("TOOLCELL_STORE, which counts when neither --store nor --history is given"), "{help}");
}

#[test]
fn a_conversation_is_also_read_from_its_messages_alone() {
    let place = Place::with(&["math-tool"]);
    let messages = json!([
        {"role": "user", "content": [{"type": "text", "text": "I am Ada."}]},
        {"role": "assistant", "text": "Hello, Ada."},
    ]);
    for (name, text) in
        [("array.json", format!("\n {messages}\n")), ("object.json", json!({"messages": messages}).to_string())]
    {
        let (url, bodies) = serve(vec![turn(&json!({"content": "Ada."}), "stop")]);
        std::fs::write(place.dir.path().join(name), text).unwrap();
        let ended = place.run(&["run", "Who am I?", "--history", name, "--base-url", &url, "--model", "m"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "Ada.\n"), "{}", ended.stderr);
        assert_eq!(bodies.recv().unwrap()["messages"].as_array().unwrap().len(), 3);
        let saved: Value =
            serde_json::from_str(&std::fs::read_to_string(place.dir.path().join(name)).unwrap()).unwrap();
        assert_eq!(saved["messages"].as_array().unwrap().len(), 4);
        assert!(saved["window"].is_object(), "{saved}");
    }
}

#[test]
fn the_script_in_the_readme_plays() {
    let readme = include_str!("../../../../README.md");
    let script = readme.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let place = Place::with(&["math-tool"]);
    std::fs::write(place.dir.path().join("script.json"), script).unwrap();
    let ended = place.run(&["run", "go", "--script", "script.json"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "I compute.\nIt is 4.\n"), "{}", ended.stderr);
}

#[test]
fn a_script_that_does_not_fit_says_where() {
    let place = Place::with(&["math-tool"]);
    let script = json!({"turns": [
        {"calls": [{"tool": "math", "arguments": {"expression": "1"}}]},
        {"expect": {"results": [{"tool": "math", "contains": "no such thing"}]}, "say": "?"},
    ]});
    std::fs::write(place.dir.path().join("script.json"), script.to_string()).unwrap();
    let ended = place.run(&["run", "go", "--script", "script.json"]);
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.stderr.contains("the script does not fit"), "{}", ended.stderr);
    std::fs::write(place.dir.path().join("script.json"), "{\"turnz\": []}").unwrap();
    let ended = place.run(&["run", "go", "--script", "script.json"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.stderr.contains("turnz"), "{}", ended.stderr);
}

#[test]
fn a_run_is_traced_to_the_collector_that_the_environment_names() {
    let place = Place::with(&["math-tool"]);
    let script = json!({"turns": [
        {"calls": [{"tool": "math", "arguments": {"expression": "40 + 2"}}]},
        {"say": "A secret word."},
    ]});
    std::fs::write(place.dir.path().join("script.json"), script.to_string()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap());
    let received = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let body = read_body(&stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        body
    });
    let mut command = place.command();
    command.args(["run", "go", "--script", "script.json"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Protocol buffers hold texts as they are.
    let body = String::from_utf8_lossy(&received.join().unwrap()).into_owned();
    for text in ["service.name", "invoke_agent", "chat scripted", "execute_tool math", "gen_ai.operation.name"] {
        assert!(body.contains(text), "{text:?} is not in {body}");
    }
    for secret in ["40 + 2", "A secret word"] {
        assert!(!body.contains(secret), "{secret:?} is in {body}");
    }
}

#[test]
fn a_collector_that_is_not_there_does_not_hold_up_a_run() {
    let place = Place::with(&["math-tool"]);
    std::fs::write(place.dir.path().join("script.json"), json!({"turns": [{"say": "Hello."}]}).to_string()).unwrap();
    let mut command = place.command();
    command.args(["run", "go", "--script", "script.json"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let output = command.output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello.\n");
}

/// One streamed turn of an OpenAI-compatible server.
fn turn(delta: &Value, finish: &str) -> String {
    let chunk = |delta: &Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}))
    };
    format!("{}{}data: [DONE]\n\n", chunk(delta, Value::Null), chunk(&json!({}), json!(finish)))
}

/// A server that gives these replies in order, and the bodies that it was sent.
fn serve(replies: Vec<String>) -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, bodies) = mpsc::channel();
    std::thread::spawn(move || {
        for reply in replies {
            let (stream, _) = listener.accept().unwrap();
            sender.send(exchange(stream, &reply)).unwrap();
        }
    });
    (url, bodies)
}

fn exchange(mut stream: TcpStream, reply: &str) -> Value {
    let body = read_body(&stream);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(format!("{head}{reply}").as_bytes()).unwrap();
    let body = serde_json::from_slice(&body).unwrap();
    schema::check(schema::COMPATIBLE, &body);
    body
}

/// The body of the next request.
fn read_body(stream: &TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim().to_lowercase().strip_prefix("content-length:") {
            Some(value) => length = value.trim().parse().unwrap(),
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    body
}
