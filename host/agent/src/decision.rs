//! Whether a decision makes sense, before it counts. Pure.

use serde_json::Value;
use toolcell_contract::{Answer, Failure, Object, Request};

use crate::schema::ArgumentSchema;
use crate::store::Decision;

/// Bytes of the JSON of an answer's data. A person types or chooses it.
const DATA_BYTES_MAX: usize = 64 << 10;

/// Why a decision is not taken. The question stays open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDecision {
    /// The data is not what the question asks for.
    #[error("the answer does not fit the question: {0}")]
    Data(String),
    /// The data is too long.
    #[error("the answer has {0} bytes of data; at most {DATA_BYTES_MAX} are accepted")]
    TooLong(usize),
    /// The arguments do not fit the tool.
    #[error("the edited arguments do not fit the tool: {0}")]
    Arguments(String),
    /// Arguments with a no.
    #[error("arguments can be edited with a yes only")]
    ArgumentsWithNo,
    /// The question's schema cannot be used.
    #[error("the tool asks for data by a schema that cannot be used ({0}): the question can only be declined")]
    Schema(String),
}

impl BadDecision {
    /// The kind in a few words, for logs: nothing of the answer.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Data(_) => "it does not fit the question",
            Self::TooLong(_) => "it is too long",
            Self::Arguments(_) | Self::ArgumentsWithNo => "its arguments do not fit the tool",
            Self::Schema(_) => "the tool asks by a schema that cannot be used",
        }
    }
}

/// Checks a decision against what was asked; edited arguments against the tool's schema.
pub(crate) fn check(
    request: &Request,
    tool: impl FnOnce() -> Option<Value>,
    decision: &Decision,
) -> Result<(), BadDecision> {
    let Decision { answer, arguments, .. } = decision;
    match arguments {
        Some(_) if !answer.ok => return Err(BadDecision::ArgumentsWithNo),
        Some(arguments) => check_arguments(tool(), arguments)?,
        None => {}
    }
    check_data(request, answer)
}

fn check_arguments(schema: Option<Value>, arguments: &Object) -> Result<(), BadDecision> {
    let bad = |problem: String| BadDecision::Arguments(problem);
    let schema = schema.ok_or_else(|| bad("its schema is not known".to_owned()))?;
    let schema = ArgumentSchema::compile(&schema).map_err(|error| bad(error.to_string()))?;
    schema.check(&Value::Object(arguments.clone()).to_string()).map(drop).map_err(|failure| bad(problem(failure)))
}

/// What a schema says is wrong, without the words that are for a model.
fn problem(failure: Failure) -> String {
    let detail = failure.detail.unwrap_or_else(|| failure.code.sentence().to_owned());
    let lines = detail.lines().map(|line| line.strip_prefix("arguments: ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("; ")
}

/// Checks an answer's data against what was asked.
pub(crate) fn check_data(request: &Request, answer: &Answer) -> Result<(), BadDecision> {
    let data = answer.data.clone().unwrap_or_default();
    let text = Value::Object(data).to_string();
    if text.len() > DATA_BYTES_MAX {
        return Err(BadDecision::TooLong(text.len()));
    }
    // A no needs no data, and an authorization happens elsewhere.
    let Some(schema) = request.answer_schema().filter(|_| answer.ok) else { return Ok(()) };
    let mut schema = schema.clone();
    if let Value::Object(schema) = &mut schema {
        // A flat schema that says nothing else describes the object.
        schema.entry("type").or_insert_with(|| "object".into());
    }
    let schema = ArgumentSchema::compile(&schema).map_err(|error| BadDecision::Schema(error.to_string()))?;
    schema.check(&text).map(drop).map_err(|failure| BadDecision::Data(problem(failure)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        let Value::Object(object) = value else { panic!("no object") };
        object
    }

    fn decide(request: &Request, answer: Answer) -> Result<(), BadDecision> {
        check(request, || None, &answer.into())
    }

    #[test]
    fn data_must_fit_the_schema_of_the_question_and_falsy_values_are_values() {
        let schema = json!({"properties": {"n": {"type": "integer"}, "yes": {"type": "boolean"}}, "required": ["n"]});
        let request = Request::input("How many?", schema).with_id("pnd-1");
        let yes = |data| decide(&request, Answer::approve("pnd-1").with_data(object(data)));
        assert_eq!(yes(json!({"n": 0, "yes": false})), Ok(()));
        let no_number = BadDecision::Data("/n: \"0\" is not of type \"integer\"".to_owned());
        assert_eq!(yes(json!({"n": "0"})), Err(no_number), "the field, and what it should be");
        assert_eq!(yes(json!({})), Err(BadDecision::Data("\"n\" is a required property".to_owned())));
        assert!(
            matches!(decide(&request, Answer::approve("pnd-1")), Err(BadDecision::Data(_))),
            "it asks for a number"
        );
        assert_eq!(decide(&request, Answer::decline("pnd-1", "declined")), Ok(()), "a no needs none");
    }

    #[test]
    fn a_question_without_a_schema_takes_any_data_of_a_decent_size() {
        let request = Request::approval("gpu?").with_id("pnd-1");
        let yes = |text: String| decide(&request, Answer::approve("pnd-1").with_data(object(json!({"why": text}))));
        assert_eq!(yes("because".into()), Ok(()));
        assert!(matches!(yes("x".repeat(DATA_BYTES_MAX)), Err(BadDecision::TooLong(_))));
    }

    #[test]
    fn a_schema_that_cannot_be_used_leaves_only_a_no() {
        let request = Request::input("?", json!({"$ref": "https://example.org/schema.json"})).with_id("pnd-1");
        assert!(matches!(decide(&request, Answer::approve("pnd-1")), Err(BadDecision::Schema(_))));
        assert_eq!(decide(&request, Answer::decline("pnd-1", "declined")), Ok(()));
    }

    #[test]
    fn edited_arguments_must_fit_the_tool_and_come_with_a_yes() {
        let request = Request::approval("gpu?").with_id("pnd-1");
        let schema = || Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
        let edit = |answer, arguments| {
            check(&request, schema, &Decision { answer, arguments: Some(object(arguments)), by: None })
        };
        assert_eq!(edit(Answer::approve("pnd-1"), json!({"n": 2})), Ok(()));
        assert!(matches!(edit(Answer::approve("pnd-1"), json!({"n": "x"})), Err(BadDecision::Arguments(_))));
        assert_eq!(edit(Answer::decline("pnd-1", "no"), json!({"n": 2})), Err(BadDecision::ArgumentsWithNo));
    }
}
