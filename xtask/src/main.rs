//! The chores of this repository, each with all of its set-up: the only thing a newcomer must know.

mod node;
mod samples;
mod shell;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::samples::{GUEST_PROFILE, GUEST_TARGET, SAMPLES};
use crate::shell::{Cargo, note, target_dir};

const HELP: &str = "\
cargo xtask demo [--yes]     build host and sample tools, then play a conversation with them, offline
cargo xtask test [FILTER]    build what the tests need, then run all of them
cargo xtask check            what must hold before a change lands: format, lints, docs
cargo xtask chaos [ARGS]     kill, freeze and cut off workers on runs on record, on SQLite and PostgreSQL [--runs N, --seconds N]
cargo xtask bench            measure one isolated call against plain wasmtime, and stores with many runs that wait
cargo xtask samples [DIR]    build the sample tools and put them into DIR [default: target/tools]

The first build compiles wasmtime and takes several minutes; every command uses the same build.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args.iter().any(|arg| matches!(*arg, "-h" | "--help")) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let done = match args.as_slice() {
        ["demo", rest @ ..] => demo(rest),
        ["test", rest @ ..] => test(rest),
        ["check"] => check(),
        ["bench"] => bench(),
        ["chaos", rest @ ..] => chaos(rest),
        ["samples"] => target_dir().and_then(|dir| samples::build(&dir.join("tools"))),
        ["samples", dir] if !dir.starts_with('-') => samples::build(dir.as_ref()),
        [] | ["help"] => {
            println!("{HELP}");
            Ok(())
        }
        other => Err(anyhow::anyhow!("unknown chore: {}\n\n{HELP}", other.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The main job, offline: a scripted model calls real components, a person (or `--yes`) answers.
fn demo(rest: &[&str]) -> Result<()> {
    if let Some(other) = rest.iter().find(|arg| **arg != "--yes") {
        bail!("the demo takes no {other}: only --yes, which answers for you");
    }
    let tools = target_dir()?.join("tools");
    samples::build(&tools)?;
    build_host()?;
    note(&format!("playing sample-tools/demo.json with the tools in {}", tools.display()));
    shell::run(
        built("toolcell")?
            .args(["run", "Plan the light for my desk and order it.", "--tools"])
            .arg(&tools)
            .arg("--script")
            .arg(shell::root()?.join("sample-tools/demo.json"))
            .arg("--save-parts")
            .arg(target_dir()?.join("demo"))
            .args(rest),
    )
}

fn test(filter: &[&str]) -> Result<()> {
    samples::build(&target_dir()?.join("tools"))?;
    note("building the hostile guests");
    Cargo::new(&["build", "--profile", GUEST_PROFILE, "--target", GUEST_TARGET])
        .args(["--package", "toolcell-test-guests"])
        .run()?;
    build_host()?;
    let node = node::set_up()?;
    note("running the tests");
    let mut tests = Cargo::new(&["test", "--workspace", "--no-fail-fast"]).args(filter);
    if let Some(dir) = node {
        tests = tests.env("TOOLCELL_TEST_NODE", &dir.display().to_string());
    }
    tests.run()
}

/// Builds everything, tests included. Cargo unifies the features of dependencies over what it builds at once, so a
/// smaller build would be another one, and compile wasmtime again.
fn build_host() -> Result<()> {
    note("building the host (the first time this takes several minutes)");
    Cargo::new(&["build", "--workspace", "--all-targets"]).run()
}

/// A program that [`build_host`] built.
fn built(name: &str) -> Result<Command> {
    Ok(Command::new(target_dir()?.join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))))
}

fn check() -> Result<()> {
    samples::set_up()?;
    note("format");
    Cargo::new(&["fmt", "--all", "--check"]).run()?;
    note("lints of host and tests");
    Cargo::new(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()?;
    note("lints of guests");
    Cargo::new(&["clippy", "--profile", GUEST_PROFILE, "--target", GUEST_TARGET])
        .args(SAMPLES.iter().flat_map(|sample| ["--package", sample.package]))
        .args(["--", "-D", "warnings"])
        .run()?;
    note("docs");
    Cargo::new(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").run()
}

fn bench() -> Result<()> {
    build_host()?;
    note("one isolated call: the whole host path against plain wasmtime");
    shell::run(&mut built("bench_call")?)?;
    note("runs on record: lists, answers and claims among many runs that wait");
    shell::run(&mut built("bench_store")?)
}

/// Workers that suffer, on each kind of store.
fn chaos(rest: &[&str]) -> Result<()> {
    build_host()?;
    let mut stores = vec!["sqlite"];
    if Path::new("/usr/lib/postgresql").exists() || std::env::var_os("CI").is_some() {
        stores.push("postgres");
    } else {
        note("PostgreSQL is not installed (apt-get install postgresql): SQLite alone");
    }
    for store in stores {
        note(&format!("workers are killed, frozen and cut off: {store}"));
        shell::run(built("chaos")?.args(["run", "--store", store]).args(rest))?;
    }
    Ok(())
}
