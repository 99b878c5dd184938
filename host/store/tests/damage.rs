//! Stores that are damaged, full, away, of another version or of another program: nothing is lost or overwritten, and the
//! message says what to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};

use support::Place;
use toolcell_agent::{
    Answered, Message, NewRun, Page, RunKey, RunStatus, RunStore as _, Slot, SlotState, Step, StoreError, StoredStatus,
    Tenant,
};
use toolcell_contract::Answer;
use toolcell_store::{Options, SqlStore, open_with, verify_audit};
use toolcell_tests::postgres;

fn new_run(text: &str) -> NewRun {
    let key = RunKey::fresh(Tenant::local());
    NewRun { key, system: None, messages: vec![Message::user(text)], model: "m".into() }
}

async fn file_with(runs: usize) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.db").to_str().unwrap().to_owned();
    let store = open_with(&path, Options::default()).await.unwrap();
    for number in 0..runs {
        store.create(new_run(&format!("{number} {}", "word ".repeat(400)))).await.unwrap();
    }
    store.close().await;
    (dir, path)
}

/// Opens a file that must be refused, and proves that it was left alone.
async fn refused(path: &str) -> StoreError {
    let before = std::fs::read(path).unwrap();
    let error = open_with(path, Options::default()).await.expect_err("it is refused");
    assert!(before == std::fs::read(path).unwrap(), "the file was changed: {error}");
    error
}

async fn count(store: &SqlStore) -> usize {
    store.runs(&Tenant::local(), Page { after: None, limit: 1_000 }).await.unwrap().len()
}

#[tokio::test]
async fn a_file_of_a_later_version_is_refused_and_left_as_it_is() {
    let (_dir, path) = file_with(1).await;
    let store = open_with(&path, Options::default()).await.unwrap();
    store.meddle("update toolcell_schema set version = 99").await.unwrap();
    store.close().await;
    let error = refused(&path).await;
    assert!(matches!(error, StoreError::Newer { found: 99, known: 4 }), "{error}");
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused() {
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    open_with(&url, Options::default()).await.unwrap().close().await;
    server.sql(&url, "update toolcell_schema set version = 99").unwrap();
    let error = open_with(&url, Options::default()).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, known: 4 }), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_as_it_is() {
    // STO-04.
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("header", |bytes| bytes[..16].fill(b'x')),
        ("middle", |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle..].fill(0xa5);
        }),
        ("truncated", |bytes| bytes.truncate(bytes.len() / 2)),
        ("notes", |bytes| *bytes = "not a database at all\n".repeat(100).into_bytes()),
    ];
    for (name, damage) in damages {
        let (_dir, path) = file_with(30).await;
        let mut bytes = std::fs::read(&path).unwrap();
        damage(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let error = refused(&path).await;
        assert!(matches!(error, StoreError::Damaged { .. }), "{name}: {error:?}");
        assert!(error.to_string().contains("restore"), "{name}: it says what to do: {error}");
    }
}

#[tokio::test]
async fn what_is_not_ours_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (_other, path) = file_with(0).await;
    let store = open_with(&path, Options::default()).await.unwrap();
    for table in ["outbox", "audit", "standing_grant", "suspension", "call", "event", "component", "toolcell_schema"] {
        store.meddle(&format!("drop table {table}")).await.unwrap();
    }
    store.close().await;
    let error = refused(&path).await;
    assert!(error.to_string().contains("another program"), "{error}");

    let link = dir.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let error = open_with(link.to_str().unwrap(), Options::default()).await.unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    let error = open_with(dir.path().to_str().unwrap(), Options::default()).await.unwrap_err();
    assert!(error.to_string().contains("no file"), "{error}");
}

#[tokio::test]
async fn an_empty_file_is_what_is_left_of_a_store_and_not_begun_anew() {
    // STO-04.
    let (_dir, path) = file_with(3).await;
    std::fs::write(&path, "").unwrap();
    let began = Instant::now();
    let error = refused(&path).await;
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("restore"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "it waits for nobody");
}

#[test]
fn what_must_not_be_read_or_written_is_refused_with_what_to_do() {
    // STO-04: wrong permissions.
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), 0o755);
    let run = tokio::runtime::Runtime::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    run.block_on(async {
        for name in ["read.db", "closed.db"] {
            open_with(&path(name), Options::default()).await.unwrap().close().await;
        }
    });
    set_mode(Path::new(&path("read.db")), 0o444);
    set_mode(Path::new(&path("closed.db")), 0o000);
    set_mode(dir.path(), 0o555);
    let before = ["read.db", "closed.db"].map(|name| std::fs::read(path(name)).ok());
    for name in ["read.db", "closed.db", "new.db", "new/deep.db"] {
        let path = path(name);
        let error = as_plain_user(move || {
            let run = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            run.block_on(open_with(&path, Options::default())).map(drop)
        });
        let error = error.expect_err(name);
        assert!(matches!(error, StoreError::Unavailable { .. }), "{name}: {error:?}");
        let message = error.to_string();
        assert!(message.contains("rights") || message.contains("ermission"), "{name}: {message}");
        assert!(message.contains(name.split('/').next().unwrap()), "{name}: it says which file: {message}");
    }
    set_mode(dir.path(), 0o755);
    assert!(
        before == ["read.db", "closed.db"].map(|name| std::fs::read(path(name)).ok()),
        "they are left as they were"
    );
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Does something with the rights of nobody in particular: root may read and write everything.
fn as_plain_user<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    /// Debian's `nobody`.
    const NOBODY: u32 = 65_534;
    let thread = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            // Of this thread, and of those that it begins.
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).unwrap();
        }
        work()
    });
    thread.join().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_the_file_in_use_is_told_so_in_time() {
    // STO-07: another process writes for long.
    let (_dir, path) = file_with(1).await;
    let wait_max = Duration::from_millis(400);
    let store = open_with(&path, Options { wait_max, ..Options::default() }).await.unwrap();
    let mut other = inner("a_process_that_writes_for_long", &path);
    other.wait_until_ready();
    let began = Instant::now();
    let error = store.create(new_run("go")).await.unwrap_err();
    let waited = began.elapsed();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(waited >= wait_max && waited < 3 * wait_max, "{waited:?}");
    assert_eq!(count(&store).await, 1, "who only reads does not wait");
    other.end();
    store.create(new_run("go on")).await.unwrap();
}

/// Another process of a test: this program, doing one thing with a file.
struct Inner {
    child: std::process::Child,
    told: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

/// Set in a program that another one has begun: the file that it is to use.
const INNER: &str = "TOOLCELL_TEST_STORE_INNER";

/// What an inner program says when it is at its point.
const READY: &str = "inner: ";

/// Begins another process.
fn inner(test: &str, path: &str) -> Inner {
    use std::io::BufRead as _;
    // The shell sets what is inherited: files of at most 1 MiB, and no signal when one would be larger.
    let script = r#"trap '' XFSZ; [ -z "$LIMIT" ] || ulimit -f "$LIMIT"; exec "$0" "$@""#;
    let mut child = std::process::Command::new("/bin/sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INNER, path)
        .env("LIMIT", if test.contains("full") { "2048" } else { "" })
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let told = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    Inner { child, told }
}

impl Inner {
    /// What it says at its point.
    fn wait_until_ready(&mut self) -> String {
        let mut told = self.told.by_ref().map_while(Result::ok);
        told.find_map(|line| line.split_once(READY).map(|(_, said)| said.to_owned())).expect("it gets to its point")
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// In an inner program: the file that it is to use. None when this is no inner program.
fn inner_path() -> Option<String> {
    std::env::var(INNER).ok()
}

/// In an inner program: says that it is at its point, and waits to be ended.
fn ready(said: &str) {
    println!("{READY}{said}");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

#[tokio::test]
async fn a_process_that_writes_for_long() {
    let Some(path) = inner_path() else { return };
    let mut connection = raw(&path).await;
    sqlx::raw_sql("begin immediate").execute(&mut connection).await.unwrap();
    ready("writing");
}

/// Writes runs until there is no room. How many, and what was said then.
async fn write_until_the_disk_is_full(store: &SqlStore) -> (usize, StoreError) {
    let mut written = 0;
    let error = loop {
        match store.create(new_run(&"x".repeat(20_000))).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 1_000, "the disk is never full");
    };
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    (written, error)
}

#[tokio::test]
async fn a_process_whose_disk_is_full() {
    let Some(path) = inner_path() else { return };
    let store = open_with(&path, Options::default()).await.unwrap();
    let (written, error) = write_until_the_disk_is_full(&store).await;
    assert_eq!(count(&store).await, written, "no half of a run");
    ready(&format!("{written} {error}"));
    std::process::exit(0);
}

/// A connection of another program's.
async fn raw(path: &str) -> sqlx::SqliteConnection {
    use sqlx::Connection as _;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
    sqlx::SqliteConnection::connect_with(&options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_full_disk_kept_is_there_when_there_is_room() {
    // STO-03: the system itself says no, in the middle of a file.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.db").to_str().unwrap().to_owned();
    let mut full = inner("a_process_whose_disk_is_full", &path);
    let said = full.wait_until_ready();
    let (written, message) = said.split_once(' ').unwrap();
    assert!(message.contains("room") && message.contains("goes on"), "it says what to do: {message}");
    full.end();
    let store = open_with(&path, Options::default()).await.unwrap();
    let written: usize = written.parse().unwrap();
    assert!(written > 10, "{written}");
    assert_eq!(count(&store).await, written, "all that was said to be written");
    store.create(new_run("again")).await.unwrap();
    assert_eq!(count(&store).await, written + 1);
}

#[test]
fn what_can_no_longer_be_written_is_whole_when_its_rights_are_given_back() {
    // Rights that were taken away from a file in a directory that can be written.
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), 0o777);
    let path = dir.path().join("runs.db").to_str().unwrap().to_owned();
    as_plain_user(move || {
        let run = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        run.block_on(async {
            let store = open_with(&path, Options::default()).await.unwrap();
            store.create(new_run("before")).await.unwrap();
            store.close().await;
            set_mode(Path::new(&path), 0o444);
            let error = open_with(&path, Options::default()).await.map(drop).unwrap_err();
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
            let message = error.to_string();
            assert!(message.contains("rights") && message.contains(&path), "it says what to do: {message}");
            assert!(!Path::new(&format!("{path}-wal")).exists(), "nothing is left beside it");
            set_mode(Path::new(&path), 0o600);
            let store = open_with(&path, Options::default()).await.unwrap();
            store.create(new_run("after")).await.unwrap();
            assert_eq!(count(&store).await, 2, "nothing is lost");
            store.close().await;
        });
    });
}

#[tokio::test]
async fn a_large_file_is_opened_without_reading_all_of_it_and_its_damage_is_told_when_it_is_met() {
    use std::os::unix::fs::FileExt as _;
    // Larger than what is looked at whole.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.db").to_str().unwrap().to_owned();
    let store = open_with(&path, Options::default()).await.unwrap();
    let runs: Vec<_> = (0..18).map(|number| new_run(&format!("{number} {}", "x".repeat(4 << 20)))).collect();
    for run in &runs {
        store.create(run.clone()).await.unwrap();
    }
    store.close().await;
    let length = std::fs::metadata(&path).unwrap().len();
    assert!(length > 64 << 20, "{length}");
    // Some pages in the middle.
    let (damage, garbage) = (length / 2 / 4_096 * 4_096, vec![0xa5; 40_960]);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&garbage, damage).unwrap();
    let store = open_with(&path, Options::default()).await.expect("it is told when it is met");
    let mut damaged = 0;
    for run in &runs {
        match store.run(&run.key).await {
            Ok(read) => assert!(read.messages == run.messages, "what can be read is right"),
            Err(StoreError::Damaged { .. }) => damaged += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(damaged, 1);
    // Others are worked for, and what is damaged is left for somebody to mend.
    for _ in 0..3 {
        store.create(new_run(&"y".repeat(1 << 20))).await.unwrap();
    }
    store.close().await;
    let mut found = vec![0; garbage.len()];
    std::fs::File::open(&path).unwrap().read_exact_at(&mut found, damage).unwrap();
    assert!(found == garbage, "it was overwritten");
    // What has lost its end is refused all the same.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length * 3 / 4).unwrap();
    let error = refused(&path).await;
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_text_is_refused_before_one_comes() {
    // STO-14.
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    let make = "create database latin encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'";
    server.sql("postgres", make).unwrap();
    let url = format!("{}/latin", url.rsplit_once('/').unwrap().0);
    let error = open_with(&url, Options::default()).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("UTF8"), "{error}");
}

#[tokio::test]
async fn an_empty_file_beside_a_log_of_changes_is_not_begun_anew() {
    let (dir, path) = file_with(0).await;
    std::fs::write(&path, "").unwrap();
    std::fs::write(dir.path().join("runs.db-wal"), "what was not written yet").unwrap();
    let error = refused(&path).await;
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn a_log_that_was_cut_off_loses_nothing_that_came_before_the_cut() {
    // STO-05: as after a crash, the log is there and its end is torn.
    let (dir, path) = file_with(3).await;
    let store = open_with(&path, Options::default()).await.unwrap();
    for number in 0..20 {
        store.create(new_run(&format!("later {number}"))).await.unwrap();
    }
    let copy = dir.path().join("crashed.db");
    std::fs::copy(&path, &copy).unwrap();
    let log = std::fs::read(format!("{path}-wal")).unwrap();
    std::fs::write(dir.path().join("crashed.db-wal"), &log[..log.len() / 2]).unwrap();
    let crashed = open_with(copy.to_str().unwrap(), Options::default()).await.unwrap();
    let found = count(&crashed).await;
    assert!((3..23).contains(&found), "{found} of 23 runs");
    crashed.create(new_run("and it goes on")).await.unwrap();
    assert_eq!(count(&crashed).await, found + 1);
}

#[tokio::test]
async fn the_file_is_for_nobody_else_to_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new/deep/runs.db");
    let store = open_with(path.to_str().unwrap(), Options::default()).await.unwrap();
    store.create(new_run("go")).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_file_name("runs.db-wal")), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_room() {
    // STO-03.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runs.db").to_str().unwrap().to_owned();
    // One connection: the limit is the connection's own.
    let options = Options { connections_max: NonZeroU32::new(1).unwrap(), ..Options::default() };
    let store = open_with(&path, options).await.unwrap();
    store.limit_pages(120).await.unwrap();
    let (written, error) = write_until_the_disk_is_full(&store).await;
    assert!(error.to_string().contains("no room"), "{error}");
    assert_eq!(count(&store).await, written, "no half of a run");
    store.limit_pages(100_000).await.unwrap();
    store.create(new_run("again")).await.unwrap();
    assert_eq!(count(&store).await, written + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_is_made_anew() {
    // STO-09.
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    let store = open_with(&url, Options::default()).await.unwrap();
    store.create(new_run("before")).await.unwrap();
    let name = url.rsplit('/').next().unwrap();
    let kill = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}' and pid <> pg_backend_pid()"
    );
    server.sql("postgres", &kill).unwrap();
    let mut tries = 0;
    while let Err(error) = store.create(new_run("after")).await {
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        tries += 1;
        assert!(tries < 20, "it does not come back: {error}");
    }
    assert_eq!(count(&store).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_goes_on_to_be_woken_after_its_connection_was_lost() {
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    let (listener, writer) =
        (open_with(&url, Options::default()).await.unwrap(), open_with(&url, Options::default()).await.unwrap());
    let listens = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'";
    let wait_for = async |count: &str| {
        let began = Instant::now();
        while server.sql(&url, listens).unwrap() != count {
            assert!(began.elapsed() < Duration::from_secs(20), "{count} connections listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    wait_for("2").await;
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query ilike \
                'listen%'";
    server.sql(&url, kill).unwrap();
    wait_for("2").await;
    let mut wakes = listener.wakes();
    let run = new_run("go");
    let key = run.key.clone();
    writer.create(run).await.unwrap();
    let told = async { while wakes.recv().await.unwrap().0.as_ref() != Some(&key) {} };
    tokio::time::timeout(Duration::from_secs(20), told).await.expect("it is told of the run");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_all_connections_in_use_is_told_so_in_time() {
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    let options = Options {
        connections_max: NonZeroU32::new(2).unwrap(),
        wait_max: Duration::from_millis(300),
        ..Options::default()
    };
    let store = open_with(&url, options).await.unwrap();
    let blocker = std::thread::spawn({
        let url = url.clone();
        move || server.sql(&url, "begin; lock table run in access exclusive mode; select pg_sleep(3); commit;").unwrap()
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    let tries = (0..6).map(|_| store.create(new_run("go")));
    let results = futures::future::join_all(tries).await;
    let refused = results.iter().filter(|result| matches!(result, Err(StoreError::Unavailable { .. }))).count();
    assert!(refused >= 4 && began.elapsed() < Duration::from_secs(10), "{refused} {results:?}");
    blocker.join().unwrap();
    store.create(new_run("go on")).await.unwrap();
}

#[tokio::test]
async fn the_log_beside_a_damaged_file_is_not_written_into_it() {
    // As after a crash: the log is there, and the file it belongs to was damaged since.
    let (dir, path) = file_with(30).await;
    let store = open_with(&path, Options::default()).await.unwrap();
    store.create(new_run("in the log")).await.unwrap();
    let (copy, log) = (dir.path().join("crashed.db"), dir.path().join("crashed.db-wal"));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xa5);
    std::fs::write(&copy, bytes).unwrap();
    std::fs::copy(format!("{path}-wal"), &log).unwrap();
    let before = std::fs::read(&log).unwrap();
    assert!(!before.is_empty());
    let error = refused(copy.to_str().unwrap()).await;
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    assert!(before == std::fs::read(&log).unwrap(), "what it takes to mend it is there still");
}

#[tokio::test]
async fn an_internal_error_of_the_server_is_no_damage() {
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    let store = open_with(&url, Options::default()).await.unwrap();
    for (code, is_damage) in [("XX000", false), ("XX001", true), ("XX002", true)] {
        let raise = format!("do $$ begin raise exception 'so' using errcode = '{code}'; end $$");
        let error = store.meddle(&raise).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Damaged { .. }), is_damage, "{code}: {error:?}");
        assert!(!error.to_string().contains("sqlite"), "{error}");
        assert!(!is_damage || error.to_string().contains("restore"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_begin_while_another_changes_the_tables_wait_for_it() {
    // Longer than any statement may wait for a lock, had the wait been limited: the settings are those of the connection.
    let Some(server) = postgres::shared() else { return };
    let url = server.database();
    server
        .sql("postgres", &format!("alter database {} set lock_timeout = 200", url.rsplit('/').next().unwrap()))
        .unwrap();
    let lock = 0x746f_6f6c_6365_6c6c_i64;
    let blocker = std::thread::spawn({
        let url = url.clone();
        move || {
            server
                .sql(&url, &format!("begin; select pg_advisory_xact_lock({lock}); select pg_sleep(2); commit"))
                .unwrap()
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    open_with(&url, Options::default()).await.unwrap().close().await;
    blocker.join().unwrap();
    let (_dir, path) = {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runs.db").to_str().unwrap().to_owned();
        (dir, path)
    };
    open_with(&path, Options::default()).await.unwrap().close().await;
    let mut connection = raw(&path).await;
    // As a host of the version before finds it, with another one at work on it.
    sqlx::raw_sql("begin immediate; update toolcell_schema set version = 3").execute(&mut connection).await.unwrap();
    sqlx::raw_sql("commit; begin immediate; update toolcell_schema set version = 4")
        .execute(&mut connection)
        .await
        .unwrap();
    let opening = tokio::spawn(async move {
        let options = Options { wait_max: Duration::from_millis(200), ..Options::default() };
        open_with(&path, options).await.map(drop)
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!opening.is_finished(), "it waits for longer than a transaction does");
    sqlx::raw_sql("commit").execute(&mut connection).await.unwrap();
    opening.await.unwrap().unwrap();
}

/// Stores as an earlier version wrote them: tables and rows, on each database.
async fn of_schema(schema: i64) -> Vec<Place> {
    let fixture = |name: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
    };
    let tables = fixture(&format!("schema_{schema}_tables.sql"));
    let rows = fixture(&format!("schema_{schema}.sql"));
    let places: Vec<_> = [Place::sqlite().await, Place::postgres().await].into_iter().flatten().collect();
    for place in &places {
        let (blob, bytes) = match place {
            Place::Postgres(_) => ("bytea", ["'\\x", "'"]),
            _ => ("blob", ["x'", "'"]),
        };
        let rows = rows.replace("{bytes:", bytes[0]).replace(":bytes}", bytes[1]);
        let version = "create table toolcell_schema (version bigint not null);\n";
        let sql = format!("{}{version}{rows}", tables.replace("{blob}", blob));
        match place {
            Place::Postgres(url) => drop(postgres::shared().unwrap().sql(url, &sql).unwrap()),
            _ => drop(sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut raw(&place.address()).await).await.unwrap()),
        }
    }
    places
}

#[tokio::test]
async fn a_store_of_the_first_schema_is_read_and_goes_on() {
    // Rule R26: tables and rows as that version wrote them.
    for place in of_schema(1).await {
        let store = place.open().await;
        place.sql("update suspension set expires_at = 4102444800000000").await;
        let tenant = Tenant::local();
        let [asked] = &store.questions(&tenant, Page::default()).await.unwrap()[..] else { panic!("one question") };
        assert_eq!(asked.question.tool, "purchase");
        assert_eq!(verify_audit(store.as_ref(), &tenant).await.unwrap(), Ok(2));
        let run = store.run(&asked.key).await.unwrap();
        assert_eq!((run.head.status, run.replies.len()), (StoredStatus::Pending, 1));
        let SlotState::Suspended { open, decision: None } = &run.calls[0].state else { panic!("{run:?}") };
        assert!(open.state.is_some() && open.digest.is_some());
        let yes = Answer::approve(&asked.question.request.id).into();
        assert_eq!(store.answer(&tenant, yes).await.unwrap(), Answered::First(asked.key.clone()));
        assert!(store.claim("w", Duration::from_secs(5), None).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_store_of_the_second_schema_is_read_and_goes_on() {
    // Rule R26.
    for place in of_schema(2).await {
        let store = place.open().await;
        place.sql("update suspension set expires_at = 4102444800000000").await;
        let tenant = Tenant::local();
        assert_eq!(verify_audit(store.as_ref(), &tenant).await.unwrap(), Ok(10));
        let [over, left] = &store.runs(&tenant, Page::default()).await.unwrap()[..] else { panic!("two runs") };
        let (left, over) = if left.status == StoredStatus::Running { (left, over) } else { (over, left) };
        assert_eq!(over.status, StoredStatus::Ended(RunStatus::Done));
        assert_eq!(store.run(&over.key).await.unwrap().end.unwrap().text, "all");
        let SlotState::Executing { waited: Some(_) } = store.run(&left.key).await.unwrap().calls[0].state else {
            panic!("the first call is under way with its answer")
        };
        // Its worker was lost when the host was brought up to date.
        place.sql("update run set lease_until = 1 where status = 'running'").await;
        let claimed = store.claim("w", Duration::from_secs(5), None).await.unwrap().expect("it goes on");
        assert_eq!((&claimed.lease.key, claimed.lease.epoch), (&left.key, 3));
        assert_eq!(claimed.run.calls.iter().map(|call| call.attempts).collect::<Vec<_>>(), [2, 1, 0]);
        let executing = Step::Executing { slot: Slot { turn: 0, place: 0 } };
        store.write(&claimed.lease, executing).await.unwrap();
        let [asked] = &store.questions(&tenant, Page::default()).await.unwrap()[..] else { panic!("one question") };
        let [grant] = &store.grants(&tenant).await.unwrap()[..] else { panic!("one grant") };
        assert_eq!((grant.id.as_str(), grant.uses), ("grt-1", Some(2)));
        let digest = asked.question.digest.unwrap();
        assert_eq!(store.component(digest).await.unwrap().as_deref(), Some(&b"\0asm"[..]));
        assert_eq!(store.use_grant(&left.key, &asked.question).await.unwrap().unwrap().uses, Some(1));
        let topics = store.notices(10, Duration::from_secs(5)).await.unwrap();
        assert_eq!(topics.iter().map(|notice| notice.topic.as_str()).collect::<Vec<_>>(), ["run.done", "run.pending"]);
    }
}
