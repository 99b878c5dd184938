//! A run as a stream of its events.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{Stream, StreamExt as _};
use futures::task::AtomicWaker;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use toolcell_contract::Answer;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;

use crate::agent::{Agent, RunError, RunRequest};
use crate::event::{EventSink, RunEvent};
use crate::run::{RunResult, SuspendedRun};

/// Events that are kept for a reader that is behind: a turn of many calls has about a hundred, and its text counts once.
const EVENTS_HELD_MAX: usize = 1_024;

/// The events of a run, as they happen; then [`RunStream::result`].
///
/// The run begins when the stream is first polled, in a task of its own on the tokio runtime that polls it. From then on it
/// goes its own pace: a reader that takes its time finds the events there, texts joined and progress at its latest. Only a
/// reader that is more than a thousand events behind holds the run up, and that is time of the run: its model and its
/// tools do not wait either ([`crate::Budget::time_max`]). A run that is cancelled ends all the same, and one whose reader
/// stays away for all of its time ends by that limit.
///
/// Dropping the stream ends the run, with the model's answer and every call.
///
/// ```
/// use futures::StreamExt as _;
/// use toolcell_agent::{Agent, RunEvent, RunRequest};
///
/// async fn show(agent: &Agent) -> Result<String, Box<dyn std::error::Error>> {
///     let mut stream = agent.stream(RunRequest::prompt("What is 2 + 2?"));
///     while let Some(event) = stream.next().await {
///         if let RunEvent::Text { text } = event {
///             print!("{text}");
///         }
///     }
///     Ok(stream.result().await?.text)
/// }
/// ```
pub struct RunStream {
    run: Run,
    held: Arc<Held>,
}

type Ended = Result<RunResult, RunError>;

enum Run {
    /// Nobody has asked for its events yet.
    Ready(BoxFuture<'static, Ended>),
    Alive(AbortOnDropHandle<Ended>),
    Over(Box<Ended>),
}

impl RunStream {
    fn new<F>(limits: HoldLimits, run: impl FnOnce(Arc<dyn EventSink>) -> F) -> Self
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        let held = Arc::new(Held { limits, ..Held::default() });
        let sink = Arc::clone(&held);
        // Whoever watches the caller sees the run too.
        let run = run(Arc::new(move |event| sink.put(event))).in_current_span().with_current_subscriber();
        Self { run: Run::Ready(run.boxed()), held }
    }

    /// The result of the run. Events that were not taken yet are passed over.
    ///
    /// # Errors
    /// As for [`Agent::run`], and [`RunError::CutOff`].
    pub async fn result(mut self) -> Result<RunResult, RunError> {
        while self.next().await.is_some() {}
        match self.run {
            Run::Over(result) => *result,
            // Only a run that is over has no next event.
            Run::Ready(_) | Run::Alive(_) => Err(RunError::CutOff),
        }
    }

    /// Whether the run is over.
    fn poll_run(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Run::Ready(run) = &mut self.run {
            let run = std::mem::replace(run, std::future::pending().boxed());
            let run = Arc::clone(&self.held).let_on(run);
            self.run = Run::Alive(AbortOnDropHandle::new(tokio::spawn(run)));
        }
        let Run::Alive(task) = &mut self.run else { return Poll::Ready(()) };
        task.poll_unpin(cx).map(|joined| match joined.map_err(JoinError::try_into_panic) {
            Ok(ended) => self.run = Run::Over(Box::new(ended)),
            Err(cut_off) => {
                self.run = Run::Over(Box::new(Err(RunError::CutOff)));
                // A panic of the program's own code is the reader's, as it would be without a task between the two.
                cut_off.map_or_else(drop, |panic| std::panic::resume_unwind(panic));
            }
        })
    }
}

impl Stream for RunStream {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        self.held.reader.register(cx.waker());
        if let Some(event) = self.held.take() {
            return Poll::Ready(Some(event));
        }
        match self.poll_run(cx) {
            // It may have said its last words since.
            Poll::Ready(()) => Poll::Ready(self.held.take()),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_over = matches!(self.run, Run::Over(_));
        f.debug_struct("RunStream").field("is_over", &is_over).finish_non_exhaustive()
    }
}

/// What ends the time in which a reader may hold its run up.
#[derive(Default)]
struct HoldLimits {
    cancel: CancellationToken,
    /// All of the run's time: whoever was held up so long while it worked has none left.
    time_max: Duration,
}

/// What the reader has not taken yet.
#[derive(Default)]
struct Held {
    limits: HoldLimits,
    events: Mutex<VecDeque<RunEvent>>,
    reader: AtomicWaker,
    run: AtomicWaker,
}

impl Held {
    /// Lets the run go on unless its reader is far behind. So there is never more than [`EVENTS_HELD_MAX`] events, what
    /// happens while the run is polled once and when it ends, and the latest progress of each call.
    async fn let_on(self: Arc<Self>, run: impl Future<Output = Ended>) -> Ended {
        let mut run = pin!(run);
        loop {
            let is_over = poll_fn(|cx| {
                self.run.register(cx.waker());
                if self.events().len() >= EVENTS_HELD_MAX { Poll::Ready(None) } else { run.as_mut().poll(cx).map(Some) }
            });
            if let Some(ended) = is_over.await {
                return ended;
            }
            tokio::select! {
                () = self.has_room() => {}
                () = self.limits.cancel.cancelled() => return run.await,
                () = tokio::time::sleep(self.limits.time_max) => return run.await,
            }
        }
    }

    /// Waits until the reader has caught up.
    async fn has_room(&self) {
        poll_fn(|cx| {
            self.run.register(cx.waker());
            if self.events().len() >= EVENTS_HELD_MAX { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    fn put(&self, event: RunEvent) {
        let mut events = self.events();
        if let Some(event) = unless_joined(&mut events, event) {
            events.push_back(event);
        }
        drop(events);
        self.reader.wake();
    }

    fn take(&self) -> Option<RunEvent> {
        let (event, left) = {
            let mut events = self.events();
            (events.pop_front(), events.len())
        };
        if event.is_some() && left + 1 == EVENTS_HELD_MAX {
            self.run.wake();
        }
        event
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<RunEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The event, unless one that is held has taken it in: text follows text, and only the latest progress of a call counts.
fn unless_joined(held: &mut VecDeque<RunEvent>, event: RunEvent) -> Option<RunEvent> {
    match (held.back_mut(), event) {
        (Some(RunEvent::Text { text }), RunEvent::Text { text: more })
        | (Some(RunEvent::Reasoning { text }), RunEvent::Reasoning { text: more }) => {
            text.push_str(&more);
            None
        }
        (_, RunEvent::Progress { call_id, name, progress: latest }) => {
            let earlier = held.iter_mut().rev().find_map(|event| match event {
                RunEvent::Progress { call_id: id, progress, .. } if *id == call_id => Some(progress),
                _ => None,
            });
            match earlier {
                Some(progress) => {
                    *progress = latest;
                    None
                }
                None => Some(RunEvent::Progress { call_id, name, progress: latest }),
            }
        }
        (_, event) => Some(event),
    }
}

/// Tells two sinks.
struct Both(Arc<dyn EventSink>, Arc<dyn EventSink>);

impl EventSink for Both {
    fn emit(&self, event: RunEvent) {
        self.0.emit(event.clone());
        self.1.emit(event);
    }
}

impl Agent {
    /// [`Agent::run`], as a stream of its events. [`RunRequest::events`] is told as well.
    #[must_use]
    pub fn stream(&self, request: RunRequest) -> RunStream {
        let agent = self.clone();
        RunStream::new(self.hold_limits(&request.cancel), |sink| async move {
            let events = Arc::new(Both(Arc::clone(&request.events), sink));
            agent.run(RunRequest { events, ..request }).await
        })
    }

    /// [`Agent::resume`], as a stream of its events.
    #[must_use]
    pub fn stream_resumed(&self, run: SuspendedRun, answers: Vec<Answer>, cancel: CancellationToken) -> RunStream {
        let agent = self.clone();
        RunStream::new(self.hold_limits(&cancel), |sink| async move { agent.resume(run, answers, sink, cancel).await })
    }

    fn hold_limits(&self, cancel: &CancellationToken) -> HoldLimits {
        HoldLimits { cancel: cancel.clone(), time_max: self.budget().time_max }
    }
}
