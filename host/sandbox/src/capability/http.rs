//! `toolcell:tool/http`, which refuses every request: no origin is granted.

use crate::bindings::toolcell::tool::http::{Error, Host, Request, Response};
use crate::state::CallState;

impl Host for CallState {
    async fn fetch(&mut self, _request: Request) -> Result<Response, Error> {
        Err(Error::Denied("HTTP is not granted to this tool".into()))
    }
}
