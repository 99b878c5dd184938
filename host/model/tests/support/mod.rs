//! What the HTTP tests share: a server that plays raw replies, and a provider that asks it.

pub mod schema;
pub mod server;

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use toolcell_agent::{Message, Model as _, ModelError, ModelEvent, ModelReply, Prompt};
use toolcell_model::{
    ApiKey, BaseUrl, Delivery, HttpOptions, Provider, ProviderOptions, RetryPolicy, Vendor, vendor_by_name,
};

pub use server::{Reply, Server};

pub const KEY: &str = "sk-very-secret-key-0123456789";

/// Options with waits that no one notices.
pub fn options(server: &Server) -> ProviderOptions {
    let millis = Duration::from_millis;
    ProviderOptions {
        vendor: vendor("openai"),
        base_url: BaseUrl::parse(&server.url()).unwrap(),
        key: Some(ApiKey::new(KEY).unwrap()),
        model: "gpt-x".to_owned(),
        output_tokens_max: None,
        context_tokens: None,
        delivery: Delivery::Streamed,
        http: HttpOptions {
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(30),
            retry: RetryPolicy { wait_first: millis(1), wait_max: millis(4), ..RetryPolicy::default() },
        },
    }
}

pub fn vendor(name: &str) -> &'static Vendor {
    vendor_by_name(name).unwrap()
}

pub fn provider(server: &Server) -> Provider {
    Provider::new(options(server)).unwrap()
}

/// The pieces that were shown, and the end.
pub struct Answer {
    pub events: Vec<ModelEvent>,
    pub end: Result<ModelReply, ModelError>,
}

impl Answer {
    pub fn text(self) -> String {
        self.end.unwrap().turn.text
    }

    pub fn error(self) -> String {
        self.end.unwrap_err().to_string()
    }
}

pub async fn ask(provider: &Provider) -> Answer {
    ask_about(provider, &[Message::user("hi")]).await
}

pub async fn ask_about(provider: &Provider, messages: &[Message]) -> Answer {
    let mut stream = provider.ask(Prompt { system: None, messages, tools: &[] });
    let mut events = Vec::new();
    loop {
        match stream.next().await.expect("an end") {
            Ok(ModelEvent::Finished(reply)) => {
                assert!(stream.next().await.is_none(), "nothing follows the end");
                return Answer { events, end: Ok(reply) };
            }
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return Answer { events, end: Err(error) };
            }
        }
    }
}

/// A chunk of a stream.
pub fn chunk(delta: Value, finish_reason: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}))
}

/// A chunk of text.
pub fn says(text: &str) -> String {
    chunk(json!({"content": text}), Value::Null)
}

/// The proper end of a stream.
pub fn end() -> String {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}});
    format!("{}data: {usage}\n\ndata: [DONE]\n\n", chunk(json!({}), json!("stop")))
}

/// A whole stream that says "It is 4.".
pub fn it_is_4() -> String {
    format!("{}{}{}", says("It is "), says("4."), end())
}
