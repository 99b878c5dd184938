//! The stdout and stderr of a guest: a ring that keeps the last bytes and never refuses a write.
//!
//! A pipe that closes when it is full would kill every tool that prints a lot, because a failed `println!` panics.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamResult};

/// Bytes that a guest may write at once. `write-zeroes` allocates as many, so it must stay small.
const PERMIT_BYTES: usize = 64 << 10;

/// The last bytes of a stream, and how many came before them.
#[derive(Debug, Default)]
struct Ring {
    kept: Vec<u8>,
    /// Where the oldest byte is, once the ring is full.
    start: usize,
    bytes_max: usize,
    bytes_dropped: u64,
}

impl Ring {
    fn write(&mut self, bytes: &[u8]) {
        let bytes = match bytes.len().checked_sub(self.bytes_max) {
            Some(excess) => {
                self.bytes_dropped += (self.kept.len() + excess) as u64;
                self.kept.clear();
                self.start = 0;
                &bytes[excess..]
            }
            None => bytes,
        };
        let room = self.bytes_max - self.kept.len();
        let (appended, wrapped) = bytes.split_at(room.min(bytes.len()));
        self.kept.extend_from_slice(appended);
        self.overwrite(wrapped);
    }

    fn overwrite(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes_dropped += bytes.len() as u64;
        let (tail, head) = bytes.split_at((self.bytes_max - self.start).min(bytes.len()));
        self.kept[self.start..self.start + tail.len()].copy_from_slice(tail);
        self.kept[..head.len()].copy_from_slice(head);
        self.start = (self.start + bytes.len()) % self.bytes_max;
    }

    fn take(&mut self) -> (String, u64) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.rotate_left(self.start);
        self.start = 0;
        // A ring may begin in the middle of a character; what is left of it says nothing.
        let torn =
            if self.bytes_dropped == 0 { 0 } else { kept.iter().take_while(|b| **b & 0xc0 == 0x80).count().min(3) };
        let text = String::from_utf8_lossy(&kept[torn..]).into_owned();
        (text, std::mem::take(&mut self.bytes_dropped) + torn as u64)
    }
}

/// One captured stream. Its clones share one ring.
#[derive(Debug, Clone)]
pub(crate) struct Capture(Arc<Mutex<Ring>>);

impl Capture {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Ring { bytes_max, ..Ring::default() })))
    }

    /// The kept bytes as text, and how many bytes came before them. Empties the ring.
    pub(crate) fn take(&self) -> (String, u64) {
        self.ring().take()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Nothing in here can panic halfway, so a poisoned ring is a whole ring.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Capture {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Capture {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Capture {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Capture {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.ring().write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT_BYTES)
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.write(bytes)
    }
}

impl AsyncWrite for Capture {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.ring().write(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bytes_max: usize, writes: &[&str]) -> (String, u64) {
        let mut capture = Capture::new(bytes_max);
        for text in writes {
            capture.write(Bytes::copy_from_slice(text.as_bytes())).unwrap();
        }
        capture.take()
    }

    #[test]
    fn what_fits_is_kept_whole() {
        assert_eq!(after(8, &["abc", "", "defgh"]), ("abcdefgh".into(), 0));
    }

    #[test]
    fn one_byte_more_drops_the_oldest() {
        assert_eq!(after(8, &["abc", "defghi"]), ("bcdefghi".into(), 1));
    }

    #[test]
    fn a_write_larger_than_the_ring_leaves_its_end() {
        assert_eq!(after(4, &["ab", "cdefghij"]), ("ghij".into(), 6));
        assert_eq!(after(4, &["ab", "cdef"]), ("cdef".into(), 2));
    }

    #[test]
    fn many_small_writes_wrap_around() {
        let lines: Vec<String> = (0..1_000).map(|n| format!("{n}\n")).collect();
        let writes: Vec<&str> = lines.iter().map(String::as_str).collect();
        let all = lines.concat();
        assert_eq!(after(64, &writes), (all[all.len() - 64..].into(), all.len() as u64 - 64));
    }

    #[test]
    fn a_torn_character_at_the_beginning_is_dropped() {
        assert_eq!(after(4, &["aäb", "cd"]), ("bcd".into(), 3));
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_replaced() {
        let mut capture = Capture::new(8);
        capture.write(Bytes::from_static(&[b'a', 0xff, b'b'])).unwrap();
        assert_eq!(capture.take(), ("a\u{fffd}b".into(), 0));
    }
}
