//! A run as a stream of its events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolcell_contract::Answer;

use crate::agent::{Agent, RunError, RunRequest};
use crate::event::{EventSink, RunEvent};
use crate::run::{RunResult, SuspendedRun};

/// The events of a run, as they happen; then [`RunStream::result`].
///
/// The stream is the run: it goes on while it is polled, and dropping it ends the model's answer and every call at
/// once. Nothing piles up behind a reader that takes its time, because the run waits for it.
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
    events: mpsc::UnboundedReceiver<RunEvent>,
}

enum Run {
    Alive(BoxFuture<'static, Result<RunResult, RunError>>),
    Over(Box<Result<RunResult, RunError>>),
}

impl RunStream {
    fn new<F>(run: impl FnOnce(Arc<dyn EventSink>) -> F) -> Self
    where
        F: Future<Output = Result<RunResult, RunError>> + Send + 'static,
    {
        // It holds no more than what happens while the run is polled once, and what calls report in the meantime.
        let (sender, events) = mpsc::unbounded_channel();
        let sink = Arc::new(move |event: RunEvent| {
            // Nobody is left to be told when the stream was dropped.
            let _ = sender.send(event);
        });
        Self { run: Run::Alive(run(sink).boxed()), events }
    }

    /// The result of the run. Events that were not taken yet are passed over.
    ///
    /// # Errors
    /// As for [`Agent::run`].
    pub async fn result(mut self) -> Result<RunResult, RunError> {
        while self.next().await.is_some() {}
        match self.run {
            Run::Alive(run) => run.await,
            Run::Over(result) => *result,
        }
    }
}

impl Stream for RunStream {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        loop {
            if let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
                return Poll::Ready(Some(event));
            }
            // Nothing follows. Not by polling: that also says "not yet" when the task has done much in one go.
            let Run::Alive(run) = &mut self.run else { return Poll::Ready(self.events.try_recv().ok()) };
            match run.poll_unpin(cx) {
                Poll::Ready(result) => self.run = Run::Over(Box::new(result)),
                // What was emitted while it was polled is taken before anybody waits.
                Poll::Pending => match self.events.poll_recv(cx) {
                    Poll::Ready(Some(event)) => return Poll::Ready(Some(event)),
                    _ => return Poll::Pending,
                },
            }
        }
    }
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_over = matches!(self.run, Run::Over(_));
        f.debug_struct("RunStream").field("is_over", &is_over).finish_non_exhaustive()
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
        RunStream::new(|sink| async move {
            let events = Arc::new(Both(Arc::clone(&request.events), sink));
            agent.run(RunRequest { events, ..request }).await
        })
    }

    /// [`Agent::resume`], as a stream of its events.
    #[must_use]
    pub fn stream_resumed(&self, run: SuspendedRun, answers: Vec<Answer>, cancel: CancellationToken) -> RunStream {
        let agent = self.clone();
        RunStream::new(|sink| async move { agent.resume(run, answers, sink, cancel).await })
    }
}
