//! A proxy that remembers what was sent through it: an independent server tells nothing of the bodies that it got.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A running proxy; it ends with its runtime.
pub struct Recorder {
    pub address: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Recorder {
    /// Starts a proxy in front of `upstream`, a host and port.
    pub async fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let (upstream, seen) = (upstream.to_owned(), Arc::clone(&bodies));
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(pass(client, upstream.clone(), Arc::clone(&seen)));
            }
        });
        Self { address, bodies }
    }

    /// The bodies of all requests so far.
    pub fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().unwrap().clone()
    }
}

/// One request and its response; then the connection ends.
async fn pass(mut client: TcpStream, upstream: String, seen: Arc<Mutex<Vec<Value>>>) {
    let Some((head, body)) = read_request(&mut client).await else { return };
    seen.lock().unwrap().push(serde_json::from_str(&body).expect("JSON"));
    let mut server = TcpStream::connect(upstream).await.unwrap();
    let request = format!("{head}\r\nconnection: close\r\n\r\n{body}");
    server.write_all(request.as_bytes()).await.unwrap();
    // The client must not send its next request on a connection that nobody reads any more.
    let mut begin = Vec::new();
    while !begin.ends_with(b"\r\n") {
        begin.push(server.read_u8().await.unwrap());
    }
    begin.extend_from_slice(b"connection: close\r\n");
    client.write_all(&begin).await.unwrap();
    let _ = tokio::io::copy(&mut server, &mut client).await;
    let _ = client.shutdown().await;
}

/// Head and body of the next request; none when the client goes away.
pub async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}
