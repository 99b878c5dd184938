//! The form of the policy file, as serde reads it. What it means is [`crate::Policy`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// What the tools of a directory may do beyond computing. What is not granted here is not there for a tool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "toolcell.toml")]
pub(crate) struct FileTable {
    /// What holds for every component that does not say otherwise.
    #[serde(default)]
    pub(crate) defaults: DefaultsTable,
    /// The grants of one component, by the name of its file without `.wasm`.
    #[serde(default)]
    pub(crate) component: BTreeMap<String, ComponentTable>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultsTable {
    /// Whether a person approves calls before their tools run.
    pub(crate) approve: Option<ApproveWord>,
    /// What a call may use.
    #[serde(default)]
    #[schemars(with = "LimitsTable")]
    pub(crate) limits: Option<Spanned<LimitsTable>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComponentTable {
    /// Whether a person approves calls before the tools of this component run.
    pub(crate) approve: Option<ApproveWord>,
    /// What a call may use.
    #[serde(default)]
    #[schemars(with = "LimitsTable")]
    pub(crate) limits: Option<Spanned<LimitsTable>>,
    /// Variables of the environment: a text, or `{ from = "NAME" }` for a variable of the host.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, VariableWord>")]
    pub(crate) environment: BTreeMap<String, Spanned<VariableWord>>,
    /// Directories of the host.
    #[serde(default)]
    #[schemars(with = "Vec<MountTable>")]
    pub(crate) mounts: Vec<Spanned<MountTable>>,
    /// Where requests may go.
    #[serde(default)]
    #[schemars(with = "Vec<HttpTable>")]
    pub(crate) http: Vec<Spanned<HttpTable>>,
    /// Secrets that the host adds to requests. The tool never sees them.
    #[serde(default)]
    #[schemars(with = "Vec<SecretTable>")]
    pub(crate) secrets: Vec<Spanned<SecretTable>>,
    /// A key-value space of its own.
    #[schemars(with = "Option<KeyValueTable>")]
    pub(crate) key_value: Option<Spanned<KeyValueTable>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ApproveWord {
    /// Before every call.
    Always,
    /// Before calls of tools that say nothing about themselves, or that they destroy.
    Destructive,
    /// Before none.
    Never,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsTable {
    /// Seconds of a call.
    #[schemars(range(min = 1, max = 300))]
    pub(crate) time_seconds: Option<u64>,
    /// MiB of memory of a call.
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) memory_mib: Option<u64>,
    /// Lines of log of a call that are kept.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) log_lines: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum VariableWord {
    /// Its value.
    Value(String),
    /// The value of a variable of the host.
    From(FromVariable),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FromVariable {
    /// The variable of the host.
    pub(crate) from: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MountTable {
    /// The directory on the host: an absolute path without links.
    pub(crate) host: String,
    /// Its path in the tool, for example `/data`.
    pub(crate) guest: String,
    /// What the tool may do there.
    pub(crate) access: AccessWord,
    /// Whether another component may be granted the same directory, too.
    #[serde(default)]
    pub(crate) shared: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessWord {
    /// Read and list.
    ReadOnly,
    /// Also create, change and remove.
    ReadWrite,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpTable {
    /// Scheme, host and port, for example `https://api.example.org` or `https://*.example.org:8443`.
    pub(crate) origin: String,
    /// GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
    #[schemars(length(min = 1))]
    pub(crate) methods: Vec<String>,
    /// Only this path and what is below it.
    pub(crate) path: Option<String>,
    /// Networks of the operator's own into which the name may lead, for example `10.1.0.0/16`.
    #[serde(default)]
    pub(crate) private_networks: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretTable {
    /// Its name in messages.
    pub(crate) name: String,
    /// The origin that it is sent to, and no other.
    pub(crate) origin: String,
    /// Only with requests to this path and what is below it.
    pub(crate) path: Option<String>,
    /// The header that carries it.
    pub(crate) header: String,
    /// What stands before it in the header, for example `Bearer ` with its space.
    #[serde(default)]
    pub(crate) prefix: String,
    /// Where its value comes from.
    pub(crate) from: SourceTable,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceTable {
    /// A variable of the host's environment.
    pub(crate) env: Option<String>,
    /// A file, for example one that an orchestrator mounts.
    pub(crate) file: Option<String>,
    /// A command and its arguments, whose output it is, for example of a password manager or the keyring.
    pub(crate) command: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyValueTable {
    /// KiB of all keys and values.
    #[schemars(range(min = 1, max = 65_536))]
    pub(crate) total_kib: Option<u64>,
    /// KiB of one value.
    #[schemars(range(min = 1, max = 1_024))]
    pub(crate) value_kib: Option<u64>,
    /// How many keys.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) keys: Option<u64>,
}
