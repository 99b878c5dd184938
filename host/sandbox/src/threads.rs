//! The threads that run guests, apart from every runtime of the caller.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Error;
use crate::ending::Fault;

/// How many guests a thread runs before it looks whether a timer or a socket of another is due. A slice of a
/// spinning guest takes 10 ms, so tokio's 61 would make timers late by half a second.
const EVENT_INTERVAL: u32 = 4;

/// How many guests a thread runs before it takes a new call: every second one, so that new calls do not wait for
/// all the spinning ones, nor these for all the new.
const GLOBAL_QUEUE_INTERVAL: u32 = 2;

/// Threads for blocking work of guests: file operations, and giving back large memories.
const BLOCKING_THREADS_MAX: usize = 64;

/// A runtime that can be dropped anywhere.
pub(crate) struct Threads {
    runtime: Option<Runtime>,
    /// Whether a guest runs on a thread of the caller at this moment.
    visiting: AtomicBool,
}

/// Where a job begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// On the threads of the sandbox.
    Apart,
    /// On the caller's thread, if no other job is there. It saves the two thread switches that cost a quick call
    /// half of its time. A job that is not done when it first gives up its thread, which is after 10 ms at the
    /// latest, goes on apart.
    Here,
}

impl Threads {
    pub(crate) fn start(worker_threads: usize) -> Result<Self, Error> {
        Builder::new_multi_thread()
            .worker_threads(worker_threads)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .event_interval(EVENT_INTERVAL)
            .global_queue_interval(GLOBAL_QUEUE_INTERVAL)
            .thread_name("toolcell-guest")
            .enable_all()
            .build()
            .map(|runtime| Self { runtime: Some(runtime), visiting: AtomicBool::new(false) })
            .map_err(Error::Threads)
    }

    /// Runs a job as a task of its own until it sends its answer. Dropping the future ends the job.
    pub(crate) async fn run<T, F, J>(&self, start: Start, job: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(oneshot::Sender<T>) -> J,
        J: Future<Output = ()> + Send + 'static,
    {
        let runtime = self.runtime.as_ref().ok_or(Fault::Host)?.handle();
        let (sender, mut answer) = oneshot::channel();
        let mut job = Box::pin(job(sender));
        if start == Start::Here && self.first_slice(runtime, job.as_mut())?.is_ready() {
            return answer.try_recv().map_err(|_| Fault::Host);
        }
        let mut task = AbortOnDrop(runtime.spawn(job));
        if let Ok(answer) = answer.await {
            return Ok(answer);
        }
        // No answer: a panic of the host, which stays inside this task, or the runtime is going down.
        match (&mut task.0).await {
            Err(error) if error.is_panic() => Err(Fault::Host),
            _ => Err(Fault::Dropped),
        }
    }

    /// Polls a job once on this thread; its timers and its blocking work belong to the sandbox's runtime already.
    /// Nobody needs to be woken: a job that is not done is polled again by the task that takes it over.
    fn first_slice(&self, runtime: &Handle, job: Pin<&mut impl Future<Output = ()>>) -> Result<Poll<()>, Fault> {
        // A runtime with one thread has no other that could go on meanwhile.
        let is_shared = Handle::try_current().is_ok_and(|caller| caller.runtime_flavor() == RuntimeFlavor::MultiThread);
        let visit = if is_shared { Visit::begin(&self.visiting) } else { None };
        let Some(_visit) = visit else { return Ok(Poll::Pending) };
        let _entered = runtime.enter();
        let poll = AssertUnwindSafe(|| job.poll(&mut Context::from_waker(Waker::noop())));
        catch_unwind(poll).map_err(|_| Fault::Host)
    }
}

/// A job on a thread of the caller; only one at a time, so a runtime with two threads always has one left.
struct Visit<'a>(&'a AtomicBool);

impl<'a> Visit<'a> {
    fn begin(visiting: &'a AtomicBool) -> Option<Self> {
        (!visiting.swap(true, Ordering::Acquire)).then(|| Self(visiting))
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its threads, which panics inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_ends_one_job_and_no_other() {
        let threads = Threads::start(1).unwrap();
        for start in [Start::Apart, Start::Here] {
            let fails = |_answer: oneshot::Sender<()>| async { panic!("a bug of the host") };
            assert_eq!(threads.run(start, fails).await, Err(Fault::Host));
            let works = |answer: oneshot::Sender<u8>| async move { answer.send(7).unwrap() };
            assert_eq!(threads.run(start, works).await, Ok(7));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_job_that_is_not_done_at_once_leaves_the_callers_thread() {
        let threads = Threads::start(1).unwrap();
        let job = |answer: oneshot::Sender<_>| async move {
            let name = || std::thread::current().name().map(str::to_owned);
            let begun = name();
            tokio::task::yield_now().await;
            let slept = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
            answer.send((begun, name(), slept.is_err())).unwrap();
        };
        let (begun, ended, slept) = threads.run(Start::Here, job).await.unwrap();
        assert_eq!(begun.as_deref(), std::thread::current().name());
        assert_eq!((ended.as_deref(), slept), (Some("toolcell-guest"), true));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn dropping_the_future_ends_the_job() {
        let threads = Threads::start(1).unwrap();
        for start in [Start::Apart, Start::Here] {
            let (ended, wait) = mpsc::channel::<()>();
            let job = |answer: oneshot::Sender<()>| async move {
                let _held = (answer, ended);
                std::future::pending::<()>().await;
            };
            let run = Box::pin(threads.run(start, job));
            assert!(tokio::time::timeout(Duration::from_millis(10), run).await.is_err());
            let gone = tokio::task::spawn_blocking(move || wait.recv()).await.unwrap();
            assert_eq!(gone, Err(mpsc::RecvError));
        }
    }

    #[tokio::test]
    async fn a_caller_with_one_thread_keeps_it() {
        let threads = Threads::start(1).unwrap();
        let job = |answer: oneshot::Sender<_>| async move {
            answer.send(std::thread::current().name().map(str::to_owned)).unwrap();
        };
        assert_eq!(threads.run(Start::Here, job).await.unwrap().as_deref(), Some("toolcell-guest"));
    }

    #[tokio::test]
    async fn the_threads_can_be_dropped_inside_another_runtime() {
        drop(Threads::start(1).unwrap());
    }
}
