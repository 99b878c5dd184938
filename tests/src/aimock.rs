//! A mock of the providers that others wrote: `@copilotkit/aimock`, which speaks the APIs of all of them on one port.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The folder into which `cargo xtask test` has installed it.
const FOLDER: &str = "TOOLCELL_TEST_NODE";

/// A running mock; it ends when this is dropped.
pub struct Aimock {
    child: Child,
    origin: String,
    _fixtures: TempDir,
}

impl Aimock {
    /// Starts one that gives these responses in order, whatever it is asked. None, with a note: it is not installed.
    ///
    /// A response is `{"content": …, "toolCalls": [{"name", "arguments"}]}`.
    ///
    /// # Panics
    /// When it does not start, and in CI when it is not installed: there no test is skipped.
    #[must_use]
    pub fn start(responses: &[Value]) -> Option<Self> {
        let program = program()?;
        let fixtures = tempfile::tempdir().expect("a temporary folder");
        let file = fixtures.path().join("fixtures.json");
        let list = responses.iter().enumerate().map(|(n, r)| json!({"match": {"sequenceIndex": n}, "response": r}));
        std::fs::write(&file, json!({"fixtures": list.collect::<Vec<_>>()}).to_string()).expect("a written file");
        let mut child = Command::new("node")
            .arg(program)
            .args(["--port", "0", "--fixtures"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start node: {error}"));
        let output = child.stdout.take().expect("a pipe");
        let origin = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("listening on http://")?.1.trim().to_owned()))
            .expect("the mock says where it listens");
        Some(Self { child, origin, _fixtures: fixtures })
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.origin
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
