//! Every statement of the store is about one tenant, except for those that are listed here with what they are for (STO-13).
//! And no time but the database's counts (PND-21).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Where a statement is about all tenants, and how it begins.
const ACROSS: [(&str, &str); 17] = [
    // Whose turn it is, among all tenants.
    (
        "claims.rs",
        "select tenant, id as run, status, epoch, stalls, (select max(version) from toolcell_schema) as schema from run \
         where status = 'running' and lease_until < {now}",
    ),
    (
        "claims.rs",
        "select tenant, id as run, status, epoch, stalls, (select max(version) from toolcell_schema) as schema from run \
         where status = 'ready' order by prio",
    ),
    ("tenants.rs", "select (select prio from run where status = 'ready' order by prio, created_at limit 1) as first"),
    // The clock is everybody's.
    (
        "sweep.rs",
        "select tenant, run as run, id, expires_at from suspension where state = 'open' and expires_at <= {now}",
    ),
    ("sweep.rs", "select tenant, id as run from run where status = 'running' and lease_until < {now}"),
    ("sweep.rs", "select tenant, id as run from (select tenant, id, updated_at from run where status = 'ready'"),
    ("sweep.rs", "select tenant, id as run from run where status = 'stalled' and retry_at <= {now}"),
    ("sweep.rs", "delete from run where (tenant, id) in (select tenant, id from run where purge_at <= {now}"),
    (
        "sweep.rs",
        "delete from standing_grant where (tenant, id) in (select tenant, id from standing_grant where expires_at",
    ),
    ("sweep.rs", "delete from component where digest in (select digest from component where kept_at < {now}"),
    // The tables themselves.
    ("sweep.rs", "select max(version) as version from toolcell_schema"),
    // Components are found by what they are.
    ("tenants.rs", "insert into component"),
    ("tenants.rs", "select bytes from component where digest = $1"),
    // Notices are told by the host, under ids that it made.
    ("notices.rs", "select o.id as id, o.tenant as tenant, o.topic as topic, o.body as body, o.attempts as attempts"),
    ("notices.rs", "update outbox set attempts"),
    ("notices.rs", "delete from outbox where id = $1"),
    ("notices.rs", "update outbox set due_at"),
];

/// Statements of the tables themselves and of the databases' settings.
const NO_ROWS: [&str; 2] = ["migrate.rs", "place.rs"];

fn sources() -> Vec<(String, String)> {
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let read = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
    };
    files.map(|file| read(file.unwrap().path())).collect()
}

/// The statements in a source: text between quotes that begins as one, on one line.
fn statements(source: &str) -> Vec<String> {
    let words = ["select ", "insert ", "update ", "delete "];
    // Quotes that begin no text.
    let source = source.replace("'\"'", "").replace("\\\"", "");
    let texts = source.split('"').skip(1).step_by(2);
    let joined = texts.map(|text| text.split("\\\n").map(str::trim).collect::<Vec<_>>().join(" "));
    joined.filter(|text| words.iter().any(|word| text.starts_with(word))).collect()
}

/// Whether a statement reaches the rows of one tenant alone.
fn is_of_one(statement: &str) -> bool {
    let of_tenant = ["from tenant where id = $1", "update tenant set", "insert into tenant "];
    let is_tenant = of_tenant.iter().any(|begin| statement.contains(begin)) && statement.contains("$1");
    let is_insert = statement.starts_with("insert into ") && statement.contains("tenant");
    is_tenant || is_insert || statement.contains("tenant = $1")
}

#[test]
fn a_statement_is_about_one_tenant_or_listed_as_one_about_all() {
    let mut seen = BTreeSet::new();
    let mut count = 0;
    for (file, source) in sources().into_iter().filter(|(file, _)| !NO_ROWS.contains(&file.as_str())) {
        for statement in statements(&source) {
            count += 1;
            match ACROSS.iter().find(|(place, begin)| *place == file && statement.starts_with(begin)) {
                Some(listed) => drop(seen.insert(*listed)),
                // The clock, a sign of life and NOTIFY have no rows.
                None if statement.starts_with("select {now}")
                    || statement == "select 1"
                    || statement.contains("pg_notify") => {}
                None => assert!(is_of_one(&statement), "{file}: {statement}"),
            }
        }
    }
    assert!(count > 75, "they are found: {count}");
    let gone: Vec<_> = ACROSS.iter().filter(|listed| !seen.contains(*listed)).collect();
    assert!(gone.is_empty(), "no longer there: {gone:?}");
}

#[test]
fn no_clock_of_the_host_is_read() {
    for (file, source) in sources() {
        for clock in ["now_utc", "now_local", "SystemTime::now", "unix_epoch"] {
            assert!(!source.contains(clock), "{file} reads the host's clock: {clock}");
        }
    }
}
