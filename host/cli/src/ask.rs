//! Asking the person at the terminal what a tool wants to know.

use std::io::IsTerminal as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use toolcell::contract::{Answer, RequestKind};
use toolcell::{Answerer, ArgumentSchema, Nobody, Question};

use crate::args::{Asking, When};
use crate::lines::Lines;
use crate::printable::{one_line, printable};
use crate::screen::Screen;

/// Whoever answers, as the options and the terminal say.
pub(crate) fn answerer(asking: &Asking, screen: &Arc<Screen>) -> Arc<dyn Answerer> {
    if asking.yes {
        let screen = Arc::clone(screen);
        return Arc::new(move |question: Question| std::future::ready(yes(question, &screen)));
    }
    let ask = match asking.ask {
        When::Always => true,
        When::Never => false,
        When::Auto => std::io::stdin().is_terminal(),
    };
    if !ask {
        return Arc::new(Nobody);
    }
    let terminal = Arc::new(Terminal { screen: Arc::clone(screen), lines: Lines::default(), turn: Mutex::new(()) });
    Arc::new(move |question: Question| {
        let terminal = Arc::clone(&terminal);
        async move { terminal.ask(question).await }
    })
}

/// The answer of `--yes`. What has to be typed it cannot know, so such a question stays open.
fn yes(question: Question, screen: &Screen) -> Option<Answer> {
    let required = question.request.answer_schema().map(required_fields).unwrap_or_default();
    let prompt = one_line(&question.request.prompt, 200);
    if !required.is_empty() {
        let fields = one_line(&required.join(", "), 200);
        screen.line(&format!("⏸ {} asks: {prompt} — it wants {fields}, which --yes cannot type", question.tool));
        return None;
    }
    screen.line(&format!("⏸ {} asks: {prompt} — yes", question.tool));
    Some(Answer::approve(question.request.id))
}

/// The names that a flat schema requires.
fn required_fields(schema: &Value) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The terminal asks one question at a time.
struct Terminal {
    screen: Arc<Screen>,
    lines: Lines,
    turn: Mutex<()>,
}

impl Terminal {
    /// The person's answer; none when the input ends.
    async fn ask(&self, question: Question) -> Option<Answer> {
        let _turn = self.turn.lock().await;
        let _asking = self.screen.asking();
        self.lines.forget_typed_ahead().await;
        let request = &question.request;
        self.screen.line("");
        self.screen.line(&format!("⏸ {} asks for {}", question.tool, one_line(request.kind.as_str(), 40)));
        for line in printable(&request.prompt).lines() {
            self.screen.line(&format!("    {line}"));
        }
        if let Some(url) = &request.url {
            self.screen.line(&format!("    open {}", printable(url)));
        }
        // The tool's words above, the host's own record below: a person decides on what will really run.
        let digest = question.digest.map_or_else(|| "part of the host".to_owned(), |digest| digest.short());
        let arguments = printable(&question.arguments.to_string());
        self.screen.line(&format!("  call      {} {arguments}", question.tool));
        self.screen.line(&format!("  component {digest}"));
        let schema = request.answer_schema().cloned();
        match (&request.kind, schema) {
            (RequestKind::Input | RequestKind::Question, Some(schema)) => {
                self.fill(&schema).await.map(|filled| match filled {
                    Some(data) => Answer::approve(&request.id).with_data(data),
                    None => Answer::decline(&request.id, "declined"),
                })
            }
            (RequestKind::Input | RequestKind::Question, None) => {
                let text = self.prompt("  your answer (an empty line declines): ").await?;
                Some(if text.trim().is_empty() {
                    Answer::decline(&request.id, "declined")
                } else {
                    Answer::approve(&request.id).with_data(Map::from_iter([("text".to_owned(), Value::String(text))]))
                })
            }
            (RequestKind::Approval | RequestKind::Authorization | RequestKind::Other(_), schema) => {
                let ask = if request.url.is_some() { "  done? [y/n] " } else { "  approve? [y/n] " };
                if !self.yes_or_no(ask).await? {
                    return Some(Answer::decline(&request.id, "declined"));
                }
                let Some(schema) = schema else { return Some(Answer::approve(&request.id)) };
                self.fill(&schema).await.map(|filled| match filled {
                    Some(data) => Answer::approve(&request.id).with_data(data),
                    None => Answer::decline(&request.id, "declined"),
                })
            }
        }
    }

    async fn yes_or_no(&self, text: &str) -> Option<bool> {
        loop {
            match self.prompt(text).await?.trim().to_lowercase().as_str() {
                "y" | "yes" => return Some(true),
                "n" | "no" => return Some(false),
                _ => self.screen.line("  type y or n"),
            }
        }
    }

    /// Asks for each property of a flat schema, until the whole fits it. `Some(None)`: the person gave up.
    async fn fill(&self, schema: &Value) -> Option<Option<Map<String, Value>>> {
        let no_properties = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
        let required = required_fields(schema);
        let checker = ArgumentSchema::compile(schema).ok();
        if !properties.is_empty() {
            self.screen.line("  (an empty line leaves a field out, ! declines)");
        }
        loop {
            let (mut data, mut has_ended) = (Map::new(), false);
            for (name, property) in properties {
                match self.field(name, property, required.contains(&name.as_str())).await {
                    Field::Value(value) => drop(data.insert(name.clone(), value)),
                    Field::Empty => {}
                    Field::Declined => return Some(None),
                    // What is left stays empty, which is fine for optional fields.
                    Field::Ended => {
                        has_ended = true;
                        break;
                    }
                }
            }
            let Some(problem) = checker.as_ref().and_then(|checker| problem(checker, &data)) else {
                return Some(Some(data));
            };
            if has_ended {
                return None;
            }
            self.screen.line(&format!("  that does not fit: {}", one_line(&problem, 200)));
            if properties.is_empty() {
                self.screen.line("  the tool wants an answer that cannot be typed here");
                return Some(None);
            }
        }
    }

    /// One property, until it fits its own schema.
    async fn field(&self, name: &str, property: &Value, is_required: bool) -> Field {
        let required = if is_required { vec![name] } else { Vec::new() };
        let alone = json!({"type": "object", "properties": {name: property}, "required": required});
        let checker = ArgumentSchema::compile(&alone).ok();
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
            match checker.as_ref().and_then(|checker| problem(checker, &data)) {
                None => return field,
                Some(problem) => self.screen.line(&format!("  that does not fit: {}", one_line(&problem, 200))),
            }
        }
    }

    async fn prompt(&self, text: &str) -> Option<String> {
        self.screen.prompt(text);
        let line = self.lines.next().await;
        self.screen.answered();
        // The Enter of a person ends the line of the prompt; the end of input and a pipe leave it open.
        if line.is_none() || !std::io::stdin().is_terminal() {
            self.screen.line("");
        }
        line
    }
}

/// What was typed for one field.
enum Field {
    Value(Value),
    Empty,
    Declined,
    Ended,
}

/// Why the data does not fit the schema of the answer.
fn problem(checker: &ArgumentSchema, data: &Map<String, Value>) -> Option<String> {
    let failure = checker.check(&Value::Object(data.clone()).to_string()).err()?;
    Some(failure.detail.unwrap_or_default())
}

/// `  seat (string: 1A, 1B; required; Where to sit): `
fn label(name: &str, property: &Value, required: bool) -> String {
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
    format!("  {} ({}): ", one_line(name, 40), one_line(&notes.join("; "), 200))
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
