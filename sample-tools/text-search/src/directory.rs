//! The directories that the host grants.

/// Their paths, as this tool has to write them.
#[cfg(target_family = "wasm")]
pub(crate) fn granted() -> Vec<String> {
    let mut paths: Vec<_> = wasip2::filesystem::preopens::get_directories().into_iter().map(|(_, path)| path).collect();
    paths.sort_unstable();
    paths
}

/// In a native test the working directory.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn granted() -> Vec<String> {
    vec![".".to_owned()]
}
