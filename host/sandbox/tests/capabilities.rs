//! What a call was granted works, by real guests, and nothing beside it gets through.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: what goes wrong in them should fail the test"
)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use support::{code, limits, stage, text};
use toolcell_contract::{CallContext, FailureCode};
use toolcell_sandbox::{
    Access, CallReport, Capabilities, Invocation, KEYS_PAGE, KeyValueQuota, MemorySpace, Missing, Mount, Silent,
};

async fn call(tool: &str, arguments: &str, capabilities: &Arc<Capabilities>) -> CallReport {
    let invocation = Invocation {
        limits: Some(limits(20_000)),
        capabilities: Arc::clone(capabilities),
        ..Invocation::new(tool, arguments, CallContext::first("call-1"))
    };
    stage().sandbox.call(&stage().guests, invocation, Arc::new(Silent)).await
}

fn with_mounts(mounts: Vec<Mount>) -> Arc<Capabilities> {
    Arc::new(Capabilities { mounts, ..Capabilities::default() })
}

/// A place with `inside/read`, `inside/write`, `outside`, and a note in each.
struct Place(#[allow(dead_code, reason = "it is removed when it is dropped")] tempfile::TempDir, PathBuf);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        for name in ["inside/read", "inside/write", "outside"] {
            std::fs::create_dir_all(path.join(name)).unwrap();
            std::fs::write(path.join(name).join("note"), name).unwrap();
        }
        Self(dir, path)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.1.join(path)
    }

    fn mounts(&self) -> Arc<Capabilities> {
        with_mounts(vec![
            Mount::open(self.at("inside/read"), "/read", Access::ReadOnly).unwrap(),
            Mount::open(self.at("inside/write"), "/write", Access::ReadWrite).unwrap(),
        ])
    }
}

async fn steps(capabilities: &Arc<Capabilities>, steps: &[&str]) -> Vec<String> {
    let report = call("with_files", &steps.join("\n"), capabilities).await;
    text(&report).lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_directory_is_read_and_written_as_it_was_granted() {
    let place = Place::new();
    let granted = place.mounts();
    let done = steps(
        &granted,
        &["read /read/note", "list /read", "write /write/new hello", "read /write/new", "remove /write/note"],
    );
    assert_eq!(done.await, ["inside/read", "note", "written", "hello", "removed"]);
    assert_eq!(std::fs::read_to_string(place.at("inside/write/new")).unwrap(), "hello");
    let refused = [
        "write /read/new x",
        "write /read/note x",
        "remove /read/note",
        "size /read/note 0",
        "rename /read/note /read/n",
    ];
    for answer in steps(&granted, &refused).await {
        assert_eq!(answer, "PermissionDenied");
    }
    assert_eq!(std::fs::read_to_string(place.at("inside/read/note")).unwrap(), "inside/read");
    assert_eq!(steps(&Arc::default(), &["read /read/note"]).await, ["NotFound"], "without a grant there is nothing");
}

#[tokio::test]
async fn no_path_leads_out_of_a_directory() {
    let place = Place::new();
    let outside = place.at("outside");
    let link =
        |target: &Path, name: &str| std::os::unix::fs::symlink(target, place.at("inside/write").join(name)).unwrap();
    link(&outside, "dir");
    link(&outside.join("note"), "file");
    link(Path::new("../../outside/note"), "relative");
    link(&place.at("outside/made"), "dangling");
    let granted = place.mounts();
    let attempts = [
        "read /write/../../outside/note",
        "read /write/../read/../../outside/note",
        "read ../outside/note",
        "read /etc/passwd",
        "read /write/dir/note",
        "read /write/file",
        "read /write/relative",
        "list /write/dir",
        "list /write/dir/",
        "list /write/..",
        "write /write/dangling x",
        "write /write/dir/made x",
        "rename /write/note /write/dir/note",
        "rename /write/dir/ /write/other/",
        "remove /write/dir/note",
        "link /write/dir/note /write/copy",
        "link /read/note /write/copy",
        "rename /read/note /write/note",
    ];
    let answers = steps(&granted, &attempts).await;
    for (attempt, answer) in attempts.iter().zip(&answers) {
        let ends = [
            "PermissionDenied",
            "NotFound",
            "NotADirectory",
            "Uncategorized",
            "CrossesDevices",
            "Unsupported",
            "FilesystemLoop",
        ];
        assert!(ends.contains(&answer.as_str()), "{attempt}: {answer}");
    }
    assert_eq!(std::fs::read_to_string(outside.join("note")).unwrap(), "outside");
    assert!(!outside.join("made").exists() && !place.at("inside/write/copy").exists());
    assert!(place.at("inside/read/note").exists());
}

#[tokio::test]
async fn a_directory_that_was_replaced_is_not_the_one_that_was_granted() {
    let place = Place::new();
    let granted = place.mounts();
    std::fs::rename(place.at("inside/read"), place.at("inside/old")).unwrap();
    std::os::unix::fs::symlink(place.at("outside"), place.at("inside/read")).unwrap();
    let report = call("with_files", "read /read/note", &granted).await;
    assert_eq!(code(&report), FailureCode::ToolUnavailable);
    std::fs::remove_file(place.at("inside/read")).unwrap();
    std::fs::create_dir(place.at("inside/read")).unwrap();
    assert_eq!(code(&call("with_files", "read /read/note", &granted).await), FailureCode::ToolUnavailable);
    std::fs::remove_dir(place.at("inside/read")).unwrap();
    std::fs::rename(place.at("inside/old"), place.at("inside/read")).unwrap();
    assert_eq!(steps(&granted, &["read /read/note"]).await, ["inside/read"]);
}

#[tokio::test]
async fn the_environment_is_what_was_granted_and_nothing_else() {
    let environment = vec![("LANGUAGE".to_owned(), "de".to_owned()), ("EMPTY".to_owned(), String::new())];
    let granted = Arc::new(Capabilities { environment, ..Capabilities::default() });
    assert_eq!(text(&call("with_environment", "{}", &granted).await), "EMPTY=\nLANGUAGE=de");
    assert!(!format!("{granted:?}").contains("de\""), "values may be private");
    assert_eq!(text(&call("with_environment", "{}", &Arc::default()).await), "");
}

#[tokio::test]
async fn keys_are_kept_from_call_to_call_within_their_quota() {
    let quota = KeyValueQuota { value_bytes_max: 100, total_bytes_max: 30_000, keys_max: 2 * KEYS_PAGE };
    let granted =
        Arc::new(Capabilities { key_value: Some(Arc::new(MemorySpace::new(quota))), ..Capabilities::default() });
    let keys = async |steps: &str| text(&call("with_keys", steps, &granted).await).to_owned();
    assert_eq!(keys("set a one\nget a\nget b").await, "1\n1 one\nnone");
    assert_eq!(keys("get a\nswap a 1 two\nswap a 1 three\nswap new 0 x").await, "1 one\n2\nError::Conflict\n3");
    assert_eq!(keys("delete new\ndelete new\nget new").await, "()\n()\nnone");
    assert!(keys("fill a 101").await.starts_with("Error::QuotaExceeded"));
    let long = "k".repeat(257);
    for bad in ["set  x".to_owned(), format!("set {long} x"), "get a\u{7}".to_owned(), format!("list {long}")] {
        assert!(keys(&bad).await.starts_with("Error::InvalidKey"), "{bad:?}");
    }
    let fill: Vec<_> = (0..KEYS_PAGE + 1).map(|n| format!("set n{n:04} x")).collect();
    keys(&fill.join("\n")).await;
    let last = format!("n{:04}", KEYS_PAGE - 1);
    assert!(keys("list n").await.ends_with(&format!("\"{last}\"], Some(\"{last}\"))")));
    assert_eq!(keys(&format!("list n {last}")).await, format!("([\"n{:04}\"], None)", KEYS_PAGE));
}

#[tokio::test]
async fn a_write_counts_however_the_call_ends() {
    let granted =
        Arc::new(Capabilities { key_value: Some(Arc::new(MemorySpace::default())), ..Capabilities::default() });
    let report = call("with_keys", "set a one\ncrash", &granted).await;
    assert_eq!(code(&report), FailureCode::Trap);
    assert_eq!(text(&call("with_keys", "get a", &granted).await), "1 one");
}

#[tokio::test]
async fn what_is_missing_is_told_with_its_name() {
    let report = call("with_keys", "get a\nget b", &Arc::default()).await;
    assert_eq!(report.missing, [Missing::KeyValue], "once");
    assert!(text(&report).contains("key-value storage is not granted"));
    let report = call("with_requests", "GET https://api.example.org/v1?q=secret", &Arc::default()).await;
    let missing = Missing::Http { method: "GET".into(), origin: "https://api.example.org".into(), path: "/v1".into() };
    assert_eq!(report.missing, [missing]);
    assert!(text(&report).contains("HTTP to https://api.example.org is not granted to this tool for GET /v1"));
    assert!(call("echo", "{}", &Arc::default()).await.missing.is_empty());
}
