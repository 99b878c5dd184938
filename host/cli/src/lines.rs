//! Lines of standard input, read without blocking the program.

use std::io::IsTerminal as _;

use tokio::sync::{Mutex, mpsc};

/// Lines of standard input. A thread of its own reads them from the first question on: a read from a terminal cannot be
/// cancelled, and must not keep the program from ending.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Option<mpsc::Receiver<String>>>);

impl Lines {
    /// The next line without its line break; none at the end of input.
    pub(crate) async fn next(&self) -> Option<String> {
        self.0.lock().await.get_or_insert_with(read_aside).recv().await
    }

    /// Forgets what was typed at a terminal before it was asked for: the answer to one question must not approve another.
    /// Lines of a pipe are kept, they were written for the questions to come.
    pub(crate) async fn forget_typed_ahead(&self) {
        if !std::io::stdin().is_terminal() {
            return;
        }
        let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        if let Some(lines) = self.0.lock().await.as_mut() {
            while lines.try_recv().is_ok() {}
        }
    }
}

fn read_aside() -> mpsc::Receiver<String> {
    let (lines, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let Ok(line) = line else { return };
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
