//! What a store promises when many use it at once: nobody waits for nothing, nothing happens twice, and who goes away leaves
//! nothing behind.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use support::runs::{LEASE, digest, ended, new_run, parked, started, suspend, tenant, yes};
use support::{Place, on_every_store};
use time::OffsetDateTime;
use tokio::task::JoinSet;
use toolcell_agent::{Grant, Page, RunStatus, RunStore, StoreError};
use toolcell_store::{Options, open_with, verify_audit};

on_every_store! {
    runs_of_one_tenant_begin_at_once_without_holding_each_other_up,
    a_grant_is_used_no_more_often_than_it_says_however_many_ask_at_once,
    a_run_is_claimed_once_however_many_want_one,
    questions_lapse_once_however_many_look_at_the_clock,
    the_audit_has_no_gap_however_many_write_it,
    a_tenant_that_is_removed_while_it_is_worked_for_stays_removed,
    a_tenant_of_any_size_can_be_removed_while_others_work,
    who_stops_waiting_leaves_nothing_behind,
    a_store_may_be_opened_by_many_at_once_for_the_first_time,
}

async fn runs_of_one_tenant_begin_at_once_without_holding_each_other_up(place: Place) {
    const RUNS: usize = 40;
    let hosts = [place.store().await, place.store().await];
    hosts[0].create(new_run("a")).await.unwrap();
    let mut begun = JoinSet::new();
    for host in hosts.iter().cycle().take(RUNS) {
        let host = Arc::clone(host);
        begun.spawn(async move { host.create(new_run("a")).await });
    }
    for result in begun.join_all().await {
        result.unwrap();
    }
    assert_eq!(hosts[0].runs(&tenant("a"), Page::default()).await.unwrap().len(), RUNS + 1);
    assert_eq!(place.deadlocks(), 0, "they wait for each other in a circle");
}

async fn a_grant_is_used_no_more_often_than_it_says_however_many_ask_at_once(place: Place) {
    const USES: u32 = 3;
    let hosts = [place.store().await, place.store().await];
    let a = tenant("a");
    for round in 0..20 {
        let grant = Grant {
            id: format!("g{round}"),
            tool: "gpu".into(),
            digest: Some(digest(7)),
            arguments: None,
            run: None,
            uses: Some(USES),
            expires_at: OffsetDateTime::now_utc() + LEASE,
            by: "ada".into(),
        };
        hosts[0].add_grant(&a, grant).await.unwrap();
        let mut asking = Vec::new();
        for _ in 0..6 {
            let lease = started(&hosts[0], "a", 1).await;
            let id = suspend(&hosts[0], &lease, 0).await;
            asking.push((lease.key, hosts[0].question(&a, &id).await.unwrap().question));
        }
        let asked = hosts.iter().cycle().zip(&asking).map(|(host, (key, question))| host.use_grant(key, question));
        let given = join_all(asked).await.into_iter().filter(|given| given.as_ref().unwrap().is_some()).count();
        assert_eq!(given, USES as usize, "round {round}");
        assert!(hosts[1].grants(&a).await.unwrap().is_empty(), "it is used up");
    }
}

async fn a_run_is_claimed_once_however_many_want_one(place: Place) {
    const RUNS: usize = 60;
    let hosts = [place.store().await, place.store().await];
    for number in 0..RUNS {
        hosts[0].create(new_run(&format!("t{}", number % 3))).await.unwrap();
    }
    let mut workers = JoinSet::new();
    for host in hosts.iter().cycle().take(8) {
        let host = Arc::clone(host);
        workers.spawn(async move {
            let mut mine = Vec::new();
            while let Some(claimed) = host.claim("w", LEASE, None).await.unwrap() {
                mine.push(claimed.lease.key.run);
            }
            mine
        });
    }
    let claimed: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    assert_eq!((claimed.len(), claimed.iter().collect::<BTreeSet<_>>().len()), (RUNS, RUNS));
}

async fn questions_lapse_once_however_many_look_at_the_clock(place: Place) {
    // A sweep runs on each host, and each may be late or early.
    const RUNS: usize = 12;
    let hosts = [place.store().await, place.store().await];
    for _ in 0..RUNS {
        parked(&hosts[0], "a").await;
    }
    place.sql("update suspension set expires_at = 1").await;
    let swept = join_all(hosts.iter().cycle().take(6).map(|host| host.sweep())).await;
    let expired: u64 = swept.into_iter().map(|swept| swept.unwrap().expired).sum();
    assert_eq!(expired, RUNS as u64);
    let mut audit = hosts[0].audit(&tenant("a"), 0, 1_000).await.unwrap();
    audit.retain(|entry| entry.kind == "question.expired");
    assert_eq!(audit.len(), RUNS);
}

async fn the_audit_has_no_gap_however_many_write_it(place: Place) {
    let hosts = [place.store().await, place.store().await];
    let mut waiting = Vec::new();
    for _ in 0..10 {
        waiting.push(parked(&hosts[0], "a").await);
    }
    let answers = hosts.iter().cycle().zip(&waiting).map(|(host, (lease, id))| host.answer(&lease.key.tenant, yes(id)));
    for answered in join_all(answers).await {
        answered.unwrap();
    }
    assert_eq!(verify_audit(hosts[1].as_ref(), &tenant("a")).await.unwrap(), Ok(30));
}

async fn a_tenant_that_is_removed_while_it_is_worked_for_stays_removed(place: Place) {
    // PND-22.
    let hosts = [place.store().await, place.store().await];
    for _ in 0..10 {
        let (lease, id) = parked(&hosts[0], "a").await;
        let tenant = lease.key.tenant.clone();
        hosts[0].answer(&tenant, yes(&id)).await.unwrap();
        let claimed = hosts[0].claim("w", LEASE, Some(&lease.key)).await.unwrap().unwrap();
        let (written, removed) =
            tokio::join!(hosts[0].write(&claimed.lease, ended(RunStatus::Done)), hosts[1].delete_tenant(&tenant));
        removed.unwrap();
        assert!(matches!(written, Ok(()) | Err(StoreError::Fenced)), "{written:?}");
        assert!(hosts[0].runs(&tenant, Page::default()).await.unwrap().is_empty());
    }
}

async fn a_tenant_of_any_size_can_be_removed_while_others_work(place: Place) {
    let hosts = [place.store().await, place.store().await];
    let (lease, id) = parked(&hosts[0], "a").await;
    let many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 25000) \
                insert into run (tenant, id, status, model, created_at, updated_at) \
                select 'a', 'run-' || cast(i as text), 'pending', 'm', i, i from n";
    place.sql(many).await;
    let name = tenant("a");
    let (removed, ()) = tokio::join!(hosts[0].delete_tenant(&name), async {
        for _ in 0..20 {
            hosts[1].create(new_run("b")).await.unwrap();
        }
    });
    removed.unwrap();
    assert!(hosts[1].runs(&name, Page::default()).await.unwrap().is_empty());
    assert!(matches!(hosts[1].answer(&name, yes(&id)).await, Err(StoreError::NotFound(_))));
    assert!(matches!(hosts[1].renew(&lease, LEASE).await, Err(StoreError::Fenced)));
    assert!(hosts[1].audit(&name, 0, 10).await.unwrap().is_empty());
    assert_eq!(hosts[1].runs(&tenant("b"), Page::default()).await.unwrap().len(), 20);
}

async fn who_stops_waiting_leaves_nothing_behind(place: Place) {
    // A request that is dropped, at any point, holds no lock and no connection afterwards.
    let store = place.store().await;
    let (lease, _) = parked(&store, "a").await;
    for micros in (0..6_000).step_by(60) {
        let patience = Duration::from_micros(micros);
        let _ = tokio::time::timeout(patience, store.create(new_run("a"))).await;
        let _ = tokio::time::timeout(patience, store.runs(&lease.key.tenant, Page::default())).await;
        let _ = tokio::time::timeout(patience, store.sweep()).await;
    }
    let other = place.store().await;
    for _ in 0..30 {
        let soon = Duration::from_secs(4);
        tokio::time::timeout(soon, other.create(new_run("a"))).await.expect("nobody holds a lock").unwrap();
        tokio::time::timeout(soon, store.create(new_run("a"))).await.expect("a connection is free").unwrap();
    }
    // Whatever was begun is there whole, or not at all.
    let mut page = Page { after: None, limit: 50 };
    loop {
        let runs = store.runs(&lease.key.tenant, page.clone()).await.unwrap();
        let Some(last) = runs.last() else { break };
        page.after = Some(last.key.run.clone());
        for head in runs {
            assert_eq!(store.run(&head.key).await.unwrap().messages.len(), 1);
        }
    }
}

async fn a_store_may_be_opened_by_many_at_once_for_the_first_time(place: Place) {
    let address = place.address();
    let opened = join_all((0..8).map(|_| open_with(&address, Options::default()))).await;
    for store in opened {
        let store = store.unwrap();
        store.create(new_run("a")).await.unwrap();
        store.close().await;
    }
}
