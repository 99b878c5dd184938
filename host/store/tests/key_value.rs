//! What tools note down, on each kind of store: versions, limits, order, and that nobody sees what is another's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use futures::future::join_all;
use support::{Place, on_every_store};
use toolcell_store::{KeySpace, KeySpaceLimits, KeyWritten};

on_every_store! {
    a_write_counts_only_if_the_version_is_the_expected_one,
    a_space_takes_what_it_may_hold_and_not_one_byte_more,
    what_is_written_is_there_for_another_host,
    a_space_is_of_one_tenant_and_one_component,
    keys_come_in_pages_in_the_order_of_their_bytes,
    of_all_who_write_a_version_at_the_same_time_one_wins,
    what_a_tenant_has_noted_goes_with_the_tenant,
}

const WIDE: KeySpaceLimits = KeySpaceLimits { keys_max: 10_000, bytes_max: 1 << 20 };

fn space(tenant: &str, component: &str) -> KeySpace {
    KeySpace { tenant: tenant.parse().unwrap(), component: component.into() }
}

async fn a_write_counts_only_if_the_version_is_the_expected_one(place: Place) {
    let (store, of) = (place.open().await, space("a", "notes"));
    let write = async |value: u8, expected| store.write_key(&of, "k", &[value], expected, WIDE).await.unwrap();
    assert_eq!(write(1, Some(3)).await, KeyWritten::Conflict);
    assert_eq!(write(1, Some(0)).await, KeyWritten::At(1));
    assert_eq!(write(2, Some(0)).await, KeyWritten::Conflict);
    assert_eq!(write(3, Some(1)).await, KeyWritten::At(2));
    assert_eq!(store.read_key(&of, "k").await.unwrap(), Some((vec![3], 2)));
    store.remove_key(&of, "k").await.unwrap();
    store.remove_key(&of, "k").await.unwrap();
    assert_eq!(store.read_key(&of, "k").await.unwrap(), None);
    assert_eq!(write(4, Some(2)).await, KeyWritten::Conflict);
    assert_eq!(write(4, None).await, KeyWritten::At(3), "versions grow on");
}

async fn a_space_takes_what_it_may_hold_and_not_one_byte_more(place: Place) {
    let (store, of) = (place.open().await, space("a", "notes"));
    let limits = KeySpaceLimits { keys_max: 2, bytes_max: 22 };
    let write = async |key: &str, bytes| store.write_key(&of, key, &vec![0; bytes], None, limits).await.unwrap();
    assert_eq!(write("a", 10).await, KeyWritten::At(1));
    assert_eq!(write("b", 11).await, KeyWritten::Full { keys: 2, bytes: 23 });
    assert_eq!(write("b", 10).await, KeyWritten::At(2));
    assert_eq!(write("c", 0).await, KeyWritten::Full { keys: 3, bytes: 23 });
    assert_eq!(write("a", 9).await, KeyWritten::At(3), "less than before");
    store.remove_key(&of, "a").await.unwrap();
    assert_eq!(write("c", 10).await, KeyWritten::At(4), "what is removed is free");
}

async fn what_is_written_is_there_for_another_host(place: Place) {
    let of = space("a", "notes");
    let written = place.open().await.write_key(&of, "last", &[0, 255, 7], None, WIDE).await.unwrap();
    assert_eq!(written, KeyWritten::At(1));
    assert_eq!(place.open().await.read_key(&of, "last").await.unwrap(), Some((vec![0, 255, 7], 1)));
}

async fn a_space_is_of_one_tenant_and_one_component(place: Place) {
    let (store, of) = (place.open().await, space("a", "notes"));
    store.write_key(&of, "k", b"private", None, WIDE).await.unwrap();
    for other in [space("b", "notes"), space("a", "other")] {
        assert_eq!(store.read_key(&other, "k").await.unwrap(), None, "{other:?}");
        assert!(store.list_keys(&other, "", None, 10).await.unwrap().is_empty(), "{other:?}");
        store.remove_key(&other, "k").await.unwrap();
        assert_eq!(store.write_key(&other, "k", b"mine", Some(0), WIDE).await.unwrap(), KeyWritten::At(1));
    }
    assert_eq!(store.read_key(&of, "k").await.unwrap(), Some((b"private".to_vec(), 1)));
}

async fn keys_come_in_pages_in_the_order_of_their_bytes(place: Place) {
    let (store, of) = (place.open().await, space("a", "notes"));
    // A database's own order would put them otherwise.
    let names = ["B", "a", "a b", "a-b", "aa", "b", "Å", "\u{10ffff}"];
    for name in names {
        store.write_key(&of, name, &[1], None, WIDE).await.unwrap();
    }
    let list =
        async |prefix: &str, after: Option<&str>, count| store.list_keys(&of, prefix, after, count).await.unwrap();
    assert_eq!(list("", None, 100).await, names);
    assert_eq!(list("a", None, 2).await, ["a", "a b"]);
    assert_eq!(list("a", Some("a b"), 2).await, ["a-b", "aa"]);
    assert_eq!(list("a", Some("aa"), 2).await, [""; 0]);
}

async fn of_all_who_write_a_version_at_the_same_time_one_wins(place: Place) {
    let (store, of) = (place.open().await, space("a", "notes"));
    for round in 0..10 {
        let writers = (0..8).map(|n| {
            let (store, of) = (store.clone(), of.clone());
            tokio::spawn(async move { store.write_key(&of, "k", &[n], Some(round), WIDE).await.unwrap() })
        });
        let came: Vec<_> = join_all(writers).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(came.iter().filter(|came| **came == KeyWritten::At(round + 1)).count(), 1, "{came:?}");
        assert_eq!(came.iter().filter(|came| **came == KeyWritten::Conflict).count(), 7, "{came:?}");
    }
}

async fn what_a_tenant_has_noted_goes_with_the_tenant(place: Place) {
    use toolcell_agent::RunStore as _;
    let (store, of) = (place.open().await, space("a", "notes"));
    store.write_key(&of, "k", &[1], None, WIDE).await.unwrap();
    store.delete_tenant(&of.tenant).await.unwrap();
    assert_eq!(store.read_key(&of, "k").await.unwrap(), None);
    assert_eq!(store.write_key(&of, "k", &[1], Some(0), WIDE).await.unwrap(), KeyWritten::At(1), "it begins anew");
}
