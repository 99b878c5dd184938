//! Tools that try what nothing grants, and tell what came of it.

use std::net::{TcpStream, ToSocketAddrs as _};

use crate::bindings::exports::toolcell::tool::tools::{CallContext, ToolResult};
use crate::bindings::toolcell::tool::{http as host_http, key_value as host_key_value};
use crate::{fail, say};

/// Reads a file that every host has.
pub(crate) fn file(_: &str, _: CallContext) -> ToolResult {
    let paths = ["/etc/passwd", "../../etc/passwd", ".", "/proc/self/environ"];
    let written = std::fs::write("/tmp/toolcell-guest-was-here", "x");
    let open = paths.iter().any(|path| std::fs::read(path).is_ok() || std::fs::read_dir(path).is_ok());
    verdict(!open && written.is_err())
}

/// Sends a request.
pub(crate) fn http(_: &str, _: CallContext) -> ToolResult {
    let request = host_http::Request {
        method: "GET".into(),
        url: "http://169.254.169.254/".into(),
        headers: Vec::new(),
        body: None,
        timeout_ms: None,
    };
    match host_http::fetch(&request) {
        Err(host_http::Error::Denied(why)) => say(why),
        other => fail(format!("{other:?}")),
    }
}

/// Uses the key-value store.
pub(crate) fn key_value(_: &str, _: CallContext) -> ToolResult {
    let denied = [
        host_key_value::get("a").err(),
        host_key_value::set("a", b"1", None).err(),
        host_key_value::delete("a").err(),
        host_key_value::list_keys("", None).err(),
    ];
    let mut texts = denied.into_iter().map(|error| match error {
        Some(host_key_value::Error::Denied(why)) => why,
        other => format!("{other:?}"),
    });
    let first = texts.next().unwrap_or_default();
    if texts.all(|text| text == first) { say(first) } else { fail("they differ") }
}

/// Looks for an environment.
pub(crate) fn env(_: &str, _: CallContext) -> ToolResult {
    say(format!("{} variables, {} arguments", std::env::vars().count(), std::env::args().count()))
}

/// Resolves a name and connects to an address.
pub(crate) fn socket(_: &str, _: CallContext) -> ToolResult {
    let resolved = "localhost:80".to_socket_addrs().is_ok();
    let connected = TcpStream::connect("127.0.0.1:22").is_ok();
    let bound = std::net::UdpSocket::bind("127.0.0.1:0").is_ok();
    verdict(!resolved && !connected && !bound)
}

fn verdict(denied: bool) -> ToolResult {
    if denied { say("denied") } else { fail("not denied") }
}
