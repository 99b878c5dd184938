//! What the components of a directory may do beyond computing: somebody else says so.

use std::fmt;
use std::sync::Arc;

use toolcell_agent::Tenant;
use toolcell_sandbox::{Capabilities, Limits};

/// Says what the components of a directory may do.
pub trait Powers: Send + Sync {
    /// What a component may do in a call of this tenant. `component` is the name of its file without `.wasm`.
    fn of(&self, component: &str, tenant: &Tenant) -> Power;

    /// What a person does about a power that is missing, for the log of the call: the line to add to a policy, for example.
    fn remedy(&self, component: &str, missing: &toolcell_sandbox::Missing) -> Option<String> {
        let _ = (component, missing);
        None
    }
}

/// What a component may do in one call.
#[derive(Debug, Clone, Default)]
pub struct Power {
    /// What it may do beyond computing.
    pub capabilities: Arc<Capabilities>,
    /// Other limits than the sandbox's own.
    pub limits: Option<Limits>,
}

/// Nothing, for every component.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPowers;

impl Powers for NoPowers {
    fn of(&self, _: &str, _: &Tenant) -> Power {
        Power::default()
    }
}

impl fmt::Debug for dyn Powers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Powers")
    }
}
