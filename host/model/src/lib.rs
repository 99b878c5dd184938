//! Language models: providers by wire format, and a model that plays a script.
//!
//! Everything here implements [`toolcell_agent::Model`]. A wire format is code, a vendor is a row of data
//! ([`VENDORS`]). What is not here: the loop, the tools, and where a conversation is kept.
//!
//! ```
//! use toolcell_model::{ModelOptions, provider_from_environment};
//!
//! // `std::env::var(name).ok()` in a program; here an environment that holds one key.
//! let environment = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-example-key".to_owned());
//! let options = ModelOptions { model: Some("gpt-6-luna".into()), ..ModelOptions::default() };
//! let provider = provider_from_environment(&options, environment)?;
//! assert_eq!(provider.endpoint(), "https://api.openai.com");
//!
//! // A server of one's own needs no key.
//! let options = ModelOptions {
//!     base_url: Some("http://localhost:11434/v1".into()),
//!     model: Some("llama3.2".into()),
//!     ..ModelOptions::default()
//! };
//! assert_eq!(provider_from_environment(&options, |_| None)?.vendor().name, "ollama");
//! # Ok::<(), toolcell_model::ConfigError>(())
//! ```

mod anthropic;
#[cfg(test)]
mod any_history_tests;
#[cfg(test)]
mod any_stream_tests;
mod ask;
mod base_url;
mod call;
mod chat;
mod client;
mod echo;
mod environment;
mod gemini;
mod json;
mod key;
mod media;
mod provider;
mod provider_error;
mod responses;
mod retry;
#[cfg(test)]
#[path = "../tests/support/schema.rs"]
mod schema;
mod script;
mod sse;
#[cfg(test)]
mod test_support;
mod vendor;

pub use anthropic::{AnthropicKey, AnthropicQuirks};
pub use ask::Delivery;
pub use base_url::{BaseUrl, BaseUrlError};
pub use chat::{ChatQuirks, MediaSupport, ReasoningEcho};
pub use client::install_tls;
pub use environment::{ConfigError, ModelOptions, provider_from_environment};
pub use key::{ApiKey, KeyError};
pub use provider::{HttpOptions, Provider, ProviderOptions};
pub use responses::ResponsesQuirks;
pub use retry::RetryPolicy;
pub use script::{
    Expectation, ExpectedResult, FailureKind, Script, ScriptError, ScriptedArguments, ScriptedCall, ScriptedFailure,
    ScriptedModel, ScriptedStop, ScriptedTurn, TextMatch,
};
pub use vendor::{AddressVariable, CUSTOM_VENDOR, KeyUse, VENDORS, Vendor, Wire, vendor_by_name};
