//! A small HTTP server on this machine, which notes what it is asked and answers whatever a test wants, byte for byte.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What a server answers.
pub(crate) enum Reply {
    /// These bytes, and then the connection is closed.
    Bytes(Vec<u8>),
    /// A head, and then bytes without end.
    Endless,
    /// Nothing.
    Silence,
}

/// A body with a head around it.
pub(crate) fn ok(body: impl AsRef<[u8]>) -> Reply {
    with_headers("", body)
}

pub(crate) fn with_headers(headers: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    Reply::Bytes(bytes)
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, reply) = (Arc::new(Mutex::new(Vec::new())), Arc::new(reply));
        let noted = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (noted, reply) = (Arc::clone(&noted), Arc::clone(&reply));
                tokio::spawn(async move {
                    let _ = serve(stream, &noted, reply.as_ref()).await;
                });
            }
        });
        Self { address, seen, task }
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, head and body.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    noted: &Mutex<Vec<String>>,
    reply: &(impl Fn(&str) -> Reply + Sync),
) -> std::io::Result<()> {
    let request = read_request(&mut stream).await?;
    noted.lock().unwrap().push(request.clone());
    match reply(&request) {
        Reply::Bytes(bytes) => stream.write_all(&bytes).await?,
        Reply::Silence => tokio::time::sleep(Duration::from_secs(600)).await,
        Reply::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 64 << 10]).await?;
            }
        }
    }
    stream.shutdown().await
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 8_192];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Ok(text.into_owned());
            }
        }
        match stream.read(&mut piece).await? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}
