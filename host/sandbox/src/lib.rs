//! One guest call: compiles a component once, and runs each call of a tool in a fresh sandbox with fixed limits.
//!
//! It knows nothing of directories, models or runs. A caller compiles a [`Component`] with [`Sandbox::compile`]
//! (or brings its machine code back with [`Sandbox::restore`]), asks it for its tools with [`Sandbox::list`], and
//! runs one with [`Sandbox::call`], which always ends: with the tool's own result, with its question, or with a
//! failure that has a fixed code.
//!
//! ```no_run
//! use std::sync::Arc;
//! use toolcell_contract::{CallContext, Outcome};
//! use toolcell_sandbox::{Config, Invocation, Sandbox, Silent};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::new(Config::default())?;
//! let component = sandbox.compile(&std::fs::read("math.wasm")?)?;
//! for tool in sandbox.list(&component).await? {
//!     println!("{}: {}", tool.name, tool.description);
//! }
//! let invocation = Invocation::new("math", r#"{"expression": "1 + 1"}"#, CallContext::first("call-1"));
//! match sandbox.call(&component, invocation, Arc::new(Silent)).await.outcome {
//!     Outcome::Done(result) => println!("{}", result.output),
//!     Outcome::Suspended(suspension) => println!("it asks: {}", suspension.request.prompt),
//!     Outcome::Failed(failure) => println!("{failure}"),
//! }
//! # Ok(())
//! # }
//! ```

mod admission;
mod bindings;
mod call;
mod capabilities;
mod capability;
mod component;
mod definition;
mod effort;
mod ending;
mod engine;
mod error;
mod http;
mod inspect;
mod key_value;
mod limiter;
mod limits;
mod linker;
mod missing;
mod mount;
mod report;
mod result;
mod sandbox;
mod state;
mod stdio;
mod threads;

pub use capabilities::Capabilities;
pub use component::Component;
pub use error::{Error, LoadError};
pub use http::{
    HEADERS_BYTES_MAX, HttpGate, REQUEST_BODY_BYTES_MAX, REQUESTS_MAX, RESPONSE_BODY_BYTES_MAX, Resolve, Secret,
    SecretError, SecretSource, SecretValue, SystemResolver,
};
pub use key_value::{
    KEY_BYTES_MAX, KEYS_PAGE, KeyValueEntry, KeyValueError, KeyValueFuture, KeyValueQuota, KeyValueSpace, MemorySpace,
};
pub use limits::{Config, Limits};
pub use missing::Missing;
pub use mount::{Access, Mount, MountError};
pub use report::{CallLog, CallReport, LimitHit, LogLevel, LogLine, Observer, Progress, Silent};
pub use sandbox::{Invocation, Sandbox};
pub use toolcell_contract::Digest;
