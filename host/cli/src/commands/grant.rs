//! `toolcell grant`: adds a grant to the policy, after showing what it adds.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use tempfile::NamedTempFile;
use toolcell::policy::{Addition, with_grant};

use crate::args::GrantArgs;
use crate::exit::{Exit, HostFailure};
use crate::host::policy_path;
use crate::output::{self, note};
use crate::printable::printable;

pub(crate) fn run(args: &GrantArgs) -> anyhow::Result<Exit> {
    let path = policy_path(&args.place);
    let shown = path.display().to_string();
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    };
    let mut text = before.clone();
    for addition in additions(args)? {
        text = with_grant(&shown, &text, &args.component, &addition)?;
    }
    for line in added(&before, &text) {
        output::line(&format!("+ {}", printable(line)));
    }
    if !args.yes && !confirmed(&shown)? {
        note!("{} stays as it was", printable(&shown));
        return Ok(Exit::Done);
    }
    write(&path, &text).with_context(|| format!("cannot write {shown}")).context(HostFailure)?;
    note!("{} is written", printable(&shown));
    Ok(Exit::Done)
}

fn additions(args: &GrantArgs) -> anyhow::Result<Vec<Addition>> {
    let mut additions = Vec::new();
    for origin in &args.http {
        let (origin, methods, path) = (origin.clone(), args.method.clone(), args.path.clone());
        additions.push(Addition::Http { origin, methods, path });
    }
    for mount in &args.mount {
        let (mount, is_writable) = mount.strip_suffix(":rw").map_or((mount.as_str(), false), |mount| (mount, true));
        let (host, guest) = mount.rsplit_once(':').context("--mount is HOST:GUEST or HOST:GUEST:rw")?;
        additions.push(Addition::Mount { host: host.to_owned(), guest: guest.to_owned(), is_writable });
    }
    for variable in &args.env {
        let (name, value) = variable.split_once('=').context("--env is NAME=VALUE")?;
        additions.push(Addition::Environment { name: name.to_owned(), value: value.to_owned() });
    }
    if args.key_value {
        additions.push(Addition::KeyValue);
    }
    Ok(additions)
}

/// The lines that were not there before. A grant only adds.
fn added<'t>(before: &str, after: &'t str) -> Vec<&'t str> {
    let mut old = before.lines().peekable();
    after.lines().filter(|line| old.next_if_eq(line).is_none()).filter(|line| !line.is_empty()).collect()
}

fn confirmed(path: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        anyhow::bail!("nobody is there to confirm it: look at the lines above, and say --yes");
    }
    note!("add this to {}? [y/n]", printable(path));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Beside the file and renamed, so that it is whole at every moment. A file that was there keeps its mode.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(dir)?;
    file.write_all(text.as_bytes())?;
    if let Ok(metadata) = path.metadata() {
        file.as_file().set_permissions(metadata.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}
