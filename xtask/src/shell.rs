//! Running other programs, and saying which.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Says what happens next.
pub(crate) fn note(text: &str) {
    eprintln!("==> {text}");
}

/// Runs a program and fails when it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !status.success() {
        bail!("{} failed ({status})", command.get_program().display());
    }
    Ok(())
}

/// A cargo command in the root of the repository.
pub(crate) struct Cargo(Command);

impl Cargo {
    pub(crate) fn new(args: &[&str]) -> Self {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(args).stdin(Stdio::null());
        Self(command)
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.0.args(args);
        self
    }

    pub(crate) fn env(mut self, key: &str, value: &str) -> Self {
        self.0.env(key, value);
        self
    }

    pub(crate) fn run(mut self) -> Result<()> {
        self.0.current_dir(root()?);
        run(&mut self.0)
    }
}

/// The root of the repository: where this package was compiled from.
pub(crate) fn root() -> Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("this package has no parent directory")?.to_owned())
}

/// Where cargo puts what it builds: `CARGO_TARGET_DIR`, or `target` in the root.
pub(crate) fn target_dir() -> Result<PathBuf> {
    Ok(root()?.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into())))
}
