//! Programs from npm that the tests run against, installed beside the build output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::shell::{note, root, run, target_dir};

/// The files that say what is installed.
const MANIFESTS: [&str; 2] = ["package.json", "package-lock.json"];

/// The oldest Node.js that runs them, major and minor: before, `node:zlib` has no `crc32`. Debian 12 brings 18.
const OLDEST: (u32, u32) = (20, 15);

/// Installs what `tests/node` lists, unless it is there, and gives the folder. None: there is nothing to run it with, and
/// the tests that need it say that they are skipped.
pub(crate) fn set_up() -> Result<Option<PathBuf>> {
    if let Some(lack) = lack(version("node").as_deref(), version("npm").as_deref()) {
        if std::env::var_os("CI").is_some() {
            bail!("{lack}; in CI no test may be skipped");
        }
        note(&format!("{lack}; the tests against an independent mock of the providers are skipped"));
        return Ok(None);
    }
    let (from, dir) = (root()?.join("tests/node"), target_dir()?.join("node"));
    if is_installed(&from, &dir) {
        return Ok(Some(dir));
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

/// What a program says of its version; none when there is no such program.
fn version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What is not there, and how to mend it, by the versions of Node.js and npm.
fn lack(node: Option<&str>, npm: Option<&str>) -> Option<String> {
    let (major, minor) = OLDEST;
    let wanted = format!("install {major}.{minor} or later, with npm");
    match (node, npm) {
        (None, _) => Some(format!("Node.js is missing: {wanted}")),
        (Some(node), _) if !is_recent(node) => Some(format!("Node.js {node} is too old: {wanted}")),
        (Some(node), None) => Some(format!("npm is missing beside Node.js {node}: install it")),
        (Some(_), Some(_)) => None,
    }
}

/// Whether `v20.20.2` is not before [`OLDEST`].
fn is_recent(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map_while(|number| number.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version >= OLDEST)
}

#[cfg(test)]
mod tests {
    use super::lack;

    #[test]
    fn the_oldest_version_is_enough_and_the_one_before_is_told() {
        assert_eq!(lack(Some("v20.15.0"), Some("10.7.0")), None);
        assert_eq!(lack(Some("v22.0.0"), Some("10.7.0")), None);
        let told = |node, npm| lack(node, npm).unwrap_or_default();
        assert_eq!(
            told(Some("v20.14.9"), Some("10.7.0")),
            "Node.js v20.14.9 is too old: install 20.15 or later, with npm"
        );
        assert_eq!(told(Some("v18.20.4"), None), "Node.js v18.20.4 is too old: install 20.15 or later, with npm");
        assert_eq!(told(None, None), "Node.js is missing: install 20.15 or later, with npm");
        assert_eq!(told(Some("v20.15.0"), None), "npm is missing beside Node.js v20.15.0: install it");
    }
}
