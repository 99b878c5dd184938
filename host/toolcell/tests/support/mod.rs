//! What the tests of the library share: a host with real components, and a look at what leaves the machine.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod recorder;
#[path = "../../../model/tests/support/schema.rs"]
pub mod schema;

use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use toolcell::model::{ApiKey, BaseUrl, Provider, ProviderOptions, VENDORS, Vendor, Wire};
use toolcell::{Host, HostOptions, Message, Model, ModelError, ModelEvent, Prompt};
use toolcell_tests::artifacts;

/// A host with the tools of the worked examples. Compiled code is kept for all tests of a machine.
pub async fn host() -> Host {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(artifacts::component_path("toolcell-test-story"), dir.path().join("story.wasm")).unwrap();
    let host = Host::open(dir.path(), HostOptions::default()).await.unwrap();
    assert!(host.toolbox().rejected().is_empty(), "{:?}", host.toolbox().rejected());
    host
}

/// A model that remembers the last conversation that it was sent.
pub struct Spy {
    model: Arc<dyn Model>,
    last: Mutex<Vec<Message>>,
}

impl Spy {
    pub fn new(model: Arc<dyn Model>) -> Arc<Self> {
        Arc::new(Self { model, last: Mutex::default() })
    }

    /// The last conversation, as the wire of each vendor sends it.
    pub async fn encoded_by_every_wire(&self) -> Vec<String> {
        let messages = self.last.lock().unwrap().clone();
        let mut bodies = Vec::new();
        for vendor in &VENDORS {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let base_url = BaseUrl::parse(&format!("http://{}/v1", listener.local_addr().unwrap())).unwrap();
            let provider = Provider::new(ProviderOptions {
                key: Some(ApiKey::new("sk-not-a-real-key").unwrap()),
                ..ProviderOptions::at(base_url, vendor, "m")
            });
            let provider = provider.unwrap();
            let ask = provider.ask(Prompt { system: None, messages: &messages, tools: &[] }).collect::<Vec<_>>();
            let (_, body) = tokio::join!(ask, refuse(&listener));
            schema::check(schema_of(vendor), &serde_json::from_str(&body).unwrap());
            bodies.push(body);
        }
        bodies
    }
}

fn schema_of(vendor: &Vendor) -> &'static str {
    match (vendor.name, &vendor.wire) {
        ("openai", _) => schema::OPENAI,
        ("anthropic", _) => schema::ANTHROPIC,
        (_, Wire::Chat(_)) => schema::COMPATIBLE,
        (_, Wire::Responses(_)) => schema::RESPONSES,
        (_, Wire::Anthropic(_)) => schema::ANTHROPIC_2023,
        (_, Wire::Gemini) => schema::GEMINI,
        (name, wire) => panic!("no schema for {name}, which speaks {wire:?}"),
    }
}

impl Model for Spy {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn ask<'a>(&'a self, prompt: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
        *self.last.lock().unwrap() = prompt.messages.to_vec();
        self.model.ask(prompt)
    }
}

/// Takes one request, refuses it, and gives its body.
async fn refuse(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let (_, body) = recorder::read_request(&mut stream).await.unwrap();
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    body
}
