//! The directory of tools that a command works with, and what is wrong with it.

use std::path::PathBuf;

use toolcell::{CachePlace, Catalog as _, Host, HostOptions, Policy};

use anyhow::Context as _;

use crate::args::Place;
use crate::exit::HostFailure;
use crate::output::note;
use crate::printable::printable;

/// Opens the directory and reports the files that were refused.
pub(crate) async fn open(place: &Place) -> anyhow::Result<Host> {
    open_beside(place, None).await
}

/// [`open`] for a command that works with a store of runs.
pub(crate) async fn open_beside(place: &Place, store: Option<&str>) -> anyhow::Result<Host> {
    let own_files = std::iter::once(policy_path(place));
    let own_files = own_files.chain(store.filter(|store| !store.contains("://")).map(PathBuf::from)).collect();
    let mut options = HostOptions { policy: policy(place)?, own_files, ..HostOptions::default() };
    if let Some(dir) = &place.cache {
        options.toolbox.cache = CachePlace::At(dir.clone());
    }
    let host = match Host::open(&place.tools, options).await {
        Err(error @ toolcell::Error::Sandbox(_)) => return Err(error).context(HostFailure),
        opened => opened?,
    };
    for warning in host.toolbox().last_report().warnings {
        note!("warning: {}", printable(&warning.to_string()));
    }
    for rejected in host.toolbox().rejected() {
        note!("refused {} [{}]: {}", printable(&rejected.file), rejected.code, printable(&rejected.reason));
    }
    Ok(host)
}

/// Where the policy is, or would be.
pub(crate) fn policy_path(place: &Place) -> PathBuf {
    place.policy.clone().unwrap_or_else(|| place.tools.join("toolcell.toml"))
}

/// The policy; one that was named must be there.
fn policy(place: &Place) -> anyhow::Result<Policy> {
    use std::io::ErrorKind::{NotADirectory, NotFound};

    let path = policy_path(place);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if place.policy.is_none() && matches!(error.kind(), NotFound | NotADirectory) => {
            // What is wrong with the directory is said when it is opened.
            return Ok(Policy::default());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read the policy {}", path.display())),
    };
    Ok(Policy::parse(&path.display().to_string(), &text)?)
}

/// The error for a tool that the directory does not have.
pub(crate) fn no_such_tool(name: &str, host: &Host, place: &Place) -> anyhow::Error {
    let dir = place.tools.display();
    let tools = host.toolbox().tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.definition.name.as_str()).collect();
    match names.as_slice() {
        [] => anyhow::anyhow!("there is no tool \"{name}\": {dir} holds no tools; put .wasm components into it"),
        names => anyhow::anyhow!("there is no tool \"{name}\" in {dir}: it has {}", names.join(", ")),
    }
}
