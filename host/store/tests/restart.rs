//! A PostgreSQL that goes away in the middle of work: connections that break at the worst moment, and a server that is
//! started again. Nothing is lost, nothing happens twice, and nobody has to do anything.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../agent/tests/support/mod.rs"]
mod agent_support;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use agent_support::FakeCatalog;
use futures::stream::{BoxStream, StreamExt as _, iter};
use support::runs::{FIRST, LEASE, digest, done, ended, new_run, open, parked, started, suspend, tenant, yes};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Agent, Answered, AssistantTurn, CallRequest, Desk, Grant, Message, Model, ModelError, ModelEvent, ModelReply, Page,
    Prompt, RunKey, RunStatus, RunStore, Step, StopReason, StoreError, StoredStatus, Usage, Wake, Worker,
    WorkerOptions,
};
use toolcell_contract::Answer;
use toolcell_store::{Options, open_with, verify_audit};
use toolcell_tests::postgres;

/// What a proxy does with the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Never,
    /// The database never hears of it.
    Before,
    /// It is done, and the word of it is lost.
    After,
    /// From then on nothing is heard over this connection, and nobody says that it is broken.
    Silent,
}

/// A way to the database that breaks.
struct Proxy {
    port: u16,
    cut: Arc<AtomicU8>,
    /// How often all connections that there were have fallen silent.
    silences: Arc<AtomicU8>,
}

impl Proxy {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), cut: Arc::default(), silences: Arc::default() };
        let (cut, silences) = (Arc::clone(&proxy.cut), Arc::clone(&proxy.silences));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(pass(client, server, Arc::clone(&cut), Arc::clone(&silences)));
            }
        });
        proxy
    }

    fn cut(&self, cut: Cut) {
        self.cut.store(cut as u8, Ordering::SeqCst);
    }

    /// Lets nothing pass any more over the connections that there are, and closes none.
    fn silence(&self) {
        self.silences.fetch_add(1, Ordering::SeqCst);
    }

    fn was_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst) == Cut::Never as u8
    }
}

/// Passes on what is said, until a commit that is to be cut.
async fn pass(mut client: TcpStream, mut server: TcpStream, cut: Arc<AtomicU8>, silences: Arc<AtomicU8>) {
    let heard_first = silences.load(Ordering::SeqCst);
    let (mut said, mut heard) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut said) => {
                let Some(count) = read.ok().filter(|count| *count > 0) else { return };
                if silences.load(Ordering::SeqCst) != heard_first {
                    std::future::pending::<()>().await;
                }
                let is_commit = said[..count].windows(7).any(|part| part == b"COMMIT\0");
                let how = if is_commit { cut.swap(Cut::Never as u8, Ordering::SeqCst) } else { Cut::Never as u8 };
                if how == Cut::Before as u8 {
                    return;
                }
                if how == Cut::Silent as u8 {
                    std::future::pending::<()>().await;
                }
                if server.write_all(&said[..count]).await.is_err() {
                    return;
                }
                if how == Cut::After as u8 {
                    // Its answer says that it is done.
                    let _ = server.read(&mut heard).await;
                    return;
                }
            }
            read = server.read(&mut heard) => {
                let Some(count) = read.ok().filter(|count| *count > 0) else { return };
                if silences.load(Ordering::SeqCst) != heard_first {
                    std::future::pending::<()>().await;
                }
                if client.write_all(&heard[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// A database of a test's own: its address, a proxy before it, and the address through that.
async fn database_behind_a_proxy() -> Option<(String, Proxy, String)> {
    let server = postgres::shared()?;
    let url = server.database();
    let proxy = Proxy::to(server.port()).await;
    let through = url.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port));
    Some((url, proxy, through))
}

/// Does something whose commit is cut, and again. What it said the second time.
async fn twice<T: std::fmt::Debug>(
    proxy: &Proxy,
    cut: Cut,
    action: impl AsyncFn() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    proxy.cut(cut);
    let first = action().await;
    assert!(proxy.was_cut(), "{cut:?}: nothing was committed");
    let Err(error @ StoreError::Unavailable { .. }) = first else { panic!("{cut:?}: {first:?}") };
    let message = error.to_string();
    assert!(message.contains("not known") && message.contains("again"), "{cut:?}: it says what is true: {message}");
    action().await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_know_whether_it_was_written_may_do_it_again() {
    let Some((_, proxy, through)) = database_behind_a_proxy().await else { return };
    let store: Arc<dyn RunStore> = Arc::new(open_with(&through, Options::default()).await.unwrap());
    let a = tenant("a");
    for cut in [Cut::Before, Cut::After] {
        let run = new_run("a");
        match twice(&proxy, cut, async || store.create(run.clone()).await).await {
            Ok(()) if cut == Cut::Before => {}
            Err(StoreError::Exists(id)) if cut == Cut::After => assert_eq!(id, run.key.run),
            other => panic!("{cut:?}: {other:?}"),
        }
        let lease = started(&store, "a", 2).await;
        twice(&proxy, cut, async || store.write(&lease, Step::Executing { slot: FIRST }).await).await.unwrap();
        let asked = open(FIRST.call_id(&lease.key.run), 0);
        let id = asked.request.id.clone();
        let suspended = Step::Suspended { slot: FIRST, open: Box::new(asked) };
        twice(&proxy, cut, async || store.write(&lease, suspended.clone()).await).await.unwrap();
        twice(&proxy, cut, async || store.park(&lease).await).await.unwrap();
        let answered = twice(&proxy, cut, async || store.answer(&a, yes(&id)).await).await.unwrap();
        assert!(matches!(answered, Answered::First(_) | Answered::Again(_)), "{answered:?}");
        let lease = store.claim("w", LEASE, Some(&lease.key)).await.unwrap().unwrap().lease;
        let finished = done(&lease.key.run, FIRST);
        twice(&proxy, cut, async || store.write(&lease, finished.clone()).await).await.unwrap();
        twice(&proxy, cut, async || store.write(&lease, ended(RunStatus::Done)).await).await.unwrap();
        let run = store.run(&lease.key).await.unwrap();
        assert_eq!((run.calls[0].attempts, run.head.open), (1, 0), "{cut:?}");
        let lines = store.audit(&a, 0, 1_000).await.unwrap();
        for kind in ["call.executing", "question.asked", "question.answered", "call.finished"] {
            let of = if kind.starts_with("question") { &id } else { &FIRST.call_id(&lease.key.run) };
            let times = lines.iter().filter(|line| line.kind == kind && line.body.to_string().contains(of));
            assert_eq!(times.count(), 1, "{cut:?}: {kind} counts once");
        }
    }
    assert!(verify_audit(store.as_ref(), &a).await.unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_falls_silent_holds_up_nobody_for_long() {
    let Some((url, proxy, through)) = database_behind_a_proxy().await else { return };
    let second = Duration::from_secs(1);
    let options = Options { wait_max: second, answer_max: second, ..Options::default() };
    let store = Arc::new(open_with(&through, options).await.unwrap());
    // Several connections, all idle.
    let runs: Vec<_> = (0..8).map(|_| new_run("a")).collect();
    let created = futures::future::join_all(runs.iter().map(|run| store.create(run.clone()))).await;
    created.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    proxy.silence();
    let began = Instant::now();
    store.create(new_run("a")).await.expect("over a new connection");
    assert!(began.elapsed() < 3 * second, "none of the old ones is asked one by one: {:?}", began.elapsed());
    // In the middle of a change: nobody knows whether it is written.
    proxy.cut(Cut::Silent);
    let run = new_run("a");
    let error = store.create(run.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }) && error.to_string().contains("not known"), "{error}");
    // It was not; the server keeps what was begun for a moment longer.
    insist(async || store.create(run.clone()).await).await;
    // Who listens notices, and is told again.
    let mut wakes = store.wakes();
    let other = open_with(&url, Options::default()).await.unwrap();
    let began = Instant::now();
    let told = async {
        loop {
            let run = new_run("b");
            other.create(run.clone()).await.unwrap();
            let soon = async { while !matches!(wakes.recv().await, Ok(Wake(Some(key))) if key == run.key) {} };
            if tokio::time::timeout(second, soon).await.is_ok() {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.expect("within the time that it may be quiet");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // Nobody waits for what is silent when it is closed.
    proxy.silence();
    tokio::time::timeout(10 * second, store.close()).await.expect("it is closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_network_falls_silent_goes_on_and_can_be_stopped() {
    let Some((url, proxy, through)) = database_behind_a_proxy().await else { return };
    let second = Duration::from_secs(1);
    let options = Options { wait_max: second, answer_max: second, ..Options::default() };
    let store = Arc::new(open_with(&through, options).await.unwrap());
    let direct: Arc<dyn RunStore> = Arc::new(open_with(&url, Options::default()).await.unwrap());
    let agent = Agent::new(Arc::new(Once), Arc::new(FakeCatalog::default().with_gpu()));
    let options = WorkerOptions { sweep: second, grace: second, ..WorkerOptions::default() };
    let worker = Worker::new(agent, store, options);
    let stop = CancellationToken::new();
    let working = tokio::spawn({
        let stop = stop.clone();
        async move { worker.work(stop).await }
    });
    let asks = async |run: &RunKey| {
        let began = Instant::now();
        loop {
            let open = direct.questions(&run.tenant, Page::default()).await.unwrap();
            if open.iter().any(|question| question.key == *run) {
                return;
            }
            assert!(began.elapsed() < 20 * second, "it does not go on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    for _ in 0..2 {
        let run = new_run("a");
        direct.create(run.clone()).await.unwrap();
        asks(&run.key).await;
        proxy.silence();
    }
    stop.cancel();
    tokio::time::timeout(10 * second, working).await.expect("it ends").unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_database_gives_up_for_another_is_tried_again() {
    // Two that each wait for what the other has: PostgreSQL ends one of them (40P01).
    let Some(server) = postgres::own() else { return };
    let url = server.database();
    let store: Arc<dyn RunStore> = Arc::new(open_with(&url, Options::default()).await.unwrap());
    let (lease, id) = parked(&store, "a").await;
    // A program of somebody else's locks the tenant first and then the run; the answer has the run and wants the tenant.
    // It never looks for a deadlock itself, so it is the answer that is given up.
    let other = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            server.sql(
                &url,
                &format!(
                    "set deadlock_timeout = '1min'; begin; select 1 from tenant where id = 'a' for update; \
                     select pg_sleep(1); select 1 from run where id = '{}' for update; commit",
                    lease.key.run
                ),
            )
        });
        std::thread::sleep(Duration::from_millis(400));
        let runtime = tokio::runtime::Handle::current();
        let answered = tokio::task::block_in_place(|| runtime.block_on(store.answer(&lease.key.tenant, yes(&id))));
        assert_eq!(answered.unwrap(), Answered::First(lease.key.clone()));
        other.join().unwrap()
    });
    other.unwrap();
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    let began = Instant::now();
    while server.sql(&url, deadlocks).unwrap() == "0" {
        assert!(began.elapsed() < Duration::from_secs(20), "there was none: nothing was tried again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let lines = store.audit(&lease.key.tenant, 0, 100).await.unwrap();
    assert_eq!(lines.iter().filter(|line| line.kind == "question.answered").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_starts_a_run_over_a_connection_that_breaks_has_one() {
    let Some((_, proxy, through)) = database_behind_a_proxy().await else { return };
    let store = Arc::new(open_with(&through, Options::default()).await.unwrap());
    let desk = Desk::new(store.clone(), tenant("a"));
    for (cut, count) in [(Cut::Before, 1), (Cut::After, 2)] {
        proxy.cut(cut);
        let key = desk.start(None, vec![Message::user("go")], "m").await.unwrap();
        assert!(proxy.was_cut());
        let runs = desk.runs(Page::default()).await.unwrap();
        assert_eq!((runs.len(), &runs[0].key), (count, &key), "{cut:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_used_once_for_a_question_however_often_it_is_asked_for() {
    let Some((_, proxy, through)) = database_behind_a_proxy().await else { return };
    let store: Arc<dyn RunStore> = Arc::new(open_with(&through, Options::default()).await.unwrap());
    let grant = Grant {
        id: "g".into(),
        tool: "gpu".into(),
        digest: Some(digest(7)),
        arguments: None,
        run: None,
        uses: Some(5),
        expires_at: OffsetDateTime::now_utc() + LEASE,
        by: "ada".into(),
    };
    store.add_grant(&tenant("a"), grant).await.unwrap();
    for (cut, left) in [(Cut::Before, 4), (Cut::After, 3)] {
        let lease = started(&store, "a", 1).await;
        let id = suspend(&store, &lease, 0).await;
        let question = store.question(&lease.key.tenant, &id).await.unwrap().question;
        let used = twice(&proxy, cut, async || store.use_grant(&lease.key, &question).await).await.unwrap();
        assert_eq!(used.expect("it covers it").id, "g");
        assert_eq!(store.grants(&tenant("a")).await.unwrap()[0].uses, Some(left), "{cut:?}");
    }
}

/// Asks for one call, and is content with whatever it gives.
struct Once;

impl Model for Once {
    fn name(&self) -> &str {
        "once"
    }

    fn ask<'a>(&'a self, prompt: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
        let call = CallRequest { id: "c".into(), name: "gpu".into(), arguments: "{}".into() };
        let calls = if prompt.messages.len() == 1 { vec![call] } else { Vec::new() };
        let turn = AssistantTurn { text: "so".into(), calls, verbatim: None };
        iter([Ok(ModelEvent::Finished(ModelReply { turn, stop: StopReason::Finished, usage: Usage::default() }))])
            .boxed()
    }
}

/// Does something again and again while the store is away, as a person or a program in front of it does.
async fn insist<T>(action: impl AsyncFn() -> Result<T, StoreError>) -> T {
    let began = Instant::now();
    loop {
        match action().await {
            Ok(done) => return done,
            Err(StoreError::Unavailable { .. }) if began.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_goes_on_when_the_database_was_restarted_in_the_middle_of_work() {
    const RUNS: usize = 60;
    let Some(server) = postgres::own() else { return };
    let url = server.database();
    let stop = CancellationToken::new();
    let catalog = Arc::new(FakeCatalog::default().with_gpu());
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let store = Arc::new(open_with(&url, Options::default()).await.unwrap());
        let agent = Agent::new(Arc::new(Once), catalog.clone());
        let options =
            WorkerOptions { lease: Duration::from_secs(20), sweep: Duration::from_secs(1), ..WorkerOptions::default() };
        let (worker, stop) = (Worker::new(agent, store, options), stop.clone());
        workers.spawn(async move { worker.work(stop).await });
    }
    let store = Arc::new(open_with(&url, Options::default()).await.unwrap());
    let a = tenant("a");
    let mut wakes = store.wakes();
    let page = Page { after: None, limit: 100 };
    for number in 0..RUNS {
        let run = new_run("a");
        insist(async || match store.create(run.clone()).await {
            Err(StoreError::Exists(_)) => Ok(()),
            other => other,
        })
        .await;
        for asked in insist(async || store.questions(&a, page.clone()).await).await {
            let yes = Answer::approve(&asked.question.request.id);
            insist(async || store.answer(&a, yes.clone().into()).await).await;
        }
        if number % 20 == 10 {
            server.restart();
        }
    }
    let began = Instant::now();
    loop {
        let runs = insist(async || store.runs(&a, page.clone()).await).await;
        assert_eq!(runs.len(), RUNS, "none is lost, none is there twice");
        if runs.iter().all(|run| run.status == StoredStatus::Ended(RunStatus::Done)) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "they do not go on: {runs:?}");
        for asked in insist(async || store.questions(&a, page.clone()).await).await {
            let yes = Answer::approve(&asked.question.request.id);
            insist(async || store.answer(&a, yes.clone().into()).await).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for head in insist(async || store.runs(&a, page.clone()).await).await {
        let run = store.run(&head.key).await.unwrap();
        assert_eq!(run.calls[0].attempts, 2, "once to ask and once with the answer: {run:?}");
    }
    let executed = catalog.calls.lock().unwrap().len();
    assert_eq!(executed, 2 * RUNS, "nothing was executed twice");
    assert!(verify_audit(store.as_ref(), &a).await.unwrap().is_ok());
    // Who listened before is told of what comes now.
    while wakes.try_recv().is_ok() {}
    stop.cancel();
    workers.join_all().await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    let run = new_run("b");
    store.create(run.clone()).await.unwrap();
    let told = async { while !matches!(wakes.recv().await, Ok(Wake(Some(key))) if key == run.key) {} };
    tokio::time::timeout(Duration::from_secs(20), told).await.expect("it is told of the run");
    let other = Arc::new(open_with(&url, Options::default()).await.unwrap());
    let other = other as Arc<dyn RunStore>;
    let (_, id) = parked(&other, "c").await;
    let told = async {
        // Its listener may be on its way back.
        loop {
            let run = new_run("c");
            other.create(run.clone()).await.unwrap();
            let soon = async { while !matches!(wakes.recv().await, Ok(Wake(Some(key))) if key == run.key) {} };
            if tokio::time::timeout(Duration::from_millis(200), soon).await.is_ok() {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), told).await.expect("it is told of what another host does");
    assert!(matches!(store.answer(&tenant("c"), yes(&id)).await.unwrap(), Answered::First(_)));
}
