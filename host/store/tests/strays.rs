//! What a store makes of what goes wrong elsewhere: steps that come twice or to the wrong place, rows that cannot be read,
//! ids that nobody gave.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use support::runs::{FIRST, LEASE, digest, done, ended, new_run, open, parked, started, suspend, tenant, yes};
use support::{Place, is_not_found, on_every_store};
use time::OffsetDateTime;
use toolcell_agent::{
    Answered, Claimed, Decision, Grant, NewRun, Page, Parked, QuestionState, RunKey, RunStatus, RunStore, Slot, Step,
    StoreError, StoredStatus, TenantSettings, Wake, Webhook,
};
use toolcell_contract::Answer;
use toolcell_store::verify_audit;

on_every_store! {
    a_newcomer_with_many_runs_does_not_hold_up_who_has_had_many,
    who_takes_its_own_runs_is_not_behind_for_ever,
    a_run_that_cannot_be_read_holds_up_no_other,
    a_run_that_no_worker_gets_on_with_is_tried_less_and_less_and_holds_up_no_other,
    a_run_that_is_set_aside_goes_on_when_a_person_wants_it_to,
    the_last_step_may_be_written_again_by_who_does_not_know_of_it,
    an_execution_that_is_told_twice_is_counted_once,
    a_call_that_has_its_result_is_not_executed_again,
    a_step_for_a_call_that_is_not_there_is_refused,
    a_question_that_is_asked_under_the_id_of_another_is_refused,
    what_nobody_answered_in_time_was_not_declined_by_who_comes_late,
    an_id_of_any_text_is_only_not_found,
    very_many_runs_that_cannot_be_read_hold_up_no_worker,
    a_tenant_whose_settings_cannot_be_read_holds_up_no_other,
    two_workers_never_both_hold_a_run_of_a_store_that_was_brought_back_from_a_backup,
    a_host_that_is_open_stops_when_a_later_version_has_changed_the_tables,
    a_name_with_a_nul_in_it_is_kept_without_it,
    an_audit_whose_end_is_missing_is_noticed,
    what_nobody_needs_any_more_is_removed,
}

async fn order(store: &dyn RunStore) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(claimed) = store.claim("w", LEASE, None).await.unwrap() {
        order.push(claimed.lease.key.tenant.to_string());
        store.write(&claimed.lease, ended(RunStatus::Done)).await.unwrap();
    }
    order
}

async fn a_newcomer_with_many_runs_does_not_hold_up_who_has_had_many(place: Place) {
    let store = place.store().await;
    for _ in 0..30 {
        store.create(new_run("old")).await.unwrap();
        order(store.as_ref()).await;
    }
    for _ in 0..20 {
        store.create(new_run("new")).await.unwrap();
    }
    store.create(new_run("old")).await.unwrap();
    let order = order(store.as_ref()).await;
    let place = order.iter().position(|name| name == "old").unwrap();
    assert!(place <= 2, "it comes at {place} of {}", order.len());
}

async fn who_takes_its_own_runs_is_not_behind_for_ever(place: Place) {
    // `toolcell run --store` takes the run that it has begun, past those that wait for a worker.
    let store = place.store().await;
    for _ in 0..3 {
        store.create(new_run("other")).await.unwrap();
    }
    for _ in 0..30 {
        let run = new_run("own");
        store.create(run.clone()).await.unwrap();
        let claimed = store.claim("w", LEASE, Some(&run.key)).await.unwrap().unwrap();
        store.write(&claimed.lease, ended(RunStatus::Done)).await.unwrap();
    }
    store.create(new_run("own")).await.unwrap();
    for _ in 0..10 {
        store.create(new_run("other")).await.unwrap();
    }
    let order = order(store.as_ref()).await;
    let place = order.iter().position(|name| name == "own").unwrap();
    assert!(place <= 4, "it comes at {place} of {}", order.len());
}

async fn a_run_that_cannot_be_read_holds_up_no_other(place: Place) {
    let store = place.store().await;
    let (bad, lost, good) = (new_run("a"), new_run("a"), new_run("b"));
    store.create(bad.clone()).await.unwrap();
    store.create(lost.clone()).await.unwrap();
    store.claim("w", Duration::ZERO, Some(&lost.key)).await.unwrap();
    for run in [&bad, &lost] {
        place.sql(&format!("update event set body = '{{' where run = '{}'", run.key.run)).await;
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    store.create(good.clone()).await.unwrap();
    let claimed = store.claim("w", LEASE, None).await.unwrap().expect("the one that can be read");
    assert_eq!(claimed.lease.key, good.key);
    assert!(store.claim("w", LEASE, None).await.unwrap().is_none());
    for run in [&bad, &lost] {
        let claimed = store.claim("w", LEASE, Some(&run.key)).await;
        assert!(matches!(claimed, Err(StoreError::Damaged { .. })), "who asks for it is told: {claimed:?}");
    }
    let lines = stalls(store.as_ref()).await;
    assert_eq!(lines.len(), 2, "a person can see it: {lines:?}");
    assert!(lines.iter().all(|line| line["why"] == "unreadable"), "{lines:?}");
    // It is there still, for somebody to mend it.
    let mended = r#"update event set body = '{"system":null,"messages":[]}' where body = '{'"#;
    place.sql(mended).await;
    place.sql(LATER).await;
    assert_eq!(store.sweep().await.unwrap().woken, 2);
    assert!(store.claim("w", LEASE, None).await.unwrap().is_some());
    assert!(store.claim("w", LEASE, None).await.unwrap().is_some());
}

/// Lets the time pass for which runs are set aside.
const LATER: &str = "update run set retry_at = 1 where retry_at is not null";

/// Lets leases lapse.
const LAPSE: &str = "update run set lease_until = 1 where status = 'running'";

/// What the audit tells of runs that do not go on.
async fn stalls(store: &dyn RunStore) -> Vec<serde_json::Value> {
    let lines = store.audit(&tenant("a"), 0, 1_000).await.unwrap();
    lines.into_iter().filter(|line| line.kind == "run.stalled").map(|line| line.body).collect()
}

async fn a_run_that_no_worker_gets_on_with_is_tried_less_and_less_and_holds_up_no_other(place: Place) {
    // Its record contradicts itself, or it takes each host that works on it down with it.
    let store = place.store().await;
    let bad = new_run("a");
    store.create(bad.clone()).await.unwrap();
    let look = async || {
        let claimed = store.claim("w", LEASE, None).await.unwrap();
        place.sql(LAPSE).await;
        store.sweep().await.unwrap();
        claimed.map(|claimed| claimed.lease.key)
    };
    let mut tries = 0;
    for _ in 0..10 {
        tries += usize::from(look().await.as_ref() == Some(&bad.key));
    }
    assert_eq!(tries, 3, "a host may go away by chance, hardly thrice");
    let [told] = &stalls(store.as_ref()).await[..] else { panic!("a person can see it") };
    assert_eq!(
        (&told["run"], &told["why"], &told["tries"]),
        (&bad.key.run.clone().into(), &"no progress".into(), &3.into())
    );
    let mut wait = told["nextTrySeconds"].as_u64().unwrap();
    for tries in 4..20 {
        place.sql(LATER).await;
        assert_eq!(store.sweep().await.unwrap().woken, 1, "it is tried again");
        assert_eq!(look().await.as_ref(), Some(&bad.key));
        assert_eq!(look().await, None, "once");
        let told = stalls(store.as_ref()).await.pop().unwrap();
        let next = told["nextTrySeconds"].as_u64().unwrap();
        assert!(told["tries"] == tries && (next == 2 * wait || next == 6 * 3_600), "slower and slower: {told}");
        wait = next;
    }
    // Others are not behind it, whether it is due or not.
    place.sql(LATER).await;
    let good = new_run("b");
    store.create(good.clone()).await.unwrap();
    store.sweep().await.unwrap();
    let first = store.claim("w", LEASE, None).await.unwrap().unwrap();
    assert_eq!(first.lease.key, good.key);
    // One that gets on begins anew.
    let claimed = store.claim("w", LEASE, None).await.unwrap().unwrap();
    store.write(&claimed.lease, support::runs::replied(1)).await.unwrap();
    store.write(&first.lease, ended(RunStatus::Done)).await.unwrap();
    place.sql(LAPSE).await;
    assert_eq!(look().await.as_ref(), Some(&bad.key), "at once");
}

async fn a_run_that_is_set_aside_goes_on_when_a_person_wants_it_to(place: Place) {
    let store = place.store().await;
    let set_aside = async || {
        let lease = started(&store, "a", 1).await;
        let id = suspend(&store, &lease, 0).await;
        for _ in 0..4 {
            place.sql(LAPSE).await;
            store.claim("w", LEASE, None).await.unwrap();
        }
        let head = store.run(&lease.key).await.unwrap().head;
        assert_eq!(head.status, StoredStatus::Ready, "it waits for a worker");
        assert!(store.claim("w", LEASE, None).await.unwrap().is_none());
        (lease, id)
    };
    let end = async |claimed: Claimed| store.write(&claimed.lease, ended(RunStatus::Done)).await.unwrap();
    let (lease, _) = set_aside().await;
    end(store.claim("w", LEASE, Some(&lease.key)).await.unwrap().expect("by its id")).await;
    let (lease, id) = set_aside().await;
    store.answer(&lease.key.tenant, yes(&id)).await.unwrap();
    let claimed = store.claim("w", LEASE, None).await.unwrap().expect("with an answer");
    assert_eq!(claimed.lease.key, lease.key);
    end(claimed).await;
    let (lease, _) = set_aside().await;
    store.cancel(&lease.key).await.unwrap();
    let claimed = store.claim("w", LEASE, None).await.unwrap().expect("to be cancelled");
    assert_eq!(claimed.lease.key, lease.key);
    end(claimed).await;
    // It is not removed as one that has ended.
    let (lease, _) = set_aside().await;
    place.sql("update run set updated_at = 1 where status = 'stalled'").await;
    assert_eq!(store.sweep().await.unwrap().purged, 0);
    assert!(store.run(&lease.key).await.is_ok());
}

async fn the_last_step_may_be_written_again_by_who_does_not_know_of_it(place: Place) {
    // The connection breaks after the commit and before its answer.
    let store = place.store().await;
    let lease = started(&store, "a", 1).await;
    suspend(&store, &lease, 0).await;
    for _ in 0..2 {
        assert_eq!(store.park(&lease).await.unwrap(), Parked::Parked);
    }
    let lease = started(&store, "a", 1).await;
    for _ in 0..2 {
        store.write(&lease, ended(RunStatus::Done)).await.unwrap();
    }
    let other = store.write(&lease, ended(RunStatus::Failed)).await;
    assert!(matches!(other, Err(StoreError::Fenced)), "it has ended otherwise: {other:?}");
    let lease = started(&store, "a", 1).await;
    for _ in 0..2 {
        store.release(&lease).await.unwrap();
    }
    let heir = store.claim("heir", LEASE, None).await.unwrap().unwrap();
    assert_eq!(heir.lease.key, lease.key, "once");
    assert!(store.claim("heir", LEASE, None).await.unwrap().is_none());
    assert!(matches!(store.release(&lease).await, Err(StoreError::Fenced)), "it is the heir's now");
    assert!(matches!(store.park(&lease).await, Err(StoreError::Fenced)));
}

async fn an_execution_that_is_told_twice_is_counted_once(place: Place) {
    let store = place.store().await;
    let lease = started(&store, "a", 1).await;
    for _ in 0..2 {
        store.write(&lease, Step::Executing { slot: FIRST }).await.unwrap();
    }
    assert_eq!(store.run(&lease.key).await.unwrap().calls[0].attempts, 1);
    // Another worker's is another one; so is the one after an answer.
    store.release(&lease).await.unwrap();
    let lease = store.claim("heir", LEASE, None).await.unwrap().unwrap().lease;
    let id = suspend(&store, &lease, 0).await;
    store.answer(&lease.key.tenant, yes(&id)).await.unwrap();
    for _ in 0..2 {
        store.write(&lease, Step::Executing { slot: FIRST }).await.unwrap();
    }
    assert_eq!(store.run(&lease.key).await.unwrap().calls[0].attempts, 3);
    let audit = store.audit(&lease.key.tenant, 0, 100).await.unwrap();
    assert_eq!(audit.iter().filter(|entry| entry.kind == "call.executing").count(), 3);
}

async fn a_call_that_has_its_result_is_not_executed_again(place: Place) {
    // Rule R5.
    let store = place.store().await;
    let lease = started(&store, "a", 1).await;
    store.write(&lease, Step::Executing { slot: FIRST }).await.unwrap();
    store.write(&lease, done(&lease.key.run, FIRST)).await.unwrap();
    let again = store.write(&lease, Step::Executing { slot: FIRST }).await;
    assert!(matches!(again, Err(StoreError::Damaged { .. })), "{again:?}");
    assert_eq!(store.run(&lease.key).await.unwrap().calls[0].attempts, 1);
}

async fn a_step_for_a_call_that_is_not_there_is_refused(place: Place) {
    let store = place.store().await;
    let lease = started(&store, "a", 1).await;
    let slot = Slot { turn: 3, place: 1 };
    let open = open(slot.call_id(&lease.key.run), 1);
    let id = open.request.id.clone();
    for step in [Step::Executing { slot }, Step::Suspended { slot, open: Box::new(open) }, done("run", slot)] {
        let refused = store.write(&lease, step.clone()).await;
        assert!(is_not_found(&refused), "{step:?}: {refused:?}");
    }
    assert!(is_not_found(&store.question(&lease.key.tenant, &id).await), "nothing half written");
    assert_eq!(store.run(&lease.key).await.unwrap().head.open, 0);
}

async fn a_question_that_is_asked_under_the_id_of_another_is_refused(place: Place) {
    // Ids are the host's and cannot be guessed; should one come twice, nobody's call waits for another's answer.
    let store = place.store().await;
    let (first, id) = parked(&store, "a").await;
    for name in ["a", "b"] {
        let lease = started(&store, name, 1).await;
        let mut second = open(FIRST.call_id(&lease.key.run), 0);
        second.request.id.clone_from(&id);
        let refused = store.write(&lease, Step::Suspended { slot: FIRST, open: Box::new(second) }).await;
        assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{name}: {refused:?}");
        assert_eq!(store.run(&lease.key).await.unwrap().head.open, 0);
    }
    assert_eq!(store.question(&first.key.tenant, &id).await.unwrap().key, first.key);
}

async fn what_nobody_answered_in_time_was_not_declined_by_who_comes_late(place: Place) {
    // PND-08: whoever comes late hears the same, before the clock was looked at and after it.
    let store = place.store().await;
    for is_swept in [false, true] {
        let (lease, id) = parked(&store, "a").await;
        place.sql(&format!("update suspension set expires_at = 1 where id = '{id}'")).await;
        if is_swept {
            store.sweep().await.unwrap();
        }
        let late: [Decision; 2] = [Answer::decline(&id, "cancelled").into(), support::runs::no(&id)];
        for late in late {
            let late = store.answer(&lease.key.tenant, late).await.unwrap();
            let Answered::Conflict(expired) = late else { panic!("{late:?}") };
            assert_eq!(expired.answer.reason.as_deref(), Some("expired"));
        }
    }
    let (lease, id) = parked(&store, "a").await;
    let cancelled: Decision = Answer::decline(&id, "cancelled").into();
    assert!(matches!(store.answer(&lease.key.tenant, cancelled.clone()).await.unwrap(), Answered::First(_)));
    assert!(matches!(store.answer(&lease.key.tenant, cancelled).await.unwrap(), Answered::Again(_)));
    let late = store.answer(&lease.key.tenant, support::runs::no(&id)).await.unwrap();
    assert!(matches!(late, Answered::Conflict(_)), "{late:?}");
    assert_eq!(store.question(&lease.key.tenant, &id).await.unwrap().state, QuestionState::Cancelled);
}

async fn an_id_of_any_text_is_only_not_found(place: Place) {
    // PND-01, STO-12, STO-14: ids come from outside.
    let store = place.store().await;
    let (lease, _) = parked(&store, "a").await;
    let tenant = lease.key.tenant.clone();
    for id in ["", "\0", "pnd-\0x", "' or 1=1 --", "%", "🦀", &"x".repeat(1 << 20)] {
        let key = RunKey { tenant: tenant.clone(), run: id.to_owned() };
        assert!(is_not_found(&store.question(&tenant, id).await), "{id:?}");
        assert!(is_not_found(&store.answer(&tenant, yes(id)).await), "{id:?}");
        assert!(is_not_found(&store.run(&key).await), "{id:?}");
        assert!(is_not_found(&store.cancel(&key).await), "{id:?}");
        assert!(is_not_found(&store.claim("w", LEASE, Some(&key)).await), "{id:?}");
        assert!(is_not_found(&store.revoke_grant(&tenant, id).await), "{id:?}");
        store.settle_notice(id, None).await.unwrap();
        let page = Page { after: Some(id.to_owned()), limit: 10 };
        assert!(store.questions(&tenant, page.clone()).await.unwrap().is_empty(), "{id:?}");
        assert!(store.runs(&tenant, page).await.unwrap().is_empty(), "{id:?}");
    }
}

async fn a_name_with_a_nul_in_it_is_kept_without_it(place: Place) {
    let store = place.store().await;
    let run = NewRun { model: "m\0x".into(), ..new_run("a") };
    store.create(run.clone()).await.unwrap();
    store.claim("w\0", LEASE, Some(&run.key)).await.unwrap().unwrap();
    assert_eq!(store.run(&run.key).await.unwrap().head.model, "m\u{fffd}x");
}

async fn an_audit_whose_end_is_missing_is_noticed(place: Place) {
    let store = place.store().await;
    let (lease, id) = parked(&store, "a").await;
    store.answer(&lease.key.tenant, yes(&id)).await.unwrap();
    assert_eq!(verify_audit(store.as_ref(), &lease.key.tenant).await.unwrap(), Ok(3));
    place.sql("delete from audit where seq = 3").await;
    assert_eq!(verify_audit(store.as_ref(), &lease.key.tenant).await.unwrap().unwrap_err().seq, 3);
    place.sql("delete from audit").await;
    assert_eq!(verify_audit(store.as_ref(), &lease.key.tenant).await.unwrap().unwrap_err().seq, 1);
    assert_eq!(verify_audit(store.as_ref(), &tenant("nobody")).await.unwrap(), Ok(0));
}

async fn what_nobody_needs_any_more_is_removed(place: Place) {
    let store = place.store().await;
    let grant = |id: &str, ends: time::Duration| Grant {
        id: id.into(),
        tool: "gpu".into(),
        digest: None,
        arguments: None,
        run: None,
        uses: None,
        expires_at: OffsetDateTime::now_utc() + ends,
        by: "ada".into(),
    };
    store.add_grant(&tenant("a"), grant("over", time::Duration::seconds(-1))).await.unwrap();
    store.add_grant(&tenant("a"), grant("holds", time::Duration::hours(1))).await.unwrap();
    for byte in 1..=2 {
        store.keep_component(digest(byte), &[byte]).await.unwrap();
    }
    store.sweep().await.unwrap();
    assert!(store.component(digest(1)).await.unwrap().is_some(), "it may be waited with");
    place.sql("update component set kept_at = 1").await;
    // Who waits with it anew keeps it anew.
    store.keep_component(digest(2), &[2]).await.unwrap();
    store.sweep().await.unwrap();
    assert_eq!(store.component(digest(1)).await.unwrap(), None);
    assert_eq!(store.component(digest(2)).await.unwrap(), Some(vec![2]));
    assert!(is_not_found(&store.revoke_grant(&tenant("a"), "over").await), "it is gone");
    store.revoke_grant(&tenant("a"), "holds").await.unwrap();
}

async fn very_many_runs_that_cannot_be_read_hold_up_no_worker(place: Place) {
    let store = place.store().await;
    let mut wakes = store.wakes();
    for _ in 0..40 {
        store.create(new_run("a")).await.unwrap();
    }
    place.sql("update event set body = '{'").await;
    let good = new_run("b");
    store.create(good.clone()).await.unwrap();
    place.sql("update run set prio = 9000000000000 where tenant = 'b'").await;
    while wakes.try_recv().is_ok() {}
    let mut looks = 0;
    let claimed = loop {
        looks += 1;
        if let Some(claimed) = store.claim("w", LEASE, None).await.unwrap() {
            break claimed;
        }
        // Whoever works is told to look again, and does not wait for the next sweep.
        let told = async { while wakes.recv().await.unwrap() != Wake(None) {} };
        tokio::time::timeout(Duration::from_secs(1), told).await.expect("there may be more");
    };
    assert_eq!((claimed.lease.key, looks), (good.key, 3));
    assert_eq!(stalls(store.as_ref()).await.len(), 40);
}

async fn a_tenant_whose_settings_cannot_be_read_holds_up_no_other(place: Place) {
    let store = place.store().await;
    let (bad, bad_id) = parked(&store, "bad").await;
    let (good, good_id) = parked(&store, "good").await;
    let hook = Webhook::new("https://example.org/hook", "s").unwrap();
    let settings = TenantSettings { webhook: Some(hook), ..TenantSettings::default() };
    for name in ["bad", "good"] {
        store.set_settings(&tenant(name), settings.clone()).await.unwrap();
        let lease = started(&store, name, 1).await;
        store.write(&lease, ended(RunStatus::Done)).await.unwrap();
    }
    place.sql("update tenant set settings = '{' where id = 'bad'").await;
    place.sql("update suspension set expires_at = case tenant when 'bad' then 1 else 2 end").await;
    store.sweep().await.unwrap();
    for (lease, id) in [(&bad, &bad_id), (&good, &good_id)] {
        let state = store.question(&lease.key.tenant, id).await.unwrap().state;
        assert_eq!(state, QuestionState::Expired, "{}", lease.key.tenant);
    }
    let told = store.notices(10, LEASE).await.unwrap();
    assert_eq!(told.iter().map(|notice| notice.tenant.as_str()).collect::<Vec<_>>(), ["good"]);
    let mut claimed = Vec::new();
    while let Some(next) = store.claim("w", LEASE, None).await.unwrap() {
        claimed.push(next.lease.key);
    }
    claimed.sort();
    assert_eq!(claimed, [bad.key, good.key], "the runs of both go on");
}

async fn two_workers_never_both_hold_a_run_of_a_store_that_was_brought_back_from_a_backup(place: Place) {
    // STO-17: the backup is of a moment before the claim, so the next claim has the same number.
    let store = place.store().await;
    let run = new_run("a");
    store.create(run.clone()).await.unwrap();
    let before = store.claim("before", LEASE, None).await.unwrap().unwrap().lease;
    place.sql("update run set status = 'ready', epoch = 0, worker = null, lease_until = null, stalls = 0").await;
    let after = store.claim("after", LEASE, None).await.unwrap().unwrap().lease;
    assert_eq!((&before.key, before.epoch), (&after.key, after.epoch));
    assert!(matches!(store.renew(&before, LEASE).await, Err(StoreError::Fenced)));
    assert!(matches!(store.signals(&before).await, Err(StoreError::Fenced)));
    assert!(matches!(store.write(&before, support::runs::replied(1)).await, Err(StoreError::Fenced)));
    assert!(matches!(store.write(&before, ended(RunStatus::Failed)).await, Err(StoreError::Fenced)));
    assert!(matches!(store.park(&before).await, Err(StoreError::Fenced)));
    assert!(matches!(store.release(&before).await, Err(StoreError::Fenced)));
    store.write(&after, ended(RunStatus::Done)).await.unwrap();
}

async fn a_host_that_is_open_stops_when_a_later_version_has_changed_the_tables(place: Place) {
    // Rule R26.
    let store = place.store().await;
    let run = new_run("a");
    store.create(run.clone()).await.unwrap();
    place.sql("update toolcell_schema set version = 99").await;
    for result in [
        store.claim("w", LEASE, None).await.map(drop),
        store.claim("w", LEASE, Some(&run.key)).await.map(drop),
        store.sweep().await.map(drop),
    ] {
        assert!(matches!(result, Err(StoreError::Newer { found: 99, known: 4 })), "{result:?}");
    }
    assert_eq!(store.run(&run.key).await.unwrap().head.status, StoredStatus::Ready, "it is as it was");
}
