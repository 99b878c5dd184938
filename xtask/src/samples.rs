//! The sample tools, built into a directory that `toolcell` can use.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::shell::{Cargo, note, run, target_dir};

/// The target that rustc links as a component by itself.
pub(crate) const GUEST_TARGET: &str = "wasm32-wasip2";
/// The profile of the root manifest that makes small components.
pub(crate) const GUEST_PROFILE: &str = "tool";

/// A sample tool: its package, and the name of its component.
pub(crate) struct Sample {
    pub(crate) package: &'static str,
    pub(crate) name: &'static str,
}

/// All of them, one folder each in `sample-tools`.
pub(crate) const SAMPLES: [Sample; 6] = [
    Sample { package: "calendar-login-tool", name: "calendar-login" },
    Sample { package: "chart-tool", name: "chart" },
    Sample { package: "math-tool", name: "math" },
    Sample { package: "purchase-tool", name: "purchase" },
    Sample { package: "qr-code-tool", name: "qr-code" },
    Sample { package: "text-search-tool", name: "text-search" },
];

/// Installs the target that guests are built for, unless it is there.
pub(crate) fn set_up() -> Result<()> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot start rustc")?;
    let sysroot = String::from_utf8(sysroot.stdout).context("rustc printed a path that is no text")?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(GUEST_TARGET).is_dir() {
        return Ok(());
    }
    note("adding the target wasm32-wasip2");
    run(Command::new("rustup").args(["target", "add", GUEST_TARGET]))
        .context("guests need the target wasm32-wasip2: install it with your tool chain, or install rustup")
}

/// Builds every sample and copies its component into `dir`.
pub(crate) fn build(dir: &Path) -> Result<()> {
    set_up()?;
    note("building the sample tools");
    Cargo::new(&["build", "--profile", GUEST_PROFILE, "--target", GUEST_TARGET])
        .args(SAMPLES.iter().flat_map(|sample| ["--package", sample.package]))
        .run()?;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let built = target_dir()?.join(GUEST_TARGET).join(GUEST_PROFILE);
    for sample in &SAMPLES {
        let from = built.join(format!("{}.wasm", sample.package.replace('-', "_")));
        let to = dir.join(format!("{}.wasm", sample.name));
        copy_whole(&from, &to)?;
    }
    Ok(())
}

/// Copies aside and renames, so that a host which watches the directory never reads half a file.
fn copy_whole(from: &Path, to: &Path) -> Result<()> {
    let aside = to.with_extension("wasm.new");
    std::fs::copy(from, &aside).with_context(|| format!("cannot copy {} to {}", from.display(), aside.display()))?;
    std::fs::rename(&aside, to).with_context(|| format!("cannot rename {} to {}", aside.display(), to.display()))
}
