//! Tools and policy that change while their host runs: what is in use, and what is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use toolcell::contract::ToolResult;
use toolcell::model::ScriptedModel;
use toolcell::{CachePlace, Change, Host, HostOptions, Policy, RunRequest, ToolboxOptions};
use toolcell_tests::artifacts;

/// Longer than a change takes to be noticed on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Longer than files must be quiet before they are looked at; nothing comes after it.
const QUIET: Duration = Duration::from_secs(2);

/// A directory with tools, its host, and what is told of it.
struct Place {
    dir: TempDir,
    host: Host,
    changes: UnboundedReceiver<Change>,
    watching: JoinHandle<()>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// A host of these files that is not watched yet.
async fn open(files: &[(&str, &[u8])]) -> (TempDir, Host) {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    let text = std::fs::read_to_string(dir.path().join("toolcell.toml")).unwrap_or_default();
    let options = HostOptions {
        toolbox: ToolboxOptions { cache: CachePlace::Off, ..ToolboxOptions::default() },
        policy: Policy::parse("toolcell.toml", &text).unwrap(),
        ..HostOptions::default()
    };
    let host = Host::open(dir.path(), options).await.unwrap();
    (dir, host)
}

fn watch((dir, host): (TempDir, Host)) -> Place {
    let (sender, changes) = unbounded_channel();
    let (watched, policy) = (host.clone(), dir.path().join("toolcell.toml"));
    let watching = tokio::spawn(async move {
        let told = watched.watch(Some(policy), move |change| drop(sender.send(change))).await;
        panic!("it cannot be watched: {:?}", told.unwrap_err());
    });
    Place { dir, host, changes, watching }
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    async fn next(&mut self) -> Change {
        tokio::time::timeout(SOON, self.changes.recv()).await.expect("a change is told").unwrap()
    }

    /// The codes of what is refused after the next change of the tools.
    async fn refused(&mut self) -> Vec<&'static str> {
        match self.next().await {
            Change::Tools(report) => report.rejected.iter().map(|rejected| rejected.code).collect(),
            other => panic!("{other:?}"),
        }
    }

    async fn nothing_more(&mut self) {
        let more = tokio::time::timeout(QUIET, self.changes.recv()).await;
        assert!(more.is_err(), "{more:?}");
    }

    async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        let script = json!({"turns": [{"calls": [{"tool": tool, "arguments": arguments}]}, {"say": "."}]});
        let model = ScriptedModel::from_json(&script.to_string()).unwrap();
        let run = self.host.agent(Arc::new(model)).run(RunRequest::prompt("go")).await.unwrap();
        run.tool_calls[0].ending.result.clone()
    }

    /// What the tool says of a root that there is not; another version says it otherwise.
    async fn complaint(&self) -> String {
        self.call("math", json!({"expression": "sqrt(-1)"})).await.output
    }
}

fn math() -> Vec<u8> {
    artifacts::component("math-tool")
}

/// The same tool, which complains more loudly.
fn louder() -> Vec<u8> {
    let (mut bytes, word) = (math(), b"negative");
    for at in 0..bytes.len() - word.len() {
        if &bytes[at..at + word.len()] == word {
            bytes[at..at + word.len()].make_ascii_uppercase();
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_becomes_broken_keeps_the_last_good_one_and_says_line_and_column() {
    let good = "[component.guests]\nenvironment = { LANGUAGE = \"de\" }\n";
    let guests = artifacts::component("toolcell-test-guests");
    let mut place = watch(open(&[("guests.wasm", &guests), ("toolcell.toml", good.as_bytes())]).await);
    place.write("toolcell.toml", "[component.guests]\nenvironmant = {}\n");
    let Change::PolicyBroken(said) = place.next().await else { panic!("the policy is broken") };
    assert!(said.contains("toolcell.toml:2:1: unknown field `environmant`"), "{said}");
    assert_eq!(place.call("with_environment", json!({})).await.output, "LANGUAGE=de");
    // The same mistake again is no news.
    place.write("toolcell.toml", "[component.guests]\nenvironmant = {}\n");
    place.nothing_more().await;
    // The good one comes back.
    place.write("toolcell.toml", good);
    assert!(matches!(place.next().await, Change::Policy));
    place.nothing_more().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_written_component_is_not_taken_until_it_is_whole() {
    let mut place = watch(open(&[("math.wasm", &math())]).await);
    let louder = louder();
    let (half, rest) = louder.split_at(louder.len() / 2);
    let mut file = std::fs::File::create(place.path("math.wasm")).unwrap();
    file.write_all(half).unwrap();
    file.sync_all().unwrap();
    assert_eq!(place.refused().await.len(), 1, "it is said");
    assert!(place.complaint().await.contains("negative"), "the version before is in use");
    file.write_all(rest).unwrap();
    drop(file);
    assert!(place.refused().await.is_empty());
    assert!(place.complaint().await.contains("NEGATIVE"));
    place.nothing_more().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_file_is_used_by_the_next_call_and_a_removed_one_is_gone() {
    let mut place = watch(open(&[("math.wasm", &math())]).await);
    assert!(place.complaint().await.contains("negative"));
    place.write("new", louder());
    std::fs::rename(place.path("new"), place.path("math.wasm")).unwrap();
    assert!(place.refused().await.is_empty());
    assert!(place.complaint().await.contains("NEGATIVE"));
    std::fs::remove_file(place.path("math.wasm")).unwrap();
    assert!(place.refused().await.is_empty());
    assert!(place.host.catalog().tools().is_empty());
    assert!(place.complaint().await.contains("unknown-tool"), "{}", place.complaint().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_grant_is_used_by_the_next_call_and_one_that_is_taken_back_is_not() {
    let guests = artifacts::component("toolcell-test-guests");
    let mut place = watch(open(&[("guests.wasm", &guests)]).await);
    assert_eq!(place.call("with_environment", json!({})).await.output, "");
    place.write("toolcell.toml", "[component.guests]\nenvironment = { LANGUAGE = \"de\" }\n");
    assert!(matches!(place.next().await, Change::Policy));
    assert_eq!(place.call("with_environment", json!({})).await.output, "LANGUAGE=de");
    std::fs::remove_file(place.path("toolcell.toml")).unwrap();
    assert!(matches!(place.next().await, Change::Policy));
    assert_eq!(place.call("with_environment", json!({})).await.output, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_policy_needs_may_come_after_it() {
    let mut place = watch(open(&[]).await);
    let data = tempfile::tempdir().unwrap();
    let mount = data.path().canonicalize().unwrap().join("notes");
    let text = format!(
        "[[component.guests.mounts]]\nhost = \"{}\"\nguest = \"/notes\"\naccess = \"read-only\"\n",
        mount.display()
    );
    place.write("toolcell.toml", text);
    let Change::PolicyBroken(said) = place.next().await else { panic!("the directory is not there") };
    assert!(said.contains("component guests: "), "{said}");
    std::fs::create_dir(&mount).unwrap();
    // It is looked at again when something is touched, or after a while.
    place.write("touched", "");
    assert!(matches!(place.next().await, Change::Policy));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_changes_is_told_once() {
    let mut place = watch(open(&[("math.wasm", &math())]).await);
    for number in 0..40 {
        place.write("toolcell.toml", format!("[component.math]\nenvironment = {{ NUMBER = \"{number}\" }}\n"));
        place.write(&format!("note-{number}.wasm"), "no component");
    }
    assert!(matches!(place.next().await, Change::Policy), "the policy first: a new tool comes with its grants");
    assert_eq!(place.refused().await.len(), 40);
    let last = Policy::parse("", "[component.math]\nenvironment = { NUMBER = \"39\" }\n").unwrap();
    assert_eq!(*place.host.policy(), last);
    place.nothing_more().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_changed_before_the_watch_began_is_taken_up() {
    let (dir, host) = open(&[("math.wasm", &math())]).await;
    std::fs::write(dir.path().join("math.wasm"), louder()).unwrap();
    std::fs::write(dir.path().join("toolcell.toml"), "[component.math]\napprove = \"never\"\n").unwrap();
    let mut place = watch((dir, host));
    assert!(matches!(place.next().await, Change::Policy));
    assert!(place.refused().await.is_empty());
    assert!(place.complaint().await.contains("NEGATIVE"));
    place.nothing_more().await;
}
