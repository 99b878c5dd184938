//! From the JSON text of a call to the typed arguments of a function.
//!
//! An argument stays JSON text until its parameter takes it, so that an error can name it, and a tool carries no
//! code for values of unknown shape. The host has checked the arguments against the schema before; what is left for
//! here are the limits that a schema does not state.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A type that a parameter of a tool may have: everything that can be read from JSON and has a schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a tool",
    label = "not an argument",
    note = "put #[toolcell_guest::argument] on the type, or derive serde's Deserialize and schemars' JsonSchema"
)]
pub trait Argument: DeserializeOwned + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// The arguments of one call.
pub struct Arguments<'a>(Vec<(String, &'a RawValue)>);

/// Why a call's arguments do not fit its function; the text goes to the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The text is no JSON object.
    #[error("the arguments are not a JSON object: {0}")]
    NotAnObject(#[source] serde_json::Error),
    /// A required argument is not there.
    #[error("the argument \"{0}\" is missing")]
    Missing(&'static str),
    /// An argument has another type or value than its parameter.
    #[error("the argument \"{name}\" does not fit: {reason}")]
    Unfit {
        /// Which one.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl<'a> Arguments<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, ArgumentError> {
        serde_json::from_str(text).map_err(ArgumentError::NotAnObject)
    }

    /// Reads an argument that has to be there.
    ///
    /// # Errors
    /// When it is not there, or does not fit.
    pub fn required<T: Argument>(&self, name: &'static str) -> Result<T, ArgumentError> {
        read(name, self.text(name).ok_or(ArgumentError::Missing(name))?)
    }

    /// Reads an argument whose type has a value for "not there"; JSON's null is the same.
    ///
    /// # Errors
    /// When it does not fit.
    pub fn optional<T: Argument>(&self, name: &'static str) -> Result<T, ArgumentError> {
        read(name, self.text(name).unwrap_or("null"))
    }

    /// Reads an argument, or gives its default.
    ///
    /// # Errors
    /// When it is there and does not fit.
    pub fn or_else<T: Argument>(&self, name: &'static str, default: fn() -> T) -> Result<T, ArgumentError> {
        self.text(name).map_or_else(|| Ok(default()), |text| read(name, text))
    }

    /// The last one counts, as in every JSON object whose keys repeat.
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.get())
    }
}

fn read<T: DeserializeOwned>(name: &'static str, text: &str) -> Result<T, ArgumentError> {
    serde_json::from_str(text).map_err(|error| {
        let whole = error.to_string();
        // The place is counted from the start of this argument, which the model does not see.
        let place = format!(" at line {} column {}", error.line(), error.column());
        ArgumentError::Unfit { name, reason: whole.strip_suffix(place.as_str()).unwrap_or(&whole).to_owned() }
    })
}

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Arguments<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Arguments<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Arguments(entries))
    }
}
