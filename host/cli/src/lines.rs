//! Lines of standard input, read without blocking the program.

use std::io::IsTerminal as _;
use std::time::Instant;

use tokio::sync::{Mutex, mpsc};

/// Lines of standard input. A thread of its own reads them from the first question on: a read from a terminal cannot be
/// cancelled, and must not keep the program from ending.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Option<mpsc::Receiver<Line>>>);

/// A line, and when it was read.
struct Line {
    text: String,
    read: Instant,
}

impl Lines {
    /// The next line without its line break; none at the end of input.
    ///
    /// What was typed at a terminal before `asked` is passed over: the answer to one question must not approve another.
    /// Lines of a pipe are kept, they were written for the questions to come.
    pub(crate) async fn next(&self, asked: Instant) -> Option<String> {
        let is_terminal = std::io::stdin().is_terminal();
        let mut lines = self.0.lock().await;
        let lines = lines.get_or_insert_with(read_aside);
        loop {
            let line = lines.recv().await?;
            if !is_terminal || line.read >= asked {
                return Some(line.text);
            }
        }
    }

    /// Forgets what a terminal holds and nobody has read yet.
    pub(crate) fn flush_terminal(&self) {
        if std::io::stdin().is_terminal() {
            // A terminal that cannot be flushed loses only this convenience: what was read before is still passed over.
            let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        }
    }
}

fn read_aside() -> mpsc::Receiver<Line> {
    let (lines, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let Ok(text) = line else { return };
            if lines.blocking_send(Line { text, read: Instant::now() }).is_err() {
                return;
            }
        }
    });
    receiver
}
