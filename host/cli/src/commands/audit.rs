//! `toolcell audit`: who asked, decided and ran what.

use anyhow::Context as _;
use serde_json::Value;
use toolcell::store::verify_audit;
use toolcell::{AuditEntry, RunStore, Tenant};

use crate::args::AuditArgs;
use crate::commands::pending::time;
use crate::exit::{Exit, HostFailure};
use crate::output;
use crate::printable::one_line;
use crate::store::{Stores, blame_store};

/// Lines that are read at a time.
const PAGE: u32 = 500;

/// Characters of an entry's particulars in a line.
const LINE_CHARS: usize = 400;

pub(crate) async fn run(args: AuditArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let store = stores.open_existing(&args.store).await?;
    if args.verify {
        verify(store.as_ref(), &args.store.tenant, args.json).await?;
        return Ok(Exit::Done);
    }
    let mut after = args.after;
    loop {
        let page = store.audit(&args.store.tenant, after, PAGE).await.map_err(blame_store)?;
        let Some(last) = page.last() else { return Ok(Exit::Done) };
        after = last.seq;
        for entry in &page {
            if args.json { output::json(entry)? } else { output::line(&line(entry)) }
        }
    }
}

fn line(entry: &AuditEntry) -> String {
    let AuditEntry { seq, at, kind, body, .. } = entry;
    let mut body = body.clone();
    if let Value::Object(particulars) = &mut body {
        particulars.retain(|_, value| !value.is_null());
    }
    format!("{seq}  {}  {kind}  {}", time(*at), one_line(&body.to_string(), LINE_CHARS))
}

/// Says where the chain ends, so that it can be noted down elsewhere: who has that knows later whether lines before it were
/// changed.
async fn verify(store: &dyn RunStore, tenant: &Tenant, json: bool) -> anyhow::Result<()> {
    let head = store.audit_head(tenant).await.map_err(blame_store)?;
    let lines = verify_audit(store, tenant).await.map_err(blame_store)?;
    let lines = lines.with_context(|| format!("of tenant {tenant}")).context(HostFailure)?;
    if json {
        return output::json(&serde_json::json!({"lines": lines, "head": head}));
    }
    match head.seq {
        0 => output::line("0 lines"),
        seq => output::line(&format!("{lines} lines, none changed or removed; line {seq} has the hash {}", head.hash)),
    }
    Ok(())
}
