//! A form at the terminal: the fields of a flat schema, asked for one after the other.

use std::io::IsTerminal as _;
use std::time::Instant;

use serde_json::{Map, Value, json};
use toolcell::ArgumentSchema;

use crate::lines::Lines;
use crate::printable::one_line;
use crate::screen::Screen;

/// The fields that an answer should have, and the schema that the whole must fit.
pub(crate) struct Form<'a> {
    schema: ArgumentSchema,
    properties: Vec<(&'a str, &'a Value)>,
    required: Vec<&'a str>,
}

/// What came of a form.
pub(crate) enum Filled {
    /// All fields were asked for, and together they fit.
    Whole(Map<String, Value>),
    /// The person gave up.
    Declined,
    /// The input ended before.
    Ended,
}

/// What was typed for one field.
enum Field {
    Value(Value),
    Empty,
    Declined,
    Ended,
}

impl<'a> Form<'a> {
    /// Reads a flat schema; what is wrong with it is the error.
    pub(crate) fn new(schema: &'a Value) -> Result<Self, String> {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        Ok(Self {
            properties: properties.map(|(name, property)| (name.as_str(), property)).collect(),
            required: required_fields(schema),
            schema: ArgumentSchema::compile(schema).map_err(|error| error.to_string())?,
        })
    }

    /// Whether there is anything to type.
    pub(crate) fn has_fields(&self) -> bool {
        !self.properties.is_empty()
    }

    /// Why the data do not fit.
    fn problem(&self, data: &Map<String, Value>) -> Option<String> {
        problem(&self.schema, data)
    }
}

/// The names that a flat schema requires.
pub(crate) fn required_fields(schema: &Value) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn problem(schema: &ArgumentSchema, data: &Map<String, Value>) -> Option<String> {
    let failure = schema.check(&Value::Object(data.clone()).to_string()).err()?;
    Some(failure.detail.unwrap_or_default())
}

/// One question at the terminal.
pub(crate) struct Dialogue<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) lines: &'a Lines,
    /// When the question was shown; what was typed before answers another.
    pub(crate) asked: Instant,
}

impl Dialogue<'_> {
    /// Asks for one line; none when the input ends.
    pub(crate) async fn prompt(&self, text: &str) -> Option<String> {
        self.screen.prompt(text);
        let line = self.lines.next(self.asked).await;
        self.screen.answered();
        // The Enter of a person ends the line of the prompt; the end of input and a pipe leave it open.
        if line.is_none() || !std::io::stdin().is_terminal() {
            self.screen.line("");
        }
        line
    }

    /// Asks for every field, until the whole fits the schema.
    pub(crate) async fn fill(&self, form: &Form<'_>) -> Filled {
        if form.has_fields() {
            self.screen.line("  (an empty line leaves a field out, ! declines)");
        }
        loop {
            let mut data = Map::new();
            for (name, property) in &form.properties {
                match self.field(name, property, form.required.contains(name)).await {
                    Field::Value(value) => drop(data.insert((*name).to_owned(), value)),
                    Field::Empty => {}
                    Field::Declined => return Filled::Declined,
                    Field::Ended => return Filled::Ended,
                }
            }
            let Some(problem) = form.problem(&data) else { return Filled::Whole(data) };
            self.does_not_fit(&problem);
            if !form.has_fields() {
                self.screen.line("  the tool wants an answer that cannot be typed here");
                return Filled::Declined;
            }
        }
    }

    /// One field, until it fits its own schema.
    async fn field(&self, name: &str, property: &Value, is_required: bool) -> Field {
        let required = if is_required { vec![name] } else { Vec::new() };
        let alone = json!({"type": "object", "properties": {name: property}, "required": required});
        // A property that refers to other parts of the schema is checked with the whole.
        let schema = ArgumentSchema::compile(&alone).ok();
        loop {
            let Some(text) = self.prompt(&label(name, property, is_required)).await else { return Field::Ended };
            let (field, data) = match text.trim() {
                "!" => return Field::Declined,
                "" => (Field::Empty, Map::new()),
                text => {
                    let value = typed(text, property);
                    (Field::Value(value.clone()), Map::from_iter([(name.to_owned(), value)]))
                }
            };
            match schema.as_ref().and_then(|schema| problem(schema, &data)) {
                None => return field,
                Some(problem) => self.does_not_fit(&problem),
            }
        }
    }

    fn does_not_fit(&self, problem: &str) {
        self.screen.line(&format!("  that does not fit: {}", one_line(problem, 200)));
    }
}

/// The fields of a flat schema in words: `seat (string; one of 1A, 1B; required; Where to sit)`.
pub(crate) fn described_fields(schema: &Value) -> Vec<String> {
    let required = required_fields(schema);
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.map(|(name, property)| described(name, property, required.contains(&name.as_str()))).collect()
}

/// `  seat (string; one of 1A, 1B; required; Where to sit): `
fn label(name: &str, property: &Value, required: bool) -> String {
    format!("  {}: ", described(name, property, required))
}

fn described(name: &str, property: &Value, required: bool) -> String {
    let kind = match property.get("type").and_then(Value::as_str) {
        Some(kind @ ("array" | "object")) => &format!("{kind} as JSON"),
        Some(kind) => kind,
        None => "value",
    };
    let mut notes = vec![kind.to_owned()];
    if let Some(options) = property.get("enum").and_then(Value::as_array) {
        let options: Vec<_> = options.iter().map(|o| o.as_str().map_or_else(|| o.to_string(), str::to_owned)).collect();
        notes.push(format!("one of {}", options.join(", ")));
    }
    notes.push(if required { "required" } else { "optional" }.to_owned());
    if let Some(description) = property.get("description").and_then(Value::as_str) {
        notes.push(description.to_owned());
    }
    format!("{} ({})", one_line(name, 40), one_line(&notes.join("; "), 200))
}

/// What was typed, as the type that the schema names; what does not parse stays a text and is refused by the schema.
fn typed(text: &str, property: &Value) -> Value {
    let kind = property.get("type").and_then(Value::as_str);
    let as_text = || Value::String(text.to_owned());
    match kind {
        Some("string") => as_text(),
        Some("boolean") => match text.to_lowercase().as_str() {
            "y" | "yes" | "true" => Value::Bool(true),
            "n" | "no" | "false" => Value::Bool(false),
            _ => as_text(),
        },
        _ => serde_json::from_str(text).unwrap_or_else(|_| as_text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_what_the_schema_names() {
        for (kind, text, value) in [
            ("string", "12", json!("12")),
            ("integer", "12", json!(12)),
            ("integer", "twelve", json!("twelve")),
            ("boolean", "yes", json!(true)),
            ("boolean", "maybe", json!("maybe")),
            ("array", "[1]", json!([1])),
        ] {
            assert_eq!(typed(text, &json!({"type": kind})), value);
        }
    }

    #[test]
    fn a_label_says_type_choices_and_need() {
        let property = json!({"type": "string", "enum": ["1A", "1B"], "description": "Where to sit\u{1b}[2J"});
        let expected = r"  seat (string; one of 1A, 1B; required; Where to sit\u{1b}[2J): ";
        assert_eq!(label("seat", &property, true), expected);
    }
}
