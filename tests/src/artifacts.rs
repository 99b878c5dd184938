//! Guests of this workspace, built from source once in each process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;

/// The bytes of the component that a package of this workspace builds.
///
/// # Panics
/// When the package does not build.
#[must_use]
pub fn component(package: &str) -> Vec<u8> {
    let path = component_path(package);
    std::fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// The file of the component that a package of this workspace builds. One build at a time; the others wait for it.
///
/// # Panics
/// When the package does not build.
#[must_use]
pub fn component_path(package: &str) -> PathBuf {
    static BUILT: OnceLock<Mutex<HashMap<String, PathBuf>>> = OnceLock::new();
    let mut built = BUILT.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.get(package) {
        return path.clone();
    }
    let path = build(package);
    built.insert(package.to_owned(), path.clone());
    path
}

fn build(package: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package is inside the workspace");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(workspace)
        .args(["build", "--profile", "tool", "--target", "wasm32-wasip2", "--package", package])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("cannot run cargo: {error}"));
    assert!(output.status.success(), "package {package} does not build for wasm32-wasip2");
    let messages = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter_map(|message| message["filenames"][0].as_str().map(PathBuf::from))
        .rfind(|file| file.extension().is_some_and(|extension| extension == "wasm"))
        .unwrap_or_else(|| panic!("package {package} builds no component: is its crate-type cdylib?"))
}
