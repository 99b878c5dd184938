//! Lines for the host's log. They never reach the model; in a native test they go to stderr.
//!
//! What exceeds the call's log budget is counted and dropped, and the call goes on.
//!
//! ```
//! use toolcell_guest::log;
//!
//! log::info("3 pages read");
//! log::warn(format!("page {} is empty", 2));
//! ```

#[cfg(target_family = "wasm")]
use crate::bindings::toolcell::tool::log as host;

macro_rules! levels {
    ($($(#[$doc:meta])* $function:ident $level:ident;)*) => {$(
        $(#[$doc])*
        pub fn $function(message: impl AsRef<str>) {
            #[cfg(target_family = "wasm")]
            host::write(host::Level::$level, message.as_ref());
            #[cfg(not(target_family = "wasm"))]
            eprintln!("{}: {}", stringify!($function), message.as_ref());
        }
    )*};
}

levels! {
    /// Every step.
    trace Trace;
    /// For whoever writes the tool.
    debug Debug;
    /// Worth knowing.
    info Info;
    /// Worth a look.
    warn Warn;
    /// Something failed.
    error Error;
}
