//! Tools for language models, written in Rust: one function is one tool.
//!
//! A function with a doc comment and typed parameters becomes a tool whose description and JSON Schema come from
//! them. [`export!`] makes a component of one tool or of several; built for `wasm32-wasip2` it is a file that a
//! Toolcell host loads. In a native build the function stays an ordinary function, so `cargo test` tests it.
//!
//! ```
//! use toolcell_guest::tool;
//!
//! /// Converts a temperature from Celsius to Fahrenheit.
//! #[tool(read_only)]
//! fn to_fahrenheit(
//!     /// Degrees Celsius.
//!     celsius: f64,
//!     /// Digits after the point.
//!     #[default(1)]
//!     digits: u8,
//! ) -> Result<String, String> {
//!     if celsius < -273.15 {
//!         return Err(format!("{celsius} °C is below absolute zero: the lowest temperature is -273.15"));
//!     }
//!     Ok(format!("{:.*}", usize::from(digits), celsius * 1.8 + 32.0))
//! }
//!
//! toolcell_guest::export!(to_fahrenheit);
//!
//! assert_eq!(to_fahrenheit(20.0, 1), Ok("68.0".to_owned()));
//! ```
//!
//! # Where to find what
//!
//! - [`tool`](macro@tool): the options of a tool, and what a parameter can be;
//! - [`argument`](macro@argument): structs and enums as arguments;
//! - [`IntoToolResult`]: what a function may return; [`ToolResult`] and [`ContentPart`] for images, sounds and files;
//! - [`Context`]: the call's id and time, and the way to ask a person and to go on with the answer;
//! - [`log`], [`progress()`], [`http`], [`key_value`]: what a tool can ask of its host;
//! - [`testing`]: contexts for native tests.
//!
//! A tool imports only what it uses. The time is `std::time`; files are `std::fs`, as far as the host grants a
//! directory. A host of this version grants no powers yet: there are no files, and [`http`] and [`key_value`] answer
//! `Denied`.
//! A panic ends the call: its message goes to the host's log, and the model only hears that the tool failed, so
//! return an error for what a model can mend.

// The macros name this crate by its name, also in its own tests.
extern crate self as toolcell_guest;

mod arguments;
mod bindings;
#[cfg(target_family = "wasm")]
mod component;
mod context;
pub mod http;
pub mod key_value;
pub mod log;
mod progress;
mod result;
mod schema;
pub mod testing;
mod tool;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "a native build has no wall to cross"))]
mod wire;

pub use arguments::Argument;
pub use context::Context;
pub use progress::progress;
pub use result::{IntoToolResult, Json};
pub use tool::{Parameter, Tool};

pub use toolcell_contract::{
    Annotations, Answer, ContentPart, Definition, Media, Object, PartError, PartKind, Request, RequestKind, Source,
    ToolResult, limits,
};

/// Derives what a type needs to be an argument, without a dependency on serde or schemars.
///
/// It stands for `#[derive(Deserialize, Serialize, JsonSchema)]` of [`serde`] and [`schemars`]; their attributes
/// work as always. Two things are set unless you say otherwise: the variants of an enum are named in `snake_case`,
/// and an unknown field of a struct is an error, so that a misspelt one is noticed.
///
/// ```
/// use toolcell_guest::{argument, tool};
///
/// /// How loud.
/// #[argument]
/// enum Volume {
///     /// For a room.
///     Quiet,
///     VeryLoud,
/// }
///
/// #[argument]
/// struct Person {
///     /// As on the door.
///     name: String,
///     age: Option<u8>,
/// }
///
/// /// Greets people.
/// #[tool(read_only)]
/// fn greet(people: Vec<Person>, #[default(Volume::Quiet)] volume: Volume) -> String {
///     let names: Vec<_> = people.into_iter().map(|person| person.name).collect();
///     match volume {
///         Volume::Quiet => format!("Hello {}", names.join(", ")),
///         Volume::VeryLoud => format!("HELLO {}", names.join(", ")),
///     }
/// }
///
/// let schema = toolcell_guest::tool_of!(greet).definition().input_schema;
/// let volume = &schema["properties"]["volume"];
/// assert_eq!(volume["enum"], serde_json::json!(["quiet", "very_loud"]));
/// assert_eq!(volume["description"], "How loud.\nquiet: For a room.");
/// ```
///
/// An enum of names alone costs nothing; any other type brings schemars into the component, about 50 KB.
pub use toolcell_guest_macros::argument;

/// Makes a component of tools: `export!(math)` or `export!(math, text::search)`. Once in a crate, at its root.
///
/// Each function needs [`#[tool]`](macro@tool): "cannot find value `tool_attribute_of_math`" says that `math` has none,
/// or that there is no such function.
///
/// ```compile_fail
/// /// Has no `#[tool]`.
/// fn math() {}
///
/// toolcell_guest::export!(math);
/// ```
///
/// The names of the tools have to differ:
/// ```compile_fail
/// use toolcell_guest::{export, tool};
///
/// /// One.
/// #[tool]
/// fn one() {}
///
/// /// Another one.
/// #[tool(name = "one")]
/// fn another() {}
///
/// export!(one, another);
/// ```
pub use toolcell_guest_macros::export;

/// Makes a tool of a function.
///
/// The doc comment of the function is the description, which the model reads; those of the parameters describe the
/// arguments. `#[tool]` changes nothing about the function; [`export!`] puts it into the component.
///
/// # Options
///
/// | option | meaning |
/// |---|---|
/// | `name = "…"` | another name than the function's: 1 to 64 of `A-Z a-z 0-9 _ -` |
/// | `title = "…"` | a name for people |
/// | `read_only` | it changes nothing |
/// | `destructive` | it may destroy or overwrite |
/// | `idempotent` | calling it twice with the same arguments is as calling it once |
/// | `open_world` | it talks to the world outside the host |
///
/// The last four are hints for the host, for example whether to ask a person first. A tool that says nothing counts
/// as destructive, and so does one that says something but neither `read_only` nor `destructive = false`.
///
/// # Parameters
///
/// - A type that is [`serde::Deserialize`] and [`schemars::JsonSchema`]: numbers, `bool`, `String`, `Vec<T>`,
///   [`serde_json::Value`], maps, tuples, and your own types with [`#[argument]`](macro@argument).
/// - `Option<T>`: the argument may be left out, or null.
/// - `#[default(5)]` before a parameter: what it is when it is left out; the schema says so.
/// - `&Context` or `Context`: no argument, but what the call knows about itself, see [`Context`].
///
/// The host checks the arguments against the schema before the tool runs. What a schema does not say is checked
/// here, and is an error result that names the argument.
///
/// ```
/// use toolcell_guest::{Json, tool};
///
/// /// Adds numbers.
/// #[tool(name = "add-up", read_only, idempotent)]
/// fn add_up(
///     /// What to add.
///     numbers: Vec<u8>,
/// ) -> Json<u64> {
///     Json(numbers.into_iter().map(u64::from).sum())
/// }
///
/// let tool = toolcell_guest::tool_of!(add_up);
/// let call = |arguments| tool.call(arguments, &toolcell_guest::testing::first_call()).output;
/// assert_eq!(call(r#"{"numbers": [1, 2]}"#), "3");
/// assert_eq!(
///     call(r#"{"numbers": [1, -2]}"#),
///     "the argument \"numbers\" does not fit: invalid value: integer `-2`, expected u8"
/// );
/// ```
pub use toolcell_guest_macros::tool;

/// The [`Tool`] that a function is: `tool_of!(math)`, for tests of its schema and of calls with JSON.
pub use toolcell_guest_macros::tool_of;

pub use {schemars, serde, serde_json};

/// What the macros expand to; not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub mod bindings {
        //! The generated code, where the export macro looks for it.
        pub use crate::bindings::*;
    }
    pub use crate::bindings::export_component;
    pub use crate::bindings::exports::toolcell::tool::tools::{CallContext, Definition, Guest, ToolResult};
    #[cfg(target_family = "wasm")]
    pub use crate::component::{call_tool, list_tools};
    pub use crate::schema::{BySchemars, ByText, PlainSchema, Probe};
    pub use crate::tool::assert_names_differ;

    /// A default as JSON; one that cannot be written is shown as null.
    pub fn to_json<T: serde::Serialize>(value: &T) -> String {
        serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
    }
}

/// The code of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
