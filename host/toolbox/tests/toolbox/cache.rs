//! The second start, and what happens to it when somebody was at the cache.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use toolcell_agent::Catalog;
use toolcell_contract::Definition;
use toolcell_sandbox::{Config, Sandbox};
use toolcell_toolbox::{CachePlace, LoadReport, Options, Toolbox};

use crate::guest::{COUNT, Guest, answering, tool};
use crate::support::{Place, call, codes, find, names};

/// Compiled, and taken from the cache.
fn counts(report: &LoadReport) -> (usize, usize) {
    (report.compiled, report.from_cache)
}

fn two_tools() -> Place {
    let place = Place::new();
    place.put("a.wasm", answering("one", "first"));
    place.put("b.wasm", answering("two", "second"));
    place
}

/// Starts again: what came from where. Both tools must work whatever happened to the cache.
async fn start_again(place: &Place) -> (usize, usize) {
    let toolbox = place.start().await;
    assert_eq!(call(&toolbox, find(&toolbox, "one")).await, "first");
    assert_eq!(call(&toolbox, find(&toolbox, "two")).await, "second");
    counts(&toolbox.last_report())
}

fn definitions(toolbox: &Toolbox) -> Vec<Definition> {
    toolbox.tools().iter().map(|tool| tool.definition.clone()).collect()
}

#[tokio::test]
async fn a_second_start_compiles_nothing() {
    let place = two_tools();
    let first = place.start().await;
    assert_eq!(counts(&first.last_report()), (2, 0));
    assert_eq!(start_again(&place).await, (0, 2));
    let second = place.start().await;
    assert_eq!(definitions(&second), definitions(&first));
    let described = |toolbox: &Toolbox| -> Vec<_> {
        toolbox.components().iter().map(|file| (file.digest(), file.size(), file.imports().to_vec())).collect()
    };
    assert_eq!(described(&second), described(&first));
}

#[tokio::test]
async fn a_second_start_does_not_even_ask_for_the_list() {
    let place = Place::new();
    place.put("a.wasm", Guest { tools: vec![tool("one")], before_list: COUNT, ..Guest::default() }.build());
    place.start().await;

    let hasty = || Sandbox::new(Config { list_ms_max: 1, worker_threads: 1, ..Config::default() }).unwrap();
    let open = |cache| Toolbox::open(place.tools(), hasty(), Options { cache, ..Options::default() });
    assert_eq!(codes(&open(CachePlace::Off).await.unwrap()), [("a.wasm".to_owned(), "list-timeout")]);
    let toolbox = open(CachePlace::At(place.cache())).await.unwrap();
    assert_eq!((counts(&toolbox.last_report()), names(&toolbox)), ((0, 1), vec!["one".to_owned()]));
}

#[tokio::test]
async fn without_a_cache_everything_is_compiled_again() {
    let place = two_tools();
    assert_eq!(counts(&place.open().await.last_report()), (2, 0));
    assert_eq!(counts(&place.open().await.last_report()), (2, 0));
    assert!(!place.cache().exists());
}

#[tokio::test]
async fn a_bad_component_leaves_nothing_in_the_cache() {
    let place = Place::new();
    place.put("a.wasm", Guest { tools: vec![tool("bash")], ..Guest::default() }.build());
    place.put("b.wasm", Guest { tools: vec![tool("x")], before_list: "unreachable", ..Guest::default() }.build());
    place.start().await;
    assert_eq!(place.entries(), [] as [std::path::PathBuf; 0]);
}

#[tokio::test]
async fn an_entry_with_a_flipped_byte_is_built_anew() {
    let place = two_tools();
    place.start().await;
    let entry = &place.entries()[0];
    let good = fs::read(entry).unwrap();
    for at in [0, 20, 60, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(entry, bad).unwrap();
        assert_eq!(start_again(&place).await, (1, 1), "byte {at}");
        assert_eq!(start_again(&place).await, (0, 2), "byte {at}, mended");
    }
}

#[tokio::test]
async fn a_truncated_entry_is_built_anew() {
    let place = two_tools();
    place.start().await;
    let entry = &place.entries()[0];
    let good = fs::read(entry).unwrap();
    for length in [0, 10, 100, good.len() - 1] {
        fs::write(entry, &good[..length]).unwrap();
        assert_eq!(start_again(&place).await, (1, 1), "{length} bytes");
    }
}

#[tokio::test]
async fn swapped_entries_are_built_anew() {
    let place = two_tools();
    place.start().await;
    let entries = place.entries();
    let (one, two) = (fs::read(&entries[0]).unwrap(), fs::read(&entries[1]).unwrap());
    fs::write(&entries[0], two).unwrap();
    fs::write(&entries[1], one).unwrap();
    assert_eq!(start_again(&place).await, (2, 0));
}

#[tokio::test]
async fn entries_of_another_host_are_built_anew() {
    let (place, other) = (two_tools(), two_tools());
    place.start().await;
    other.start().await;
    for (own, foreign) in place.entries().iter().zip(other.entries()) {
        fs::copy(foreign, own).unwrap();
    }
    assert_eq!(start_again(&place).await, (2, 0));
}

#[tokio::test]
async fn a_cache_that_is_open_to_others_is_not_used_and_said_so() {
    let place = two_tools();
    place.start().await;
    fs::set_permissions(place.cache(), fs::Permissions::from_mode(0o755)).unwrap();
    let toolbox = place.start().await;
    assert_eq!((counts(&toolbox.last_report()), names(&toolbox).len()), ((2, 0), 2));
    let warnings: Vec<_> = toolbox.last_report().warnings.iter().map(ToString::to_string).collect();
    let text = format!(
        "compiled code is not kept, because the cache {} is not used: others may use it (mode 0755): run chmod 700 on it",
        place.cache().display()
    );
    assert_eq!(warnings, [text]);
}

#[tokio::test]
async fn a_cache_that_cannot_be_made_is_not_used_and_said_so() {
    let place = two_tools();
    fs::write(place.cache(), "a file").unwrap();
    let toolbox = place.start().await;
    assert_eq!((names(&toolbox).len(), toolbox.last_report().warnings.len()), (2, 1));
}

#[tokio::test]
async fn toolboxes_that_start_at_once_share_a_cache() {
    let place = two_tools();
    let started = futures::future::join_all((0..4).map(|_| place.start())).await;
    for toolbox in &started {
        assert_eq!(call(toolbox, find(toolbox, "one")).await, "first");
        assert_eq!(toolbox.last_report().warnings.len(), 0);
    }
    assert_eq!(place.entries().len(), 2);
    assert_eq!(start_again(&place).await, (0, 2));
}
