//! A component that was compiled and linked, ready to be instantiated for every call.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::bindings::ToolPre;
use crate::inspect::quote;
use crate::linker::is_linked;
use crate::state::CallState;
use crate::{Digest, Limits, LoadError};

/// The interface that makes a component a tool, without its version.
const TOOLS: &str = "toolcell:tool/tools";

/// The interface that holds only types: importing it asks for nothing.
const TYPES: &str = "toolcell:tool/tool-types@";

/// Names that are quoted in an error.
const NAMES_SHOWN_MAX: usize = 10;

/// A call that takes less than this is quick.
const QUICK: Duration = Duration::from_millis(2);

/// Bytes of a page of linear memory.
const PAGE_BYTES: u64 = 64 << 10;

/// A component that was compiled and linked. Cheap to clone.
#[derive(Clone)]
pub struct Component(Arc<Inner>);

struct Inner {
    digest: Digest,
    size: u64,
    imports: Vec<String>,
    pre: ToolPre<CallState>,
    quick: AtomicBool,
}

impl Component {
    /// Links compiled code, after it was checked that it is a tool, that the host has all it imports, and that what
    /// it needs from the start fits into the limits.
    pub(crate) fn link(
        linker: &Linker<CallState>,
        compiled: &wasmtime::component::Component,
        digest: Digest,
        size: u64,
        limits: &Limits,
    ) -> Result<Self, LoadError> {
        let engine = linker.engine();
        check_exports(engine, compiled)?;
        let imports = imports_of(engine, compiled)?;
        check_size(compiled, limits)?;
        // What is left to go wrong is an interface of the right name and another shape.
        let pre = linker
            .instantiate_pre(compiled)
            .map_err(|error| LoadError::UnknownImport(vec![quote(&format!("{error:#}"))]))?;
        let pre = ToolPre::new(pre).map_err(|error| LoadError::WrongWorld {
            found: format!("its shape differs: {}", quote(&format!("{error:#}"))),
        })?;
        Ok(Self(Arc::new(Inner { digest, size, imports, pre, quick: AtomicBool::new(false) })))
    }

    /// The SHA-256 of its bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// The bytes of its file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// The interfaces that it imports, for example `wasi:filesystem/types@0.2.6`, in their order.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.0.imports
    }

    /// Whether the last call was quick, so that the one that begins now probably is. A call that never ends, because
    /// somebody drops it, was not.
    pub(crate) fn begin_call(&self) -> bool {
        self.0.quick.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn end_call(&self, duration: Duration) {
        self.0.quick.store(duration < QUICK, Ordering::Relaxed);
    }

    pub(crate) fn pre(&self) -> &ToolPre<CallState> {
        &self.0.pre
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component")
            .field("digest", &self.0.digest)
            .field("size", &self.0.size)
            .field("imports", &self.0.imports)
            .finish()
    }
}

fn check_exports(engine: &Engine, compiled: &wasmtime::component::Component) -> Result<(), LoadError> {
    let component = compiled.component_type();
    let mut found = Vec::new();
    for (name, _) in component.exports(engine) {
        match name.strip_prefix(TOOLS) {
            Some(version) if version.starts_with("@0.1.") => return Ok(()),
            _ => found.push(name),
        }
    }
    let found = match found.as_slice() {
        [] => "it exports nothing".to_owned(),
        names => format!("it exports {}", listed(names).join(", ")),
    };
    Err(LoadError::WrongWorld { found })
}

fn imports_of(engine: &Engine, compiled: &wasmtime::component::Component) -> Result<Vec<String>, LoadError> {
    let component = compiled.component_type();
    let (known, unknown): (Vec<_>, Vec<_>) =
        component.imports(engine).map(|(name, _)| name).partition(|name| is_linked(name));
    if unknown.is_empty() {
        Ok(known.into_iter().filter(|name| !name.starts_with(TYPES)).map(str::to_owned).collect())
    } else {
        Err(LoadError::UnknownImport(listed(&unknown)))
    }
}

/// Foreign names, escaped and not too many.
fn listed(names: &[&str]) -> Vec<String> {
    let mut listed: Vec<String> = names.iter().take(NAMES_SHOWN_MAX).map(|name| quote(name)).collect();
    if let Some(more) = names.len().checked_sub(NAMES_SHOWN_MAX).filter(|more| *more > 0) {
        listed.push(format!("and {more} more"));
    }
    listed
}

/// Refuses what could never be instantiated. The limiter of each call refuses it again.
fn check_size(compiled: &wasmtime::component::Component, limits: &Limits) -> Result<(), LoadError> {
    let Some(needs) = compiled.resources_required() else { return Ok(()) };
    let memory = needs.max_initial_memory_size.unwrap_or(0).saturating_mul(PAGE_BYTES);
    let table = needs.max_initial_table_size.unwrap_or(0);
    let rules = [
        ("bytes of memory", memory, limits.memory_bytes_max),
        ("memories", needs.num_memories.into(), limits.memories_max),
        ("table elements", table, limits.table_elements_max),
        ("tables", needs.num_tables.into(), limits.tables_max),
    ];
    for (what, needed, max) in rules {
        if needed > max as u64 {
            return Err(LoadError::TooLarge(format!("it starts with {needed} {what}, and a call may have {max}")));
        }
    }
    Ok(())
}
