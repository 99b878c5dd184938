//! The contract between a tool and its host: the WIT text, and the same data as Rust types with their JSON form.
//!
//! Host and guests both import this crate, so one name means one thing on both sides of the wall. It knows
//! nothing of WebAssembly, models, HTTP or storage.
//!
//! ```
//! use toolcell_contract::{ContentPart, Request, ToolResult};
//!
//! let chart = ContentPart::from_bytes(vec![0x89, b'P', b'N', b'G'], "image/png")?;
//! let result = ToolResult::ok_with_parts("a chart of three values", vec![chart]);
//! assert_eq!(result.parts[0].describe(), "image (image/png, 4 bytes)");
//!
//! let asks = ToolResult::pending(Request::approval("Buy 3 lamps for 120 EUR?"));
//! assert!(asks.is_error);
//! assert_eq!(asks.pending_of().unwrap().prompt, "Buy 3 lamps for 120 EUR?");
//! # Ok::<(), toolcell_contract::PartError>(())
//! ```

#[cfg(not(target_family = "wasm"))]
pub mod accept;
mod call;
mod definition;
mod digest;
mod failure;
pub mod limits;
mod part;
mod request;
mod result;
#[cfg(not(target_family = "wasm"))]
mod schema;

pub use call::{CallContext, Outcome, Suspension};
pub use definition::{Annotations, Definition, NameError, check_tool_name};
pub use digest::{Digest, DigestError};
pub use failure::{Failure, FailureCode};
pub use part::{ContentPart, Media, PartError, PartKind, Source};
pub use request::{Answer, Request, RequestKind};
pub use result::ToolResult;
#[cfg(not(target_family = "wasm"))]
pub use schema::{SchemaRule, check_schema};

/// The text of `wit/tool.wit`, for whoever generates bindings or builds a component at run time.
pub const TOOL_WIT: &str = include_str!("../tool.wit");

/// A JSON object, in the order in which its keys were written.
pub type Object = serde_json::Map<String, serde_json::Value>;
