//! Keeps tools and policy as their files are.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::timeout;
use toolcell_policy::{POLICY_BYTES_MAX, Policy};
use toolcell_toolbox::LoadReport;

use crate::Shared;

/// How long the files must be quiet: somebody copies a file piece by piece.
const QUIET: Duration = Duration::from_millis(300);

/// Files that never become quiet are looked at all the same, and no more often than this.
const LOUD: Duration = Duration::from_secs(2);

/// The system may lose what it has to tell, and some file systems tell nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What never comes.
pub type Never = Infallible;

/// What has changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Change {
    /// The directory was read again, and offers other tools or refuses other files than before.
    Tools(Box<LoadReport>),
    /// The directory cannot be read; what was in use stays in use.
    ToolsUnreadable(toolcell_toolbox::Error),
    /// Another policy is in use, or the one in use is that of the file again.
    Policy,
    /// The policy is broken; the last good one stays in use.
    PolicyBroken(String),
}

/// The system cannot watch a directory.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be watched for changes", path.display())]
pub struct WatchError {
    /// The directory.
    pub path: PathBuf,
    source: notify::Error,
}

pub(crate) async fn watch(
    shared: &Arc<Shared>,
    policy: Option<PathBuf>,
    changed: impl Fn(Change) + Send,
) -> Result<Never, WatchError> {
    let touched = Arc::new(Notify::new());
    let told = Arc::clone(&touched);
    let unable = |path: &Path| {
        let path = path.to_owned();
        move |source| WatchError { path, source }
    };
    let tools = shared.toolbox.path().to_owned();
    let on_event = move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| is_a_look(&event)) {
            return;
        }
        told.notify_one();
    };
    let mut watcher = notify::recommended_watcher(on_event).map_err(unable(&tools))?;
    watcher.watch(&tools, RecursiveMode::NonRecursive).map_err(unable(&tools))?;
    let beside = policy.as_deref().and_then(Path::parent).filter(|dir| !dir.as_os_str().is_empty());
    if let Some(dir) = beside.filter(|dir| dir.canonicalize().ok() != tools.canonicalize().ok()) {
        watcher.watch(dir, RecursiveMode::NonRecursive).map_err(unable(dir))?;
    }
    // Now that nothing is missed any more: the files may have changed since the host was opened.
    let mut seen = Seen { policy_broken: None, tools_unreadable: None, rejected: rejected(shared) };
    loop {
        let quiet = async { while timeout(QUIET, touched.notified()).await.is_ok() {} };
        let _ = timeout(LOUD, quiet).await;
        // The policy first: a new tool comes with its grants.
        if let Some(path) = &policy {
            look_at_policy(shared, path, &mut seen, &changed);
        }
        look_at_tools(shared, &mut seen, &changed).await;
        // Either way it is time to look.
        let _ = timeout(LOOK_AGAIN, touched.notified()).await;
    }
}

/// Whether somebody has only looked at a file, as we do ourselves.
fn is_a_look(event: &Event) -> bool {
    event.kind.is_access() && event.kind != EventKind::Access(AccessKind::Close(AccessMode::Write))
}

/// What was told last.
struct Seen {
    /// Why the policy of the file is not in use.
    policy_broken: Option<String>,
    /// Why the directory cannot be read.
    tools_unreadable: Option<String>,
    rejected: Vec<String>,
}

/// Puts the policy of the file into use when it is another than the one in use. What it needs may be there later than it is.
fn look_at_policy(shared: &Shared, path: &Path, seen: &mut Seen, changed: &impl Fn(Change)) {
    let policy = read(path)
        .and_then(|text| Policy::parse(&path.display().to_string(), &text).map_err(|error| error.to_string()));
    let is_other = policy.and_then(|policy| match *shared.policy() == policy {
        true => Ok(false),
        false => shared.set_policy(policy).map(|()| true).map_err(|error| error.to_string()),
    });
    match is_other {
        Ok(is_other) => {
            if seen.policy_broken.take().is_some() || is_other {
                changed(Change::Policy);
            }
        }
        Err(broken) => {
            if seen.policy_broken.replace(broken.clone()).as_ref() != Some(&broken) {
                changed(Change::PolicyBroken(broken));
            }
        }
    }
}

async fn look_at_tools(shared: &Shared, seen: &mut Seen, changed: &impl Fn(Change)) {
    match shared.toolbox.reload().await {
        Ok(report) => {
            let rejected = rejected(shared);
            let was_unreadable = seen.tools_unreadable.take().is_some();
            if report.changed || was_unreadable || rejected != seen.rejected {
                seen.rejected = rejected;
                changed(Change::Tools(Box::new(report)));
            }
        }
        Err(error) => {
            let said = error.to_string();
            if seen.tools_unreadable.replace(said.clone()) != Some(said) {
                changed(Change::ToolsUnreadable(error));
            }
        }
    }
}

fn rejected(shared: &Shared) -> Vec<String> {
    shared.toolbox.rejected().into_iter().map(|file| format!("{} {}", file.file, file.code)).collect()
}

/// The text of a policy. A file that is not there grants nothing.
fn read(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let read = std::fs::File::open(path).and_then(|file| {
        let mut text = String::new();
        file.take(POLICY_BYTES_MAX as u64 + 1).read_to_string(&mut text).map(|_| text)
    });
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| format!("cannot read {}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_a_file_is_no_change_of_it() {
        use notify::event::{CreateKind, ModifyKind};

        for (kind, is_look) in [
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), true),
            (EventKind::Access(AccessKind::Close(AccessMode::Read)), true),
            (EventKind::Access(AccessKind::Close(AccessMode::Write)), false),
            (EventKind::Create(CreateKind::File), false),
            (EventKind::Modify(ModifyKind::Any), false),
        ] {
            assert_eq!(is_a_look(&Event::new(kind)), is_look, "{kind:?}");
        }
    }
}
