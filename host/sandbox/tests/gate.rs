//! Outgoing HTTP by real guests against a real server on this machine, by both interfaces: what is granted goes through, and
//! nothing else leaves the host.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: what goes wrong in them should fail the test"
)]

mod support;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::server::{Reply, Server, ok, with_headers};
use support::{limits, stage, text};
use toolcell_contract::CallContext;
use toolcell_policy::{HttpRule, IpNet, Method};
use toolcell_sandbox::{
    CallReport, Capabilities, HttpGate, Invocation, Missing, REQUEST_BODY_BYTES_MAX, REQUESTS_MAX,
    RESPONSE_BODY_BYTES_MAX, Resolve, Secret, SecretValue, Silent,
};

/// Both ways to send a request.
const BOTH: [&str; 2] = ["with_requests", "with_wasi_requests"];

const CANARY: &str = "canary-0123456789";

fn here() -> IpNet {
    "127.0.0.0/8".parse().unwrap()
}

/// A grant of an origin on this machine.
fn rule(origin: &str) -> HttpRule {
    HttpRule::for_origin(origin, Method::ALL).unwrap().with_private([here()])
}

fn granted(gate: HttpGate) -> Arc<Capabilities> {
    Arc::new(Capabilities { http: Some(Arc::new(gate)), ..Capabilities::default() })
}

async fn call_for(tool: &str, request: &str, capabilities: &Arc<Capabilities>, deadline_ms: u64) -> CallReport {
    let invocation = Invocation {
        limits: Some(limits(deadline_ms)),
        capabilities: Arc::clone(capabilities),
        ..Invocation::new(tool, request, CallContext::first("call-1"))
    };
    stage().sandbox.call(&stage().guests, invocation, Arc::new(Silent)).await
}

async fn send(tool: &str, request: &str, capabilities: &Arc<Capabilities>) -> String {
    text(&call_for(tool, request, capabilities, 20_000).await).to_owned()
}

/// Names that a test made up, and how often each was looked up.
#[derive(Default)]
struct Names {
    addresses: HashMap<&'static str, Vec<IpAddr>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn new(names: &[(&'static str, &[&str])]) -> Arc<Self> {
        let parse = |addresses: &[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        let addresses = names.iter().map(|(name, addresses)| (*name, parse(addresses))).collect();
        Arc::new(Self { addresses, asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Resolve for Names {
    fn resolve(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        self.asked.lock().unwrap().push(name.clone());
        let found = self.addresses.get(name.as_str()).cloned();
        Box::pin(async move { found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound)) })
    }
}

#[tokio::test]
async fn a_granted_request_goes_out_and_its_response_comes_back() {
    let server = Server::start(|_| with_headers("X-Answer: yes\r\n", "hello")).await;
    let granted = granted(HttpGate::new([rule(&server.origin())], Vec::new()));
    for tool in BOTH {
        let request = format!("POST {}/v1/a?b=c\nx-question: why\n\nbody of it", server.origin());
        let answer = send(tool, &request, &granted).await;
        let (head, body) = answer.split_once("\n\n").unwrap();
        assert!(head.starts_with("200\n") && head.contains("x-answer: yes"), "{tool}: {head}");
        assert_eq!(body, "hello");
        let seen = server.seen().pop().unwrap();
        assert!(seen.starts_with("POST /v1/a?b=c HTTP/1.1\r\n") && seen.ends_with("\r\n\r\nbody of it"), "{seen}");
        assert!(seen.to_ascii_lowercase().contains("x-question: why\r\n"), "{seen}");
        assert!(seen.to_ascii_lowercase().contains(&format!("host: {}\r\n", server.address)), "{seen}");
        assert!(seen.to_ascii_lowercase().contains("accept-encoding: identity\r\n"), "{seen}");
    }
}

#[tokio::test]
async fn what_is_not_granted_never_leaves_the_host() {
    let server = Server::start(|_| ok("reached")).await;
    let (origin, port) = (server.origin(), server.address.port());
    let names = Names::new(&[("localhost", &["127.0.0.1"])]);
    let only = HttpRule::for_origin(&origin, [Method::Get]).unwrap().with_private([here()]).below_path("/v1").unwrap();
    let granted = granted(HttpGate::new([only], Vec::new()).with_resolver(names.clone()));
    for tool in BOTH {
        for request in [
            format!("POST {origin}/v1"),
            format!("GET {origin}/v2"),
            format!("GET {origin}/v1/../v2"),
            format!("GET {origin}/v1/%2e%2e/v2"),
            format!("GET http://localhost:{port}/v1"),
            format!("GET http://127.0.0.2:{port}/v1"),
            format!("GET https://127.0.0.1:{port}/v1"),
            "GET http://127.0.0.1/v1".to_owned(),
            format!("GET http://[::ffff:127.0.0.1]:{port}/v1"),
            format!("CONNECT {origin}/v1"),
            format!("TRACE {origin}/v1"),
            format!("GET http://user:pass@127.0.0.1:{port}/v1"),
            format!("GET ftp://127.0.0.1:{port}/v1"),
        ] {
            let answer = send(tool, &request, &granted).await;
            assert!(!answer.starts_with("200"), "{tool} {request}: {answer}");
        }
    }
    assert!(server.seen().is_empty(), "{:?}", server.seen());
    assert!(names.asked().is_empty(), "no name is looked up before a grant is found");
    assert!(send("with_requests", &format!("GET {origin}/v1"), &granted).await.starts_with("200"));
}

#[tokio::test]
async fn no_name_leads_into_the_operators_own_network() {
    let server = Server::start(|_| ok("reached")).await;
    let port = server.address.port();
    let names = Names::new(&[
        ("here.example", &["127.0.0.1"]),
        ("mixed.example", &["93.184.216.34", "127.0.0.1"]),
        ("meta.example", &["169.254.169.254"]),
        ("mapped.example", &["::ffff:127.0.0.1"]),
        ("translated.example", &["64:ff9b::7f00:1"]),
    ]);
    let rules =
        names.addresses.keys().map(|name| HttpRule::for_origin(&format!("http://{name}:{port}"), Method::ALL).unwrap());
    let outside = granted(HttpGate::new(rules, Vec::new()).with_resolver(names.clone()));
    for tool in BOTH {
        for name in names.addresses.keys() {
            let answer = send(tool, &format!("GET http://{name}:{port}/"), &outside).await;
            assert!(answer.contains("not granted") || answer.contains("DestinationIpProhibited"), "{name}: {answer}");
        }
    }
    assert!(server.seen().is_empty());

    // The operator may name the network; then exactly that is open, and looked up once for each request.
    let local = rule(&format!("http://here.example:{port}"));
    let granted = granted(HttpGate::new([local], Vec::new()).with_resolver(names.clone()));
    names.asked();
    assert!(send("with_requests", &format!("GET http://here.example:{port}/"), &granted).await.ends_with("reached"));
    assert_eq!(names.asked(), ["here.example"]);
}

#[tokio::test]
async fn an_address_is_not_granted_by_being_written_down_alone() {
    let server = Server::start(|_| ok("reached")).await;
    let plain = HttpRule::for_origin(&server.origin(), Method::ALL).unwrap();
    let granted = granted(HttpGate::new([plain], Vec::new()));
    for tool in BOTH {
        let answer = send(tool, &format!("GET {}/", server.origin()), &granted).await;
        assert!(answer.contains("not granted") || answer.contains("DestinationIpProhibited"), "{answer}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let elsewhere = Server::start(|_| ok("stolen")).await;
    let location = elsewhere.origin();
    let server = Server::start(move |_| {
        Reply::Bytes(format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    let server = server.await;
    let granted = granted(HttpGate::new([rule(&server.origin()), rule(&elsewhere.origin())], Vec::new()));
    for tool in BOTH {
        let answer = send(tool, &format!("GET {}/", server.origin()), &granted).await;
        assert!(answer.starts_with("302\n") && answer.contains(&elsewhere.origin()), "{answer}");
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn no_header_changes_where_a_request_goes_or_how_it_is_framed() {
    let server = Server::start(|_| ok("fine")).await;
    let granted = granted(HttpGate::new([rule(&server.origin())], Vec::new()));
    for tool in BOTH {
        for header in [
            "host: evil.example",
            "connection: x",
            "transfer-encoding: chunked",
            "te: trailers",
            "upgrade: h2c",
            "proxy-x: y",
        ] {
            let answer = send(tool, &format!("GET {}/\n{header}", server.origin()), &granted).await;
            assert!(answer.contains("set by the host") || answer.contains("Forbidden"), "{tool} {header}: {answer}");
        }
        for header in ["x: a\rb", "x\u{0}y: z", "a b: c"] {
            let answer = send(tool, &format!("GET {}/\n{header}", server.origin()), &granted).await;
            assert!(answer.contains("Invalid"), "{tool} {header:?}: {answer}");
        }
    }
    assert!(server.seen().is_empty());
}

/// A secret for this origin, in the clear on this machine.
fn secret(origin: &str, value: Option<&'static str>) -> Secret {
    let source = Arc::new(move || SecretValue::new(value?).ok());
    Secret::new("shop-key", rule(origin), "authorization", "Bearer ", source).unwrap()
}

#[tokio::test]
async fn a_secret_goes_to_its_origin_and_the_guest_never_sees_it() {
    // It gives back all that it is sent, also in base64.
    let server = Server::start(|request| {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(request);
        let sent =
            request.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization")).unwrap_or_default();
        with_headers(&format!("X-Echo: {sent}\r\n"), format!("{request}\n{encoded}"))
    });
    let server = server.await;
    let other = Server::start(|request| ok(request)).await;
    let rules = [rule(&server.origin()), rule(&other.origin())];
    let granted = granted(HttpGate::new(rules, vec![secret(&server.origin(), Some(CANARY))]));
    assert!(!format!("{granted:?}").contains(CANARY));
    for tool in BOTH {
        let request = format!("GET {}/\nauthorization: Bearer mine\ncookie: a=b\nrange: bytes=0-3", server.origin());
        let report = call_for(tool, &request, &granted, 20_000).await;
        let seen = server.seen().pop().unwrap();
        assert!(seen.contains(&format!("Bearer {CANARY}")), "{seen}");
        for dropped in ["mine", "a=b", "bytes=0-3"] {
            assert!(!seen.contains(dropped), "{seen}");
        }
        assert!(!format!("{report:?}").contains(CANARY), "{report:?}");
        assert!(text(&report).contains("Bearer [redacted]"), "{}", text(&report));

        let request = format!("GET {}/\nauthorization: Bearer mine", other.origin());
        assert!(
            send(tool, &request, &granted).await.contains("Bearer mine"),
            "where no secret goes the guest has its own"
        );
        assert!(other.seen().iter().all(|request| !request.contains(CANARY)));
    }
}

#[tokio::test]
async fn a_secret_without_a_value_is_missed_by_its_name_and_nothing_is_sent() {
    let server = Server::start(|_| ok("reached")).await;
    let granted = granted(HttpGate::new([rule(&server.origin())], vec![secret(&server.origin(), None)]));
    for tool in BOTH {
        let report = call_for(tool, &format!("GET {}/", server.origin()), &granted, 20_000).await;
        assert_eq!(report.missing, [Missing::Secret { name: "shop-key".into(), origin: server.origin() }]);
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn bodies_are_taken_up_to_their_limit_and_not_further() {
    let server = Server::start(|request| {
        let length = request.lines().next().unwrap().split(['/', ' ']).nth(2).unwrap().parse().unwrap_or(0);
        ok(vec![b'x'; length])
    });
    let server = server.await;
    let granted = granted(HttpGate::new([rule(&server.origin())], Vec::new()));
    let large = RESPONSE_BODY_BYTES_MAX;
    for tool in BOTH {
        let get = async |length: usize| send(tool, &format!("GET {}/{length}", server.origin()), &granted).await;
        assert!(get(large).await.ends_with(&format!("{large} bytes")), "{tool}");
        let refused = get(large + 1).await;
        assert!(refused.contains("TooLarge") || refused.contains("HttpResponseBodySize"), "{tool}: {refused}");
        let post =
            async |length: usize| send(tool, &format!("POST {}/0\n\n*{length}", server.origin()), &granted).await;
        assert!(post(REQUEST_BODY_BYTES_MAX).await.starts_with("200"), "{tool}");
        let refused = post(REQUEST_BODY_BYTES_MAX + 1).await;
        assert!(refused.contains("TooLarge") || refused.contains("HttpRequestBodySize"), "{tool}: {refused}");
    }
}

#[tokio::test]
async fn a_server_that_never_ends_or_never_begins_costs_the_call_its_time_and_no_more() {
    let endless = Server::start(|_| Reply::Endless).await;
    let silent = Server::start(|_| Reply::Silence).await;
    let granted = granted(HttpGate::new([rule(&endless.origin()), rule(&silent.origin())], Vec::new()));
    for tool in BOTH {
        let refused = send(tool, &format!("GET {}/", endless.origin()), &granted).await;
        assert!(refused.contains("TooLarge") || refused.contains("HttpResponseBodySize"), "{tool}: {refused}");
        let began = Instant::now();
        call_for(tool, &format!("GET {}/", silent.origin()), &granted, 700).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{tool}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn what_is_no_http_is_an_error_of_the_connection() {
    for garbage in
        ["", "garbage\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "HTTP/1.1 2000 OK\r\n\r\n"]
    {
        let server = Server::start(move |_| Reply::Bytes(garbage.into())).await;
        let granted = granted(HttpGate::new([rule(&server.origin())], Vec::new()));
        for tool in BOTH {
            let refused = send(tool, &format!("GET {}/", server.origin()), &granted).await;
            assert!(refused.contains("Connection"), "{tool} {garbage:?}: {refused}");
        }
    }
    let many = "X-Many: yes\r\n".repeat(10_000);
    let server = Server::start(move |_| with_headers(&many, "")).await;
    let granted = granted(HttpGate::new([rule(&server.origin())], Vec::new()));
    for tool in BOTH {
        let refused = send(tool, &format!("GET {}/", server.origin()), &granted).await;
        assert!(!refused.starts_with("200"), "{tool}: {}", &refused[..100]);
    }
}

#[tokio::test]
async fn a_call_sends_so_many_requests_and_no_more() {
    let server = Server::start(|_| ok("fine")).await;
    let granted = granted(HttpGate::new([rule(&server.origin())], Vec::new()));
    for (round, tool) in BOTH.into_iter().enumerate() {
        let fine = send(tool, &format!("x{REQUESTS_MAX} GET {}/", server.origin()), &granted).await;
        assert!(fine.starts_with("200"), "{tool}: {fine}");
        let refused = send(tool, &format!("x{} GET {}/", REQUESTS_MAX + 1, server.origin()), &granted).await;
        assert!(refused.contains("at most") || refused.contains("ConnectionLimitReached"), "{tool}: {refused}");
        assert_eq!(server.seen().len(), (round + 1) * 2 * REQUESTS_MAX);
    }
}

#[tokio::test]
async fn nobody_there_is_told_without_the_hosts_own_words() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let granted = granted(HttpGate::new([rule(&format!("http://{address}"))], Vec::new()));
    for tool in BOTH {
        let refused = send(tool, &format!("GET http://{address}/"), &granted).await;
        assert!(refused.contains("Connection") && !refused.contains("os error"), "{tool}: {refused}");
    }
}
