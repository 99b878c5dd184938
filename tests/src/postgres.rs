//! A real PostgreSQL for tests: Debian's binaries, a cluster of its own in a temporary directory, on a free port, run by a
//! plain user, and gone with the test.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(60);

/// A server.
pub struct Postgres {
    bin: PathBuf,
    dir: TempDir,
    port: u16,
    user: Option<(u32, u32)>,
    /// Ends with its standard input, and the server with it.
    child: Child,
}

/// The server of this test program, started by the first that asks. None, with a note, where PostgreSQL is not installed;
/// under CI that is a failure.
pub fn shared() -> Option<&'static Postgres> {
    static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
    SHARED.get_or_init(|| find().map(|bin| Postgres::start(&bin))).as_ref()
}

/// Where the newest server's binaries are.
fn find() -> Option<PathBuf> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = installed
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").exists() && bin.join("postgres").exists())
        .max_by_key(|bin| version_of(bin));
    if newest.is_none() {
        let help = "PostgreSQL is not installed: apt-get install --no-install-recommends postgresql";
        assert!(std::env::var_os("CI").is_none(), "{help}");
        eprintln!("NOTE: nothing was tested with PostgreSQL. {help}");
    }
    newest
}

fn version_of(bin: &Path) -> u32 {
    let version = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// A server of one test's own, which may do with it what others could not bear. None where PostgreSQL is not installed.
pub fn own() -> Option<Postgres> {
    find().map(|bin| Postgres::start(&bin))
}

impl Postgres {
    fn start(bin: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("pg-").tempdir_in("/tmp").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let user = plain_user();
        if let Some((uid, gid)) = user {
            chown(dir.path(), Some(uid), Some(gid)).unwrap();
        }
        let data = dir.path().join("data");
        let made = command(&bin.join("initdb"), user, dir.path())
            .args(["--username=toolcell", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = free_port();
        // The shell ends the server when this program is gone, however it went, and removes what it leaves: what is shared is
        // never dropped. It does not go with the program when somebody presses Ctrl-C. A server that was restarted is no child
        // of the shell; it is known by its file, which goes with it.
        let script = r#"trap '' INT TERM HUP
            "$0" "$@" & server=$!
            cat >/dev/null
            pid=data/postmaster.pid
            kill -INT "$(head -n 1 $pid)"; wait $server
            tries=0
            while [ -e $pid ] && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
            cd /; rm -rf "$PGTEST_DIR""#;
        let child = command(Path::new("/bin/sh"), user, dir.path())
            .args(["-c", script])
            .env("PGTEST_DIR", dir.path())
            .arg(bin.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-k"])
            .arg(dir.path())
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=200"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let server = Self { bin: bin.to_owned(), dir, port, user, child };
        let began = Instant::now();
        while server.sql("postgres", "select 1").is_err() {
            let log = || fs::read_to_string(server.dir.path().join("log")).unwrap_or_default();
            assert!(began.elapsed() < START_MAX, "PostgreSQL does not start: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// Ends the server as a crash would, in the middle of whatever it does, and starts it again.
    pub fn restart(&self) {
        let ran = command(&self.bin.join("pg_ctl"), self.user, self.dir.path())
            .args(["restart", "-m", "immediate", "-w", "-t", "60", "-l", "restart.log", "-D", "data"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(ran.success(), "{}", fs::read_to_string(self.dir.path().join("restart.log")).unwrap_or_default());
    }

    /// Where it listens, on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a new, empty database.
    pub fn database(&self) -> String {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("create database {name}")).unwrap();
        format!("postgres://toolcell@127.0.0.1:{}/{name}", self.port)
    }

    /// Runs SQL in a database, given by its name or URL, and returns what it prints.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let name = database.rsplit('/').next().unwrap_or(database);
        let ran = command(&self.bin.join("psql"), self.user, self.dir.path())
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "toolcell", "-d", name])
            .args(["-v", "ON_ERROR_STOP=1", "-qtA", "-c", sql])
            .output()
            .map_err(|error| error.to_string())?;
        if ran.status.success() {
            Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&ran.stderr).into_owned())
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The server refuses to be run by root.
fn plain_user() -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0).unwrap_or(false);
    if !is_root {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line =
        users.lines().find(|line| line.starts_with("postgres:")).expect("Debian's package makes a user postgres");
    let mut fields = line.split(':').skip(2).map(|number| number.parse().unwrap());
    Some((fields.next().unwrap(), fields.next().unwrap()))
}

fn command(program: &Path, user: Option<(u32, u32)>, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env("LC_ALL", "C").env("PGCONNECT_TIMEOUT", "5");
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    /// Set in a test program that another one has begun.
    const INNER: &str = "TOOLCELL_TEST_POSTGRES_INNER";

    #[test]
    fn nothing_is_left_of_a_server_however_its_program_ends() {
        if find().is_none() {
            return;
        }
        for is_killed in [false, true] {
            let mut inner = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "postgres::tests::a_program_that_uses_the_shared_server", "--nocapture"])
                .env(INNER, "1")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut told = BufReader::new(inner.stdout.take().unwrap()).lines().map_while(Result::ok);
            let dir = told.find_map(|line| line.split_once("server in ").map(|(_, dir)| PathBuf::from(dir)));
            let dir = dir.expect("it says where its server is");
            assert!(dir.join("data").exists());
            if is_killed {
                inner.kill().unwrap();
            }
            drop(inner.stdin.take());
            inner.wait().unwrap();
            let began = Instant::now();
            while dir.exists() {
                assert!(began.elapsed() < START_MAX, "{} is left, killed: {is_killed}", dir.display());
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    #[test]
    fn a_program_that_uses_the_shared_server() {
        if std::env::var_os(INNER).is_some() {
            println!("server in {}", shared().unwrap().dir.path().display());
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        }
    }
}
