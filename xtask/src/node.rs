//! Programs from npm that the tests run against, installed beside the build output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::shell::{note, root, run, target_dir};

/// The files that say what is installed.
const MANIFESTS: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs what `tests/node` lists, unless it is there, and gives the folder. None: there is no npm, and the tests
/// that need it say that they are skipped.
pub(crate) fn set_up() -> Result<Option<PathBuf>> {
    let (from, dir) = (root()?.join("tests/node"), target_dir()?.join("node"));
    if is_installed(&from, &dir) {
        return Ok(Some(dir));
    }
    let has_npm = Command::new("npm").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    if !has_npm && std::env::var_os("CI").is_some() {
        bail!("npm is missing: install Node.js 20.15 or later; in CI no test may be skipped");
    }
    if !has_npm {
        note("npm is missing: the tests against an independent mock of the providers are skipped");
        return Ok(None);
    }
    note("installing the mock of the providers");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for name in MANIFESTS {
        std::fs::copy(from.join(name), dir.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&dir))?;
    std::fs::copy(from.join(MANIFESTS[1]), stamp(&dir)).context("cannot write the stamp")?;
    Ok(Some(dir))
}

/// Written last, so that an installation that broke off is done again.
fn stamp(dir: &Path) -> PathBuf {
    dir.join("installed.json")
}

fn is_installed(from: &Path, dir: &Path) -> bool {
    let wanted = std::fs::read(from.join(MANIFESTS[1]));
    wanted.is_ok_and(|wanted| std::fs::read(stamp(dir)).is_ok_and(|there| there == wanted))
}
