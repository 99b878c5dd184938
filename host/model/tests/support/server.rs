//! A server that plays raw replies on a port of its own, so that every wrong reply can be written.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::schema;

/// Bytes that a server sends, and how.
#[derive(Clone)]
pub struct Reply {
    steps: Vec<Step>,
    is_last: bool,
}

#[derive(Clone)]
enum Step {
    Write(Vec<u8>),
    Wait(Duration),
    /// Until the client goes away.
    Hang,
}

/// A request that came.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Request line and headers, in lower case.
    pub head: String,
    /// The body.
    pub body: Value,
    /// The number of its connection, counted from 0.
    pub connection: usize,
}

/// A running server; it ends with its runtime.
pub struct Server {
    port: u16,
    schema: &'static str,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    replies: Vec<Reply>,
    requests: Vec<Request>,
    /// Connections that the client has closed.
    closed: usize,
}

impl Reply {
    /// A whole response.
    pub fn new(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let size = body.len().to_string();
        let head = head(status, headers, &[("content-length", &size)]);
        Self { steps: vec![Step::Write([head.as_bytes(), body.as_bytes()].concat())], is_last: false }
    }

    /// A response whose body is JSON.
    pub fn json(status: u16, headers: &[(&str, &str)], body: &Value) -> Self {
        let headers: Vec<_> = headers.iter().copied().chain([("content-type", "application/json")]).collect();
        Self::new(status, &headers, &body.to_string())
    }

    /// The head of a stream of events in chunks.
    pub fn open() -> Self {
        let head =
            head(200, &[("content-type", "text/event-stream; charset=utf-8")], &[("transfer-encoding", "chunked")]);
        Self { steps: vec![Step::Write(head.into_bytes())], is_last: true }
    }

    /// A head that is written as it is, before chunks.
    pub fn raw(head: &str) -> Self {
        Self { steps: vec![Step::Write(head.as_bytes().to_vec())], is_last: true }
    }

    /// A whole stream of events.
    pub fn stream(text: &str) -> Self {
        Self::open().send(text).close()
    }

    /// One more chunk.
    pub fn send(self, text: &str) -> Self {
        self.send_bytes(text.as_bytes())
    }

    /// One more chunk.
    pub fn send_bytes(mut self, bytes: &[u8]) -> Self {
        let frame = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.steps.push(Step::Write(frame));
        self
    }

    /// The proper end of the chunks.
    pub fn close(mut self) -> Self {
        self.steps.push(Step::Write(b"0\r\n\r\n".to_vec()));
        self.is_last = false;
        self
    }

    pub fn wait(mut self, time: Duration) -> Self {
        self.steps.push(Step::Wait(time));
        self
    }

    /// Nothing more, and no end either.
    pub fn hang(mut self) -> Self {
        self.steps.push(Step::Hang);
        self
    }
}

impl Server {
    /// Starts a server that gives one reply to each request, in order.
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut replies: Vec<_> = replies.into_iter().collect();
        replies.reverse();
        let state = Arc::new(Mutex::new(State { replies, ..State::default() }));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, connection, Arc::clone(&shared)));
            }
        });
        Self { port, schema: schema::OPENAI, state }
    }

    /// The schema that the requests must fit; OpenAI's unless said otherwise.
    pub fn with_schema(self, schema: &'static str) -> Self {
        Self { schema, ..self }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1/", self.port)
    }

    /// The requests so far, each checked against the schema.
    pub fn requests(&self) -> Vec<Request> {
        let requests = self.state.lock().unwrap().requests.clone();
        requests.iter().for_each(|request| schema::check(self.schema, &request.body));
        requests
    }

    /// How many requests came.
    pub fn count(&self) -> usize {
        self.requests().len()
    }

    /// Waits until the client has closed a connection.
    pub async fn wait_for_close(&self) {
        while self.state.lock().unwrap().closed == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn serve(mut stream: TcpStream, connection: usize, state: Arc<Mutex<State>>) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let reply = {
            let mut state = state.lock().unwrap();
            state.requests.push(Request { head, body, connection });
            state.replies.pop()
        };
        let reply = reply.unwrap_or_else(|| Reply::new(418, &[], "the test has no further reply"));
        for step in reply.steps {
            match step {
                Step::Write(bytes) => {
                    // A client that went away is noticed below.
                    let _ = stream.write_all(&bytes).await;
                    tokio::task::yield_now().await;
                }
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Hang => while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {},
            }
        }
        if reply.is_last {
            break;
        }
    }
    state.lock().unwrap().closed += 1;
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let body_at = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        read_more(stream, &mut bytes).await?;
    };
    let head = String::from_utf8_lossy(&bytes[..body_at]).to_ascii_lowercase();
    let size = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
    while bytes.len() < body_at + size {
        read_more(stream, &mut bytes).await?;
    }
    Some((head, serde_json::from_slice(&bytes[body_at..]).unwrap()))
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 16 << 10];
    let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
    bytes.extend_from_slice(&buffer[..read]);
    Some(())
}

fn head(status: u16, headers: &[(&str, &str)], framing: &[(&str, &str)]) -> String {
    let lines = headers.iter().chain(framing).map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("HTTP/1.1 {status} Status\r\n{}\r\n", lines.collect::<String>())
}
