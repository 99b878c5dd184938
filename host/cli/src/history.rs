//! A conversation in a file: read before a run, written when the run has ended.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;
use toolcell::{Message, RunResult, RunStatus};

use crate::exit::HostFailure;
use crate::output::note;
use crate::printable::printable;

/// A file with a JSON array of messages, as `messages` in the result of a run.
pub(crate) struct History {
    path: PathBuf,
}

impl History {
    /// The conversation so far; empty when there is no such file.
    pub(crate) fn open(path: &Path) -> anyhow::Result<(Self, Vec<Message>)> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => b"[]".to_vec(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let messages = serde_json::from_slice(&text)
            .with_context(|| format!("{} does not hold a conversation (a JSON array of messages)", path.display()))?;
        Ok((Self { path: path.to_owned() }, messages))
    }

    /// Writes the longer conversation. A run that waits, failed or was cancelled leaves the file as it was, so that the
    /// same command goes on from the same place.
    pub(crate) fn close(&self, result: &RunResult) -> anyhow::Result<()> {
        let path = printable(&self.path.display().to_string());
        match result.status() {
            RunStatus::Done | RunStatus::Incomplete => {
                self.write(&result.messages).with_context(|| format!("cannot write {path}")).context(HostFailure)
            }
            RunStatus::Pending | RunStatus::Failed | RunStatus::Cancelled => {
                note!("{path} stays as it was: it does not hold this run");
                Ok(())
            }
        }
    }

    /// Beside the file and renamed, so that it is whole at every moment; only its owner may read it.
    fn write(&self, messages: &[Message]) -> anyhow::Result<()> {
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = NamedTempFile::new_in(dir)?;
        serde_json::to_writer(&mut file, messages)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}
