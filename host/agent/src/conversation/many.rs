//! Many conversations, found by their ids.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Conversation;

/// Conversations that are kept by default. Each has its whole history in memory; who needs more keeps some of them elsewhere.
pub const CONVERSATIONS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Many conversations, found by their ids. They live as long as this does, or until they are removed. Its clones are the
/// same conversations.
#[derive(Debug, Clone)]
pub struct Conversations {
    max: NonZeroUsize,
    by_id: Arc<Mutex<HashMap<String, Conversation>>>,
}

/// Why a conversation is not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAdded {
    /// There are too many already.
    #[error("{0} conversations are kept already; remove one first")]
    Full(NonZeroUsize),
    /// Another has the same id.
    #[error("there is a conversation \"{0}\" already")]
    Taken(String),
}

impl Default for Conversations {
    /// At most [`CONVERSATIONS_MAX`].
    fn default() -> Self {
        Self::at_most(CONVERSATIONS_MAX)
    }
}

impl Conversations {
    /// At most so many.
    #[must_use]
    pub fn at_most(max: NonZeroUsize) -> Self {
        Self { max, by_id: Arc::default() }
    }

    /// Keeps a conversation, and gives its id.
    ///
    /// # Errors
    /// [`NotAdded`] when there are too many, or another has its id.
    pub fn add(&self, conversation: Conversation) -> Result<String, NotAdded> {
        let id = conversation.id().to_owned();
        let mut by_id = self.by_id();
        let is_full = by_id.len() >= self.max.get();
        match by_id.entry(id.clone()) {
            Entry::Occupied(_) => Err(NotAdded::Taken(id)),
            Entry::Vacant(_) if is_full => Err(NotAdded::Full(self.max)),
            Entry::Vacant(place) => {
                place.insert(conversation);
                Ok(id)
            }
        }
    }

    /// The conversation of that id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Conversation> {
        self.by_id().get(id).cloned()
    }

    /// Forgets a conversation. Those who hold it may go on with it.
    pub fn remove(&self, id: &str) -> Option<Conversation> {
        self.by_id().remove(id)
    }

    fn by_id(&self) -> MutexGuard<'_, HashMap<String, Conversation>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
