//! What every store of runs promises, on each kind of store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use support::runs::{
    FIRST, LEASE, calls, digest, done, ended, new_run, no, open, parked, replied, started, suspend, tenant, yes,
};
use support::{Place, is_not_found, on_every_store};
use time::OffsetDateTime;
use toolcell_agent::{
    Answered, Checkpoint, Claimed, Decision, Grant, Lease, Message, NewRun, OpenCallRecord, Page, Parked, Question,
    QuestionState, RETENTION_DAYS_MAX, RunKey, RunStatus, RunStore, Slot, SlotState, Step, StoreError, StoredStatus,
    TenantSettings, WEIGHT_MAX, Wake, Webhook,
};
use toolcell_contract::{Answer, Object, Request, ToolResult};
use toolcell_store::{BY_BYTES_MAX, GRANT_BYTES_MAX, GRANTS_MAX, PAGE_MAX, REASON_BYTES_MAX, verify_audit};

on_every_store! {
    a_run_comes_back_as_it_was_written,
    a_step_that_is_written_twice_is_written_once,
    who_lost_its_lease_writes_nothing,
    a_run_is_taken_over_when_its_lease_lapses_and_not_before,
    the_first_decision_counts_however_many_come_at_once,
    an_answer_at_the_last_moment_is_not_overlooked,
    answers_come_one_by_one_in_any_order,
    a_question_that_lapsed_cannot_be_answered,
    a_question_has_an_end_within_reason,
    a_tenant_with_many_runs_does_not_hold_up_the_others,
    nothing_of_a_tenant_can_be_seen_by_another,
    any_text_comes_back_verbatim,
    a_tenant_has_no_more_open_questions_than_it_may,
    a_run_that_waits_can_be_cancelled,
    a_changed_audit_is_noticed,
    a_grant_is_for_that_code_and_as_often_as_it_says,
    a_grant_decides_an_open_question_and_no_other,
    a_grant_lasts_no_longer_than_a_day_by_the_clock_of_the_store,
    a_list_is_no_longer_than_the_store_allows,
    a_tenant_is_told_what_happens_at_least_once,
    what_ended_long_ago_is_removed,
    a_tenant_that_keeps_its_runs_for_less_long_keeps_those_of_before_for_less_long,
    settings_and_decisions_and_grants_have_their_limits,
    a_tenant_can_be_removed_with_all_that_it_has,
    who_listens_is_woken,
    a_component_is_kept_by_its_digest,
    lists_come_in_pages,
    a_run_that_is_given_back_goes_on_elsewhere,
}

async fn a_run_comes_back_as_it_was_written(place: Place) {
    let store = place.store().await;
    let run = new_run("a");
    store.create(run.clone()).await.unwrap();
    assert!(matches!(store.create(run.clone()).await, Err(StoreError::Exists(_))), "STO-11: one run");
    let Claimed { lease, run: claimed } = store.claim("w", LEASE, None).await.unwrap().unwrap();
    assert_eq!((&claimed.system, &claimed.messages), (&run.system, &run.messages));
    assert_eq!(claimed.head.status, StoredStatus::Running);
    let checkpoint = Checkpoint { worked: Duration::from_millis(1_234), ..Checkpoint::default() };
    let reply = Step::Replied { turn: 0, reply: Box::new(calls(4)), checkpoint: checkpoint.clone() };
    store.write(&lease, reply).await.unwrap();
    let id = suspend(&store, &lease, 1).await;
    store.write(&lease, Step::Executing { slot: Slot { turn: 0, place: 2 } }).await.unwrap();
    store.write(&lease, done(&lease.key.run, Slot { turn: 0, place: 3 })).await.unwrap();

    let read = place.store().await.run(&run.key).await.unwrap();
    assert_eq!(read.replies, [calls(4)]);
    assert_eq!(read.checkpoint, Some(checkpoint));
    assert_eq!((read.head.turns, read.head.open), (1, 1));
    assert_eq!(read.calls[0].state, SlotState::Requested);
    let SlotState::Suspended { open: kept, decision: None } = &read.calls[1].state else { panic!("{read:?}") };
    let asked = open(Slot { turn: 0, place: 1 }.call_id(&run.key.run), 1);
    let request = Request { id: id.clone(), ..asked.request.clone() };
    assert_eq!(**kept, OpenCallRecord { request, ..asked });
    assert_eq!(read.calls[1].attempts, 1);
    assert_eq!(read.calls[2].state, SlotState::Executing { waited: None });
    assert!(matches!(&read.calls[3].state, SlotState::Done { record } if record.result == ToolResult::ok("done")));

    let answered = store.answer(&run.key.tenant, yes(&id)).await.unwrap();
    assert_eq!(answered, Answered::First(run.key.clone()));
    store.write(&lease, Step::Executing { slot: Slot { turn: 0, place: 1 } }).await.unwrap();
    let read = store.run(&run.key).await.unwrap();
    let SlotState::Executing { waited: Some(waited) } = &read.calls[1].state else { panic!("{read:?}") };
    assert_eq!(waited.1, yes(&id), "what it goes on with is still known");
    store.write(&lease, ended(RunStatus::Done)).await.unwrap();
    let read = store.run(&run.key).await.unwrap();
    assert_eq!(read.head.status, StoredStatus::Ended(RunStatus::Done));
    assert_eq!(read.end.unwrap().text, "all");
}

async fn a_step_that_is_written_twice_is_written_once(place: Place) {
    let store = place.store().await;
    let lease = started(&store, "a", 2).await;
    store.write(&lease, replied(2)).await.unwrap();
    let open = Box::new(open(FIRST.call_id(&lease.key.run), 0));
    for _ in 0..2 {
        store.write(&lease, Step::Suspended { slot: FIRST, open: open.clone() }).await.unwrap();
    }
    for _ in 0..2 {
        store.write(&lease, done(&lease.key.run, Slot { turn: 0, place: 1 })).await.unwrap();
    }
    let run = store.run(&lease.key).await.unwrap();
    assert_eq!((run.replies.len(), run.calls.len(), run.head.open), (1, 2, 1));
    let finished = store.audit(&lease.key.tenant, 0, 100).await.unwrap();
    assert_eq!(finished.iter().filter(|entry| entry.kind == "call.finished").count(), 1);
}

async fn who_lost_its_lease_writes_nothing(place: Place) {
    // STO-02: a host that was frozen for longer than its lease comes back.
    let (zombie, heir) = (place.store().await, place.store().await);
    let run = new_run("a");
    zombie.create(run.clone()).await.unwrap();
    let old = zombie.claim("zombie", Duration::ZERO, None).await.unwrap().unwrap().lease;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let new = heir.claim("heir", LEASE, None).await.unwrap().unwrap().lease;
    assert!(new.epoch > old.epoch);
    let fenced = |result: Result<(), StoreError>| assert!(matches!(result, Err(StoreError::Fenced)), "{result:?}");
    fenced(zombie.write(&old, replied(1)).await);
    fenced(zombie.write(&old, ended(RunStatus::Done)).await);
    fenced(zombie.renew(&old, LEASE).await);
    fenced(zombie.park(&old).await.map(drop));
    fenced(zombie.release(&old).await);
    fenced(zombie.signals(&old).await.map(drop));
    heir.write(&new, replied(1)).await.unwrap();
    assert_eq!(heir.run(&run.key).await.unwrap().replies.len(), 1);
}

async fn a_run_is_taken_over_when_its_lease_lapses_and_not_before(place: Place) {
    let (one, other) = (place.store().await, place.store().await);
    one.create(new_run("a")).await.unwrap();
    let lease = one.claim("one", LEASE, None).await.unwrap().unwrap().lease;
    let lapse = "update run set lease_until = 1";
    assert!(other.claim("other", LEASE, None).await.unwrap().is_none());
    place.sql(lapse).await;
    one.renew(&lease, LEASE).await.expect("nobody has taken it over");
    assert!(other.claim("other", LEASE, Some(&lease.key)).await.unwrap().is_none());
    assert_eq!(other.sweep().await.unwrap().relapsed, 0);
    place.sql(lapse).await;
    assert_eq!(other.sweep().await.unwrap().relapsed, 1);
    assert!(other.claim("other", LEASE, None).await.unwrap().is_some());
    assert!(matches!(one.renew(&lease, LEASE).await, Err(StoreError::Fenced)));
}

async fn the_first_decision_counts_however_many_come_at_once(place: Place) {
    // PND-04, STO-08.
    const ROUNDS: usize = 1_000;
    let hosts = [place.store().await, place.store().await];
    for _ in 0..ROUNDS {
        let (lease, id) = parked(&hosts[0], "a").await;
        let mut answers = tokio::task::JoinSet::new();
        for (n, host) in (0..6).zip(hosts.iter().cycle()) {
            let (host, tenant) = (Arc::clone(host), lease.key.tenant.clone());
            let decision = if n % 3 == 0 { yes(&id) } else { no(&id) };
            answers.spawn(async move { (decision.answer.ok, host.answer(&tenant, decision).await.unwrap()) });
        }
        let answers = answers.join_all().await;
        let winners: Vec<_> = answers.iter().filter(|(_, a)| matches!(a, Answered::First(_))).collect();
        let [(said, _)] = winners[..] else { panic!("{} winners", winners.len()) };
        for (ok, answered) in &answers {
            match answered {
                Answered::First(_) | Answered::Again(_) => assert_eq!(ok, said),
                Answered::Conflict(with) => assert_eq!((*ok, with.answer.ok), (!said, *said)),
            }
        }
        let claimed = hosts[1].claim("w", LEASE, Some(&lease.key)).await.unwrap().unwrap();
        assert!(hosts[0].claim("w", LEASE, Some(&lease.key)).await.unwrap().is_none(), "one host goes on");
        let SlotState::Suspended { decision: Some(counts), .. } = &claimed.run.calls[0].state else { panic!() };
        assert_eq!(counts.answer.ok, *said);
        hosts[1].write(&claimed.lease, ended(RunStatus::Done)).await.unwrap();
    }
}

async fn an_answer_at_the_last_moment_is_not_overlooked(place: Place) {
    let (worker, desk) = (place.store().await, place.store().await);
    let lease = started(&worker, "a", 1).await;
    let id = suspend(&worker, &lease, 0).await;
    assert!(worker.signals(&lease).await.unwrap().decisions.is_empty());
    desk.answer(&lease.key.tenant, yes(&id)).await.unwrap();
    assert_eq!(worker.park(&lease).await.unwrap(), Parked::HasWork);
    assert_eq!(worker.signals(&lease).await.unwrap().decisions, [yes(&id)]);
    worker.write(&lease, Step::Executing { slot: FIRST }).await.unwrap();
    assert!(worker.signals(&lease).await.unwrap().decisions.is_empty(), "it is used up");
    assert_eq!(desk.question(&lease.key.tenant, &id).await.unwrap().state, QuestionState::Consumed);
    assert_eq!(desk.answer(&lease.key.tenant, yes(&id)).await.unwrap(), Answered::Again(lease.key.clone()));
    assert_eq!(desk.answer(&lease.key.tenant, no(&id)).await.unwrap(), Answered::Conflict(yes(&id)));
}

async fn answers_come_one_by_one_in_any_order(place: Place) {
    let store = place.store().await;
    let lease = started(&store, "a", 3).await;
    let mut ids = Vec::new();
    for place in 0..3 {
        ids.push(suspend(&store, &lease, place).await);
    }
    assert_eq!(store.park(&lease).await.unwrap(), Parked::Parked);
    for (answered, id) in [&ids[2], &ids[0], &ids[1]].into_iter().enumerate() {
        assert_eq!(store.questions(&lease.key.tenant, Page::default()).await.unwrap().len(), 3 - answered);
        store.answer(&lease.key.tenant, yes(id)).await.unwrap();
        let claimed = store.claim("w", LEASE, None).await.unwrap().expect("each answer makes it go on");
        let slot = Slot { turn: 0, place: u32::try_from(ids.iter().position(|other| other == id).unwrap()).unwrap() };
        store.write(&claimed.lease, Step::Executing { slot }).await.unwrap();
        store.write(&claimed.lease, done(&lease.key.run, slot)).await.unwrap();
        if answered < 2 {
            assert_eq!(store.park(&claimed.lease).await.unwrap(), Parked::Parked);
        }
    }
}

async fn a_question_that_lapsed_cannot_be_answered(place: Place) {
    // PND-08; and rule R22: by a timer, and at answer time.
    for is_swept in [false, true] {
        let store = place.store().await;
        let (lease, id) = parked(&store, "a").await;
        assert_eq!(store.sweep().await.unwrap().expired, 0);
        place.sql(&format!("update suspension set expires_at = 1 where id = '{id}'")).await;
        if is_swept {
            assert_eq!(store.sweep().await.unwrap().expired, 1);
        }
        let Answered::Conflict(expired) = store.answer(&lease.key.tenant, yes(&id)).await.unwrap() else { panic!() };
        assert_eq!(expired.answer, Answer::decline(&id, "expired"));
        assert_eq!(store.question(&lease.key.tenant, &id).await.unwrap().state, QuestionState::Expired);
        let claimed = store.claim("w", LEASE, None).await.unwrap().expect("the run goes on");
        let SlotState::Suspended { decision: Some(no), .. } = &claimed.run.calls[0].state else { panic!() };
        assert_eq!(no.answer.reason.as_deref(), Some("expired"));
        store.write(&claimed.lease, ended(RunStatus::Done)).await.unwrap();
    }
}

async fn a_question_has_an_end_within_reason(place: Place) {
    // PND-07.
    let store = place.store().await;
    let lease = started(&store, "a", 4).await;
    let now = OffsetDateTime::now_utc();
    let ends = [None, Some("1999-01-01T00:00:00Z"), Some("9999-12-31T00:00:00Z"), Some("next week")];
    for (place, end) in (0..).zip(ends) {
        let slot = Slot { turn: 0, place };
        let mut open = open(slot.call_id(&lease.key.run), place);
        open.request.expires_at = end.map(Into::into);
        let id = open.request.id.clone();
        store.write(&lease, Step::Suspended { slot, open: Box::new(open) }).await.unwrap();
        let hours = (store.question(&lease.key.tenant, &id).await.unwrap().expires_at - now).whole_hours();
        let expected = match place {
            1 => 0..=0,
            2 => 167..=168,
            _ => 23..=24,
        };
        assert!(expected.contains(&hours), "{end:?}: {hours} h");
    }
}

async fn a_tenant_with_many_runs_does_not_hold_up_the_others(place: Place) {
    let store = place.store().await;
    for _ in 0..600 {
        store.create(new_run("noisy")).await.unwrap();
    }
    // Some are done already when the others come: nobody starts at the very front or the very end.
    for _ in 0..50 {
        let claimed = store.claim("w", LEASE, None).await.unwrap().unwrap();
        store.write(&claimed.lease, ended(RunStatus::Done)).await.unwrap();
    }
    for number in 0..30 {
        store.create(new_run(&format!("quiet-{number}"))).await.unwrap();
    }
    let mut order = Vec::new();
    while let Some(claimed) = store.claim("w", LEASE, None).await.unwrap() {
        order.push(claimed.lease.key.tenant.to_string());
        store.write(&claimed.lease, ended(RunStatus::Done)).await.unwrap();
    }
    let last_quiet = order.iter().rposition(|name| name != "noisy").unwrap();
    assert!(last_quiet < 40, "the last quiet tenant comes at {last_quiet} of {}", order.len());
}

async fn nothing_of_a_tenant_can_be_seen_by_another(place: Place) {
    // PND-01, PND-02, STO-13, rule R33: foreign and unknown are the same.
    let store = place.store().await;
    let (lease, id) = parked(&store, "a").await;
    let other = tenant("b");
    store.create(new_run("b")).await.unwrap();
    let foreign = RunKey { tenant: other.clone(), run: lease.key.run.clone() };
    assert!(is_not_found(&store.answer(&other, yes(&id)).await));
    assert!(is_not_found(&store.answer(&other, yes("pnd-unknown")).await));
    assert!(is_not_found(&store.question(&other, &id).await));
    assert!(is_not_found(&store.run(&foreign).await));
    assert!(is_not_found(&store.cancel(&foreign).await));
    assert!(is_not_found(&store.claim("w", LEASE, Some(&foreign)).await));
    assert!(matches!(store.renew(&Lease { key: foreign, ..lease.clone() }, LEASE).await, Err(StoreError::Fenced)));
    assert!(store.questions(&other, Page::default()).await.unwrap().is_empty());
    let page = Page { after: Some(id.clone()), limit: 10 };
    assert!(store.questions(&other, page).await.unwrap().is_empty());
    assert_eq!(store.runs(&other, Page::default()).await.unwrap().len(), 1);
    assert!(store.audit(&other, 0, 10).await.unwrap().is_empty());
    assert_eq!(store.question(&lease.key.tenant, &id).await.unwrap().state, QuestionState::Open, "nothing has changed");
}

async fn any_text_comes_back_verbatim(place: Place) {
    // STO-12, STO-14, STO-15.
    let store = place.store().await;
    let texts =
        ["'; drop table run; --", "%_\\", "a\0b", "\u{fffd}\u{202e}🦀", "$1 {now} {for_update}", &"x".repeat(5 << 20)];
    for text in texts {
        let run = NewRun { messages: vec![Message::user(text)], system: Some(text.into()), ..new_run("a") };
        store.create(run.clone()).await.unwrap();
        let Claimed { lease, run: claimed } = store.claim("w", LEASE, Some(&run.key)).await.unwrap().unwrap();
        assert!(claimed.messages == run.messages && claimed.system == run.system);
        store.write(&lease, replied(1)).await.unwrap();
        let mut asked = open(FIRST.call_id(&run.key.run), 0);
        asked.request.prompt = text.chars().take(1_000).collect();
        let id = asked.request.id.clone();
        store.write(&lease, Step::Suspended { slot: FIRST, open: Box::new(asked.clone()) }).await.unwrap();
        let data = Object::from_iter([("text".to_owned(), json!(text))]);
        let decision = Decision { by: Some("x".into()), ..Answer::approve(&id).with_data(data).into() };
        store.answer(&run.key.tenant, decision.clone()).await.unwrap();
        let read = store.question(&run.key.tenant, &id).await.unwrap();
        assert!(read.question == asked.question() && read.decision.as_ref() == Some(&decision));
        store.write(&lease, ended(RunStatus::Done)).await.unwrap();
    }
}

async fn a_tenant_has_no_more_open_questions_than_it_may(place: Place) {
    // PND-16.
    let store = place.store().await;
    store.set_settings(&tenant("a"), TenantSettings { open_max: 2, ..TenantSettings::default() }).await.unwrap();
    let lease = started(&store, "a", 3).await;
    let first = suspend(&store, &lease, 0).await;
    suspend(&store, &lease, 1).await;
    let slot = Slot { turn: 0, place: 2 };
    let third = Step::Suspended { slot, open: Box::new(open(slot.call_id(&lease.key.run), 2)) };
    assert!(matches!(store.write(&lease, third.clone()).await, Err(StoreError::TooManyOpen(2))));
    store.answer(&lease.key.tenant, yes(&first)).await.unwrap();
    store.write(&lease, third).await.unwrap();
}

async fn a_run_that_waits_can_be_cancelled(place: Place) {
    let store = place.store().await;
    let (lease, id) = parked(&store, "a").await;
    store.cancel(&lease.key).await.unwrap();
    store.cancel(&lease.key).await.unwrap();
    let claimed = store.claim("w", LEASE, None).await.unwrap().expect("somebody has to end it");
    assert!(claimed.run.is_cancelled);
    assert_eq!(store.park(&claimed.lease).await.unwrap(), Parked::HasWork);
    store.write(&claimed.lease, ended(RunStatus::Cancelled)).await.unwrap();
    let question = store.question(&lease.key.tenant, &id).await.unwrap();
    assert_eq!(question.state, QuestionState::Cancelled, "its questions are closed with it");
    assert!(matches!(store.answer(&lease.key.tenant, yes(&id)).await.unwrap(), Answered::Conflict(_)));
    store.cancel(&lease.key).await.unwrap();
    assert!(store.claim("w", LEASE, None).await.unwrap().is_none(), "what has ended stays so");
}

async fn a_changed_audit_is_noticed(place: Place) {
    let store = place.store().await;
    let (lease, id) = parked(&store, "a").await;
    store.answer(&lease.key.tenant, yes(&id)).await.unwrap();
    assert!(matches!(store.answer(&lease.key.tenant, no(&id)).await.unwrap(), Answered::Conflict(_)));
    let entries = store.audit(&lease.key.tenant, 0, 100).await.unwrap();
    let kinds: Vec<_> = entries.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["call.executing", "question.asked", "question.answered", "question.refused"]);
    assert_eq!(entries[2].body["by"], "ada");
    assert_eq!(entries[1].body["component"], json!(digest(7)));
    assert!(!serde_json::to_string(&entries).unwrap().contains("Use it?"), "not what was said");
    assert_eq!(verify_audit(store.as_ref(), &lease.key.tenant).await.unwrap(), Ok(4));
    place.sql("update audit set body = '{\"by\":\"eve\"}' where seq = 3").await;
    assert_eq!(verify_audit(store.as_ref(), &lease.key.tenant).await.unwrap().unwrap_err().seq, 3);
    place.sql("delete from audit where seq = 2").await;
    assert_eq!(verify_audit(store.as_ref(), &lease.key.tenant).await.unwrap().unwrap_err().seq, 2);
}

fn grant(id: &str) -> Grant {
    Grant {
        id: id.into(),
        tool: "gpu".into(),
        digest: Some(digest(7)),
        arguments: None,
        run: None,
        uses: Some(2),
        expires_at: OffsetDateTime::now_utc() + Duration::from_secs(60),
        by: "ada".into(),
    }
}

/// Lets a call of a new run ask what `change` makes of a question, and gives who asks and what.
async fn asked(store: &Arc<dyn RunStore>, name: &str, change: impl FnOnce(&mut OpenCallRecord)) -> (Lease, Question) {
    let lease = started(store, name, 1).await;
    let mut open = open(FIRST.call_id(&lease.key.run), 0);
    change(&mut open);
    let question = open.question();
    store.write(&lease, Step::Suspended { slot: FIRST, open: Box::new(open) }).await.unwrap();
    (lease, question)
}

async fn a_grant_is_for_that_code_and_as_often_as_it_says(place: Place) {
    // Rule R20. Agenta-AI/agenta PR#4854: an approval by name approved later calls with other arguments.
    let store = place.store().await;
    let a = tenant("a");
    let used = async |name: &str, change: &dyn Fn(&mut OpenCallRecord)| {
        let (lease, question) = asked(&store, name, change).await;
        store.use_grant(&lease.key, &question).await.unwrap()
    };
    assert!(used("a", &|_| {}).await.is_none());
    let arguments = Some(Object::from_iter([("n".to_owned(), json!(0))]));
    store.add_grant(&a, Grant { arguments, ..grant("g1") }).await.unwrap();
    assert!(used("a", &|open| open.digest = Some(digest(8))).await.is_none(), "another component");
    assert!(used("a", &|open| open.arguments = json!({"n": 1})).await.is_none(), "other arguments");
    let typed = |open: &mut OpenCallRecord| {
        let id = open.request.id.clone();
        open.request = Request::input("How many?", json!({"properties": {}})).with_id(id);
    };
    assert!(used("a", &typed).await.is_none(), "something is to be typed");
    assert!(used("b", &|_| {}).await.is_none(), "another tenant");
    for left in [1, 0] {
        let used = used("a", &|_| {}).await.unwrap();
        assert_eq!((used.id.as_str(), used.uses), ("g1", Some(left)));
    }
    assert!(used("a", &|_| {}).await.is_none(), "used up");
    store.add_grant(&a, Grant { run: Some("run-other".into()), uses: None, ..grant("g2") }).await.unwrap();
    assert!(used("a", &|_| {}).await.is_none(), "another run");
    let past = OffsetDateTime::now_utc() - Duration::from_secs(1);
    store.add_grant(&a, Grant { expires_at: past, ..grant("g3") }).await.unwrap();
    assert_eq!(store.grants(&a).await.unwrap().len(), 1);
    store.revoke_grant(&a, "g2").await.unwrap();
    assert!(is_not_found(&store.revoke_grant(&a, "g2").await));
}

async fn a_grant_decides_an_open_question_and_no_other(place: Place) {
    // Whoever asks: a worker that has lost the run meanwhile, or one that does not know whether it has asked before.
    let (store, other) = (place.store().await, place.store().await);
    let a = tenant("a");
    store.add_grant(&a, grant("g1")).await.unwrap();
    let left = async || store.grants(&a).await.unwrap()[0].uses;
    let (lease, question) = asked(&store, "a", |_| {}).await;
    let id = question.request.id.clone();
    // What the store has recorded counts, not what is said now.
    let forged = Question { arguments: json!({"n": 99}), ..question.clone() };
    for host in [&store, &other, &store] {
        assert_eq!(host.use_grant(&lease.key, &forged).await.unwrap().unwrap().id, "g1");
    }
    assert_eq!(left().await, Some(1), "it is one question");
    let decided = store.question(&a, &id).await.unwrap();
    assert_eq!((decided.state, decided.question.arguments), (QuestionState::Answered, json!({"n": 0})));
    assert_eq!(decided.decision.unwrap().by.as_deref(), Some("grant g1 of ada"));
    assert_eq!(store.signals(&lease).await.unwrap().decisions.len(), 1, "whoever has the run hears of it");
    assert_eq!(store.run(&lease.key).await.unwrap().head.open, 0);
    // One that was decided otherwise, or that nobody has asked.
    let (lease, question) = asked(&store, "a", |_| {}).await;
    store.answer(&a, no(&question.request.id)).await.unwrap();
    assert!(store.use_grant(&lease.key, &question).await.unwrap().is_none());
    let (lease, question) = asked(&store, "a", |_| {}).await;
    place.sql("update suspension set expires_at = 1 where state = 'open'").await;
    assert!(store.use_grant(&lease.key, &question).await.unwrap().is_none(), "its time is over");
    let nobodys = Question { request: question.request.clone().with_id("pnd-nobody"), ..question.clone() };
    assert!(store.use_grant(&lease.key, &nobodys).await.unwrap().is_none());
    assert!(store.use_grant(&RunKey::fresh(a.clone()), &question).await.unwrap().is_none());
    assert_eq!(left().await, Some(1), "nothing was counted");
    // A run that was put down meanwhile goes on.
    let (lease, question) = asked(&store, "a", |_| {}).await;
    assert_eq!(store.park(&lease).await.unwrap(), Parked::Parked);
    assert!(other.use_grant(&lease.key, &question).await.unwrap().is_some());
    assert!(store.claim("w", LEASE, Some(&lease.key)).await.unwrap().is_some());
    assert_eq!(verify_audit(store.as_ref(), &a).await.unwrap().ok().map(|lines| lines > 5), Some(true));
}

async fn a_grant_lasts_no_longer_than_a_day_by_the_clock_of_the_store(place: Place) {
    // Rule R20, whatever time it is for the host that gives it.
    let store = place.store().await;
    let a = tenant("a");
    let now = OffsetDateTime::now_utc();
    store.add_grant(&a, Grant { expires_at: now + Duration::from_secs(25 * 3_600), ..grant("g1") }).await.unwrap();
    let [held] = &store.grants(&a).await.unwrap()[..] else { panic!("one grant") };
    let lasts = (held.expires_at - now).whole_seconds();
    assert!((86_390..=86_410).contains(&lasts), "a day: {held:?}");
}

async fn a_list_is_no_longer_than_the_store_allows(place: Place) {
    let store = place.store().await;
    store.create(new_run("a")).await.unwrap();
    let fill = |count: u32| {
        let numbers = format!("with recursive n(i) as (select 1 union all select i + 1 from n where i < {count})");
        [
            format!(
                "{numbers} insert into run (tenant, id, status, model, created_at, updated_at) \
                 select 'a', 'run-' || cast(i as text), 'done', 'm', i, i from n"
            ),
            format!(
                "{numbers} insert into audit (tenant, seq, at, kind, body, hash) select 'a', i, i, 'k', '{{}}', '' from n"
            ),
        ]
    };
    let max = usize::try_from(PAGE_MAX).unwrap();
    for sql in fill(PAGE_MAX + 1) {
        place.sql(&sql).await;
    }
    let a = tenant("a");
    for (limit, found) in [(PAGE_MAX - 1, max - 1), (PAGE_MAX, max), (u32::MAX, max)] {
        assert_eq!(store.runs(&a, Page { after: None, limit }).await.unwrap().len(), found);
        assert_eq!(store.audit(&a, 0, limit).await.unwrap().len(), found);
    }
    // The rest comes on the next page.
    let last = store.runs(&a, Page { after: None, limit: u32::MAX }).await.unwrap().pop().unwrap();
    assert_eq!(store.runs(&a, Page { after: Some(last.key.run), limit: u32::MAX }).await.unwrap().len(), 2);
}

async fn a_tenant_is_told_what_happens_at_least_once(place: Place) {
    let store = place.store().await;
    let webhook = Webhook::new("https://example.org/hook", "s").unwrap();
    let settings = TenantSettings { webhook: Some(webhook.clone()), ..TenantSettings::default() };
    store.set_settings(&tenant("a"), settings).await.unwrap();
    let (lease, id) = parked(&store, "a").await;
    let [notice] = &store.notices(10, LEASE).await.unwrap()[..] else { panic!("one notice") };
    assert_eq!((notice.topic.as_str(), &notice.webhook, notice.attempts), ("run.pending", &webhook, 0));
    let body: serde_json::Value = serde_json::from_str(&notice.body).unwrap();
    assert_eq!(body["run"], json!(lease.key.run));
    assert_eq!(body["questions"][0]["question"]["request"]["id"], json!(id));
    assert!(store.notices(10, LEASE).await.unwrap().is_empty(), "somebody is telling it");
    store.settle_notice(&notice.id, Some(Duration::ZERO)).await.unwrap();
    let [again] = &store.notices(10, LEASE).await.unwrap()[..] else { panic!("again") };
    assert_eq!((&again.id, again.attempts), (&notice.id, 1));
    store.settle_notice(&notice.id, None).await.unwrap();
    store.answer(&lease.key.tenant, yes(&id)).await.unwrap();
    let claimed = store.claim("w", LEASE, None).await.unwrap().unwrap();
    store.write(&claimed.lease, ended(RunStatus::Done)).await.unwrap();
    let [done] = &store.notices(10, LEASE).await.unwrap()[..] else { panic!("one more") };
    assert_eq!(done.topic, "run.done");
}

async fn what_ended_long_ago_is_removed(place: Place) {
    let store = place.store().await;
    let (waiting, _) = parked(&store, "a").await;
    let lease = started(&store, "a", 1).await;
    store.write(&lease, ended(RunStatus::Done)).await.unwrap();
    assert_eq!(store.sweep().await.unwrap().purged, 0);
    place.sql("update run set purge_at = 1 where purge_at is not null").await;
    assert_eq!(store.sweep().await.unwrap().purged, 1);
    assert!(is_not_found(&store.run(&lease.key).await));
    assert!(store.run(&waiting.key).await.is_ok(), "what waits is kept");
}

async fn a_tenant_that_keeps_its_runs_for_less_long_keeps_those_of_before_for_less_long(place: Place) {
    let store = place.store().await;
    let lease = started(&store, "a", 1).await;
    store.write(&lease, ended(RunStatus::Done)).await.unwrap();
    place.sql("update run set updated_at = updated_at - 172800000000, purge_at = purge_at - 172800000000").await;
    assert_eq!(store.sweep().await.unwrap().purged, 0, "two days of thirty");
    for (retention_days, purged) in [(RETENTION_DAYS_MAX, 0), (3, 0), (1, 1)] {
        store.set_settings(&tenant("a"), TenantSettings { retention_days, ..TenantSettings::default() }).await.unwrap();
        assert_eq!(store.sweep().await.unwrap().purged, purged, "{retention_days}");
    }
    assert!(is_not_found(&store.run(&lease.key).await));
}

async fn settings_and_decisions_and_grants_have_their_limits(place: Place) {
    let store = place.store().await;
    let a = tenant("a");
    let is_too_large = |result: Result<(), StoreError>| matches!(result, Err(StoreError::TooLarge { .. }));
    let with = |weight, retention_days| TenantSettings { weight, retention_days, ..TenantSettings::default() };
    for (settings, is_fine) in [
        (with(WEIGHT_MAX, RETENTION_DAYS_MAX), true),
        (with(WEIGHT_MAX + 1, 1), false),
        (with(0, 1), false),
        (with(1, RETENTION_DAYS_MAX + 1), false),
        (with(1, u32::MAX), false),
    ] {
        let set = store.set_settings(&a, settings.clone()).await;
        assert_eq!(!is_too_large(set), is_fine, "{settings:?}");
    }
    let (_, id) = parked(&store, "a").await;
    let said = |reason: usize, by: usize| Decision {
        by: Some("b".repeat(by)),
        ..Answer::decline(&id, "r".repeat(reason)).into()
    };
    for (reason, by) in [(REASON_BYTES_MAX + 1, 1), (1, BY_BYTES_MAX + 1)] {
        assert!(is_too_large(store.answer(&a, said(reason, by)).await.map(drop)), "{reason} {by}");
    }
    store.answer(&a, said(REASON_BYTES_MAX, BY_BYTES_MAX)).await.unwrap();
    let grant = |id: usize, by: usize| Grant {
        id: format!("g{id}"),
        tool: "gpu".into(),
        digest: None,
        arguments: None,
        run: None,
        uses: None,
        expires_at: OffsetDateTime::now_utc() + LEASE,
        by: "b".repeat(by),
    };
    assert!(is_too_large(store.add_grant(&a, grant(0, GRANT_BYTES_MAX)).await));
    for number in 0..GRANTS_MAX {
        store.add_grant(&a, grant(number, 1)).await.unwrap();
    }
    assert!(is_too_large(store.add_grant(&a, grant(GRANTS_MAX, 1)).await));
    store.add_grant(&tenant("b"), grant(0, 1)).await.unwrap();
    store.revoke_grant(&a, "g0").await.unwrap();
    store.add_grant(&a, grant(GRANTS_MAX, 1)).await.unwrap();
}

async fn a_tenant_can_be_removed_with_all_that_it_has(place: Place) {
    // PND-22.
    let store = place.store().await;
    let lease = started(&store, "a", 1).await;
    let id = suspend(&store, &lease, 0).await;
    store.delete_tenant(&lease.key.tenant).await.unwrap();
    assert!(matches!(store.write(&lease, done(&lease.key.run, FIRST)).await, Err(StoreError::Fenced)));
    assert!(is_not_found(&store.answer(&lease.key.tenant, yes(&id)).await));
    assert!(store.claim("w", LEASE, None).await.unwrap().is_none(), "nothing runs any more");
    assert!(is_not_found(&store.delete_tenant(&lease.key.tenant).await));
}

async fn who_listens_is_woken(place: Place) {
    let (listener, writer) = (place.store().await, place.store().await);
    let mut wakes = listener.wakes();
    tokio::time::sleep(Duration::from_millis(200)).await;
    while wakes.try_recv().is_ok() {}
    let run = new_run("a");
    writer.create(run.clone()).await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(5), wakes.recv()).await.expect("within moments").unwrap();
    match place {
        // Another process has written the file: nobody knows what.
        Place::File(_) => assert_eq!(woken, Wake(None)),
        Place::Memory(_) | Place::Postgres(_) => assert_eq!(woken, Wake(Some(run.key))),
    }
}

async fn a_component_is_kept_by_its_digest(place: Place) {
    let store = place.store().await;
    assert_eq!(store.component(digest(1)).await.unwrap(), None);
    for _ in 0..2 {
        store.keep_component(digest(1), &[0, 1, 2, 255]).await.unwrap();
    }
    assert_eq!(store.component(digest(1)).await.unwrap(), Some(vec![0, 1, 2, 255]));
}

async fn lists_come_in_pages(place: Place) {
    let store = place.store().await;
    let lease = started(&store, "a", 4).await;
    let mut asked = Vec::new();
    for place in 0..4 {
        asked.push(suspend(&store, &lease, place).await);
    }
    let mut page = Page { after: None, limit: 3 };
    let mut seen = Vec::new();
    loop {
        let questions = store.questions(&lease.key.tenant, page.clone()).await.unwrap();
        let Some(last) = questions.last() else { break };
        page.after = Some(last.question.request.id.clone());
        seen.extend(questions.into_iter().map(|question| question.question.request.id));
    }
    assert_eq!(seen.iter().collect::<BTreeSet<_>>(), asked.iter().collect());
    assert_eq!(seen.len(), 4, "each once");
    for _ in 0..4 {
        store.create(new_run("a")).await.unwrap();
    }
    let (mut page, mut seen) = (Page { after: None, limit: 2 }, Vec::new());
    loop {
        let runs = store.runs(&lease.key.tenant, page.clone()).await.unwrap();
        let Some(last) = runs.last() else { break };
        page.after = Some(last.key.run.clone());
        seen.extend(runs.into_iter().map(|head| head.key.run));
    }
    assert_eq!(seen.len(), 5);
    assert_eq!(seen.last(), Some(&lease.key.run), "the oldest comes last");
}

async fn a_run_that_is_given_back_goes_on_elsewhere(place: Place) {
    let store = place.store().await;
    let lease = started(&store, "a", 1).await;
    store.release(&lease).await.unwrap();
    let claimed = store.claim("w", LEASE, None).await.unwrap().unwrap();
    assert_eq!((claimed.lease.key, claimed.run.replies.len()), (lease.key, 1));
}
