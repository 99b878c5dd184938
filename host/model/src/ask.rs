//! One question to a provider as a stream of events: send, decode, and send again as long as nothing was handed on.
//!
//! It knows no wire format; an [`Exchange`] encodes the request and decodes the response.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use toolcell_agent::{ModelError, ModelEvent, ModelReply};

use crate::client::{Client, Response};
use crate::provider_error::{Failed, html_title};
use crate::retry::RetryPolicy;
use crate::sse;

/// Bytes of one response. A model that writes more is caught in a loop.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// How long the rest of a connection is waited for after the end marker, so that it can be used again.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// One request in a wire format, and the reading of its response.
pub(crate) trait Exchange: Send {
    /// Reads one response.
    type Decoder: Decode;

    /// The path below the base URL.
    fn path(&self) -> &'static str;

    /// The body of the request.
    fn encode(&self, media: MediaUse) -> RequestBody;

    /// A fresh decoder; each attempt has its own.
    fn decoder(&self) -> Self::Decoder;
}

/// What becomes of images, sounds and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaUse {
    /// They are sent, as far as the wire and the vendor carry them.
    Sent,
    /// A line of text stands for each.
    Described,
}

/// The body of a request.
pub(crate) struct RequestBody {
    /// JSON.
    pub(crate) json: Bytes,
    /// Whether any media were sent.
    pub(crate) carries_media: bool,
}

/// Reads one response in a wire format. Pure.
pub(crate) trait Decode: Send {
    /// Reads an event of a stream.
    fn event(&mut self, event: &sse::Event, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Failed>;

    /// Reads a response that came as one JSON value although a stream was asked for.
    fn whole(&mut self, body: &Value, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed>;

    /// The turn, once the body has ended.
    fn finish(self) -> Result<ModelReply, Failed>;
}

/// Whether a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It does.
    More,
    /// The end marker was read.
    Done,
}

/// Asks; the stream ends with [`ModelEvent::Finished`] or an error.
pub(crate) fn ask<'a, E: Exchange + 'a>(
    client: &'a Client,
    policy: &'a RetryPolicy,
    exchange: E,
) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
    let body = exchange.encode(MediaUse::Sent);
    let (queue, phase) = (VecDeque::new(), Phase::Send);
    let ask = Ask { client, policy, exchange, body, queue, phase, retries: 0, has_emitted: false };
    stream::unfold(ask, |mut ask| async move { ask.next().await.map(|item| (item, ask)) }).boxed()
}

struct Ask<'a, E: Exchange> {
    client: &'a Client,
    policy: &'a RetryPolicy,
    exchange: E,
    body: RequestBody,
    queue: VecDeque<ModelEvent>,
    phase: Phase<E::Decoder>,
    retries: u32,
    has_emitted: bool,
}

enum Phase<D> {
    Send,
    Read(Box<Reading<D>>),
    Fail(ModelError),
    Over,
}

impl<E: Exchange> Ask<'_, E> {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                self.has_emitted = true;
                return Some(Ok(event));
            }
            let step = match mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return None,
                Phase::Fail(error) => return Some(Err(error)),
                Phase::Send => self.send().await,
                Phase::Read(reading) => {
                    reading.advance(&mut self.queue).await.map_err(|failed| self.client.clean(failed))
                }
            };
            self.phase = match step {
                Ok(phase) => phase,
                Err(failed) => self.recover(failed).await,
            };
        }
    }

    async fn send(&mut self) -> Result<Phase<E::Decoder>, Failed> {
        let response = self.client.post(self.exchange.path(), self.body.json.clone()).await?;
        Ok(Phase::Read(Box::new(Reading::new(response, self.exchange.decoder()))))
    }

    /// What comes after a failure, whose words are clean: the same again, the same without media, or the error.
    async fn recover(&mut self, failed: Failed) -> Phase<E::Decoder> {
        if self.has_emitted {
            return Phase::Fail(failed.error);
        }
        if self.body.carries_media && failed.is_about_media() {
            tracing::warn!(error = %failed.error, "the model does not take the media; descriptions are sent instead");
            self.body = self.exchange.encode(MediaUse::Described);
            self.queue.clear();
            return Phase::Send;
        }
        let Some(wait) = self.policy.wait(self.retries, failed.retry, chance()) else {
            return Phase::Fail(failed.error);
        };
        tracing::info!(error = %failed.error, wait_ms = wait.as_millis(), "the request is sent again");
        self.retries += 1;
        self.queue.clear();
        tokio::time::sleep(wait).await;
        Phase::Send
    }
}

/// A response that is being read.
struct Reading<D> {
    response: Response,
    decoder: D,
    form: Form,
    bytes: usize,
}

/// What a body turns out to be. Servers answer a request for a stream with one JSON value, and name streams wrongly.
enum Form {
    Unknown(Vec<u8>),
    Events(sse::Parser),
    Json(Vec<u8>),
}

impl<D: Decode> Reading<D> {
    fn new(response: Response, decoder: D) -> Self {
        let is_named = response.is_event_stream();
        let form = if is_named { Form::Events(sse::Parser::default()) } else { Form::Unknown(Vec::new()) };
        Self { response, decoder, form, bytes: 0 }
    }

    /// Reads the next piece of the body.
    async fn advance(mut self: Box<Self>, out: &mut VecDeque<ModelEvent>) -> Result<Phase<D>, Failed> {
        let Some(chunk) = self.response.chunk().await? else {
            self.end_of_body(out)?;
            return finish(self.decoder, out);
        };
        self.bytes = self.bytes.saturating_add(chunk.len());
        if self.bytes > RESPONSE_BYTES_MAX {
            return Err(Failed::bad_response(format!("it is longer than {RESPONSE_BYTES_MAX} bytes")));
        }
        match self.take(&chunk, out)? {
            Progress::More => Ok(Phase::Read(self)),
            Progress::Done => {
                let Self { response, decoder, .. } = *self;
                drain(response);
                finish(decoder, out)
            }
        }
    }

    fn take(&mut self, chunk: &[u8], out: &mut VecDeque<ModelEvent>) -> Result<Progress, Failed> {
        match &mut self.form {
            Form::Events(parser) => {
                let mut events = Vec::new();
                let parsed = parser.push(chunk, &mut events);
                let progress = read_events(&mut self.decoder, &events, out)?;
                parsed.map_err(|e| Failed::bad_response(e.to_string()))?;
                Ok(progress)
            }
            Form::Json(body) => {
                body.extend_from_slice(chunk);
                Ok(Progress::More)
            }
            Form::Unknown(begin) => {
                begin.extend_from_slice(chunk);
                let Some(first) = begin.iter().find(|b| !b.is_ascii_whitespace()) else {
                    // Servers send blank lines to keep a connection alive; they are not searched again.
                    begin.clear();
                    return Ok(Progress::More);
                };
                let is_json = matches!(first, b'{' | b'[' | b'<');
                let begin = mem::take(begin);
                self.form = if is_json { Form::Json(Vec::new()) } else { Form::Events(sse::Parser::default()) };
                self.take(&begin, out)
            }
        }
    }

    fn end_of_body(&mut self, out: &mut VecDeque<ModelEvent>) -> Result<(), Failed> {
        match &mut self.form {
            Form::Unknown(_) => Ok(()),
            Form::Events(parser) => {
                let mut events = Vec::new();
                parser.finish(&mut events).map_err(|e| Failed::bad_response(e.to_string()))?;
                read_events(&mut self.decoder, &events, out).map(|_| ())
            }
            Form::Json(body) => {
                let text = String::from_utf8_lossy(body);
                if let Some(page) = html_title(&text) {
                    return Err(Failed::bad_response(format!("it is {page}; is the base URL right?")));
                }
                let value = serde_json::from_str(&text)
                    .map_err(|e| Failed::bad_response(format!("it is neither a stream of events nor JSON: {e}")))?;
                self.decoder.whole(&value, out)
            }
        }
    }
}

fn read_events(
    decoder: &mut impl Decode,
    events: &[sse::Event],
    out: &mut VecDeque<ModelEvent>,
) -> Result<Progress, Failed> {
    for event in events {
        if decoder.event(event, out)? == Progress::Done {
            return Ok(Progress::Done);
        }
    }
    Ok(Progress::More)
}

fn finish<D: Decode>(decoder: D, out: &mut VecDeque<ModelEvent>) -> Result<Phase<D>, Failed> {
    out.push_back(ModelEvent::Finished(decoder.finish()?));
    Ok(Phase::Over)
}

/// Reads what follows the end marker, usually nothing but the end of the body: a connection whose body was not read to
/// its end cannot be used for the next request.
fn drain(mut response: Response) {
    tokio::spawn(tokio::time::timeout(DRAIN_MAX, async move { while let Ok(Some(_)) = response.chunk().await {} }));
}

/// A number between 0 and 1. Without a source of randomness clients may come back at the same moment, no more.
fn chance() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}
