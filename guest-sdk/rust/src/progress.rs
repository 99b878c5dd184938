//! How far a long call has come; the host shows it to whoever waits. In a native test it does nothing.

/// Reports progress. `done` grows; with `total` it is a fraction; `message` says what is happening.
///
/// ```
/// use toolcell_guest::progress;
///
/// progress(2.0, Some(10.0), Some("page 2 of 10"));
/// progress(300.0, None, None);
/// ```
pub fn progress(done: f64, total: Option<f64>, message: Option<&str>) {
    #[cfg(target_family = "wasm")]
    crate::bindings::toolcell::tool::progress::report(done, total, message);
    #[cfg(not(target_family = "wasm"))]
    let _ = (done, total, message);
}
