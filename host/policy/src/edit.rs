//! Adds a grant to the text of a policy, and leaves everything else of it as it was written.

use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

use crate::policy::Policy;
use crate::problem::PolicyError;

/// A grant to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addition {
    /// Requests to an origin.
    Http {
        /// Scheme, host and port.
        origin: String,
        /// At least one.
        methods: Vec<String>,
        /// This path and what is below it.
        path: Option<String>,
    },
    /// A directory.
    Mount {
        /// On the host.
        host: String,
        /// In the guest.
        guest: String,
        /// Whether the guest may change it.
        is_writable: bool,
    },
    /// A variable of the environment.
    Environment {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A key-value space of the usual size.
    KeyValue,
}

/// The text of a policy with one more grant for a component, which is a policy again.
///
/// # Errors
/// [`PolicyError`] when the text is no policy, or would not be one with the grant.
pub fn with_grant(file: &str, text: &str, component: &str, addition: &Addition) -> Result<String, PolicyError> {
    Policy::parse(file, text)?;
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        PolicyError::at(file, text, error.span().unwrap_or(0..0), error.message())
    })?;
    let unwieldy = || {
        let message =
            format!("component \"{component}\" is written in one line: write it as [component.{component}] first");
        PolicyError::at(file, text, 0..0, &message)
    };
    let table = component_table(&mut document, component).ok_or_else(unwieldy)?;
    add(table, addition).ok_or_else(unwieldy)?;
    let text = document.to_string();
    Policy::parse(file, &text)?;
    Ok(text)
}

fn component_table<'d>(document: &'d mut DocumentMut, component: &str) -> Option<&'d mut Table> {
    let implicit = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let components = document.entry("component").or_insert_with(implicit).as_table_mut()?;
    components.entry(component).or_insert_with(implicit).as_table_mut()
}

fn add(table: &mut Table, addition: &Addition) -> Option<()> {
    match addition {
        Addition::Http { origin, methods, path } => {
            let mut grant = Table::new();
            grant["origin"] = value(origin);
            grant["methods"] = value(methods.iter().collect::<toml_edit::Array>());
            if let Some(path) = path {
                grant["path"] = value(path);
            }
            push(table, "http", grant)
        }
        Addition::Mount { host, guest, is_writable } => {
            let mut grant = Table::new();
            grant["host"] = value(host);
            grant["guest"] = value(guest);
            grant["access"] = value(if *is_writable { "read-write" } else { "read-only" });
            push(table, "mounts", grant)
        }
        Addition::Environment { name, value: text } => {
            let environment = table.entry("environment").or_insert(Item::Value(Value::InlineTable(InlineTable::new())));
            environment.as_table_like_mut()?.insert(name, value(text));
            table.set_implicit(false);
            Some(())
        }
        Addition::KeyValue => {
            table.entry("key_value").or_insert(Item::Value(Value::InlineTable(InlineTable::new())));
            table.set_implicit(false);
            Some(())
        }
    }
}

fn push(table: &mut Table, key: &str, grant: Table) -> Option<()> {
    table.entry(key).or_insert(Item::ArrayOfTables(ArrayOfTables::new())).as_array_of_tables_mut()?.push(grant);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: &str, addition: &Addition) -> String {
        with_grant("toolcell.toml", text, "a", addition).unwrap()
    }

    fn http() -> Addition {
        let methods = vec!["GET".to_owned(), "POST".to_owned()];
        Addition::Http { origin: "https://a.example".into(), methods, path: Some("/v1".into()) }
    }

    #[test]
    fn a_grant_is_added_and_the_rest_stays_as_it_was_written() {
        let text = "# mine\n[defaults]   # usual\napprove = \"never\"\n\n[component.a]\nlimits = { time_seconds = 5 } # short\n";
        let new = add(text, &http());
        let added =
            "\n[[component.a.http]]\norigin = \"https://a.example\"\nmethods = [\"GET\", \"POST\"]\npath = \"/v1\"\n";
        assert_eq!(new, format!("{text}{added}"));
        let twice = add(&new, &Addition::Environment { name: "LANGUAGE".into(), value: "de".into() });
        assert!(
            twice.contains("limits = { time_seconds = 5 } # short\nenvironment = { LANGUAGE = \"de\" }\n"),
            "{twice}"
        );
        assert!(twice.contains(added.trim_start()), "{twice}");
    }

    #[test]
    fn an_empty_file_becomes_a_policy() {
        let mount = Addition::Mount { host: "/srv".into(), guest: "/data".into(), is_writable: false };
        let expected = "[[component.a.mounts]]\nhost = \"/srv\"\nguest = \"/data\"\naccess = \"read-only\"\n";
        assert_eq!(add("", &mount), expected);
        assert_eq!(add("", &Addition::KeyValue), "[component.a]\nkey_value = {}\n");
    }

    #[test]
    fn what_would_be_no_policy_is_not_written() {
        let bad = Addition::Http { origin: "a.example".into(), methods: vec!["GET".into()], path: None };
        let refused = with_grant("toolcell.toml", "", "a", &bad).unwrap_err().to_string();
        assert!(refused.contains("the URL must be absolute"), "{refused}");
        let refused = with_grant("toolcell.toml", "nonsense", "a", &http()).unwrap_err().to_string();
        assert!(refused.starts_with("toolcell.toml:1:"), "{refused}");
        let one_line = with_grant("toolcell.toml", "component = { a = {} }", "a", &http()).unwrap_err().to_string();
        assert!(one_line.contains("is written in one line"), "{one_line}");
    }
}
