//! A directory with real components, and the program that is tested.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The folders of `sample-tools`.
const SAMPLES: [&str; 6] = ["calendar-login", "chart", "math", "purchase", "qr-code", "text-search"];

/// A fresh place to work in: a tools directory, and one cache for all tests, so that each component is compiled once.
pub struct Place {
    pub dir: TempDir,
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    /// A tools directory with every sample tool, each under the name of its folder.
    pub fn with_samples() -> Self {
        let place = Self::with(&[]);
        for name in SAMPLES {
            let from = toolcell_tests::artifacts::component_path(&format!("{name}-tool"));
            std::fs::copy(from, place.tools().join(format!("{name}.wasm"))).unwrap();
        }
        place
    }

    /// A tools directory with these sample tools or guests, each under the name of its package.
    pub fn with(packages: &[&str]) -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.tools()).unwrap();
        for package in packages {
            let from = toolcell_tests::artifacts::component_path(package);
            std::fs::copy(from, place.tools().join(format!("{package}.wasm"))).unwrap();
        }
        place
    }

    pub fn tools(&self) -> PathBuf {
        self.dir.path().join("tools")
    }

    /// Puts a file into the tools directory.
    pub fn add(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.tools().join(name), bytes).unwrap();
    }

    /// Puts a file beside the tools directory.
    pub fn write(&self, name: &str, text: impl std::fmt::Display) {
        std::fs::write(self.dir.path().join(name), text.to_string()).unwrap();
    }

    /// The names of what lies beside the tools directory.
    pub fn beside(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The program, working in this place, with nothing in its environment that could lead it to a model.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolcell"));
        command.current_dir(self.dir.path()).env_clear().env("TOOLCELL_CACHE", cache()).env("HOME", self.dir.path());
        command
    }

    /// Plays a script in a pseudo-terminal, whose person is the test.
    pub fn play_in_terminal(&self, script: &serde_json::Value) -> rexpect::session::PtySession {
        std::fs::write(self.dir.path().join("script.json"), script.to_string()).unwrap();
        let mut command = self.command();
        command.args(["run", "go", "--script", "script.json"]).env("TERM", "xterm");
        rexpect::session::spawn_command(command, Some(60_000)).unwrap()
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        self.run_with_input(args, "")
    }

    pub fn run_with_input(&self, args: &[&str], input: &str) -> Ended {
        let mut child = self
            .command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Ended {
            code: output.status.code().expect("ended by a signal"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Compiled code is kept between tests and between test runs, beside the components themselves.
pub fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled")
}

/// Buys something and says so.
pub fn script(place: &Place) {
    let buy = json!({"item": "lamp", "quantity": 2, "price": 10});
    let script = json!({"turns": [
        {"calls": [{"tool": "purchase", "arguments": buy}]},
        {"expect": {"results": [{"tool": "purchase"}]}, "say": "That is that."},
    ]});
    std::fs::write(place.dir.path().join("script.json"), script.to_string()).unwrap();
}

/// A place with the tool and the script, where a run waits; with the ids of the run and of the question.
pub fn waiting(store: &str) -> (Place, String, String) {
    let place = Place::with(&["purchase-tool"]);
    script(&place);
    let ended = place.run(&["run", "Buy lamps.", "--script", "script.json", "--store", store, "--ask", "never"]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let question = json_lines(&place.run(&["pending", "--json", "--store", store])).remove(0);
    let id = question["question"]["request"]["id"].as_str().unwrap().to_owned();
    let run = question["run"].as_str().unwrap().to_owned();
    assert!(ended.stderr.contains(&format!("toolcell answer {id} --approve --store ")), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("toolcell resume {run} --store ")), "{}", ended.stderr);
    (place, run, id)
}

pub fn json_lines(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A key as Standard Webhooks has them.
pub const WEBHOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A program that works in the background and does not outlive its test.
pub struct Background {
    child: Child,
    lines: Receiver<String>,
}

impl Background {
    /// Starts it; its standard error, or output, is read line by line.
    pub fn start(mut command: Command, output: Output) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match output {
            Output::Stdout => command.stdout(Stdio::piped()),
            Output::Stderr => command.stderr(Stdio::piped()),
        };
        let mut child = command.spawn().unwrap();
        let reader: Box<dyn Read + Send> = match output {
            Output::Stdout => Box::new(child.stdout.take().unwrap()),
            Output::Stderr => Box::new(child.stderr.take().unwrap()),
        };
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// The next line that holds this text, and all that came before it.
    pub fn wait_for(&self, text: &str) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(60);
        let mut read = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else { panic!("{text:?} is not in {read:#?}") };
            let found = line.contains(text);
            read.push(line);
            if found {
                return read;
            }
        }
    }

    /// All lines up to the end of the program.
    pub fn rest(&self) -> Vec<String> {
        self.lines.iter().collect()
    }

    /// Sends `TERM` or `INT`.
    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits for its end.
    pub fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

/// What is read of a program.
#[derive(Debug, Clone, Copy)]
pub enum Output {
    Stdout,
    Stderr,
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a program.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}
