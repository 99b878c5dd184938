//! The store of runs that the options name.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use toolcell::contract::Request;
use toolcell::store::{self, SqlStore};
use toolcell::{Desk, DeskError, StoreError, Tenant};

use crate::args::StoreArgs;
use crate::exit::HostFailure;
use crate::form::required_fields;
use crate::printable::{one_line, printable};

/// How long connections may take to close; what is on record is safe by then.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// The store that a command has opened, so that it can be closed when the command has ended: only then SQLite leaves
/// nothing beside its file.
#[derive(Default)]
pub(crate) struct Stores(OnceLock<Arc<SqlStore>>);

impl Stores {
    /// Opens the store; a command has one.
    pub(crate) async fn open(&self, place: &str) -> anyhow::Result<Arc<SqlStore>> {
        // What is wrong with it is said by the store; no place that holds a password is repeated.
        let store = store::open(place).await.map_err(|error| anyhow::Error::new(error).context(HostFailure))?;
        let _ = self.0.set(Arc::clone(&store));
        Ok(store)
    }

    /// Opens a store to look into it. A file that is not there is not made by looking.
    pub(crate) async fn open_existing(&self, args: &StoreArgs) -> anyhow::Result<Arc<SqlStore>> {
        let place = place(args)?;
        if !place.contains("://") && !Path::new(&place).exists() {
            let shown = printable(&place);
            anyhow::bail!(
                "no runs are on record in {shown}: toolcell run --store {shown} begins that, or say where with --store"
            );
        }
        self.open(&place).await
    }

    /// The desk of the tenant.
    pub(crate) async fn desk(&self, args: &StoreArgs) -> anyhow::Result<Desk> {
        Ok(Desk::new(self.open_existing(args).await?, args.tenant.clone()))
    }

    /// Closes what was opened.
    pub(crate) async fn close(self) {
        if let Some(store) = self.0.get() {
            let _ = tokio::time::timeout(CLOSE_MAX, store.close()).await;
        }
    }
}

/// A place for showing; the address of a database may hold a password.
pub(crate) fn shown(place: &str) -> String {
    if place.contains("://") { "postgres://…".to_owned() } else { printable(place) }
}

/// The options that lead another command to the same runs; the address of a database may hold a password.
pub(crate) fn same_place(store: Option<&str>, tenant: &Tenant) -> String {
    let store = store.map(|place| format!(" --store {}", shown(place))).unwrap_or_default();
    let tenant = if *tenant == Tenant::local() { String::new() } else { format!(" --tenant {tenant}") };
    store + &tenant
}

/// How a person answers this question from the command line.
pub(crate) fn how_to_answer(request: &Request, same_place: &str) -> String {
    let required = request.answer_schema().map(required_fields).unwrap_or_default();
    let with = if required.is_empty() {
        "--approve".to_owned()
    } else {
        let fields: Vec<_> = required.iter().map(|name| format!("\"{}\": …", one_line(name, 40))).collect();
        format!("--data '{{{}}}'", fields.join(", "))
    };
    format!("toolcell answer {} {with}{same_place}", request.id)
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

/// As [`blame_store`], for what was looked for by its id.
pub(crate) fn blame_id(error: StoreError, id: &str, args: &StoreArgs) -> anyhow::Error {
    match error {
        StoreError::NotFound(kind) => {
            let list = match kind {
                "question" => "toolcell pending",
                "grant" => "toolcell grants",
                _ => "toolcell runs",
            };
            let (id, tenant, same) = (printable(id), &args.tenant, same_place(args.store.as_deref(), &args.tenant));
            anyhow::anyhow!("tenant {tenant} has no {kind} \"{id}\": {list}{same} lists what there is")
        }
        other => blame_store(other),
    }
}

/// As [`blame`], for the store itself.
pub(crate) fn blame_store(error: StoreError) -> anyhow::Error {
    blame(DeskError::Store(error))
}
