//! What a tool function may return.

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;
use toolcell_contract::ToolResult;

use crate::Context;

/// What a call gives back to its caller: on wasm what crosses the wall, in a native test the contract's result.
#[cfg(target_family = "wasm")]
pub type Returned = crate::bindings::toolcell::tool::tool_types::ToolResult;
/// What a call gives back to its caller: on wasm what crosses the wall, in a native test the contract's result.
#[cfg(not(target_family = "wasm"))]
pub type Returned = ToolResult;

/// A type that a tool function may return.
///
/// | returned | is |
/// |---|---|
/// | `String`, `&str` | ok with this output |
/// | `()` | ok with an empty output |
/// | [`serde_json::Value`], [`Json<T>`] | ok with compact JSON as output |
/// | [`ToolResult`] | itself: the way to give parts, metadata or a question |
/// | `Result<T, E>` | `T` as above; `E: Display` is the error that the model reads |
///
/// An error has no parts: if a [`ToolResult`] has both, the parts are named in the output and dropped.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a tool's result",
    note = "return ToolResult, String, &str, (), Json<T> where T: Serialize, or Result<one of them, E> where E: Display"
)]
pub trait IntoToolResult: Sized {
    /// Converts it.
    fn into_tool_result(self) -> ToolResult;

    /// Converts it for the caller. A result that is text alone takes a way that needs no JSON, so that a small
    /// tool carries none.
    #[doc(hidden)]
    fn into_returned(self, context: &Context) -> Returned {
        returned(self.into_tool_result(), context)
    }
}

#[cfg(target_family = "wasm")]
fn returned(result: ToolResult, context: &Context) -> Returned {
    crate::wire::result(result, context.next_state())
}

#[cfg(not(target_family = "wasm"))]
fn returned(result: ToolResult, _: &Context) -> Returned {
    result
}

/// An ok result that is text alone.
fn ok(output: String) -> Returned {
    #[cfg(target_family = "wasm")]
    return Returned::Ok(crate::wire::text(output));
    #[cfg(not(target_family = "wasm"))]
    return ToolResult::ok(output);
}

/// An error that is text alone.
pub(crate) fn error(output: String) -> Returned {
    #[cfg(target_family = "wasm")]
    return Returned::Error(crate::wire::text(output));
    #[cfg(not(target_family = "wasm"))]
    return ToolResult::error(output);
}

/// A value that becomes the output as compact JSON.
///
/// ```
/// use toolcell_guest::{IntoToolResult, Json, ToolResult};
///
/// assert_eq!(Json([1, 2]).into_tool_result(), ToolResult::ok("[1,2]"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> ToolResult {
        self
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok(self)
    }

    fn into_returned(self, _: &Context) -> Returned {
        ok(self)
    }
}

impl IntoToolResult for &str {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok(self)
    }

    fn into_returned(self, context: &Context) -> Returned {
        self.to_owned().into_returned(context)
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok("")
    }

    fn into_returned(self, context: &Context) -> Returned {
        "".into_returned(context)
    }
}

impl IntoToolResult for Value {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok(self.to_string())
    }

    fn into_returned(self, context: &Context) -> Returned {
        self.to_string().into_returned(context)
    }
}

impl<T: Serialize> Json<T> {
    fn text(&self) -> Result<String, String> {
        serde_json::to_string(&self.0).map_err(|error| format!("the result cannot be written as JSON: {error}"))
    }
}

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> ToolResult {
        self.text().into_tool_result()
    }

    fn into_returned(self, context: &Context) -> Returned {
        self.text().into_returned(context)
    }
}

impl<T: IntoToolResult, E: Display> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> ToolResult {
        match self {
            Ok(value) => value.into_tool_result(),
            Err(error) => ToolResult::error(error.to_string()),
        }
    }

    fn into_returned(self, context: &Context) -> Returned {
        match self {
            Ok(value) => value.into_returned(context),
            Err(error) => self::error(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_type_that_a_tool_may_return_becomes_a_result() {
        fn both<T: IntoToolResult + Clone>(value: T) -> ToolResult {
            let returned = value.clone().into_returned(&crate::testing::first_call());
            assert_eq!(value.into_tool_result(), returned);
            returned
        }
        assert_eq!(both("a"), ToolResult::ok("a"));
        assert_eq!(both("a".to_owned()), ToolResult::ok("a"));
        assert_eq!(both(()), ToolResult::ok(""));
        assert_eq!(both(json!({"a": [1, null]})), ToolResult::ok(r#"{"a":[1,null]}"#));
        assert_eq!(both(Json(Some("x"))), ToolResult::ok(r#""x""#));
        assert_eq!(both(ToolResult::ok("a").with_metadata("k", 1)), ToolResult::ok("a").with_metadata("k", 1));
        assert_eq!(both(Ok::<_, String>(Json(1))), ToolResult::ok("1"));
        assert_eq!(both(Err::<ToolResult, _>("no such row")), ToolResult::error("no such row"));
    }

    #[test]
    fn a_value_that_json_cannot_hold_is_an_error() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        let error = "the result cannot be written as JSON: key must be a string";
        assert_eq!(Json(map).into_tool_result(), ToolResult::error(error));
    }
}
