//! A policy: the grants of each component, checked.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use toml::Spanned;

use crate::destination::Method;
use crate::file::{
    AccessWord, ApproveWord, ComponentTable, FileTable, HttpTable, KeyValueTable, LimitsTable, MountTable, SecretTable,
    SourceTable, VariableWord,
};
use crate::problem::{PolicyError, Problems};
use crate::rule::HttpRule;

/// Bytes of a policy file. A thousand grants have a tenth of it.
pub const POLICY_BYTES_MAX: usize = 1 << 20;

/// What the tools of a directory may do beyond computing.
///
/// ```
/// use toolcell_policy::Policy;
///
/// let policy = Policy::parse("toolcell.toml", r#"
/// [defaults]
/// approve = "destructive"
///
/// [component.weather]              # weather.wasm
/// environment = { LANGUAGE = "de", TZ = { from = "TZ" } }
/// limits = { time_seconds = 60 }
///
/// [[component.weather.http]]
/// origin = "https://api.example.org"
/// methods = ["GET"]
/// path = "/v1/"
///
/// [[component.weather.secrets]]
/// name = "weather-key"
/// origin = "https://api.example.org"
/// header = "authorization"
/// prefix = "Bearer "
/// from = { env = "WEATHER_KEY" }
///
/// [[component.weather.mounts]]
/// host = "/srv/weather"
/// guest = "/data"
/// access = "read-only"
///
/// [component.weather.key_value]
/// total_kib = 256
/// "#)?;
/// assert_eq!(policy.grants("weather").http[0].to_string(), "GET https://api.example.org/v1/");
/// assert!(policy.grants("chart").is_empty(), "what is not granted is not there");
/// # Ok::<(), toolcell_policy::PolicyError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    defaults: Grants,
    components: BTreeMap<String, Grants>,
}

/// What one component may do. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Whether a person approves calls; none: as the program says.
    pub approve: Option<Approve>,
    /// What differs from the usual limits.
    pub limits: LimitGrants,
    /// Its environment, by name.
    pub environment: BTreeMap<String, Variable>,
    /// Directories.
    pub mounts: Vec<MountGrant>,
    /// Where requests may go.
    pub http: Vec<HttpRule>,
    /// Secrets that go with them.
    pub secrets: Vec<SecretGrant>,
    /// Its key-value space.
    pub key_value: Option<KeyValueGrant>,
}

/// Whether a person approves calls before their tools run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approve {
    /// Every call.
    Always,
    /// Calls of tools that say nothing about themselves, or that they destroy.
    Destructive,
    /// None.
    Never,
}

/// Limits of a call that differ from the usual ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitGrants {
    /// Seconds: 1 to 300.
    pub time_seconds: Option<u64>,
    /// MiB: 1 to 4096.
    pub memory_mib: Option<u64>,
    /// Kept lines: 1 to 100,000.
    pub log_lines: Option<u64>,
}

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// This text.
    Value(String),
    /// What a variable of the host holds.
    From(String),
}

/// A directory of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountGrant {
    /// Its absolute path.
    pub host: PathBuf,
    /// Its path in the guest.
    pub guest: String,
    /// Whether the guest may change it.
    pub is_writable: bool,
    /// Whether another component may be granted it, too.
    pub is_shared: bool,
}

/// A secret for one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretGrant {
    /// Its name in messages.
    pub name: String,
    /// Which requests carry it.
    pub rule: HttpRule,
    /// In this header.
    pub header: String,
    /// Behind this text.
    pub prefix: String,
    /// Where its value comes from.
    pub source: SecretFrom,
}

/// Where the value of a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretFrom {
    /// A variable of the host's environment.
    Env(String),
    /// A file.
    File(PathBuf),
    /// The output of a command.
    Command(Vec<String>),
}

/// A key-value space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyValueGrant {
    /// Bytes of all keys and values.
    pub total_bytes: usize,
    /// Bytes of one value.
    pub value_bytes: usize,
    /// How many keys.
    pub keys: usize,
}

impl Grants {
    /// Whether nothing is granted beyond computing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { approve: _, limits: _, environment, mounts, http, secrets, key_value } = self;
        environment.is_empty() && mounts.is_empty() && http.is_empty() && secrets.is_empty() && key_value.is_none()
    }
}

impl Policy {
    /// Reads a policy. `file` is its name in messages.
    ///
    /// # Errors
    /// [`PolicyError`] with all that is wrong: whatever a policy does not understand is refused, not passed over.
    pub fn parse(file: &str, text: &str) -> Result<Self, PolicyError> {
        if text.len() > POLICY_BYTES_MAX {
            return Err(PolicyError::at(file, text, 0..0, &format!("a policy has at most {POLICY_BYTES_MAX} bytes")));
        }
        let table: FileTable = toml::from_str(text)
            .map_err(|error| PolicyError::at(file, text, error.span().unwrap_or(0..0), error.message()))?;
        let mut check = Check { problems: Problems::new(text) };
        let mut defaults = Grants { approve: table.defaults.approve.map(Into::into), ..Grants::default() };
        defaults.limits = check.limits(table.defaults.limits.as_ref());
        let mut components = BTreeMap::new();
        for (name, component) in &table.component {
            let place = text.find(&format!("component.{name}")).unwrap_or(0);
            if !is_file_stem(name) {
                let message = format!("\"{name}\" is no name of a component: write the file's name without .wasm");
                check.problems.add(place..place, message);
            }
            components.insert(name.clone(), check.component(component, &defaults));
        }
        check.shared_directories(&table.component);
        check.problems.end(file)?;
        Ok(Self { defaults, components })
    }

    /// What a component may do, by the name of its file without `.wasm`.
    #[must_use]
    pub fn grants(&self, component: &str) -> &Grants {
        self.components.get(component).unwrap_or(&self.defaults)
    }

    /// What holds where nothing else is said.
    #[must_use]
    pub fn defaults(&self) -> &Grants {
        &self.defaults
    }

    /// The components that are named, in the order of their names.
    pub fn components(&self) -> impl Iterator<Item = (&str, &Grants)> {
        self.components.iter().map(|(name, grants)| (name.as_str(), grants))
    }

    /// The JSON Schema (2020-12) of the file, for editors.
    #[must_use]
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(FileTable).to_value()
    }
}

/// Checks tables and makes grants of them.
struct Check<'t> {
    problems: Problems<'t>,
}

impl Check<'_> {
    fn component(&mut self, table: &ComponentTable, defaults: &Grants) -> Grants {
        let limits = self.limits(table.limits.as_ref());
        Grants {
            approve: table.approve.map(Into::into).or(defaults.approve),
            limits: LimitGrants {
                time_seconds: limits.time_seconds.or(defaults.limits.time_seconds),
                memory_mib: limits.memory_mib.or(defaults.limits.memory_mib),
                log_lines: limits.log_lines.or(defaults.limits.log_lines),
            },
            environment: table.environment.iter().filter_map(|(name, value)| self.variable(name, value)).collect(),
            mounts: self.mounts(&table.mounts),
            http: table.http.iter().filter_map(|table| self.http(table)).collect(),
            secrets: self.secrets(&table.secrets),
            key_value: table.key_value.as_ref().map(|table| self.key_value(table)),
        }
    }

    fn limits(&mut self, table: Option<&Spanned<LimitsTable>>) -> LimitGrants {
        let Some(table) = table else { return LimitGrants::default() };
        let LimitsTable { time_seconds, memory_mib, log_lines } = *table.get_ref();
        let checks = [
            ("time_seconds", time_seconds, 1..=300),
            ("memory_mib", memory_mib, 1..=4_096),
            ("log_lines", log_lines, 1..=100_000),
        ];
        for (name, value, range) in checks {
            self.within(table, name, value, range);
        }
        LimitGrants { time_seconds, memory_mib, log_lines }
    }

    fn within<T>(&mut self, table: &Spanned<T>, name: &str, value: Option<u64>, range: RangeInclusive<u64>) {
        if let Some(value) = value.filter(|value| !range.contains(value)) {
            let (min, max) = (range.start(), range.end());
            self.problems.add(table.span(), format!("{name} is {value}: give {min} to {max}"));
        }
    }

    fn variable(&mut self, name: &str, value: &Spanned<VariableWord>) -> Option<(String, Variable)> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        let (variable, is_fine) = match value.get_ref() {
            VariableWord::Value(text) => (Variable::Value(text.clone()), !text.contains('\0')),
            VariableWord::From(from) => (Variable::From(from.from.clone()), is_name(&from.from)),
        };
        if !is_name(name) || !is_fine {
            self.problems.add(value.span(), format!("\"{}\" is no variable", name.escape_debug()));
            return None;
        }
        Some((name.to_owned(), variable))
    }

    fn mounts(&mut self, tables: &[Spanned<MountTable>]) -> Vec<MountGrant> {
        let mut mounts: Vec<MountGrant> = Vec::new();
        for table in tables {
            let MountTable { host, guest, access, shared } = table.get_ref();
            let host = PathBuf::from(host);
            if !is_plain_absolute(&host) {
                let message = "the host's directory must be an absolute path without . or .. , for example /srv/data";
                self.problems.add(table.span(), message);
            }
            if !guest.starts_with('/') || !is_plain_absolute(Path::new(guest)) || guest.len() == 1 {
                let message = "the guest's path must be absolute and without . or .. , for example /data";
                self.problems.add(table.span(), message);
            }
            let below = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
            let overlaps =
                |other: &MountGrant| below(&other.host, &host) || below(Path::new(&other.guest), Path::new(guest));
            if let Some(other) = mounts.iter().find(|other| overlaps(other)) {
                let message =
                    format!("it overlaps with {} as {}: grant one of them", other.host.display(), other.guest);
                self.problems.add(table.span(), message);
            }
            let is_writable = *access == AccessWord::ReadWrite;
            mounts.push(MountGrant { host, guest: guest.clone(), is_writable, is_shared: *shared });
        }
        mounts
    }

    /// A directory that one component writes is another's input only when both say so.
    fn shared_directories(&mut self, components: &BTreeMap<String, ComponentTable>) {
        let all: Vec<_> =
            components.iter().flat_map(|(name, table)| table.mounts.iter().map(move |mount| (name, mount))).collect();
        for (index, (name, mount)) in all.iter().enumerate() {
            for (other_name, other) in &all[..index] {
                let (one, two) = (mount.get_ref(), other.get_ref());
                let (path, other_path) = (Path::new(&one.host), Path::new(&two.host));
                let is_common = path.starts_with(other_path) || other_path.starts_with(path);
                let is_written = one.access == AccessWord::ReadWrite || two.access == AccessWord::ReadWrite;
                if name != other_name && is_common && is_written && !(one.shared && two.shared) {
                    let message = format!(
                        "{other_name} is granted the same directory, and one of the two may write it: \
                         say shared = true at both, or give each its own"
                    );
                    self.problems.add(mount.span(), message);
                }
            }
        }
    }

    fn http(&mut self, table: &Spanned<HttpTable>) -> Option<HttpRule> {
        let HttpTable { origin, methods, path, private_networks } = table.get_ref();
        let mut parsed = Vec::new();
        for method in methods {
            match Method::parse(method) {
                Some(method) => parsed.push(method),
                None => {
                    let names = Method::ALL.map(Method::as_str).join(", ");
                    self.problems
                        .add(table.span(), format!("there is no method \"{}\": give {names}", method.escape_debug()));
                }
            }
        }
        let mut networks = Vec::new();
        for network in private_networks {
            let read = network.parse().map_err(|_| "is no network: write it like 10.1.0.0/16");
            match read.and_then(|read| narrow(read).map(|()| read)) {
                Ok(network) => networks.push(network),
                Err(problem) => {
                    self.problems.add(table.span(), format!("\"{}\" {problem}", network.escape_debug()));
                }
            }
        }
        Some(self.rule(table, origin, parsed, path.as_deref())?.with_private(networks))
    }

    fn rule<T>(
        &mut self,
        table: &Spanned<T>,
        origin: &str,
        methods: Vec<Method>,
        path: Option<&str>,
    ) -> Option<HttpRule> {
        let rule = HttpRule::for_origin(origin, methods).and_then(|rule| match path {
            Some(path) => rule.below_path(path),
            None => Ok(rule),
        });
        rule.map_err(|error| self.problems.add(table.span(), error.to_string())).ok()
    }

    fn secrets(&mut self, tables: &[Spanned<SecretTable>]) -> Vec<SecretGrant> {
        let (mut secrets, mut names) = (Vec::new(), BTreeSet::new());
        for table in tables {
            let SecretTable { name, origin, path, header, prefix, from } = table.get_ref();
            if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
                self.problems.add(table.span(), "the name of a secret is a word, for example weather-key");
            }
            if !names.insert(name) {
                self.problems.add(table.span(), format!("the secret \"{}\" stands here twice", name.escape_debug()));
            }
            let rule = self.rule(table, origin, Method::ALL.to_vec(), path.as_deref());
            if rule.as_ref().is_some_and(HttpRule::is_in_the_clear) {
                self.problems.add(table.span(), "a secret is sent over https only, or to this machine");
            }
            if rule.as_ref().is_some_and(HttpRule::is_for_many_hosts) {
                // Below many names anybody can have a host.
                self.problems.add(table.span(), "a secret is sent to one host: name it in full, without a wildcard");
            }
            let source = self.source(table, from);
            if let (Some(rule), Some(source)) = (rule, source) {
                let (name, header, prefix) = (name.clone(), header.to_ascii_lowercase(), prefix.clone());
                secrets.push(SecretGrant { name, rule, header, prefix, source });
            }
        }
        secrets
    }

    fn source(&mut self, table: &Spanned<SecretTable>, from: &SourceTable) -> Option<SecretFrom> {
        let source = match from {
            SourceTable { env: Some(name), file: None, command: None } if !name.is_empty() => {
                SecretFrom::Env(name.clone())
            }
            SourceTable { env: None, file: Some(path), command: None } if Path::new(path).is_absolute() => {
                SecretFrom::File(path.into())
            }
            SourceTable { env: None, file: None, command: Some(words) }
                if words.first().is_some_and(|program| !program.is_empty()) =>
            {
                SecretFrom::Command(words.clone())
            }
            _ => {
                let message = "a secret comes from one of env = \"NAME\", file = \"/absolute/path\" and \
                               command = [\"program\", \"argument\"]";
                self.problems.add(table.span(), message);
                return None;
            }
        };
        Some(source)
    }

    fn key_value(&mut self, table: &Spanned<KeyValueTable>) -> KeyValueGrant {
        let KeyValueTable { total_kib, value_kib, keys } = *table.get_ref();
        self.within(table, "total_kib", total_kib, 1..=65_536);
        self.within(table, "value_kib", value_kib, 1..=1_024);
        self.within(table, "keys", keys, 1..=100_000);
        let bytes = |kib: Option<u64>, usual: usize| {
            kib.and_then(|kib| usize::try_from(kib).ok()).map_or(usual, |kib| kib.saturating_mul(1_024))
        };
        KeyValueGrant {
            total_bytes: bytes(total_kib, 1 << 20),
            value_bytes: bytes(value_kib, 64 << 10),
            keys: keys.and_then(|keys| usize::try_from(keys).ok()).unwrap_or(10_000),
        }
    }
}

impl From<ApproveWord> for Approve {
    fn from(word: ApproveWord) -> Self {
        match word {
            ApproveWord::Always => Self::Always,
            ApproveWord::Destructive => Self::Destructive,
            ApproveWord::Never => Self::Never,
        }
    }
}

fn is_file_stem(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && !name.ends_with(".wasm")
        && !name.contains(['/', '\\', '\0', '*', '?'])
}

fn is_plain_absolute(path: &Path) -> bool {
    // `components` passes over a dot in the middle.
    let mut parts = path.as_os_str().as_encoded_bytes().split(|byte| *byte == b'/');
    path.is_absolute() && !parts.any(|part| matches!(part, b"." | b".."))
}

/// Bits that a network of an operator's own has in common at least: as many as 10.0.0.0/8 and fd00::/8.
const NETWORK_PREFIX_MIN: u8 = 8;

/// Where clouds tell a machine its keys.
const METADATA: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254))];

/// Whether a network is one that an operator can mean.
fn narrow(network: IpNet) -> Result<(), &'static str> {
    if network.trunc() != network {
        return Err("is an address within a network: write the network's first address before the slash");
    }
    if network.prefix_len() < NETWORK_PREFIX_MIN {
        return Err("is too wide: a network has at least 8 bits in common, like 10.0.0.0/8");
    }
    if network.prefix_len() < network.max_prefix_len() && METADATA.iter().any(|address| network.contains(address)) {
        return Err("holds the address at which clouds tell a machine its keys: grant the addresses that are meant");
    }
    Ok(())
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
