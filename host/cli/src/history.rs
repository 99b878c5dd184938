//! A conversation in a file: read before a run, written when the run has ended.
//!
//! The file is JSON, of one of two forms:
//!  - `{"messages": […], "window": {…}}`, which is what is written: the messages as in the result of a run, and how much
//!    of them the model was sent at last. A file without `window` is sent whole, as far as it fits.
//!  - `[…]`: the messages alone.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use toolcell::{Message, RunResult, RunStatus, Window};

use crate::exit::HostFailure;
use crate::output::note;
use crate::printable::printable;

/// What is in the file.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Saved<M = Vec<Message>> {
    pub(crate) messages: M,
    #[serde(default)]
    pub(crate) window: Window,
}

impl Saved {
    fn read(text: &[u8]) -> serde_json::Result<Self> {
        if text.trim_ascii_start().starts_with(b"[") {
            let messages = serde_json::from_slice(text)?;
            return Ok(Self { messages, window: Window::default() });
        }
        serde_json::from_slice(text)
    }
}

/// The file.
pub(crate) struct History {
    path: PathBuf,
    /// What was in it; none: it was not there.
    before: Option<Vec<u8>>,
}

impl History {
    /// The conversation so far; empty when there is no such file.
    pub(crate) fn open(path: &Path) -> anyhow::Result<(Self, Saved)> {
        let before = match std::fs::read(path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let saved = before.as_deref().map_or_else(|| Ok(Saved::default()), Saved::read);
        let saved =
            saved.with_context(|| format!("{} does not hold a conversation (messages in JSON)", path.display()))?;
        // A link stays one.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let history = Self { path, before };
        // Said now: afterwards the conversation would be lost.
        history.beside().with_context(|| format!("cannot write {}", history.path.display()))?;
        Ok((history, saved))
    }

    /// Writes the longer conversation. A run that waits, failed or was cancelled leaves the file as it was, so that the
    /// same command goes on from the same place.
    pub(crate) fn close(&self, result: &RunResult) -> anyhow::Result<()> {
        let path = printable(&self.path.display().to_string());
        match result.status() {
            RunStatus::Done | RunStatus::Incomplete => {
                let saved = Saved { messages: result.messages.as_slice(), window: result.window };
                self.write(&saved).with_context(|| format!("cannot write {path}")).context(HostFailure)
            }
            RunStatus::Pending | RunStatus::Failed | RunStatus::Cancelled => {
                note!("{path} stays as it was: it does not hold this run");
                Ok(())
            }
        }
    }

    /// Beside the file and renamed, so that it is whole at every moment; only its owner may read it.
    fn write(&self, saved: &Saved<&[Message]>) -> anyhow::Result<()> {
        let mut file = self.beside()?;
        serde_json::to_writer(&mut file, saved)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        if std::fs::read(&self.path).ok() != self.before {
            let (_, kept) = file.keep()?;
            anyhow::bail!("somebody else has written it meanwhile; this conversation is in {}", kept.display());
        }
        file.persist(&self.path)?;
        Ok(())
    }

    fn beside(&self) -> std::io::Result<NamedTempFile> {
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        tempfile::Builder::new().prefix("toolcell-history-").suffix(".json").tempfile_in(dir)
    }
}
