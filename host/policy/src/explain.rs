//! What a component asks for by its imports, what of it is granted, and what would grant the rest.

use std::fmt;

use crate::policy::{Grants, MountGrant, Variable};

/// A kind of power, by which interfaces it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerKind {
    /// `wasi:filesystem`. Many languages import it whether a tool uses it or not.
    Files,
    /// `wasi:cli/environment`. Many languages import it whether a tool uses it or not.
    Environment,
    /// `toolcell:tool/http` and `wasi:http`.
    Http,
    /// `toolcell:tool/key-value`.
    KeyValue,
    /// `wasi:sockets`, which is never granted. Interpreters import it whether a tool uses it or not.
    Sockets,
}

/// What is known of one kind of power for one component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which power.
    pub kind: PowerKind,
    /// The interfaces of it that the component imports; none: it is granted for nothing.
    pub imports: Vec<String>,
    /// What is granted of it, a line each.
    pub granted: Vec<String>,
    /// The command that would grant it, where nothing is and something could be.
    pub remedy: Option<String>,
}

impl PowerKind {
    const ALL: [Self; 5] = [Self::Files, Self::Environment, Self::Http, Self::KeyValue, Self::Sockets];

    fn is_asked_by(self, import: &str) -> bool {
        let prefixes: &[&str] = match self {
            Self::Files => &["wasi:filesystem/preopens"],
            Self::Environment => &["wasi:cli/environment"],
            Self::Http => &["toolcell:tool/http", "wasi:http/outgoing-handler"],
            Self::KeyValue => &["toolcell:tool/key-value"],
            Self::Sockets => &["wasi:sockets/"],
        };
        prefixes.iter().any(|prefix| import.starts_with(prefix))
    }

    fn granted(self, grants: &Grants) -> Vec<String> {
        match self {
            Self::Files => grants.mounts.iter().map(MountGrant::to_string).collect(),
            Self::Environment => {
                let named = |(name, variable): (&String, &Variable)| match variable {
                    Variable::Value(_) => name.clone(),
                    Variable::From(from) => format!("{name} from the host's {from}"),
                };
                grants.environment.iter().map(named).collect()
            }
            Self::Http => {
                let rules = grants.http.iter().map(|rule| rule.to_string());
                let secrets = grants
                    .secrets
                    .iter()
                    .map(|secret| format!("secret {} in {} for {}", secret.name, secret.header, secret.rule.origin()));
                rules.chain(secrets).collect()
            }
            Self::KeyValue => grants.key_value.iter().map(|grant| format!("{} KiB", grant.total_bytes >> 10)).collect(),
            Self::Sockets => Vec::new(),
        }
    }

    fn remedy(self, component: &str) -> Option<String> {
        let option = match self {
            Self::Files => "--mount /directory/of/the/host:/data",
            Self::Environment => "--env NAME=VALUE",
            Self::Http => "--http https://api.example.org --method GET",
            Self::KeyValue => "--key-value",
            Self::Sockets => return None,
        };
        Some(format!("toolcell grant {component} {option}"))
    }
}

impl fmt::Display for PowerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files",
            Self::Environment => "environment",
            Self::Http => "http",
            Self::KeyValue => "key-value",
            Self::Sockets => "sockets",
        })
    }
}

impl fmt::Display for MountGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.is_writable { "read and write" } else { "read" };
        write!(f, "{access} {} as {}", self.host.display(), self.guest)
    }
}

/// What a component asks for and is granted: a finding for each power that it imports, or is granted without importing it.
#[must_use]
pub fn explain(component: &str, imports: &[String], grants: &Grants) -> Vec<Finding> {
    let finding = |kind: PowerKind| {
        let imports: Vec<_> = imports.iter().filter(|import| kind.is_asked_by(import)).cloned().collect();
        let granted = kind.granted(grants);
        let remedy = if granted.is_empty() { kind.remedy(component) } else { None };
        (!imports.is_empty() || !granted.is_empty()).then_some(Finding { kind, imports, granted, remedy })
    };
    PowerKind::ALL.into_iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn imports(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_asked_for_and_not_granted_comes_with_its_remedy() {
        let imports = imports(&["wasi:io/poll@0.2.6", "toolcell:tool/http@0.1.0", "wasi:sockets/tcp@0.2.6"]);
        let found = explain("a", &imports, &Grants::default());
        let [http, sockets] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (http.kind, http.imports.as_slice()),
            (PowerKind::Http, &["toolcell:tool/http@0.1.0".to_owned()][..])
        );
        assert_eq!(http.remedy.as_deref(), Some("toolcell grant a --http https://api.example.org --method GET"));
        assert_eq!((sockets.kind, &sockets.remedy), (PowerKind::Sockets, &None), "nothing grants sockets");
    }

    #[test]
    fn what_is_granted_is_shown_without_values_also_where_nobody_asks_for_it() {
        let policy = Policy::parse(
            "toolcell.toml",
            "[component.a]\nenvironment = { KEY = \"canary\" }\nkey_value = {}\n[[component.a.mounts]]\nhost = \"/srv\"\n\
             guest = \"/data\"\naccess = \"read-write\"",
        );
        let found = explain("a", &[], policy.unwrap().grants("a"));
        let granted: Vec<_> = found.iter().flat_map(|finding| &finding.granted).map(String::as_str).collect();
        assert_eq!(granted, ["read and write /srv as /data", "KEY", "1024 KiB"]);
        assert!(found.iter().all(|finding| finding.imports.is_empty() && finding.remedy.is_none()));
    }
}
