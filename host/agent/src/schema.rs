//! A tool's input schema, ready to check what a model wrote before anything is instantiated.

use serde_json::Value;
use toolcell_contract::limits::ARGUMENTS_BYTES_MAX;
use toolcell_contract::{Failure, FailureCode};

/// A model mends one or two mistakes at a time; more would only fill its context.
const ERRORS_SHOWN_MAX: usize = 5;

/// The texts of schema errors quote the value; a long one says no more than its beginning.
const ERROR_CHARS_MAX: usize = 300;

/// A compiled input schema.
#[derive(Clone)]
pub struct ArgumentSchema(jsonschema::Validator);

impl std::fmt::Debug for ArgumentSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ArgumentSchema")
    }
}

/// A schema that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the input schema is not usable at \"{path}\": {message}")]
pub struct SchemaError {
    /// A JSON pointer into the schema.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl ArgumentSchema {
    /// Compiles a schema of draft 2020-12, or of the draft that its `$schema` names.
    ///
    /// Nothing is ever fetched: a `$ref` to somewhere else is an error. Patterns run on an engine whose time is linear
    /// in the text, so a tool's schema cannot stall the host.
    ///
    /// # Errors
    /// [`SchemaError`] when it is no JSON Schema, or when its root does not describe an object.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let describes_object = schema.get("type").is_some_and(|kind| kind == "object");
        if !describes_object {
            let message = "the root must have \"type\": \"object\", because arguments are an object".to_owned();
            return Err(SchemaError { path: String::new(), message });
        }
        jsonschema::options()
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .build(schema)
            .map(Self)
            .map_err(|e| SchemaError { path: e.instance_path().to_string(), message: shorten(&e.to_string()) })
    }

    /// Checks what a model wrote. An empty text stands for an empty object: several servers send it for a call without
    /// arguments.
    ///
    /// # Errors
    /// A [`Failure`] of code `invalid-arguments` that says which field is wrong and why.
    pub fn check(&self, arguments: &str) -> Result<Value, Failure> {
        if arguments.len() > ARGUMENTS_BYTES_MAX {
            let size = arguments.len();
            return Err(invalid(format!("they have {size} bytes; at most {ARGUMENTS_BYTES_MAX} are accepted")));
        }
        let value = if arguments.trim().is_empty() {
            Value::Object(serde_json::Map::new())
        } else {
            serde_json::from_str(arguments).map_err(|e| invalid(format!("they are not valid JSON: {e}")))?
        };
        if !value.is_object() {
            return Err(invalid("they must be a JSON object".to_owned()));
        }
        let problems = self.problems(&value);
        if problems.is_empty() { Ok(value) } else { Err(invalid(problems.join("\n"))) }
    }

    /// A line for each of the first problems.
    fn problems(&self, value: &Value) -> Vec<String> {
        let mut errors = self.0.iter_errors(value);
        let mut lines: Vec<_> = errors.by_ref().take(ERRORS_SHOWN_MAX).map(|e| describe(&e)).collect();
        if errors.next().is_some() {
            lines.push("(and more)".to_owned());
        }
        lines
    }
}

fn invalid(detail: String) -> Failure {
    Failure::with_detail(FailureCode::InvalidArguments, detail)
}

/// `field: reason`, with the JSON pointer of the field; the root is called "arguments".
fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let place = if path.is_empty() { "arguments" } else { &path };
    format!("{}: {}", shorten(place), shorten(&error.to_string()))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(ERROR_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> ArgumentSchema {
        ArgumentSchema::compile(&json!({
            "type": "object",
            "properties": {"to": {"type": "string", "pattern": "^(a+)+$"}, "count": {"type": "integer", "minimum": 1}},
            "required": ["to"],
            "additionalProperties": false,
        }))
        .unwrap()
    }

    fn detail(arguments: &str) -> String {
        let failure = schema().check(arguments).unwrap_err();
        assert_eq!(failure.code, FailureCode::InvalidArguments);
        failure.detail.unwrap()
    }

    #[test]
    fn arguments_that_fit_are_given_back_as_a_value() {
        assert_eq!(schema().check(r#"{"to":"aa","count":2}"#), Ok(json!({"to": "aa", "count": 2})));
    }

    #[test]
    fn an_empty_text_is_an_empty_object() {
        let open = ArgumentSchema::compile(&json!({"type": "object"})).unwrap();
        assert_eq!(open.check(""), Ok(json!({})));
        assert_eq!(open.check(" \n"), Ok(json!({})));
    }

    #[test]
    fn what_does_not_fit_is_said_with_field_and_reason() {
        assert_eq!(detail(r#"{"to":"aa","count":0}"#), "/count: 0 is less than the minimum of 1");
        assert_eq!(detail("{}"), "arguments: \"to\" is a required property");
        assert_eq!(
            detail(r#"{"to":1,"extra":2}"#),
            "/to: 1 is not of type \"string\"\narguments: Additional properties are not allowed ('extra' was unexpected)"
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert_eq!(detail("[1]"), "they must be a JSON object");
        assert!(detail("{\"to\":").starts_with("they are not valid JSON: EOF"), "{}", detail("{\"to\":"));
        assert!(detail(&"[".repeat(100_000)).starts_with("they are not valid JSON: recursion limit"));
    }

    #[test]
    fn arguments_are_accepted_up_to_their_limit() {
        let open = ArgumentSchema::compile(&json!({"type": "object"})).unwrap();
        let text = |size: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(size - 8));
        assert!(open.check(&text(ARGUMENTS_BYTES_MAX)).is_ok());
        assert!(open.check(&text(ARGUMENTS_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_pattern_that_backtracks_elsewhere_takes_linear_time_here() {
        let arguments = json!({"to": format!("{}!", "a".repeat(100_000))}).to_string();
        assert!(detail(&arguments).starts_with("/to: "));
    }

    #[test]
    fn a_schema_that_reaches_outside_is_refused() {
        for reference in ["http://169.254.169.254/x", "file:///etc/passwd", "other.json"] {
            let schema = json!({"type": "object", "properties": {"a": {"$ref": reference}}});
            assert!(ArgumentSchema::compile(&schema).is_err(), "{reference}");
        }
    }

    #[test]
    fn a_schema_that_is_none_is_refused_with_the_place() {
        let error = ArgumentSchema::compile(&json!({"type": "object", "properties": {"a": {"type": "text"}}}));
        assert_eq!(error.unwrap_err().path, "/properties/a/type");
        assert!(ArgumentSchema::compile(&json!({"type": "string"})).is_err());
        assert!(ArgumentSchema::compile(&json!(true)).is_err());
    }
}
