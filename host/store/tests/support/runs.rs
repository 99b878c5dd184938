//! Runs, questions and decisions for tests: a test states only its point.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolcell_agent::{
    Asker, AssistantTurn, CallRequest, Checkpoint, Claimed, Decision, Lease, Message, NewRun, OpenCallRecord, Parked,
    RunKey, RunStatus, RunStore, Slot, Step, StopReason, StoredEnd, StoredRecord, StoredReply, Tenant, Usage,
};
use toolcell_contract::{Answer, Definition, Digest, Request, ToolResult};

pub const LEASE: Duration = Duration::from_secs(60);
pub const FIRST: Slot = Slot { turn: 0, place: 0 };

pub fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

pub fn new_run(name: &str) -> NewRun {
    NewRun {
        key: RunKey::fresh(tenant(name)),
        system: Some("be kind".into()),
        messages: vec![Message::user("go")],
        model: "m".into(),
    }
}

pub fn calls(count: usize) -> StoredReply {
    let call = |n| CallRequest { id: format!("c{n}"), name: "gpu".into(), arguments: format!("{{\"n\":{n}}}") };
    StoredReply {
        turn: AssistantTurn { text: "so".into(), calls: (0..count).map(call).collect(), verbatim: None },
        stop: StopReason::Finished,
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        denied: [("c9".to_owned(), "no".to_owned())].into(),
    }
}

pub fn replied(count: usize) -> Step {
    Step::Replied { turn: 0, reply: Box::new(calls(count)), checkpoint: Checkpoint::default() }
}

pub fn digest(byte: u8) -> Digest {
    Digest::from_bytes([byte; 32])
}

pub fn open(call_id: String, place: u32) -> OpenCallRecord {
    OpenCallRecord {
        call_id,
        call: calls(4).turn.calls[place as usize].clone(),
        tool: Definition {
            name: "gpu".into(),
            title: None,
            description: "uses it".into(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
        },
        digest: Some(digest(7)),
        arguments: json!({"n": place}),
        is_rewritten: false,
        is_edited: false,
        questions: vec![(Asker::Hook, Request::approval("and?").with_id("pnd-later"))],
        spent: Duration::from_millis(3),
        request: Request::approval("Use it?").with_id(Request::fresh_id()),
        guest_id: Some("mine".into()),
        state: Some(vec![0, 255, 7]),
        asker: Asker::Tool,
        rounds: 1,
    }
}

pub fn done(run: &str, slot: Slot) -> Step {
    let call = calls(4).turn.calls[slot.place as usize].clone();
    let record = StoredRecord {
        call_id: slot.call_id(run),
        call,
        replaced_arguments: None,
        result: ToolResult::ok("done"),
        code: None,
        duration: Duration::from_millis(5),
    };
    Step::Finished { slot, record: Box::new(record) }
}

pub fn ended(status: RunStatus) -> Step {
    Step::Ended { end: StoredEnd { status, text: "all".into(), limit: None, error: None } }
}

/// A run that was claimed and whose model has asked for some calls.
pub async fn started(store: &Arc<dyn RunStore>, name: &str, count: usize) -> Lease {
    let run = new_run(name);
    store.create(run.clone()).await.unwrap();
    let Claimed { lease, .. } = store.claim("w", LEASE, Some(&run.key)).await.unwrap().unwrap();
    store.write(&lease, replied(count)).await.unwrap();
    lease
}

/// Lets a call of a run wait, and gives the id of its question.
pub async fn suspend(store: &Arc<dyn RunStore>, lease: &Lease, place: u32) -> String {
    let slot = Slot { turn: 0, place };
    let open = open(slot.call_id(&lease.key.run), place);
    let id = open.request.id.clone();
    store.write(lease, Step::Executing { slot }).await.unwrap();
    store.write(lease, Step::Suspended { slot, open: Box::new(open) }).await.unwrap();
    id
}

/// A run that waits with one question.
pub async fn parked(store: &Arc<dyn RunStore>, name: &str) -> (Lease, String) {
    let lease = started(store, name, 1).await;
    let id = suspend(store, &lease, 0).await;
    assert_eq!(store.park(&lease).await.unwrap(), Parked::Parked);
    (lease, id)
}

pub fn yes(id: &str) -> Decision {
    Decision { by: Some("ada".into()), ..Answer::approve(id).into() }
}

pub fn no(id: &str) -> Decision {
    Answer::decline(id, "declined").into()
}
