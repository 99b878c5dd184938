//! What a reload puts into use, what it keeps, and what calls see of it.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use toolcell_agent::{Catalog, Observer, Progress};
use toolcell_toolbox::{LoadReport, Toolbox};

use crate::guest::{Guest, answering, offering, tool};
use crate::support::{Place, call, call_observed, codes, find, names};

/// Compiled, unchanged, and whether the tools are others.
async fn reload(toolbox: &Toolbox) -> (usize, usize, bool) {
    let LoadReport { compiled, unchanged, changed, .. } = toolbox.reload().await.unwrap();
    (compiled, unchanged, changed)
}

async fn call_by_name(toolbox: &Toolbox, name: &str) -> String {
    call(toolbox, find(toolbox, name)).await
}

#[tokio::test]
async fn what_did_not_change_is_not_loaded_again() {
    let place = Place::new();
    place.put("a.wasm", answering("one", "v1"));
    let toolbox = place.open().await;
    assert_eq!(reload(&toolbox).await, (0, 1, false));
    place.put("a.wasm", answering("one", "v1"));
    assert_eq!(reload(&toolbox).await, (0, 1, false));
    std::fs::rename(place.file("a.wasm"), place.file("b.wasm")).unwrap();
    assert_eq!(reload(&toolbox).await, (0, 1, false));
    assert_eq!(toolbox.components()[0].file(), "b.wasm");
}

#[tokio::test]
async fn a_new_file_adds_its_tools() {
    let place = Place::new();
    let toolbox = place.open().await;
    place.put("a.wasm", answering("one", "v1"));
    assert_eq!(reload(&toolbox).await, (1, 0, true));
    assert_eq!(call_by_name(&toolbox, "one").await, "v1");
}

#[tokio::test]
async fn a_replaced_file_takes_effect_for_tools_that_are_taken_afterwards() {
    let place = Place::new();
    place.put("a.wasm", answering("one", "v1"));
    let toolbox = place.open().await;
    let held = find(&toolbox, "one");
    place.put("a.wasm", answering("one", "v2"));
    assert_eq!(reload(&toolbox).await, (1, 0, true));
    assert_eq!(call_by_name(&toolbox, "one").await, "v2");
    assert_eq!(call(&toolbox, held.clone()).await, "v1", "the tool that was taken before keeps its code");

    place.put("a.wasm", answering("one", "v3"));
    reload(&toolbox).await;
    assert_eq!((call(&toolbox, held).await, call_by_name(&toolbox, "one").await), ("v1".into(), "v3".into()));
}

#[tokio::test]
async fn replaced_code_that_nobody_holds_is_let_go() {
    let place = Place::new();
    place.put("a.wasm", answering("one", "v1"));
    let toolbox = place.open().await;
    let held = find(&toolbox, "one");
    // The same tool, told of in a record, does not keep the code.
    let told = toolcell_agent::Tool::new(held.definition.clone(), held.digest).unwrap();
    place.put("a.wasm", answering("one", "v2"));
    reload(&toolbox).await;
    drop(held);
    reload(&toolbox).await;
    assert_eq!(call(&toolbox, Arc::new(told)).await, "tool-changed");
}

#[tokio::test]
async fn replaced_code_that_nobody_holds_is_let_go_by_the_reload_that_replaces_it() {
    let place = Place::new();
    place.put("a.wasm", answering("one", "v1"));
    let toolbox = place.open().await;
    let offered = find(&toolbox, "one");
    let told = toolcell_agent::Tool::new(offered.definition.clone(), offered.digest).unwrap();
    drop(offered);
    place.put("a.wasm", answering("one", "v2"));
    reload(&toolbox).await;
    assert_eq!(call(&toolbox, Arc::new(told)).await, "tool-changed");
}

#[tokio::test]
async fn a_running_call_ends_on_the_old_code() {
    let place = Place::new();
    let slow = Guest { tools: vec![tool("one")], text: "v1".into(), is_slow: true, ..Guest::default() };
    place.put("a.wasm", slow.build());
    let toolbox = place.open().await;
    let (started, has_started) = oneshot::channel();
    let running = tokio::spawn({
        let (toolbox, tool) = (toolbox.clone(), find(&toolbox, "one"));
        async move { call_observed(&toolbox, tool, Arc::new(Once(Mutex::new(Some(started))))).await }
    });
    has_started.await.unwrap();
    place.remove("a.wasm");
    reload(&toolbox).await;
    assert_eq!(names(&toolbox), [] as [&str; 0]);
    assert_eq!(running.await.unwrap(), "v1");
}

/// Says once that the call runs.
struct Once(Mutex<Option<oneshot::Sender<()>>>);

impl Observer for Once {
    fn progress(&self, _: Progress) {
        if let Some(started) = self.0.lock().unwrap().take() {
            started.send(()).unwrap();
        }
    }
}

#[tokio::test]
async fn a_removed_file_takes_its_tools_away_also_from_those_who_hold_them() {
    let place = Place::new();
    place.put("a.wasm", answering("one", "v1"));
    let toolbox = place.open().await;
    let first = find(&toolbox, "one");
    place.put("a.wasm", answering("one", "v2"));
    reload(&toolbox).await;
    let second = find(&toolbox, "one");
    place.remove("a.wasm");
    assert_eq!(reload(&toolbox).await, (0, 0, true));
    assert_eq!(names(&toolbox), [] as [&str; 0]);
    assert_eq!(call(&toolbox, first).await, "tool-unavailable");
    assert_eq!(call(&toolbox, second).await, "tool-unavailable");
}

#[tokio::test]
async fn a_broken_file_leaves_its_last_good_version_in_use_and_is_reported() {
    let place = Place::new();
    let good = answering("one", "v1");
    place.put("a.wasm", &good);
    let toolbox = place.open().await;
    let digest = toolbox.components()[0].digest();
    for _ in 0..2 {
        place.put("a.wasm", &good[..100]);
        assert_eq!(reload(&toolbox).await, (0, 0, false));
        let rejected = &toolbox.rejected()[0];
        assert_eq!((rejected.code, rejected.kept), ("not-a-component", Some(digest)));
        assert_eq!(toolbox.components().iter().map(|f| f.is_outdated()).collect::<Vec<_>>(), [true]);
        assert_eq!(call_by_name(&toolbox, "one").await, "v1");
    }
    place.put("a.wasm", answering("one", "v2"));
    assert_eq!(reload(&toolbox).await, (1, 0, true));
    assert_eq!((codes(&toolbox), toolbox.components()[0].is_outdated()), (vec![], false));
    assert_eq!(call_by_name(&toolbox, "one").await, "v2");
}

#[tokio::test]
async fn a_link_in_place_of_a_file_leaves_its_last_good_version_in_use() {
    let place = Place::new();
    place.put("a.wasm", answering("one", "v1"));
    place.put("other", answering("one", "v2"));
    let toolbox = place.open().await;
    place.remove("a.wasm");
    std::os::unix::fs::symlink(place.file("other"), place.file("a.wasm")).unwrap();
    assert_eq!(reload(&toolbox).await, (0, 0, false));
    assert_eq!(codes(&toolbox), [("a.wasm".to_owned(), "not-a-file")]);
    assert_eq!(call_by_name(&toolbox, "one").await, "v1");
}

#[tokio::test]
async fn a_last_good_version_gives_way_to_a_file_with_the_same_content() {
    let place = Place::new();
    let good = answering("one", "v1");
    place.put("a.wasm", &good);
    let toolbox = place.open().await;
    place.put("a.wasm", "broken");
    place.put("b.wasm", &good);
    reload(&toolbox).await;
    assert_eq!(codes(&toolbox), [("a.wasm".to_owned(), "not-a-component")]);
    assert_eq!(toolbox.components().iter().map(|f| f.file()).collect::<Vec<_>>(), ["b.wasm"]);
    assert_eq!(toolbox.rejected()[0].kept, None);
}

#[tokio::test]
async fn a_directory_that_is_gone_leaves_everything_in_use() {
    let place = Place::new();
    place.put("a.wasm", answering("one", "v1"));
    let toolbox = place.open().await;
    std::fs::rename(place.tools(), place.cache()).unwrap();
    assert!(toolbox.reload().await.is_err());
    assert_eq!(call_by_name(&toolbox, "one").await, "v1");
}

#[tokio::test]
async fn a_broken_file_stays_reported_while_it_stays_the_same() {
    let place = Place::new();
    place.put("a.wasm", offering(vec![tool("bash")]));
    let toolbox = place.open().await;
    let first = toolbox.rejected();
    assert_eq!(first[0].code, "reserved-name");
    assert_eq!(reload(&toolbox).await, (0, 0, false));
    assert_eq!(toolbox.rejected(), first);
}

#[tokio::test]
async fn a_tool_of_another_catalogue_is_unknown() {
    let place = Place::new();
    place.put("a.wasm", answering("one", "v1"));
    let toolbox = place.open().await;
    let own = find(&toolbox, "one");
    let host = toolcell_agent::Tool::new(own.definition.clone(), None).unwrap();
    assert_eq!(call(&toolbox, Arc::new(host)).await, "unknown-tool");
    let mut definition = own.definition.clone();
    definition.name = "other".into();
    let other = toolcell_agent::Tool::new(definition, own.digest).unwrap();
    assert_eq!(call(&toolbox, Arc::new(other)).await, "unknown-tool");
    assert_eq!(toolbox.tools().len(), 1);
}
