//! What a program that embeds the library sends to a collector: the spans of its runs, and nothing of what was said.
#![cfg(feature = "otlp")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use toolcell::Otlp;
use tracing_subscriber::layer::SubscriberExt as _;

/// Takes one request, and gives all of it.
fn receive(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).unwrap();
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request);
        let head = text.find("\r\n\r\n").map(|end| text[..end].to_lowercase());
        let length: Option<usize> =
            head.as_deref().and_then(|head| head.split("content-length: ").nth(1)?.lines().next()?.parse().ok());
        let start = request.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
        if let (Some(start), Some(length)) = (start, length)
            && request.len() >= start + length
        {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            return String::from_utf8_lossy(&request).into_owned();
        }
    }
}

#[test]
fn the_layer_sends_spans_of_runs_and_neither_log_lines_nor_spans_of_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap());
    // SAFETY: the only test of this program, and no other thread of it reads the environment yet.
    unsafe { std::env::set_var("OTEL_EXPORTER_OTLP_ENDPOINT", collector) };
    let received = std::thread::spawn(move || receive(&listener));
    let otlp = Otlp::from_environment("example").unwrap();
    let subscriber = tracing_subscriber::registry().with(otlp.layer());
    tracing::subscriber::with_default(subscriber, || {
        let chat = tracing::info_span!(target: "toolcell_agent::telemetry", "chat of a run");
        chat.in_scope(|| {
            tracing::info!(target: "toolcell_model::ask", error = "a provider's words", "sent again");
            tracing::warn!(target: "toolcell_agent::call", "an answer's words");
            tracing::info_span!(target: "hyper", "span of another").in_scope(|| {});
        });
    });
    drop(otlp);
    let sent = received.join().unwrap();
    assert!(sent.contains("chat of a run"), "{sent}");
    for other in ["a provider's words", "sent again", "an answer's words", "span of another"] {
        assert!(!sent.contains(other), "{other:?} was sent: {sent}");
    }
}
