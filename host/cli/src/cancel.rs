//! Ctrl-C and SIGTERM: the first one stops what runs in an orderly way, the last one ends the program at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use toolcell::CancellationToken;

use crate::exit::Exit;

/// How long a run that is stopped may take to end; a guest ends within milliseconds.
const STOP_WAIT: Duration = Duration::from_secs(3);

/// A token that the first Ctrl-C or SIGTERM cancels; the second ends the program at once.
pub(crate) fn stop_on_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    let mut signals = Signals::catch();
    tokio::spawn(async move {
        signals.next().await;
        token.cancel();
        // Whoever no longer reads the output blocks the program, and with it the end of the run.
        std::thread::spawn(|| {
            std::thread::sleep(STOP_WAIT);
            end();
        });
        signals.next().await;
        end();
    });
    stop
}

/// How a worker is stopped.
pub(crate) struct Stop {
    /// The first Ctrl-C or SIGTERM: no new runs.
    pub(crate) soon: CancellationToken,
    /// The second: the runs that are under way are given back. The third ends the program.
    pub(crate) now: CancellationToken,
}

/// Tokens for a worker.
pub(crate) fn stop_worker_on_signal() -> Stop {
    let (soon, now) = (CancellationToken::new(), CancellationToken::new());
    let stop = Stop { soon: soon.clone(), now: now.clone() };
    let mut signals = Signals::catch();
    tokio::spawn(async move {
        signals.next().await;
        soon.cancel();
        signals.next().await;
        now.cancel();
        signals.next().await;
        end();
    });
    stop
}

fn end() {
    std::process::exit(Exit::Cancelled.code().into());
}

/// What asks the program to stop, from now on.
struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Signals {
    /// A signal that cannot be caught ends the program, as it does without us.
    fn catch() -> Self {
        Self { interrupt: signal(SignalKind::interrupt()).ok(), terminate: signal(SignalKind::terminate()).ok() }
    }

    async fn next(&mut self) {
        async fn next(signal: Option<&mut Signal>) {
            match signal {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            () = next(self.interrupt.as_mut()) => {}
            () = next(self.terminate.as_mut()) => {}
        }
    }
}
