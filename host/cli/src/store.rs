//! The store of runs that the options name.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use toolcell::{Desk, DeskError, RunStore, StoreError, store};

use crate::args::StoreArgs;
use crate::exit::HostFailure;

/// Opens the store.
pub(crate) async fn open(place: &str) -> anyhow::Result<Arc<dyn RunStore>> {
    // What is wrong with it is said by the store; no place that holds a password is repeated.
    store::open(place).await.map_err(|error| anyhow::Error::new(error).context(HostFailure))
}

/// The desk of the tenant.
pub(crate) async fn desk(args: &StoreArgs) -> anyhow::Result<Desk> {
    let store = open(&place(args)?).await?;
    Ok(Desk::new(store, args.tenant.clone()))
}

/// Where runs are kept.
pub(crate) fn place(args: &StoreArgs) -> anyhow::Result<String> {
    if let Some(place) = &args.store {
        return Ok(place.clone());
    }
    let data = std::env::var_os("XDG_DATA_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let data = data.or_else(home).context("there is no home directory: say with --store where runs are on record")?;
    let path = data.join("toolcell/runs.db");
    path.into_os_string().into_string().map_err(|_| anyhow::anyhow!("the data directory is not UTF-8: use --store"))
}

/// What was typed wrong is the user's; what the store cannot do is the host's.
pub(crate) fn blame(error: DeskError) -> anyhow::Error {
    match error {
        DeskError::Store(error @ StoreError::NotFound(_)) => error.into(),
        DeskError::Store(error) => anyhow::Error::new(error).context(HostFailure),
        other => other.into(),
    }
}

/// As [`blame`], for the store itself.
pub(crate) fn blame_store(error: StoreError) -> anyhow::Error {
    blame(DeskError::Store(error))
}
