//! Lines of standard input, read without blocking the program.

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
