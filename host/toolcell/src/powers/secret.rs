//! Where the values of secrets come from: read when a request needs them, never kept longer than a minute.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use toolcell_policy::SecretFrom;
use toolcell_sandbox::{SecretSource, SecretValue};

/// Bytes of a file or an output that holds a secret.
const SECRET_BYTES_MAX: u64 = 16 << 10;

/// How long a command may take. One that asks a person for a password takes longer and is not for a host.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(10);

/// How long the output of a command is used: a tool sends several requests in a row.
const COMMAND_KEPT: Duration = Duration::from_secs(60);

/// How often a command is looked after.
const COMMAND_LOOK: Duration = Duration::from_millis(10);

/// The source that a policy names.
pub(super) fn source(from: &SecretFrom) -> Arc<dyn SecretSource> {
    match from.clone() {
        SecretFrom::Env(name) => Arc::new(move || value("environment variable", &std::env::var(&name).ok()?)),
        SecretFrom::File(path) => Arc::new(move || value("file", &read(&path)?)),
        SecretFrom::Command(words) => {
            let kept = Mutex::new(None::<(Instant, SecretValue)>);
            Arc::new(move || {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((at, value)) = kept.as_ref().filter(|(at, _)| at.elapsed() < COMMAND_KEPT) {
                    let _ = at;
                    return Some(value.clone());
                }
                let value = value("command", &output(&words)?)?;
                *kept = Some((Instant::now(), value.clone()));
                Some(value)
            })
        }
    }
}

fn value(kind: &str, text: &str) -> Option<SecretValue> {
    SecretValue::new(text)
        .inspect_err(|error| tracing::warn!("the value of a secret from a {kind} is not used: {error}"))
        .ok()
}

fn read(path: &Path) -> Option<String> {
    let read = std::fs::File::open(path).and_then(|file| {
        let mut text = String::new();
        file.take(SECRET_BYTES_MAX).read_to_string(&mut text).map(|_| text)
    });
    read.inspect_err(|error| tracing::warn!(file = %path.display(), "a secret cannot be read: {error}")).ok()
}

/// What a command prints. It gets no input, and what it complains of is not shown: it may quote the secret.
fn output(words: &[String]) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .inspect_err(|error| tracing::warn!(program, "a secret's command cannot be started: {error}"))
        .ok()?;
    finished(child, program)
}

fn finished(mut child: Child, program: &str) -> Option<String> {
    let stdout = child.stdout.take()?;
    let read = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.take(SECRET_BYTES_MAX).read_to_string(&mut text).ok().map(|_| text)
    });
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return read.join().ok().flatten(),
            Ok(Some(status)) => {
                tracing::warn!(program, "a secret's command failed: {status}");
                return None;
            }
            Ok(None) if began.elapsed() < COMMAND_TIME_MAX => std::thread::sleep(COMMAND_LOOK),
            _ => {
                tracing::warn!(program, "a secret's command took too long");
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(source: &SecretFrom) -> Option<SecretValue> {
        super::source(source).value()
    }

    fn secret(text: &str) -> Option<SecretValue> {
        SecretValue::new(text).ok()
    }

    #[test]
    fn a_file_is_read_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let source = super::source(&SecretFrom::File(path.clone()));
        assert_eq!(source.value(), None, "there is no file yet");
        std::fs::write(&path, "0123456789\n").unwrap();
        assert_eq!(source.value(), secret("0123456789"));
        std::fs::write(&path, "9876543210").unwrap();
        assert_eq!(source.value(), secret("9876543210"));
    }

    #[test]
    fn a_command_says_it_and_a_failing_one_says_nothing() {
        let command =
            |words: &[&str]| from(&SecretFrom::Command(words.iter().map(|word| (*word).to_owned()).collect()));
        assert_eq!(command(&["echo", "0123456789"]), secret("0123456789"));
        assert_eq!(command(&["sh", "-c", "echo 0123456789; exit 1"]), None);
        assert_eq!(command(&["/no/such/program"]), None);
        assert_eq!(command(&["sh", "-c", "yes 0123456789"]), None, "it is cut off, and no secret has two lines");
    }
}
