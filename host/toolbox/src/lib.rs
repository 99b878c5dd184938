//! A directory of tools kept ready: every `.wasm` file becomes tools, compiled once and cached by digest.
//!
//! [`Toolbox`] is the catalogue of an agent. It knows nothing of models, of HTTP or of how a run goes on; how a
//! component is compiled and called is the sandbox's affair.
//!
//! Nothing in the directory is trusted. A file is only ever compiled, never taken for machine code; its list of tools is
//! asked of it once, without any power, and checked. What was compiled is kept in a cache that belongs to the user
//! alone and is authenticated, together with the list, so a second start neither compiles nor instantiates anything.

mod background;
mod brought;
mod cache;
mod directory;
mod error;
mod execution;
mod loader;
mod manifest;
mod names;
mod options;
mod powers;
mod refusal;
mod report;
mod retired;
mod scan;
mod snapshot;
mod toolbox;

pub use cache::CacheError;
pub use error::Error;
pub use options::{CachePlace, Options};
pub use powers::{NoPowers, Power, Powers};
pub use report::{LoadReport, Rejected, Warning};
pub use snapshot::ToolFile;
pub use toolbox::Toolbox;
