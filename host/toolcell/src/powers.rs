//! An operator's policy in use: its directories opened, its gates built, its secrets found when they are needed.

mod secret;
mod spaces;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolcell_agent::{Approvals, Approve, Tenant};
use toolcell_contract::Definition;
use toolcell_policy::{self as policy, Grants, KeyValueGrant, MountGrant, Policy, SecretFrom, Variable};
use toolcell_sandbox::{
    Access, Capabilities, HttpGate, KeyValueQuota, Limits, Missing, Mount, MountError, Secret, SecretError,
};
use toolcell_toolbox::{Power, Powers};

use crate::Shared;

pub(crate) use spaces::SpacesInUse;
pub use spaces::{KeyValueSpaces, MemorySpaces, StoredSpaces};

use secret::source;

/// Why a policy that can be read cannot be used on this machine. Nothing of it is in use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PowersError {
    /// A directory cannot be granted.
    #[error("component {component}: {source}")]
    Mount {
        /// The component.
        component: String,
        /// What is wrong with the directory.
        source: MountError,
    },
    /// A directory holds, or is held by, what belongs to the host itself: who could write there could grant itself more.
    #[error("component {component}: {mount} may not be granted: it overlaps with {own}, which belongs to the host")]
    Own {
        /// The component.
        component: String,
        /// The directory.
        mount: PathBuf,
        /// What belongs to the host.
        own: PathBuf,
    },
    /// A secret cannot be sent as it says.
    #[error("component {component}, secret {name}: {source}")]
    Secret {
        /// The component.
        component: String,
        /// The secret's name.
        name: String,
        /// What is wrong.
        source: SecretError,
    },
}

/// A policy in use.
pub(crate) struct PolicyPowers {
    policy: Policy,
    /// What a component may do, but for its key-value space, which is a tenant's.
    by_component: BTreeMap<String, Power>,
    defaults: Power,
    spaces: Arc<SpacesInUse>,
}

impl PolicyPowers {
    /// Puts a policy into use. `limits` are the usual ones.
    ///
    /// # Errors
    /// [`PowersError`] says which grant cannot be given.
    pub(crate) fn new(
        policy: Policy,
        own: &OwnPlaces,
        limits: Limits,
        spaces: Arc<SpacesInUse>,
    ) -> Result<Self, PowersError> {
        let power = |component: &str, grants: &Grants| power(component, grants, own, limits);
        let by_component = policy.components().map(|(name, grants)| Ok((name.to_owned(), power(name, grants)?)));
        let by_component = by_component.collect::<Result<_, PowersError>>()?;
        let defaults = power("", policy.defaults())?;
        Ok(Self { policy, by_component, defaults, spaces })
    }
}

impl Powers for PolicyPowers {
    fn of(&self, component: &str, tenant: &Tenant) -> Power {
        let power = self.by_component.get(component).unwrap_or(&self.defaults).clone();
        let Some(grant) = self.policy.grants(component).key_value else { return power };
        let key_value = Some(self.spaces.get().space(tenant, component, quota(grant)));
        let capabilities = Arc::new(Capabilities { key_value, ..power.capabilities.as_ref().clone() });
        Power { capabilities, ..power }
    }

    fn remedy(&self, component: &str, missing: &Missing) -> Option<String> {
        remedy(component, missing)
    }
}

/// The line that grants what is missing.
pub(crate) fn remedy(component: &str, missing: &Missing) -> Option<String> {
    Some(match missing {
        Missing::KeyValue => format!("to grant it: toolcell grant {component} --key-value"),
        Missing::Http { method, origin, .. } => {
            format!("to grant it: toolcell grant {component} --http {origin} --method {method}")
        }
        Missing::Secret { .. } => "give it a value where the policy says that it comes from".to_owned(),
        _ => return None,
    })
}

fn power(component: &str, grants: &Grants, own: &OwnPlaces, usual: Limits) -> Result<Power, PowersError> {
    let own = own.with(grants.secrets.iter().filter_map(|secret| match &secret.source {
        SecretFrom::File(path) => Some(path.as_path()),
        SecretFrom::Env(_) | SecretFrom::Command(_) => None,
    }));
    let mounts = grants.mounts.iter().map(|grant| mount(component, grant, &own)).collect::<Result<_, _>>()?;
    let secrets = grants.secrets.iter().map(|grant| {
        let source = source(&grant.source);
        Secret::new(&grant.name, grant.rule.clone(), &grant.header, &grant.prefix, source)
            .map_err(|source| PowersError::Secret { component: component.to_owned(), name: grant.name.clone(), source })
    });
    let secrets = secrets.collect::<Result<Vec<_>, _>>()?;
    let http = (!grants.http.is_empty()).then(|| Arc::new(HttpGate::new(grants.http.iter().cloned(), secrets)));
    let environment = grants.environment.iter().filter_map(|(name, variable)| {
        let value = match variable {
            Variable::Value(value) => Some(value.clone()),
            Variable::From(from) => std::env::var(from).ok(),
        };
        Some((name.clone(), value?))
    });
    let capabilities = Capabilities { mounts, environment: environment.collect(), http, key_value: None };
    Ok(Power { capabilities: Arc::new(capabilities), limits: limits(grants, usual) })
}

fn mount(component: &str, grant: &MountGrant, own: &OwnPlaces) -> Result<Mount, PowersError> {
    let holds = |place: &&PathBuf| place.starts_with(&grant.host);
    let overlaps = |place: &&PathBuf| holds(place) || grant.host.starts_with(place);
    if let Some(own) = own.closed.iter().find(overlaps).or_else(|| own.not_whole.iter().find(holds)) {
        let (mount, own) = (grant.host.clone(), own.clone());
        return Err(PowersError::Own { component: component.to_owned(), mount, own });
    }
    let access = if grant.is_writable { Access::ReadWrite } else { Access::ReadOnly };
    Mount::open(&grant.host, &grant.guest, access)
        .map_err(|source| PowersError::Mount { component: component.to_owned(), source })
}

/// None when a component has the usual ones.
fn limits(grants: &Grants, usual: Limits) -> Option<Limits> {
    let policy::LimitGrants { time_seconds, memory_mib, log_lines } = grants.limits;
    let size = |value: Option<u64>, unit: usize, usual: usize| {
        value.and_then(|value| usize::try_from(value).ok()).map_or(usual, |value| value.saturating_mul(unit))
    };
    let limits = Limits {
        deadline_ms_max: time_seconds.map_or(usual.deadline_ms_max, |seconds| seconds.saturating_mul(1_000)),
        memory_bytes_max: size(memory_mib, 1 << 20, usual.memory_bytes_max),
        log_lines_max: size(log_lines, 1, usual.log_lines_max),
        ..usual
    };
    (limits != usual).then_some(limits)
}

fn quota(grant: KeyValueGrant) -> KeyValueQuota {
    KeyValueQuota { value_bytes_max: grant.value_bytes, total_bytes_max: grant.total_bytes, keys_max: grant.keys }
}

/// Which calls a person approves by the policy of a host, and by `usual` where it says nothing.
pub(crate) struct PolicyApprovals {
    pub(crate) shared: Arc<Shared>,
    pub(crate) usual: Approve,
}

impl Approvals for PolicyApprovals {
    fn approve(&self, tool: &Definition) -> Approve {
        let policy = self.shared.policy();
        let said = match self.shared.toolbox.component_of_tool(&tool.name) {
            Some(component) => policy.grants(&component).approve,
            // A tool of the program's own.
            None => policy.defaults().approve,
        };
        match said {
            Some(policy::Approve::Always) => Approve::Always,
            Some(policy::Approve::Destructive) => Approve::Destructive,
            Some(policy::Approve::Never) => Approve::Never,
            None => self.usual,
        }
    }
}

/// What belongs to the host itself, as far as it is there: whoever could write there could grant itself more.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnPlaces {
    /// Nothing within them is granted, and nothing around them.
    closed: Vec<PathBuf>,
    /// They are not granted as a whole.
    not_whole: Vec<PathBuf>,
}

/// A path as the system sees it. What is not there yet is in a directory that is.
fn whole(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|place| Some((place.canonicalize().ok()?, path.strip_prefix(place).ok()?)));
    match found {
        Some((place, rest)) if !rest.as_os_str().is_empty() => place.join(rest),
        Some((place, _)) => place,
        None => path,
    }
}

impl OwnPlaces {
    /// `closed`: the directory of tools and the like. A person's home is granted in parts only.
    pub(crate) fn new<'p>(closed: impl IntoIterator<Item = &'p Path>) -> Self {
        let closed = closed.into_iter().map(whole).collect();
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        Self { closed, not_whole: home.into_iter().collect() }
    }

    /// The same, and these.
    fn with<'p>(&self, closed: impl IntoIterator<Item = &'p Path>) -> Self {
        let closed = self.closed.iter().cloned().chain(closed.into_iter().map(whole)).collect();
        Self { closed, not_whole: self.not_whole.clone() }
    }
}
