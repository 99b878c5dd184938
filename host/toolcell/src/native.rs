//! Tools that are part of the program itself, beside components and behind the same trait.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use toolcell_agent::{Call, Catalog, Execution, Observer, SchemaError, Tool};
use toolcell_contract::{
    Annotations, CallContext, Definition, Failure, FailureCode, NameError, Outcome, Request, Suspension, ToolResult,
    check_tool_name,
};

/// A tool that is a Rust function of this program. It runs outside every sandbox, with all powers of the program.
///
/// Its arguments are a type of your own: the schema that the model sees comes from the type, and what does not fit it
/// never reaches the function. A result made with [`ToolResult::pending`] suspends the call like that of a component:
/// the function runs again with the answer in its [`CallContext`].
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

type Body = dyn Fn(String, CallContext) -> BoxFuture<'static, ToolResult> + Send + Sync;

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
        Fut: Future<Output = ToolResult> + Send + 'static,
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
            Ok(arguments) => body(arguments, context).boxed(),
            // The type asks for more than its schema says.
            Err(error) => {
                let failure = Failure::with_detail(FailureCode::InvalidArguments, error.to_string());
                futures::future::ready(ToolResult::from(failure)).boxed()
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

    async fn run(&self, call: Call) -> Outcome {
        let run = async { (self.body)(call.arguments, call.context).await };
        match AssertUnwindSafe(run).catch_unwind().await {
            Ok(result) => outcome(result),
            Err(_panic) => Outcome::Failed(Failure::new(FailureCode::Trap)),
        }
    }
}

impl std::fmt::Debug for NativeTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeTool").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// A pending result suspends the call, under an id of the host's.
fn outcome(result: ToolResult) -> Outcome {
    match result.pending_of() {
        Some(request) => {
            let guest_id = Some(request.id.clone()).filter(|id| !id.is_empty());
            let request = Request { id: Request::fresh_id(), ..request };
            Outcome::Suspended(Suspension { request, guest_id, state: None })
        }
        None => Outcome::Done(result),
    }
}

/// The program's own tools, and those of another catalogue. An own tool hides another of its name: a file that was
/// dropped into a directory must not take its place.
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

    fn call<'a>(&'a self, call: Call, observer: Arc<dyn Observer>) -> BoxFuture<'a, Execution> {
        // A tool of a component has the component's digest, and runs on that very component.
        match self.find(&call.tool.definition.name).filter(|_| call.tool.digest.is_none()) {
            Some(native) => async move {
                let start = Instant::now();
                let outcome = native.run(call).await;
                Execution { outcome, log: Vec::new(), duration: start.elapsed() }
            }
            .boxed(),
            None => self.others.call(call, observer),
        }
    }
}
