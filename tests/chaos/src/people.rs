//! Two people who race for every answer, each through a connection of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use toolcell_agent::{Desk, DeskError, Page, RunKey, RunStore, StoredStatus, Tenant};
use toolcell_contract::Answer;

use crate::random;

/// What the two were told.
#[derive(Debug, Default)]
pub struct Seen {
    /// By question: what counts, as each of them was told.
    pub decisions: BTreeMap<String, Vec<bool>>,
    /// Answers that came too late.
    pub conflicts: usize,
    /// Runs that have not ended.
    left: BTreeSet<RunKey>,
}

/// The two.
pub struct People {
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for People {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl People {
    /// Looks at what they have seen.
    pub fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether every run has ended.
    pub fn have_seen_all_end(&self) -> bool {
        self.left() == 0
    }

    /// Runs that have not ended.
    pub fn left(&self) -> usize {
        self.look(|seen| seen.left.len())
    }

    /// Some of them.
    pub fn some_left(&self) -> Vec<RunKey> {
        self.look(|seen| seen.left.iter().take(3).cloned().collect())
    }
}

/// Lets the two begin.
pub async fn race(store: &str, keys: &[RunKey]) -> anyhow::Result<People> {
    let seen = Arc::new(Mutex::new(Seen { left: keys.iter().cloned().collect(), ..Seen::default() }));
    let tenants: BTreeSet<_> = keys.iter().map(|key| key.tenant.clone()).collect();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let store = toolcell_store::open(store).await?;
        tasks.push(tokio::spawn(person(store, tenants.clone(), Arc::clone(&seen))));
    }
    let store = toolcell_store::open(store).await?;
    tasks.push(tokio::spawn(watch(store, Arc::clone(&seen))));
    Ok(People { seen, tasks })
}

/// Answers whatever is open, yes or no as it comes.
async fn person(store: Arc<dyn RunStore>, tenants: BTreeSet<Tenant>, seen: Arc<Mutex<Seen>>) {
    loop {
        for tenant in &tenants {
            let desk = Desk::new(Arc::clone(&store), tenant.clone());
            // A store that is away is there again some time.
            for question in desk.questions(Page { after: None, limit: 20 }).await.unwrap_or_default() {
                let id = question.question.request.id;
                let ok = random(4) > 0;
                let answer = if ok { Answer::approve(&id) } else { Answer::decline(&id, "declined") };
                let counts = match desk.decide(answer.into()).await {
                    Ok(_) => ok,
                    Err(DeskError::Conflict(other)) => {
                        seen.lock().unwrap_or_else(PoisonError::into_inner).conflicts += 1;
                        other.answer.ok
                    }
                    Err(_) => continue,
                };
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.decisions.entry(id).or_default().push(counts);
            }
        }
        tokio::time::sleep(Duration::from_millis(5 + random(20))).await;
    }
}

/// Looks which runs have ended.
async fn watch(store: Arc<dyn RunStore>, seen: Arc<Mutex<Seen>>) {
    loop {
        let left: Vec<_> = seen.lock().unwrap_or_else(PoisonError::into_inner).left.iter().cloned().collect();
        for key in left {
            let ended = store.run(&key).await.is_ok_and(|run| matches!(run.head.status, StoredStatus::Ended(_)));
            if ended {
                seen.lock().unwrap_or_else(PoisonError::into_inner).left.remove(&key);
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
