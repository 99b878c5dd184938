//! What a guest can import, one file for each capability. What is not granted is linked and refuses, so that a tool
//! that wants more than it is granted still loads.

mod http;
mod key_value;
pub(crate) mod log;
pub(crate) mod progress;
pub(crate) mod wasi_http;
