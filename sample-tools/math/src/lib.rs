//! A tool that evaluates arithmetic expressions.

mod evaluate;
mod number;

use toolcell_guest::tool;

/// Evaluates an arithmetic expression and returns the number.
///
/// Operators + - * / % ^ and parentheses, constants pi and e, functions sqrt, sin, cos, tan (radians), ln, log
/// (base 10), exp, abs, round, floor, ceil, min, max.
#[tool(read_only, idempotent, title = "Calculator")]
fn math(
    /// The expression, for example `2 * (3 + 4) ^ 2` or `max(1, sqrt(2))`.
    expression: String,
) -> Result<String, evaluate::Error> {
    evaluate::evaluate(&expression).map(number::format)
}

toolcell_guest::export!(math);

#[cfg(test)]
mod tests {
    use super::*;
    use toolcell_guest::{ToolResult, serde_json::json, testing, tool_of};

    #[test]
    fn the_model_sees_the_number_or_why_there_is_none() {
        let call = |arguments: &str| tool_of!(math).call(arguments, &testing::first_call());
        assert_eq!(call(r#"{"expression": "2+2"}"#), ToolResult::ok("4"));
        assert_eq!(
            call(r#"{"expression": "sqrt(-1)"}"#),
            ToolResult::error("sqrt of a negative number (-1): the result is not real (at position 1)")
        );
        assert_eq!(call("{}"), ToolResult::error("the argument \"expression\" is missing"));
    }

    #[test]
    fn the_schema_asks_for_an_expression() {
        let definition = tool_of!(math).definition();
        assert_eq!(
            definition.input_schema,
            json!({
                "type": "object",
                "properties": {
                    "expression": {
                        "type": "string",
                        "description": "The expression, for example `2 * (3 + 4) ^ 2` or `max(1, sqrt(2))`.",
                    },
                },
                "additionalProperties": false,
                "required": ["expression"],
            })
        );
    }
}
