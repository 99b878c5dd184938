//! A directory with real components, and the program that is tested.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
