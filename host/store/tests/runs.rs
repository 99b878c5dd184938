//! Runs on record with the real loop: what survives the process that works on them, on each kind of store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../agent/tests/support/mod.rs"]
mod agent_support;
mod support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_support::{FakeCatalog, FakeModel, Reply, call, say, suspended};
use serde_json::json;
use support::{Place, on_every_store};
use time::OffsetDateTime;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Agent, Answered, Approve, AuditEntry, AuditHead, BadDecision, Claimed, Clock, Decision, Desk, DeskError, Grant,
    Lease, Message, Model, NewRun, NoEvents, Notice, Page, Parked, Question, QuestionState, RunEnd, RunHead, RunKey,
    RunResult, RunStatus, RunStore, Signals, SlotState, Step, StoreError, StoreFuture, StoredQuestion, StoredRun,
    StoredStatus, Swept, Tenant, TenantSettings, Wake, Worker, WorkerOptions, is_balanced,
};
use toolcell_contract::{Answer, Digest, FailureCode, Object, Outcome, ToolResult};

on_every_store! {
    a_run_that_waits_is_answered_in_one_process_and_finished_in_another,
    two_calls_of_one_turn_end_as_each_was_decided,
    a_live_answerer_that_goes_away_leaves_the_question_open,
    a_run_survives_its_host_at_every_step,
    a_call_that_was_cut_off_runs_again_only_if_its_tool_says_that_this_changes_nothing,
    a_run_is_cancelled_while_it_waits_and_while_it_works,
    what_is_answered_must_fit_what_was_asked,
    a_person_may_edit_the_arguments_and_the_model_is_told,
    a_grant_answers_for_a_person_until_it_is_used_up,
    a_call_that_asks_one_question_too_many_is_busy,
    a_worker_does_what_is_there_and_hears_of_what_comes,
    a_worker_that_lost_its_run_stops_at_once,
    the_clock_of_the_store_decides_when_a_question_lapses,
    a_tool_under_approval_waits_in_the_store,
    hosts_whose_clocks_are_off_agree_on_what_is_due,
    a_run_whose_record_contradicts_itself_is_set_aside_and_holds_up_no_other,
}

fn local() -> Tenant {
    Tenant::local()
}

/// A host of its own: agent, worker, store.
async fn host(place: &Place, catalog: FakeCatalog, replies: &[Reply]) -> (Worker, Arc<FakeCatalog>, Arc<FakeModel>) {
    host_on(place.store().await, Arc::new(catalog), FakeModel::new(replies))
}

fn host_on(
    store: Arc<dyn RunStore>,
    catalog: Arc<FakeCatalog>,
    model: Arc<FakeModel>,
) -> (Worker, Arc<FakeCatalog>, Arc<FakeModel>) {
    let agent = Agent::new(model.clone() as Arc<dyn Model>, catalog.clone());
    (Worker::new(agent, store, options()), catalog, model)
}

fn options() -> WorkerOptions {
    WorkerOptions { lease: Duration::from_secs(5), sweep: Duration::from_millis(200), ..WorkerOptions::default() }
}

fn new_run() -> NewRun {
    NewRun { key: RunKey::fresh(local()), system: None, messages: vec![Message::user("go")], model: "fake".into() }
}

async fn start(worker: &Worker, run: NewRun) -> Result<RunResult, StoreError> {
    worker.start(run, Arc::new(NoEvents), CancellationToken::new()).await
}

async fn go_on(worker: &Worker, key: &RunKey) -> Option<RunResult> {
    worker.go_on(key, Arc::new(NoEvents), CancellationToken::new()).await.unwrap()
}

fn times(catalog: &FakeCatalog, name: &str) -> usize {
    catalog.calls.lock().unwrap().iter().filter(|call| call.tool.definition.name == name).count()
}

fn codes(result: &RunResult) -> Vec<Option<FailureCode>> {
    result.tool_calls.iter().map(|record| record.ending.code).collect()
}

async fn a_run_that_waits_is_answered_in_one_process_and_finished_in_another(place: Place) {
    let turn = call(&[("gpu", r#"{"n":1}"#), ("echo", r#"{"n":2}"#)]);
    let (first, catalog, model) = host(&place, FakeCatalog::default().with_gpu().with_echo(), &[turn]).await;
    let run = new_run();
    let waiting = start(&first, run.clone()).await.unwrap();
    let RunEnd::Pending { questions, run: None } = &waiting.end else { panic!("{waiting:?}") };
    assert_eq!(model.sent.lock().unwrap().len(), 1);
    assert!(go_on(&first, &run.key).await.is_none(), "there is nothing to do");

    let desk = Desk::new(place.store().await, local());
    let [asked] = &desk.questions(Page::default()).await.unwrap()[..] else { panic!("one question") };
    assert_eq!((&asked.question, asked.state), (&questions[0], QuestionState::Open));
    assert_eq!(asked.question.arguments, json!({"n": 1}));
    desk.decide(Answer::approve(&asked.question.request.id).into()).await.unwrap();

    let (third, again, model) = host(&place, FakeCatalog::default().with_gpu().with_echo(), &[say("ready")]).await;
    let result = go_on(&third, &run.key).await.unwrap();
    assert_eq!((result.status(), result.text.as_str(), result.turns), (RunStatus::Done, "ready", 2));
    assert_eq!(result.usage.total(), 30, "the tokens of both hosts");
    assert_eq!((times(&catalog, "gpu"), times(&again, "gpu"), times(&again, "echo")), (1, 1, 0));
    let id = |catalog: &FakeCatalog| {
        let calls = catalog.calls.lock().unwrap();
        let call = calls.iter().find(|call| call.tool.definition.name == "gpu").unwrap();
        (call.context.call_id.clone(), call.context.state.clone())
    };
    assert_eq!(id(&again), (id(&catalog).0, Some(b"state".to_vec())), "the same call goes on");
    assert_eq!(model.sent.lock().unwrap()[0].len(), 3, "the model is not asked again for the turn that waited");
    let stored = desk.run(&run.key.run).await.unwrap();
    assert_eq!(stored.head.status, StoredStatus::Ended(RunStatus::Done));
    assert!(go_on(&third, &run.key).await.is_none());
}

async fn two_calls_of_one_turn_end_as_each_was_decided(place: Place) {
    const PLAIN: (&str, &str) = ("echo", "{}");
    const ASKS: (&str, &str) = ("gpu", "{}");
    let store = place.store().await;
    let desk = Desk::new(store, local());
    for turn in [[PLAIN, ASKS], [ASKS, PLAIN], [ASKS, ASKS]] {
        for (first, second) in [("yes", "no"), ("no", "expire"), ("expire", "cancel"), ("cancel", "yes")] {
            let catalog = FakeCatalog::default().with_gpu().with_echo();
            let (worker, _, model) = host(&place, catalog, &[call(&turn), say("so")]).await;
            let run = new_run();
            let waiting = start(&worker, run.clone()).await.unwrap();
            let ids: Vec<_> = waiting.pendings().map(|request| request.id.clone()).collect();
            assert_eq!(ids.len(), turn.iter().filter(|call| **call == ASKS).count());
            // The last one first: the order does not matter.
            let decisions: Vec<_> = ids.iter().zip([first, second]).collect();
            for (id, word) in decisions.iter().rev() {
                match *word {
                    "yes" => drop(desk.decide(Answer::approve(*id).into()).await.unwrap()),
                    "no" => drop(desk.decide(Answer::decline(*id, "declined").into()).await.unwrap()),
                    "cancel" => drop(desk.decide(Answer::decline(*id, "cancelled").into()).await.unwrap()),
                    _ => {
                        place.sql(&format!("update suspension set expires_at = 1 where id = '{id}'")).await;
                        assert_eq!(place.store().await.sweep().await.unwrap().expired, 1);
                    }
                }
                go_on(&worker, &run.key).await;
            }
            let stored = desk.run(&run.key.run).await.unwrap();
            assert_eq!(stored.head.status, StoredStatus::Ended(RunStatus::Done), "{turn:?} {first} {second}");
            let sent = model.sent.lock().unwrap();
            assert!(is_balanced(&sent[1]));
            let Some(Message::Tool { replies }) = sent[1].last() else { panic!("no results") };
            let mut words = [first, second].into_iter();
            for (reply, asked) in replies.iter().zip(turn) {
                let expected = match (asked == ASKS).then(|| words.next().unwrap()) {
                    None => "{}",
                    Some("yes") => "approved: gpu",
                    Some(_) => "declined/expired: Use the gpu?",
                };
                assert_eq!(reply.result.output, expected, "{turn:?} {first} {second}");
            }
        }
    }
}

async fn a_live_answerer_that_goes_away_leaves_the_question_open(place: Place) {
    // Rule R29. Once it says that nobody is there, once its process dies while a person thinks.
    for dies in [false, true] {
        let model = FakeModel::new(&[call(&[("gpu", "{}")]), say("ready")]);
        let catalog = Arc::new(FakeCatalog::default().with_gpu());
        let agent = Agent::new(model.clone() as Arc<dyn Model>, catalog.clone()).wait_for(move |_| async move {
            if dies {
                std::future::pending::<()>().await;
            }
            None
        });
        let worker = Worker::new(agent, place.store().await, options());
        let desk = Desk::new(place.store().await, local());
        let run = new_run();
        let live = start(&worker, run.clone());
        if dies {
            let asked = async {
                while desk.questions(Page::default()).await.unwrap().is_empty() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                _ = live => panic!("it waits for its answerer"),
                () = asked => {}
            }
            // Its lease lapses some time.
            place.sql("update run set lease_until = 1 where status = 'running'").await;
        } else {
            assert_eq!(live.await.unwrap().status(), RunStatus::Pending);
        }
        let [asked] = &desk.questions(Page::default()).await.unwrap()[..] else { panic!("it is still open") };
        desk.decide(Answer::approve(&asked.question.request.id).into()).await.unwrap();
        let (other, ..) = host_on(place.store().await, catalog, model);
        assert_eq!(go_on(&other, &run.key).await.unwrap().text, "ready");
    }
}

/// A store whose host dies when it has written so many steps: with the last one written or not.
struct Mortal {
    inner: Arc<dyn RunStore>,
    left: AtomicI64,
    is_last_written: bool,
}

impl Mortal {
    /// Counts down. False: the host is dead.
    fn is_alive(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) > 0
    }

    async fn step<T: Send>(&self, step: impl Future<Output = Result<T, StoreError>> + Send) -> Result<T, StoreError> {
        let is_alive = self.is_alive();
        if is_alive || (self.is_last_written && self.left.load(Ordering::SeqCst) == -1) {
            let done = step.await;
            if is_alive {
                return done;
            }
        }
        Err(StoreError::Fenced)
    }
}

macro_rules! pass_on {
    ($($method:ident ( $($name:ident : $type:ty),* ) -> $result:ty;)*) => {
        $(fn $method<'a>(&'a self, $($name: $type),*) -> StoreFuture<'a, $result> { self.inner.$method($($name),*) })*
    };
}

impl RunStore for Mortal {
    fn write<'a>(&'a self, held: &'a Lease, step: Step) -> StoreFuture<'a, ()> {
        Box::pin(self.step(self.inner.write(held, step)))
    }

    fn park<'a>(&'a self, held: &'a Lease) -> StoreFuture<'a, Parked> {
        Box::pin(self.step(self.inner.park(held)))
    }

    fn answer<'a>(&'a self, tenant: &'a Tenant, decision: Decision) -> StoreFuture<'a, Answered> {
        Box::pin(self.step(self.inner.answer(tenant, decision)))
    }

    fn wakes(&self) -> broadcast::Receiver<Wake> {
        self.inner.wakes()
    }

    pass_on! {
        create(run: NewRun) -> ();
        claim(worker: &'a str, lease: Duration, only: Option<&'a RunKey>) -> Option<Claimed>;
        renew(held: &'a Lease, lease: Duration) -> ();
        signals(held: &'a Lease) -> Signals;
        release(held: &'a Lease) -> ();
        cancel(key: &'a RunKey) -> ();
        question(tenant: &'a Tenant, id: &'a str) -> StoredQuestion;
        questions(tenant: &'a Tenant, page: Page) -> Vec<StoredQuestion>;
        run(key: &'a RunKey) -> StoredRun;
        runs(tenant: &'a Tenant, page: Page) -> Vec<RunHead>;
        sweep() -> Swept;
        notices(limit: u32, lease: Duration) -> Vec<Notice>;
        settle_notice(id: &'a str, retry: Option<Duration>) -> ();
        keep_component(digest: Digest, bytes: &'a [u8]) -> ();
        component(digest: Digest) -> Option<Vec<u8>>;
        add_grant(tenant: &'a Tenant, grant: Grant) -> ();
        revoke_grant(tenant: &'a Tenant, id: &'a str) -> ();
        grants(tenant: &'a Tenant) -> Vec<Grant>;
        use_grant(key: &'a RunKey, question: &'a Question) -> Option<Grant>;
        audit(tenant: &'a Tenant, after: u64, limit: u32) -> Vec<AuditEntry>;
        audit_head(tenant: &'a Tenant) -> AuditHead;
        settings(tenant: &'a Tenant) -> TenantSettings;
        set_settings(tenant: &'a Tenant, settings: TenantSettings) -> ();
        delete_tenant(tenant: &'a Tenant) -> ();
    }
}

/// Tools with an effect that can be counted, by the id of the call.
fn effects() -> (FakeCatalog, Arc<Mutex<Vec<String>>>) {
    let effects: Arc<Mutex<Vec<String>>> = Arc::default();
    let (charge, refund) = (Arc::clone(&effects), Arc::clone(&effects));
    let catalog = FakeCatalog::default()
        .with_gpu()
        .with("charge", move |call| {
            charge.lock().unwrap().push(call.context.call_id.clone());
            async { Outcome::Done(ToolResult::ok("charged")) }
        })
        .with("refund", move |call| {
            let effects = Arc::clone(&refund);
            async move {
                if call.context.answer.is_none() {
                    return suspended("Refund?");
                }
                effects.lock().unwrap().push(call.context.call_id.clone());
                Outcome::Done(ToolResult::ok("refunded"))
            }
        });
    (catalog, effects)
}

async fn a_run_survives_its_host_at_every_step(place: Place) {
    // STO-01: the host dies after each step in turn, with and without that step having been written, again and again.
    for is_last_written in [false, true] {
        for steps in 0..14 {
            let (catalog, effects) = effects();
            let catalog = Arc::new(catalog);
            let replies = [call(&[("charge", r#"{"n":1}"#), ("refund", r#"{"n":2}"#)]), say("done")];
            let desk = Desk::new(place.store().await, local());
            let key = desk.start(None, vec![Message::user("go")], "fake").await.unwrap();
            let mut lives = 0;
            while !matches!(desk.run(&key.run).await.unwrap().head.status, StoredStatus::Ended(_)) {
                lives += 1;
                assert!(lives < 60, "it does not end");
                let turns = desk.run(&key.run).await.unwrap().replies.len();
                let model = FakeModel::new(&replies[turns.min(1)..]);
                // Only the first lives are short, or it would never end.
                let left = if lives <= 3 { steps } else { i64::MAX };
                let store = Mortal { inner: place.store().await, left: AtomicI64::new(left), is_last_written };
                let (worker, ..) = host_on(Arc::new(store), catalog.clone(), model.clone());
                match worker.go_on(&key, Arc::new(NoEvents), CancellationToken::new()).await {
                    Err(StoreError::Fenced) => {
                        place.sql("update run set lease_until = 1 where status = 'running'").await;
                    }
                    ran => drop(ran.unwrap()),
                }
                for question in desk.questions(Page::default()).await.unwrap() {
                    desk.decide(Answer::approve(&question.question.request.id).into()).await.unwrap();
                }
            }
            let stored = desk.run(&key.run).await.unwrap();
            assert_eq!(stored.head.status, StoredStatus::Ended(RunStatus::Done), "{steps} {is_last_written}");
            let happened = effects.lock().unwrap();
            let once: BTreeSet<_> = happened.iter().collect();
            assert_eq!(once.len(), happened.len(), "{steps} {is_last_written}: an effect was repeated: {happened:?}");
        }
    }
}

async fn a_call_that_was_cut_off_runs_again_only_if_its_tool_says_that_this_changes_nothing(place: Place) {
    for is_idempotent in [false, true] {
        let store = place.store().await;
        let mut catalog = FakeCatalog::default().with("stuck", |call| async move {
            if call.arguments.contains('1') {
                std::future::pending::<()>().await;
            }
            Outcome::Done(ToolResult::ok("through"))
        });
        catalog.annotate("stuck", is_idempotent);
        let catalog = Arc::new(catalog);
        let (worker, ..) = host_on(store, catalog.clone(), FakeModel::new(&[call(&[("stuck", r#"{"n":1}"#)])]));
        let run = new_run();
        let runs = async {
            while times(&catalog, "stuck") == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = start(&worker, run.clone()) => panic!("the tool never ends"),
            () = runs => {}
        }
        place.sql("update run set lease_until = 1 where status = 'running'").await;
        let mut other = FakeCatalog::default().with("stuck", |_| async { Outcome::Done(ToolResult::ok("through")) });
        other.annotate("stuck", is_idempotent);
        let (worker, other, _) = host_on(place.store().await, Arc::new(other), FakeModel::new(&[say("so")]));
        let result = go_on(&worker, &run.key).await.unwrap();
        assert_eq!(times(&other, "stuck"), usize::from(is_idempotent));
        assert_eq!(codes(&result), [(!is_idempotent).then_some(FailureCode::Interrupted)]);
        assert_eq!(result.status(), RunStatus::Done);
    }
}

async fn a_run_is_cancelled_while_it_waits_and_while_it_works(place: Place) {
    let catalog = || FakeCatalog::default().with_gpu().with("stuck", |_| std::future::pending());
    let desk = Desk::new(place.store().await, local());
    let (worker, ..) = host(&place, catalog(), &[call(&[("gpu", "{}")])]).await;
    let run = new_run();
    start(&worker, run.clone()).await.unwrap();
    desk.cancel(&run.key.run).await.unwrap();
    let stored = desk.run(&run.key.run).await.unwrap();
    assert_eq!(stored.head.status, StoredStatus::Ended(RunStatus::Cancelled), "at once: nobody had it");
    let SlotState::Done { record } = &stored.calls[0].state else { panic!("{stored:?}") };
    assert_eq!(record.code, Some(FailureCode::Cancelled));
    assert!(go_on(&worker, &run.key).await.is_none());
    assert!(desk.questions(Page::default()).await.unwrap().is_empty());

    let (worker, catalog, _) = host(&place, catalog(), &[call(&[("stuck", "{}"), ("gpu", "{}")])]).await;
    let run = new_run();
    let working = tokio::spawn({
        let (worker, run) = (worker.clone(), run.clone());
        async move { start(&worker, run).await.unwrap() }
    });
    while times(&catalog, "stuck") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    desk.cancel(&run.key.run).await.unwrap();
    let result = tokio::time::timeout(Duration::from_secs(10), working).await.expect("it stops").unwrap();
    assert_eq!((result.status(), codes(&result)), (RunStatus::Cancelled, vec![Some(FailureCode::Cancelled); 2]));
}

async fn what_is_answered_must_fit_what_was_asked(place: Place) {
    let catalog = FakeCatalog::default().with("seat", |call| async move {
        let Some(answer) = call.context.answer else {
            let Outcome::Suspended(mut asked) = suspended("Which seat?") else { unreachable!() };
            let schema = json!({"properties": {"row": {"type": "integer"}}, "required": ["row"]});
            asked.request.data = Some(Object::from_iter([("schema".to_owned(), schema)]));
            return Outcome::Suspended(asked);
        };
        Outcome::Done(ToolResult::ok(format!("row {}", answer.data.unwrap()["row"])))
    });
    let (worker, ..) = host(&place, catalog, &[call(&[("seat", "{}")]), say("ok")]).await;
    let desk = Desk::new(place.store().await, local());
    let run = new_run();
    let id = start(&worker, run.clone()).await.unwrap().pending().unwrap().id.clone();
    let row = |row| Answer::approve(&id).with_data(Object::from_iter([("row".to_owned(), row)])).into();
    let refused = desk.decide(row(json!("x"))).await;
    assert!(matches!(refused, Err(DeskError::Decision(BadDecision::Data(_)))), "{refused:?}");
    assert_eq!(desk.questions(Page::default()).await.unwrap().len(), 1, "it is still open");
    desk.decide(row(json!(0))).await.unwrap();
    desk.decide(row(json!(0))).await.expect("the same again");
    assert!(matches!(desk.decide(row(json!(1))).await, Err(DeskError::Conflict(_))));
    let result = go_on(&worker, &run.key).await.unwrap();
    assert_eq!(result.tool_calls[0].ending.result.output, "row 0");
}

async fn a_person_may_edit_the_arguments_and_the_model_is_told(place: Place) {
    // Rule R19; langchain-ai/langchain#33787: the model was not told, and asked for the original again.
    let (worker, catalog, model) =
        host(&place, FakeCatalog::default().with_gpu(), &[call(&[("gpu", r#"{"n":100}"#)]), say("ok")]).await;
    let desk = Desk::new(place.store().await, local());
    let run = new_run();
    let id = start(&worker, run.clone()).await.unwrap().pending().unwrap().id.clone();
    let edit = |n| Decision {
        arguments: Some(Object::from_iter([("n".to_owned(), n)])),
        by: Some("ada".into()),
        ..Answer::approve(&id).into()
    };
    let refused = desk.decide(edit(json!("many"))).await;
    assert!(matches!(refused, Err(DeskError::Decision(BadDecision::Arguments(_)))), "{refused:?}");
    desk.decide(edit(json!(2))).await.unwrap();
    let result = go_on(&worker, &run.key).await.unwrap();
    assert_eq!(result.tool_calls[0].replaced_arguments, Some(json!({"n": 2})));
    assert_eq!(catalog.calls.lock().unwrap().last().unwrap().arguments, r#"{"n":2}"#);
    let sent = model.sent.lock().unwrap();
    let Some(Message::Tool { replies }) = sent[1].last() else { panic!("no results") };
    assert_eq!(replies[0].result.output, "executed with edited arguments: {\"n\":2}\napproved: gpu");
}

async fn a_grant_answers_for_a_person_until_it_is_used_up(place: Place) {
    let store = place.store().await;
    let grant = Grant {
        id: "g1".into(),
        tool: "gpu".into(),
        digest: None,
        arguments: None,
        run: None,
        uses: Some(1),
        expires_at: OffsetDateTime::now_utc() + Duration::from_secs(60),
        by: "ada".into(),
    };
    store.add_grant(&local(), grant).await.unwrap();
    let turns = [call(&[("gpu", "{}")]), call(&[("gpu", "{}")])];
    let (worker, catalog, _) = host(&place, FakeCatalog::default().with_gpu(), &turns).await;
    let run = new_run();
    let result = start(&worker, run.clone()).await.unwrap();
    assert_eq!((result.status(), times(&catalog, "gpu")), (RunStatus::Pending, 3));
    assert_eq!(result.tool_calls[0].ending.result.output, "approved: gpu");
    let entries = store.audit(&local(), 0, 100).await.unwrap();
    let by = entries.iter().find(|entry| entry.kind == "question.answered").unwrap();
    assert_eq!(by.body["by"], "grant g1 of ada");
}

async fn a_call_that_asks_one_question_too_many_is_busy(place: Place) {
    let store = place.store().await;
    store.set_settings(&local(), TenantSettings { open_max: 1, ..TenantSettings::default() }).await.unwrap();
    let (worker, ..) =
        host(&place, FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}"), ("gpu", "{}")]), say("ok")]).await;
    let run = new_run();
    let waiting = start(&worker, run.clone()).await.unwrap();
    assert_eq!(waiting.pendings().count(), 1);
    let code = waiting.tool_calls[0].ending.code;
    assert_eq!(code, Some(FailureCode::Busy));
}

async fn a_worker_does_what_is_there_and_hears_of_what_comes(place: Place) {
    let model = FakeModel::new(&[call(&[("gpu", "{}")]), say("ready")]);
    let (worker, ..) = host_on(place.store().await, Arc::new(FakeCatalog::default().with_gpu()), model);
    let stop = CancellationToken::new();
    let working = tokio::spawn({
        let (worker, stop) = (worker.clone(), stop.clone());
        async move { worker.work(stop).await }
    });
    let desk = Desk::new(place.store().await, local());
    let key = desk.start(None, vec![Message::user("go")], "fake").await.unwrap();
    let wait_for = async |wanted: StoredStatus| {
        let reached = async {
            while desk.run(&key.run).await.unwrap().head.status != wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), reached).await.expect("it gets there");
    };
    wait_for(StoredStatus::Pending).await;
    let [asked] = &desk.questions(Page::default()).await.unwrap()[..] else { panic!("one question") };
    desk.decide(Answer::approve(&asked.question.request.id).into()).await.unwrap();
    wait_for(StoredStatus::Ended(RunStatus::Done)).await;
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(10), working).await.expect("it stops").unwrap().unwrap();
}

async fn a_worker_that_lost_its_run_stops_at_once(place: Place) {
    let catalog = FakeCatalog::default().with("stuck", |_| std::future::pending());
    let options = WorkerOptions { lease: Duration::from_millis(300), ..options() };
    let model = FakeModel::new(&[call(&[("stuck", "{}")])]);
    let worker = Worker::new(Agent::new(model as Arc<dyn Model>, Arc::new(catalog)), place.store().await, options);
    let run = new_run();
    let working = tokio::spawn({
        let (worker, run) = (worker.clone(), run.clone());
        async move { start(&worker, run).await.map(drop) }
    });
    let store = place.store().await;
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if matches!(store.run(&run.key).await, Ok(stored) if stored.head.turns == 1) {
            break;
        }
    }
    place.sql("update run set epoch = epoch + 1").await;
    let ended = tokio::time::timeout(Duration::from_secs(10), working).await.expect("it stops").unwrap();
    assert!(matches!(ended, Err(StoreError::Fenced)), "{ended:?}");
}

async fn the_clock_of_the_store_decides_when_a_question_lapses(place: Place) {
    // PND-21: the tool says a time that has passed by this host's clock; the store gives a person a minute all the same.
    let catalog = FakeCatalog::default().with("late", |call| async move {
        if call.context.answer.is_some() {
            return Outcome::Done(ToolResult::ok("in time"));
        }
        let Outcome::Suspended(mut asked) = suspended("Now?") else { unreachable!() };
        asked.request.expires_at = Some("2001-01-01T00:00:00Z".into());
        Outcome::Suspended(asked)
    });
    let (worker, ..) = host(&place, catalog, &[call(&[("late", "{}")]), say("ok")]).await;
    let run = new_run();
    let waiting = start(&worker, run.clone()).await.unwrap();
    assert_eq!(waiting.status(), RunStatus::Pending);
    let desk = Desk::new(place.store().await, local());
    desk.decide(Answer::approve(&waiting.pending().unwrap().id).into()).await.unwrap();
    let result = go_on(&worker, &run.key).await.unwrap();
    assert_eq!(result.tool_calls[0].ending.result.output, "in time");
}

async fn a_tool_under_approval_waits_in_the_store(place: Place) {
    let model = FakeModel::new(&[call(&[("echo", r#"{"n":1}"#)]), say("ok")]);
    let catalog = Arc::new(FakeCatalog::default().with_echo());
    let agent = Agent::new(model as Arc<dyn Model>, catalog.clone()).with_approval(Approve::Destructive);
    let worker = Worker::new(agent, place.store().await, options());
    let run = new_run();
    let waiting = start(&worker, run.clone()).await.unwrap();
    assert_eq!((waiting.status(), times(&catalog, "echo")), (RunStatus::Pending, 0));
    let desk = Desk::new(place.store().await, local());
    desk.decide(Answer::approve(&waiting.pending().unwrap().id).into()).await.unwrap();
    let result = go_on(&worker, &run.key).await.unwrap();
    assert_eq!((result.status(), times(&catalog, "echo")), (RunStatus::Done, 1));
}

/// A host whose own clock is off by so much.
async fn off_by(place: &Place, minutes: i64, catalog: FakeCatalog, replies: &[Reply]) -> Worker {
    let clock = Clock::new(move || OffsetDateTime::now_utc() + time::Duration::minutes(minutes));
    let agent = Agent::new(FakeModel::new(replies) as Arc<dyn Model>, Arc::new(catalog)).with_clock(clock);
    Worker::new(agent, place.store().await, options())
}

async fn hosts_whose_clocks_are_off_agree_on_what_is_due(place: Place) {
    // PND-21: one host's clock is ten minutes ahead, another's ten behind, and the question is open for five.
    let catalog = || {
        FakeCatalog::default().with("late", |call| async move {
            if let Some(answer) = call.context.answer {
                return Outcome::Done(ToolResult::ok(if answer.ok { "in time" } else { "too late" }));
            }
            let Outcome::Suspended(mut asked) = suspended("Now?") else { unreachable!() };
            let end = OffsetDateTime::now_utc() + time::Duration::minutes(5);
            asked.request.expires_at = Some(end.format(&time::format_description::well_known::Rfc3339).unwrap());
            Outcome::Suspended(asked)
        })
    };
    let desk = Desk::new(place.store().await, local());
    let turn = call(&[("late", "{}")]);
    for (asks, goes_on) in [(10, -10), (-10, 10)] {
        let ahead = off_by(&place, asks, catalog(), &[turn.clone(), turn.clone()]).await;
        let run = new_run();
        let waiting = start(&ahead, run.clone()).await.unwrap();
        assert_eq!(waiting.status(), RunStatus::Pending, "off by {asks} min: it waits for a person");
        let id = waiting.pending().unwrap().id.clone();
        let asked = desk.question(&id).await.unwrap();
        let open_for = (asked.expires_at - asked.asked_at).whole_seconds();
        assert!((295..=300).contains(&open_for), "off by {asks} min: {open_for} s");
        assert_eq!(place.store().await.sweep().await.unwrap().expired, 0);
        desk.decide(Answer::approve(&id).into()).await.unwrap();
        let behind = off_by(&place, goes_on, catalog(), &[say("ok")]).await;
        let result = go_on(&behind, &run.key).await.unwrap();
        assert_eq!(result.tool_calls[0].ending.result.output, "in time", "off by {goes_on} min");

        // What has lapsed by the store's clock has lapsed for each of them, and wakes its run.
        let run = new_run();
        let id = start(&ahead, run.clone()).await.unwrap().pending().unwrap().id.clone();
        place.sql(&format!("update suspension set expires_at = 1 where id = '{id}'")).await;
        assert!(matches!(desk.decide(Answer::approve(&id).into()).await, Err(DeskError::Conflict(_))));
        let result = go_on(&off_by(&place, goes_on, catalog(), &[say("ok")]).await, &run.key).await.unwrap();
        assert_eq!(result.tool_calls[0].ending.code, Some(FailureCode::Expired));

        // A lease holds for all of them, and lapses for all of them.
        let run = new_run();
        let store = place.store().await;
        store.create(run.clone()).await.unwrap();
        store.claim("other", Duration::from_secs(60), Some(&run.key)).await.unwrap().unwrap();
        assert!(go_on(&off_by(&place, 10, catalog(), &[say("ok")]).await, &run.key).await.is_none());
        place.sql("update run set lease_until = 1 where status = 'running'").await;
        let taken = go_on(&off_by(&place, -10, catalog(), &[say("ok")]).await, &run.key).await.unwrap();
        assert_eq!(taken.status(), RunStatus::Done);
    }
}

async fn a_run_whose_record_contradicts_itself_is_set_aside_and_holds_up_no_other(place: Place) {
    // The worker finds it, not the store: a call of its turn has no slot.
    let store = place.store().await;
    let (first, ..) = host(&place, FakeCatalog::default().with_gpu(), &[call(&[("gpu", "{}")])]).await;
    let bad = new_run();
    start(&first, bad.clone()).await.unwrap();
    place.sql("delete from suspension").await;
    place.sql("delete from call").await;
    place.sql("update run set status = 'ready'").await;
    let agent = Agent::new(FakeModel::new(&[say("ready")]) as Arc<dyn Model>, Arc::new(FakeCatalog::default()));
    let quick = WorkerOptions { lease: Duration::from_millis(50), sweep: Duration::from_millis(20), ..options() };
    let worker = Worker::new(agent, place.store().await, quick);
    let stop = CancellationToken::new();
    let working = tokio::spawn({
        let stop = stop.clone();
        async move { worker.work(stop).await }
    });
    let told = async {
        while store.audit(&local(), 0, 100).await.unwrap().iter().all(|line| line.kind != "run.stalled") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), told).await.expect("a person is told");
    let good = new_run();
    store.create(good.clone()).await.unwrap();
    let over = async {
        while store.run(&good.key).await.unwrap().head.status != StoredStatus::Ended(RunStatus::Done) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), over).await.expect("the other one ends");
    stop.cancel();
    working.await.unwrap().unwrap();
    assert_eq!(store.run(&bad.key).await.unwrap().head.status, StoredStatus::Ready, "it is kept for somebody to mend");
}
