//! What a call knows about itself, and the way to suspend it.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use serde_json::Value;
use toolcell_contract::{Answer, Request, ToolResult};

/// What a call knows about itself. A tool that wants it has a parameter `context: &Context` (or `Context`); the
/// model sees nothing of it.
///
/// A call that needs somebody's answer does not wait: it returns a question, its instance is dropped, and after the
/// answer the same function runs again from the start with the same arguments.
///
/// ```
/// use toolcell_guest::{Answer, Context, Request, ToolResult, testing, tool};
///
/// /// Deletes every file of a project.
/// #[tool(destructive)]
/// fn delete_project(project: String, context: &Context) -> ToolResult {
///     match context.answer() {
///         None => context.suspend(Request::approval(format!("Delete {project}?")), "asked once"),
///         Some(_) => ToolResult::ok(format!("{project} is gone")),
///     }
/// }
///
/// let first = testing::first_call();
/// let asked = delete_project("demo".into(), &first);
/// assert_eq!(asked.pending_of().unwrap().prompt, "Delete demo?");
///
/// let retry = testing::retry(&first, Answer::approve("pnd-1"));
/// assert_eq!(retry.state(), Some(&b"asked once"[..]));
/// assert_eq!(delete_project("demo".into(), &retry), ToolResult::ok("demo is gone"));
/// ```
#[derive(Debug, Clone)]
pub struct Context(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    call_id: String,
    deadline_ms: u64,
    given: Option<GivenAnswer>,
    answer: OnceCell<Answer>,
    state: Option<Vec<u8>>,
    next_state: RefCell<Option<Vec<u8>>>,
}

/// An answer as it comes over the wall; its data are read when a tool looks at them.
#[derive(Debug)]
pub(crate) struct GivenAnswer {
    pub(crate) id: String,
    pub(crate) ok: bool,
    pub(crate) data: Option<String>,
    pub(crate) reason: Option<String>,
}

impl Context {
    pub(crate) fn new(call_id: String, deadline_ms: u64, given: Option<GivenAnswer>, state: Option<Vec<u8>>) -> Self {
        let (answer, next_state) = (OnceCell::new(), RefCell::new(None));
        Self(Rc::new(Inner { call_id, deadline_ms, given, answer, state, next_state }))
    }

    /// The same on every retry of this call: an idempotency key for the systems that the tool changes.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.0.call_id
    }

    /// The time that this execution had left when it began, in milliseconds.
    #[must_use]
    pub fn deadline_ms(&self) -> u64 {
        self.0.deadline_ms
    }

    /// The answer, when this is the retry after a suspension.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        let given = self.0.given.as_ref()?;
        Some(self.0.answer.get_or_init(|| Answer {
            id: given.id.clone(),
            ok: given.ok,
            // The host writes an object; anything else could only be its mistake, and is no data.
            data: given.data.as_ref().and_then(|text| serde_json::from_str(text).ok()),
            reason: given.reason.clone(),
        }))
    }

    /// A text of the answer's data. `None` when there is no answer, no such key, or something else than a text.
    #[must_use]
    pub fn answer_text(&self, key: &str) -> Option<&str> {
        self.answer()?.data.as_ref()?.get(key).and_then(Value::as_str)
    }

    /// The state that the suspension left, when this is the retry after one.
    #[must_use]
    pub fn state(&self) -> Option<&[u8]> {
        self.0.state.as_deref()
    }

    /// Suspends the call: the returned result has to be what the function returns. `state` is private to the tool
    /// (at most 64 KiB) and comes back on the retry; without state, [`ToolResult::pending`] does the same.
    #[must_use = "the call is suspended by returning this result"]
    pub fn suspend(&self, request: Request, state: impl Into<Vec<u8>>) -> ToolResult {
        self.0.next_state.replace(Some(state.into()));
        ToolResult::pending(request)
    }

    /// The state that [`Context::suspend`] was given.
    pub(crate) fn next_state(&self) -> Option<Vec<u8>> {
        self.0.next_state.borrow().clone()
    }
}
