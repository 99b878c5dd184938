//! Ctrl-C: the first one cancels what runs, the second one ends the program.

use std::time::Duration;

use toolcell::CancellationToken;

use crate::exit::Exit;

/// How long a cancelled run may take to end; a guest ends within milliseconds.
const CANCEL_WAIT: Duration = Duration::from_secs(3);

/// A token that the first Ctrl-C cancels; the second ends the program at once.
pub(crate) fn cancel_on_ctrl_c() -> CancellationToken {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            if token.is_cancelled() {
                std::process::exit(Exit::Cancelled.code().into());
            }
            token.cancel();
            // Whoever no longer reads the output blocks the program, and with it the end of the run.
            std::thread::spawn(|| {
                std::thread::sleep(CANCEL_WAIT);
                std::process::exit(Exit::Cancelled.code().into());
            });
        }
    });
    cancel
}

/// A token that is cancelled by the first Ctrl-C or SIGTERM; the second Ctrl-C ends the program at once.
pub(crate) fn stop_on_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        // Without the handler, Ctrl-C alone stops it.
        let terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        let terminated = async {
            match terminated {
                Ok(mut signal) => drop(signal.recv().await),
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            () = terminated => {}
        }
        token.cancel();
        let _ = tokio::signal::ctrl_c().await;
        std::process::exit(Exit::Cancelled.code().into());
    });
    stop
}
