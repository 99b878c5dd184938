//! Webhooks: told at least once, signed, to the address that was named and nowhere else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use toolcell::model::ScriptedModel;
use toolcell::{
    CancellationToken, Courier, Desk, Host, HostOptions, Message, NewRun, NoEvents, RunKey, RunStore, Tenant,
    TenantSettings, Webhook, Worker, WorkerOptions, store,
};

/// One request to the receiver.
struct Told {
    headers: BTreeMap<String, String>,
    body: Value,
}

/// Takes one request and answers it.
async fn take(listener: &TcpListener, answer: &str) -> Told {
    let (stream, _) = tokio::time::timeout(Duration::from_secs(20), listener.accept()).await.expect("in time").unwrap();
    let mut stream = BufReader::new(stream);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        match line.trim().split_once(": ") {
            Some((name, value)) => drop(headers.insert(name.to_lowercase(), value.to_owned())),
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
    Told { headers, body: serde_json::from_slice(&body).unwrap() }
}

/// A store whose tenant wants to be told at this address, and a run in it that has ended.
async fn store_with_news(url: String) -> (Arc<dyn RunStore>, RunKey) {
    let store = store::open(":memory:").await.unwrap();
    let settings = TenantSettings {
        webhook: Some(Webhook::new(url, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()),
        ..TenantSettings::default()
    };
    store.set_settings(&Tenant::local(), settings).await.unwrap();
    let tools = tempfile::tempdir().unwrap();
    let host = Host::open(tools.path(), HostOptions::default()).await.unwrap();
    let model = ScriptedModel::from_json(r#"{"turns": [{"say": "Hello."}]}"#).unwrap();
    let worker = Worker::new(host.agent(Arc::new(model)), store.clone(), WorkerOptions::default());
    let key = RunKey::fresh(Tenant::local());
    let run = NewRun { key: key.clone(), system: None, messages: vec![Message::user("hi")], model: "m".into() };
    worker.start(run, Arc::new(NoEvents), CancellationToken::new()).await.unwrap();
    (store, key)
}

#[tokio::test]
async fn a_notice_that_was_not_taken_is_told_again_under_the_same_id() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (store, key) = store_with_news(format!("http://{}/hook", listener.local_addr().unwrap())).await;
    let courier = Courier::new(store.clone()).unwrap();
    let (told, first) = tokio::join!(courier.tell_all(), take(&listener, "503 Service Unavailable"));
    assert_eq!(told.unwrap(), 1);
    assert_eq!((&first.body["topic"], &first.body["run"]), (&json!("run.done"), &json!(key.run)));
    assert_eq!(first.body["end"]["text"], "Hello.");
    assert_eq!(first.headers["webhook-id"], first.body["id"].as_str().unwrap());
    assert!(first.headers["webhook-signature"].starts_with("v1,"));
    assert!(first.headers["webhook-timestamp"].parse::<i64>().unwrap() > 1_700_000_000);

    // In the meantime nobody else tells it; after the pause it is told again.
    assert_eq!(courier.tell_all().await.unwrap(), 0);
    let stop = CancellationToken::new();
    let working = tokio::spawn(courier.clone().work(stop.clone()));
    let again = take(&listener, "204 No Content").await;
    assert_eq!(again.headers["webhook-id"], first.headers["webhook-id"]);
    stop.cancel();
    working.await.unwrap();
    assert!(store.notices(10, Duration::from_secs(1)).await.unwrap().is_empty(), "it is told");
    assert_eq!(Desk::new(store, Tenant::local()).run(&key.run).await.unwrap().end.unwrap().text, "Hello.");
}

#[tokio::test]
async fn a_notice_does_not_follow_to_another_address() {
    let (here, elsewhere) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (store, _) = store_with_news(format!("http://{}/hook", here.local_addr().unwrap())).await;
    let courier = Courier::new(store).unwrap();
    let answer = format!("307 Temporary Redirect\r\nlocation: http://{}/", elsewhere.local_addr().unwrap());
    let (told, _) = tokio::join!(courier.tell_all(), take(&here, &answer));
    assert_eq!(told.unwrap(), 1);
    let followed = tokio::time::timeout(Duration::from_millis(300), elsewhere.accept()).await;
    assert!(followed.is_err(), "it went on to another address");
}
