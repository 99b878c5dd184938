//! Tools that use what they are granted. Their arguments are lines, one for each step, and so are their answers.

use std::fmt::{Debug, Write as _};

use wasip2::http::outgoing_handler;
use wasip2::http::types::{Fields, IncomingBody, Method, OutgoingBody, OutgoingRequest, Scheme};
use wasip2::io::streams::StreamError;

use crate::bindings::exports::toolcell::tool::tools::{CallContext, ToolResult};
use crate::bindings::toolcell::tool::{http, key_value};
use crate::say;

/// `read PATH`, `write PATH TEXT`, `list PATH`, `remove PATH`, `rename PATH PATH`, `link PATH PATH`, `size PATH N`.
pub(crate) fn files(arguments: &str, _: CallContext) -> ToolResult {
    each_line(arguments, |step, first, rest| match step {
        "read" => told(std::fs::read_to_string(first)),
        "write" => told(std::fs::write(first, rest).map(|()| "written".to_owned())),
        "list" => told(std::fs::read_dir(first).map(|entries| {
            let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().display().to_string()).collect();
            names.sort();
            names.join(" ")
        })),
        "remove" => told(std::fs::remove_file(first).map(|()| "removed".to_owned())),
        "rename" => told(std::fs::rename(first, rest).map(|()| "renamed".to_owned())),
        "link" => told(std::fs::hard_link(first, rest).map(|()| "linked".to_owned())),
        "size" => {
            let open = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(first);
            told(open.and_then(|file| file.set_len(rest.parse().unwrap_or(0))).map(|()| "sized".to_owned()))
        }
        other => format!("no step {other}"),
    })
}

/// The whole environment, sorted.
pub(crate) fn environment(_: &str, _: CallContext) -> ToolResult {
    let mut variables: Vec<_> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    variables.sort();
    say(variables.join("\n"))
}

/// `get KEY`, `set KEY VALUE`, `swap KEY VERSION VALUE`, `delete KEY`, `list PREFIX CURSOR`, `fill KEY BYTES`.
pub(crate) fn keys(arguments: &str, _: CallContext) -> ToolResult {
    each_line(arguments, |step, key, rest| match step {
        "get" => match key_value::get(key) {
            Ok(Some(entry)) => format!("{} {}", entry.version, String::from_utf8_lossy(&entry.value)),
            Ok(None) => "none".to_owned(),
            Err(error) => format!("{error:?}"),
        },
        "set" => shown(key_value::set(key, rest.as_bytes(), None)),
        "fill" => shown(key_value::set(key, &vec![b'x'; rest.parse().unwrap_or(0)], None)),
        "swap" => {
            let (version, value) = rest.split_once(' ').unwrap_or((rest, ""));
            shown(key_value::set(key, value.as_bytes(), version.parse().ok()))
        }
        "delete" => shown(key_value::delete(key)),
        "crash" => std::process::abort(),
        "list" => shown(key_value::list_keys(key, (!rest.is_empty()).then_some(rest))),
        other => format!("no step {other}"),
    })
}

/// A request as it would stand on the wire: `METHOD URL`, headers, an empty line, a body. `xN` before it sends it N times.
pub(crate) fn requests(arguments: &str, _: CallContext) -> ToolResult {
    let (times, text) = repeated(arguments);
    let (mut answer, request) = (String::new(), request_of(text));
    for _ in 0..times {
        answer = match http::fetch(&request) {
            Ok(response) => {
                wire(response.status, response.headers.iter().map(|h| (h.name.clone(), &*h.value)), &response.body)
            }
            Err(error) => format!("{error:?}"),
        };
    }
    say(answer)
}

/// The same by `wasi:http`.
pub(crate) fn wasi_requests(arguments: &str, _: CallContext) -> ToolResult {
    let (times, text) = repeated(arguments);
    let (mut answer, request) = (String::new(), request_of(text));
    for _ in 0..times {
        answer = match wasi_fetch(&request) {
            Ok((status, headers, body)) => {
                wire(status, headers.iter().map(|(name, value)| (name.clone(), value.as_slice())), &body)
            }
            Err(error) => error,
        };
    }
    say(answer)
}

type Wire = (u16, Vec<(String, Vec<u8>)>, Vec<u8>);

fn wasi_fetch(request: &http::Request) -> Result<Wire, String> {
    let headers = Fields::new();
    for header in &request.headers {
        headers.append(&header.name, &header.value).map_err(debug)?;
    }
    let (scheme, rest) = request.url.split_once("://").unwrap_or(("", &request.url));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let outgoing = OutgoingRequest::new(headers);
    let method = match request.method.as_str() {
        "GET" => Method::Get,
        "POST" => Method::Post,
        other => Method::Other(other.to_owned()),
    };
    outgoing.set_method(&method).map_err(|()| "set-method".to_owned())?;
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    outgoing.set_scheme(Some(&scheme)).map_err(|()| "set-scheme".to_owned())?;
    outgoing.set_authority(Some(authority)).map_err(|()| "set-authority".to_owned())?;
    outgoing.set_path_with_query(Some(path)).map_err(|()| "set-path".to_owned())?;
    let body = outgoing.body().map_err(|()| "body".to_owned())?;
    let pending = outgoing_handler::handle(outgoing, None).map_err(debug)?;
    if let Some(bytes) = &request.body {
        let stream = body.write().map_err(|()| "write".to_owned())?;
        for piece in bytes.chunks(4_096) {
            stream.blocking_write_and_flush(piece).map_err(debug)?;
        }
    }
    OutgoingBody::finish(body, None).map_err(debug)?;
    pending.subscribe().block();
    let response = pending.get().and_then(Result::ok).ok_or("no response")?.map_err(debug)?;
    let (status, headers) = (response.status(), response.headers().entries());
    let body = response.consume().map_err(|()| "consume".to_owned())?;
    let bytes = read(&body)?;
    Ok((status, headers, bytes))
}

fn read(body: &IncomingBody) -> Result<Vec<u8>, String> {
    let stream = body.stream().map_err(|()| "stream".to_owned())?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(piece) => bytes.extend(piece),
            Err(StreamError::Closed) => return Ok(bytes),
            Err(error) => return Err(debug(error)),
        }
    }
}

fn repeated(arguments: &str) -> (usize, &str) {
    let times = arguments.strip_prefix('x').and_then(|rest| rest.split_once(' '));
    times.and_then(|(times, rest)| Some((times.parse().ok()?, rest))).unwrap_or((1, arguments))
}

fn request_of(text: &str) -> http::Request {
    let (head, body) = text.split_once("\n\n").map_or((text, None), |(head, body)| (head, Some(body)));
    let mut lines = head.split('\n');
    let (method, url) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
    let headers = lines.filter_map(|line| line.split_once(": "));
    http::Request {
        method: method.to_owned(),
        url: url.to_owned(),
        headers: headers.map(|(name, value)| http::Header { name: name.to_owned(), value: value.into() }).collect(),
        // `*N` stands for so many bytes.
        body: body.map(|body| match body.strip_prefix('*').and_then(|count| count.parse().ok()) {
            Some(count) => vec![b'x'; count],
            None => body.into(),
        }),
        timeout_ms: None,
    }
}

fn wire<'a>(status: u16, headers: impl Iterator<Item = (String, &'a [u8])>, body: &[u8]) -> String {
    let mut text = format!("{status}\n");
    for (name, value) in headers {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value));
    }
    // A large one is told by its length.
    if body.len() > 4_096 {
        text + &format!("\n{} bytes", body.len())
    } else {
        text + "\n" + &String::from_utf8_lossy(body)
    }
}

fn each_line(arguments: &str, mut step: impl FnMut(&str, &str, &str) -> String) -> ToolResult {
    let answers = arguments.lines().map(|line| {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        step(word, first, rest)
    });
    say(answers.collect::<Vec<_>>().join("\n"))
}

fn told(done: std::io::Result<String>) -> String {
    done.unwrap_or_else(|error| format!("{:?}", error.kind()))
}

fn shown<T: Debug, E: Debug>(done: Result<T, E>) -> String {
    match done {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{error:?}"),
    }
}

fn debug(error: impl Debug) -> String {
    format!("{error:?}")
}
