//! A mock of the providers that others wrote: `@copilotkit/aimock`, which speaks the APIs of all of them on one port.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The folder into which `cargo xtask test` has installed it.
const FOLDER: &str = "TOOLCELL_TEST_NODE";

/// How long it may need to start or to answer: a second alone, more on a machine that compiles at the same time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running mock; it ends when this is dropped.
pub struct Aimock {
    _process: Process,
    address: String,
    _dir: TempDir,
}

/// A request, as the mock understood it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The path, with the query.
    pub path: String,
    /// The body as it would be in chat completions, whatever the wire was: the mock keeps no other form. What is no text
    /// in a result is mostly gone, and bodies beyond 64 KiB are gone altogether.
    pub body: Value,
}

impl Aimock {
    /// Starts one that gives these responses in order, whatever it is asked. None, with a note: it is not installed.
    ///
    /// A response is `{"content": …, "toolCalls": [{"name", "arguments"}]}`, or `{"error": {"message", "type"}, "status",
    /// "retryAfter"}`. What is asked after the last one is answered by 404.
    ///
    /// # Panics
    /// When it does not start, and in CI when it is not installed: there no test is skipped.
    #[must_use]
    pub fn start(responses: &[Value]) -> Option<Self> {
        let list = responses.iter().enumerate().map(|(n, r)| json!({"match": {"sequenceIndex": n}, "response": r}));
        Self::serve(&json!({"fixtures": list.collect::<Vec<_>>()}))
    }

    /// The same with the whole of its file, for what is not in a response: when each is due, pace, size of the pieces,
    /// and where a stream breaks off. A break needs a `latency`, else nothing was sent before it.
    ///
    /// # Panics
    /// As for [`Aimock::start`], and when the file is not as it should be.
    #[must_use]
    pub fn serve(fixtures: &Value) -> Option<Self> {
        let program = program()?;
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (file, complaints) = (dir.path().join("fixtures.json"), dir.path().join("stderr.txt"));
        std::fs::write(&file, fixtures.to_string()).expect("a written file");
        let child = Command::new("node")
            .arg(program)
            .args(["--port", "0", "--validate-on-load", "--fixtures"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&complaints).expect("a new file"))
            .spawn();
        let mut process = Process(child.unwrap_or_else(|error| panic!("cannot start node: {error}")));
        let output = process.0.stdout.take().expect("a pipe");
        let address = announced(output).unwrap_or_else(|| {
            let complaints = std::fs::read_to_string(&complaints).unwrap_or_default();
            panic!("the mock of the providers does not say where it listens; its complaints: {complaints}")
        });
        Some(Self { _process: process, address, _dir: dir })
    }

    /// Host and port. OpenAI and Anthropic are under `/v1` there, Gemini under `/v1beta`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// All requests so far.
    ///
    /// # Panics
    /// When the mock does not tell.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        let (head, body) = self.exchange("GET /__aimock/journal", "");
        let entries: Vec<Value> = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {head}\n{body}"));
        let request = |entry: &Value| Request {
            path: entry["path"].as_str().expect("a path").to_owned(),
            body: entry["body"].clone(),
        };
        entries.iter().map(request).collect()
    }

    /// Head and body of the response to a request. When the connection breaks: what came until then.
    fn exchange(&self, line: &str, body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("the mock listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout that is not zero");
        // 1.0, so that the body is not cut into chunks and ends with the connection.
        let head = format!("{line} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("a request that is taken");
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        let response = String::from_utf8(response).expect("UTF-8");
        response.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned())).unwrap_or_default()
    }
}

/// Responses for a story that every wire can tell: two calls at the same time, whose tools give a picture and an error;
/// a call that waits for a person; an end.
#[must_use]
pub fn story() -> Vec<Value> {
    vec![
        json!({"content": "I draw and print.", "toolCalls": [
            {"name": "chart", "arguments": {"title": "t", "values": [1, 2]}},
            {"name": "fail", "arguments": {}},
        ]}),
        json!({"toolCalls": [{"name": "gpu", "arguments": {}}]}),
        json!({"content": "All done."}),
    ]
}

/// A process that does not outlive its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Host and port, from what the mock prints; none when it ends before, or takes too long.
fn announced(output: ChildStdout) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    // Reads to the end: a pipe that nobody reads would stop the mock.
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once("listening on http://") {
                let _ = sender.send(address.trim().to_owned());
            }
        }
    });
    receiver.recv_timeout(PATIENCE).ok()
}

fn program() -> Option<PathBuf> {
    let file = |dir| PathBuf::from(dir).join("node_modules/@copilotkit/aimock/dist/cli.js");
    let program = std::env::var_os(FOLDER).map(file).filter(|file| file.exists());
    if program.is_none() {
        assert!(std::env::var_os("CI").is_none(), "the mock of the providers is not installed, and CI skips no test");
        eprintln!("NOTE: skipped: the mock of the providers is not installed; `cargo xtask test` does it");
    }
    program
}

#[cfg(test)]
#[path = "aimock_tests.rs"]
mod tests;
