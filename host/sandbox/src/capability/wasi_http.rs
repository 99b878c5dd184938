//! `wasi:http`, through the same gate as `toolcell:tool/http`: many languages' own HTTP clients speak it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::http;
use hyper::http::uri::Scheme;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{
    Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use crate::http::{Incoming, Outgoing, REQUEST_BODY_BYTES_MAX, Refusal, Traffic, is_hosts_own};
use crate::state::CallState;

/// Bytes of all fields of one resource, as the host holds them.
pub(crate) const FIELDS_BYTES_MAX: usize = 64 << 10;

type Sent = Result<(http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

impl WasiHttpView for CallState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.traffic, table: &mut self.table, ctx: &mut self.wasi_http }
    }
}

impl WasiHttpHooks for Traffic {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(is_hosts_own)
    }

    /// A guest says itself whether it speaks in the clear.
    fn default_scheme(&mut self) -> Option<Scheme> {
        None
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _consumed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let traffic = self.clone();
        Box::new(async move {
            let incoming = traffic.send(outgoing(request, options, traffic.time_max()).await?).await?;
            let nothing_left: Box<dyn Future<Output = Result<(), Error>> + Send> = Box::new(async { Ok(()) });
            Ok((response(incoming)?, nothing_left))
        })
    }

    // The default ones log a line for each error that a guest makes.

    fn p2_error_from_hyper(&mut self, _: &hyper::Error) -> ErrorCode {
        ErrorCode::HttpProtocolError
    }

    fn p2_error_from_connect(&mut self, _: &std::io::Error) -> ErrorCode {
        ErrorCode::ConnectionRefused
    }

    fn p2_error_from_tls(&mut self, _: &std::io::Error) -> ErrorCode {
        ErrorCode::TlsProtocolError
    }
}

/// The whole request: what goes out is judged before its first byte.
async fn outgoing(
    request: http::Request<WasiBody>,
    options: Option<RequestOptions>,
    time_max: Duration,
) -> Result<Outgoing, Error> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, REQUEST_BODY_BYTES_MAX).collect();
    let body = tokio::time::timeout(time_max, body).await.map_err(|_| Error::HttpResponseTimeout)?;
    let body = body.map_err(|_| Error::HttpRequestBodySize(None))?.to_bytes();
    // A guest's limits only make the host's shorter.
    let first_byte = options.and_then(|options| options.first_byte_timeout).unwrap_or(time_max);
    Ok(Outgoing {
        method: head.method.as_str().to_owned(),
        url: head.uri.to_string(),
        headers: head.headers,
        body,
        time_max: first_byte.min(time_max),
    })
}

fn response(incoming: Incoming) -> Result<http::Response<WasiBody>, Error> {
    let Incoming { status, headers, body } = incoming;
    let mut response = http::Response::new(whole(body));
    *response.status_mut() = http::StatusCode::from_u16(status).map_err(|_| Error::HttpProtocolError)?;
    *response.headers_mut() = headers;
    Ok(response)
}

fn whole(body: Bytes) -> WasiBody {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(_) => Self::HttpRequestUriInvalid,
            Refusal::Missing(_) => Self::HttpRequestDenied,
            Refusal::Prohibited => Self::DestinationIpProhibited,
            Refusal::TooMany => Self::ConnectionLimitReached,
            Refusal::Timeout => Self::ConnectionTimeout,
            Refusal::TooLarge(what) if what.ends_with("request") => Self::HttpRequestBodySize(None),
            Refusal::TooLarge(_) => Self::HttpResponseBodySize(None),
            Refusal::Connection(_) => Self::ConnectionTerminated,
        }
    }
}
