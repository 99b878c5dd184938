//! Tools that are part of the program itself, beside components and behind the same trait.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use time::OffsetDateTime;
use toolcell_agent::{Call, Catalog, Execution, Observer, SchemaError, Tool};
use toolcell_contract::accept::{self, Violation};
use toolcell_contract::{
    Annotations, CallContext, Definition, Digest, Failure, FailureCode, NameError, Outcome, Request, ToolResult,
    check_tool_name,
};

/// What a type says about arguments that do not fit it may quote them; a long text says no more than its beginning.
const ERROR_CHARS_MAX: usize = 300;

/// A tool that is a Rust function of this program. It runs outside every sandbox, with all powers of the program.
///
/// Its arguments are a type of your own: the schema that the model sees comes from the type, and what does not fit it
/// never reaches the function. It returns a [`ToolResult`], or a [`NativeResult`] where it leaves a state for itself. A
/// result made with [`ToolResult::pending`] suspends the call like that of a component: the function runs again with the
/// answer in its [`CallContext`]. Results and questions are held to the rules for components
/// ([`toolcell_contract::accept`]); one that breaks a rule is the error `bad-output` or `output-too-large`.
///
/// Clones are the same tool, and two that are made alike are not: what was approved on one never runs on another, and the
/// call ends as `tool-changed`. So make a tool once, and give its clones to every [`crate::Host`] of the program.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use toolcell::NativeTool;
/// use toolcell::contract::{CallContext, ToolResult};
///
/// /// Where and when.
/// #[derive(Deserialize, JsonSchema)]
/// struct Place {
///     /// A city.
///     city: String,
/// }
///
/// let weather = NativeTool::new("weather", "Tells the weather.", |place: Place, _context: CallContext| async move {
///     ToolResult::ok(format!("It is sunny in {}.", place.city))
/// })?;
/// assert_eq!(weather.definition().input_schema["required"][0], "city");
/// # Ok::<(), toolcell::NativeToolError>(())
/// ```
#[derive(Clone)]
pub struct NativeTool {
    tool: Arc<Tool>,
    body: Arc<Body>,
}

type Body = dyn Fn(String, CallContext) -> BoxFuture<'static, Outcome> + Send + Sync;

/// What a [`NativeTool`] returns: a [`ToolResult`], or a question with a state that is given back on the retry.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use toolcell::contract::{CallContext, Request, ToolResult};
/// use toolcell::{NativeResult, NativeTool};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Order {
///     item: String,
/// }
///
/// /// Buys at the price that was shown to the person, not at the one of a week later.
/// async fn buy(order: Order, call: CallContext) -> NativeResult {
///     match call.state {
///         None => NativeResult::suspend(Request::approval(format!("Buy {} for 40 EUR?", order.item)), "40"),
///         Some(price) => ToolResult::ok(format!("bought for {} EUR", String::from_utf8_lossy(&price))).into(),
///     }
/// }
///
/// NativeTool::new("buy", "Buys something.", buy)?;
/// # Ok::<(), toolcell::NativeToolError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NativeResult(Returned);

#[derive(Debug, Clone, PartialEq)]
enum Returned {
    Result(ToolResult),
    Question(Request, Vec<u8>),
}

impl NativeResult {
    /// Suspends the call. `state` is private to the tool, at most [`toolcell_contract::limits::STATE_BYTES_MAX`] bytes,
    /// and comes back as [`CallContext::state`] on the retry. Without a state [`ToolResult::pending`] does the same.
    #[must_use]
    pub fn suspend(request: Request, state: impl Into<Vec<u8>>) -> Self {
        Self(Returned::Question(request, state.into()))
    }

    fn accepted(self, now: OffsetDateTime) -> Result<Outcome, Violation> {
        match self.0 {
            Returned::Result(result) => accept::outcome(result, now),
            Returned::Question(request, state) => accept::suspension(request, Some(state), now).map(Outcome::Suspended),
        }
    }
}

impl From<ToolResult> for NativeResult {
    fn from(result: ToolResult) -> Self {
        Self(Returned::Result(result))
    }
}

/// Why a function cannot be a tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeToolError {
    /// Its name cannot stand in a request to a model.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The schema of its arguments cannot be used.
    #[error("the arguments of the tool \"{tool}\" have no usable schema: {source}")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong.
        source: SchemaError,
    },
}

impl NativeTool {
    /// Makes a tool of an async function. `A` is best a struct whose fields have doc comments: the model reads them.
    ///
    /// # Errors
    /// [`NativeToolError`] when the name or the type's schema cannot be used.
    pub fn new<A, F, Fut>(name: &str, description: &str, body: F) -> Result<Self, NativeToolError>
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A, CallContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: Into<NativeResult>> + Send + 'static,
    {
        check_tool_name(name)?;
        let definition = Definition {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: schemars::schema_for!(A).to_value(),
            output_schema: None,
            annotations: None,
        };
        let body = move |arguments: String, context: CallContext| match serde_json::from_str(&arguments) {
            Ok(arguments) => body(arguments, context).map(|result| outcome(result.into())).boxed(),
            // The type asks for more than its schema says.
            Err(error) => {
                let detail: String = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
                ready(Outcome::Failed(Failure::with_detail(FailureCode::InvalidArguments, detail))).boxed()
            }
        };
        let tool =
            Tool::new(definition, None).map_err(|source| NativeToolError::Schema { tool: name.to_owned(), source })?;
        Ok(Self { tool: Arc::new(tool), body: Arc::new(body) })
    }

    /// The same tool with what it says about its effects.
    #[must_use]
    pub fn with_annotations(self, annotations: Annotations) -> Self {
        let Tool { definition, digest, schema } = self.tool.as_ref();
        let definition = Definition { annotations: Some(annotations), ..definition.clone() };
        let tool = Tool { definition, digest: *digest, schema: schema.clone() };
        Self { tool: Arc::new(tool), ..self }
    }

    /// Its name, description and schema.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.tool.definition
    }

    async fn run(&self, call: Call) -> Execution {
        let start = Instant::now();
        let run = async { (self.body)(call.arguments, call.context).await };
        let ended = AssertUnwindSafe(run).catch_unwind().await;
        let outcome = ended.unwrap_or_else(|_panic| Outcome::Failed(Failure::new(FailureCode::Trap)));
        Execution { outcome, log: Vec::new(), duration: start.elapsed() }
    }
}

impl std::fmt::Debug for NativeTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeTool").field("tool", &self.tool).finish_non_exhaustive()
    }
}

fn outcome(result: NativeResult) -> Outcome {
    result.accepted(OffsetDateTime::now_utc()).unwrap_or_else(|violation| Outcome::Failed(violation.into()))
}

/// The program's own tools, and those of components. An own tool hides another of its name: a file that was dropped into
/// a directory must not take its place. It has no digest, so it is known by itself: the very tool that a call was checked
/// against and approved on is the one that runs.
pub(crate) struct WithNative {
    pub(crate) native: Vec<NativeTool>,
    pub(crate) others: Arc<dyn Catalog>,
}

impl WithNative {
    fn find(&self, name: &str) -> Option<&NativeTool> {
        self.native.iter().find(|native| native.definition().name == name)
    }
}

impl Catalog for WithNative {
    fn tools(&self) -> Vec<Arc<Tool>> {
        let own = self.native.iter().map(|native| Arc::clone(&native.tool));
        let others = self.others.tools().into_iter().filter(|tool| self.find(&tool.definition.name).is_none());
        own.chain(others).collect()
    }

    fn has_component(&self, digest: Digest) -> BoxFuture<'_, bool> {
        self.others.has_component(digest)
    }

    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        self.others.component(digest)
    }

    fn bring_component(&self, digest: Digest, bytes: Vec<u8>) -> BoxFuture<'_, ()> {
        self.others.bring_component(digest, bytes)
    }

    fn call<'a>(&'a self, call: Call, observer: Arc<dyn Observer>) -> BoxFuture<'a, Execution> {
        // A tool of a component has the component's digest, and runs on that very component.
        if call.tool.digest.is_some() {
            return self.others.call(call, observer);
        }
        match self.native.iter().find(|native| Arc::ptr_eq(&native.tool, &call.tool)) {
            Some(native) => native.run(call).boxed(),
            None => {
                let outcome = Outcome::Failed(Failure::new(FailureCode::ToolChanged));
                ready(Execution { outcome, log: Vec::new(), duration: Duration::ZERO }).boxed()
            }
        }
    }
}
