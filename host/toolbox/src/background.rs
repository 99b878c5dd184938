//! Work that takes CPU or waits for a disk, away from the threads that must stay free.

use tokio::task::JoinError;

/// Runs it on a thread for blocking work. A panic there ends up here as an error.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    tokio::task::spawn_blocking(work).await
}
