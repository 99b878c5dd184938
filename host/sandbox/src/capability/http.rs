//! `toolcell:tool/http`, through the gate that the call was granted.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::bindings::toolcell::tool::http::{Error, Header, Host, Request, Response};
use crate::http::{Incoming, Outgoing, Refusal, is_hosts_own};
use crate::state::CallState;

impl Host for CallState {
    async fn fetch(&mut self, request: Request) -> Result<Response, Error> {
        let Request { method, url, headers, body, timeout_ms } = request;
        let time_max = self.traffic.time_max();
        let outgoing = Outgoing {
            method,
            url,
            headers: header_map(headers)?,
            body: body.map(Bytes::from).unwrap_or_default(),
            // It can only be shorter.
            time_max: timeout_ms.map_or(time_max, |ms| Duration::from_millis(ms).min(time_max)),
        };
        let Incoming { status, headers, body } = self.traffic.send(outgoing).await?;
        let headers = headers
            .iter()
            .map(|(name, value)| Header { name: name.as_str().to_owned(), value: value.as_bytes().to_vec() })
            .collect();
        Ok(Response { status, headers, body: body.into() })
    }
}

fn header_map(headers: Vec<Header>) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    for Header { name, value } in headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_bytes(&value);
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(Error::InvalidRequest("a header's name or value holds a character that it cannot".into()));
        };
        if is_hosts_own(&name) {
            return Err(Error::InvalidRequest(format!("the header {name} is set by the host")));
        }
        if map.try_append(name, value).is_err() {
            return Err(Error::TooLarge);
        }
    }
    Ok(map)
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(why) => Self::InvalidRequest(why),
            Refusal::Missing(_) | Refusal::Prohibited | Refusal::TooMany => Self::Denied(refusal.to_string()),
            Refusal::Timeout => Self::Timeout,
            Refusal::TooLarge(_) => Self::TooLarge,
            Refusal::Connection(why) => Self::Connection(why.into()),
        }
    }
}
