//! One question to a provider as a stream of events: send, decode, and send again what failed. When a part of the answer
//! was handed on before, the stream says that it is void.
//!
//! It knows no wire format; an [`Exchange`] encodes the request and decodes the response.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use tokio::time::Instant;
use toolcell_agent::{ModelError, ModelEvent, ModelReply, ModelWarning};

use crate::client::{Client, Response};
use crate::media::MediaCount;
use crate::provider_error::{Failed, html_title};
use crate::retry::RetryPolicy;
use crate::{json, sse};

/// Bytes of one response. A model that writes more is caught in a loop.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Bytes of an answer that comes as one JSON value. Read, a value takes many times as much memory as its text.
const JSON_BYTES_MAX: usize = 16 << 20;

/// How long the rest of a connection is waited for after the end marker, so that it can be used again.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// One request in a wire format, and the reading of its response.
pub(crate) trait Exchange: Send {
    /// Reads one response.
    type Decoder: Decode;

    /// The path below the base URL, perhaps with a query.
    fn path(&self) -> Cow<'_, str>;

    /// The body of the request.
    fn encode(&self, media: MediaUse) -> RequestBody;

    /// Gives up a part of the request that the provider refused, where the wire knows of one that it can do without;
    /// each part once. Whether the request is worth sending again.
    fn concede(&mut self, _refused: &Failed) -> bool {
        false
    }

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

/// How an answer is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Delivery {
    /// In pieces, as it is written.
    #[default]
    Streamed,
    /// Whole, at its end: for servers whose streams do not work with tools.
    Whole,
}

/// The body of a request.
pub(crate) struct RequestBody {
    /// JSON.
    pub(crate) json: Bytes,
    /// What became of images, sounds and files.
    pub(crate) media: MediaCount,
    /// What else does not reach the model as it stands.
    pub(crate) warnings: Vec<ModelWarning>,
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
    let media = MediaUse::Sent;
    let body = exchange.encode(media);
    let mut ask = Ask {
        client,
        policy,
        exchange,
        media,
        body,
        queue: VecDeque::new(),
        phase: Phase::Send,
        retries: 0,
        deadline: None,
        has_spoken: false,
    };
    ask.warn();
    stream::unfold(ask, |mut ask| async move { ask.next().await.map(|item| (item, ask)) }).boxed()
}

struct Ask<'a, E: Exchange> {
    client: &'a Client,
    policy: &'a RetryPolicy,
    exchange: E,
    media: MediaUse,
    body: RequestBody,
    queue: VecDeque<ModelEvent>,
    phase: Phase<E::Decoder>,
    retries: u32,
    /// When the present attempt has taken too long; never, where that is beyond the end of time.
    deadline: Option<Instant>,
    /// A part of the answer was handed on.
    has_spoken: bool,
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
                self.has_spoken |= matches!(event, ModelEvent::Text(_) | ModelEvent::Reasoning(_));
                return Some(Ok(event));
            }
            let step = match mem::replace(&mut self.phase, Phase::Over) {
                Phase::Over => return None,
                Phase::Fail(error) => return Some(Err(error)),
                Phase::Send => {
                    self.deadline = Instant::now().checked_add(self.client.attempt_timeout());
                    let path = self.exchange.path();
                    let sent = self.client.post(&path, self.body.json.clone());
                    let response = in_time(self.client, self.deadline, sent).await;
                    response.map(|response| Phase::Read(Box::new(Reading::new(response, self.exchange.decoder()))))
                }
                Phase::Read(reading) => {
                    let step = in_time(self.client, self.deadline, reading.advance(&mut self.queue)).await;
                    step.map_err(|failed| self.client.clean(failed))
                }
            };
            self.phase = match step {
                Ok(phase) => phase,
                Err(failed) => self.recover(failed).await,
            };
        }
    }

    /// What comes after a failure, whose words are clean: the same again, the same without what was refused, or the
    /// error.
    async fn recover(&mut self, failed: Failed) -> Phase<E::Decoder> {
        let is_conceded = self.exchange.concede(&failed);
        if !is_conceded && self.body.media.sent > 0 && failed.is_about_media() {
            self.media = MediaUse::Described;
        }
        if is_conceded || self.media == MediaUse::Described && self.body.media.sent > 0 {
            self.body = self.exchange.encode(self.media);
            self.restart(&failed);
            return Phase::Send;
        }
        let Some(wait) = self.policy.wait(self.retries, failed.retry, chance()) else {
            return Phase::Fail(failed.error);
        };
        self.retries += 1;
        tracing::info!(error = failed.error.kind(), wait_ms = wait.as_millis(), "the request is sent again");
        tokio::time::sleep(wait).await;
        self.restart(&failed);
        Phase::Send
    }

    /// Forgets the answer so far, and tells who has seen a part of it.
    fn restart(&mut self, failed: &Failed) {
        self.queue.clear();
        if mem::take(&mut self.has_spoken) {
            self.queue.push_back(ModelEvent::Restarted { reason: failed.error.to_string() });
        }
        self.warn();
    }

    fn warn(&mut self) {
        self.queue.extend(self.body.media.warning());
        self.queue.extend(self.body.warnings.drain(..).map(ModelEvent::Warning));
    }
}

/// The step, if it ends before the attempt has taken too long.
async fn in_time<T>(
    client: &Client,
    deadline: Option<Instant>,
    step: impl Future<Output = Result<T, Failed>>,
) -> Result<T, Failed> {
    let Some(deadline) = deadline else { return step.await };
    let too_slow = ModelError::TooSlow { seconds: client.attempt_timeout().as_secs() };
    tokio::time::timeout_at(deadline, step).await.unwrap_or_else(|_| Err(Failed::for_now(too_slow)))
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
                if body.len().saturating_add(chunk.len()) > JSON_BYTES_MAX {
                    return Err(Failed::bad_response(format!("it is a JSON value longer than {JSON_BYTES_MAX} bytes")));
                }
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
                let (is_one_value, mut events) = (parser.is_one_value(), Vec::new());
                parser.finish(&mut events).map_err(|e| Failed::bad_response(e.to_string()))?;
                if let ([event], true) = (events.as_slice(), is_one_value) {
                    return self.decoder.whole(&json_of(&event.data)?, out);
                }
                read_events(&mut self.decoder, &events, out).map(|_| ())
            }
            Form::Json(body) => {
                let text = String::from_utf8_lossy(body);
                if let Some(page) = html_title(&text) {
                    return Err(Failed::bad_response(format!("it is {page}; is the base URL right?")));
                }
                self.decoder.whole(&json_of(&text)?, out)
            }
        }
    }
}

/// An answer in one JSON value.
fn json_of(text: &str) -> Result<Value, Failed> {
    json::parse(text).map_err(|e| Failed::bad_response(format!("it is neither a stream of events nor JSON: {e}")))
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
