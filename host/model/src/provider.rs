//! A model behind HTTP: a vendor, its address, a key and a model's name.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::stream::BoxStream;
use toolcell_agent::{Model, ModelError, ModelEvent, Prompt};

use crate::anthropic::AnthropicExchange;
use crate::ask::{Delivery, ask};
use crate::base_url::BaseUrl;
use crate::chat::ChatExchange;
use crate::client::Client;
use crate::environment::{ConfigError, usual_address};
use crate::gemini::GeminiExchange;
use crate::key::ApiKey;
use crate::responses::ResponsesExchange;
use crate::retry::RetryPolicy;
use crate::vendor::{Vendor, Wire};

/// A model behind HTTP.
#[derive(Debug)]
pub struct Provider {
    vendor: &'static Vendor,
    model: String,
    output_tokens_max: Option<NonZeroU32>,
    context_tokens: Option<NonZeroU32>,
    delivery: Delivery,
    retry: RetryPolicy,
    client: Client,
    /// The model does not give its encrypted reasoning; it is asked for that once.
    refuses_reasoning: AtomicBool,
    /// The model takes no other ids of calls than those of Mistral's form; others are tried once.
    wants_nine_char_ids: AtomicBool,
}

/// What a [`Provider`] is made of.
#[derive(Debug, Clone)]
pub struct ProviderOptions {
    /// Who it is: which wire is spoken, and with which peculiarities.
    pub vendor: &'static Vendor,
    /// Where its API lives; [`Vendor::base_url`] is the usual place.
    pub base_url: BaseUrl,
    /// The key, where one is needed.
    pub key: Option<ApiKey>,
    /// The model's name, as the vendor writes it.
    pub model: String,
    /// The longest answer, in tokens, reasoning included; without it the vendor or the wire decides.
    pub output_tokens_max: Option<NonZeroU32>,
    /// The model's window: tokens that question and answer may take together. Without it a conversation is sent whole
    /// until the vendor says that it is too long.
    pub context_tokens: Option<NonZeroU32>,
    /// How answers are asked for.
    pub delivery: Delivery,
    /// Times and retries.
    pub http: HttpOptions,
}

/// Times and retries of requests to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a provider may send nothing at all, before its answer or within. A server on a small machine reads a
    /// long conversation for minutes before its first word.
    pub idle_timeout: Duration,
    /// How long one attempt may take, from the request to the last byte of its answer.
    pub attempt_timeout: Duration,
    /// When a failed request is sent again.
    pub retry: RetryPolicy,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            attempt_timeout: Duration::from_secs(15 * 60),
            retry: RetryPolicy::default(),
        }
    }
}

impl ProviderOptions {
    /// A vendor at its usual address, without a key.
    ///
    /// # Errors
    /// [`ConfigError::NoBaseUrl`] when the vendor has no usual address: then use [`ProviderOptions::at`]; and
    /// [`ConfigError::BadBaseUrl`] when that of a row of one's own cannot be used.
    pub fn new(vendor: &'static Vendor, model: impl Into<String>) -> Result<Self, ConfigError> {
        Ok(Self::at(usual_address(vendor)?, vendor, model))
    }

    /// A vendor at another address, without a key.
    #[must_use]
    pub fn at(base_url: BaseUrl, vendor: &'static Vendor, model: impl Into<String>) -> Self {
        Self {
            vendor,
            base_url,
            key: None,
            model: model.into(),
            output_tokens_max: None,
            context_tokens: None,
            delivery: Delivery::Streamed,
            http: HttpOptions::default(),
        }
    }
}

impl Provider {
    /// Prepares a provider; nothing is sent yet.
    ///
    /// # Errors
    /// [`ConfigError::KeyInClear`] when the key would travel unencrypted to another machine, and
    /// [`ConfigError::Http`] when TLS cannot be set up.
    pub fn new(options: ProviderOptions) -> Result<Self, ConfigError> {
        let ProviderOptions { vendor, base_url, key, model, output_tokens_max, context_tokens, delivery, http } =
            options;
        let client = Client::new(base_url, key, vendor, &http)?;
        Ok(Self {
            vendor,
            model,
            output_tokens_max,
            context_tokens,
            delivery,
            retry: http.retry,
            client,
            refuses_reasoning: AtomicBool::new(false),
            wants_nine_char_ids: AtomicBool::new(false),
        })
    }

    /// The row of data that describes it.
    #[must_use]
    pub fn vendor(&self) -> &'static Vendor {
        self.vendor
    }

    /// Scheme, host and port that are asked.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.client.base_url().origin()
    }
}

impl Model for Provider {
    fn name(&self) -> &str {
        &self.model
    }

    fn provider(&self) -> &str {
        self.vendor.convention_name
    }

    fn context_window(&self) -> Option<u64> {
        self.context_tokens.map(|tokens| tokens.get().into())
    }

    fn ask<'a>(&'a self, prompt: Prompt<'a>) -> BoxStream<'a, Result<ModelEvent, ModelError>> {
        let (output_tokens_max, delivery) = (self.output_tokens_max, self.delivery);
        match &self.vendor.wire {
            Wire::Responses(quirks) => {
                let exchange = ResponsesExchange::new(prompt, &self.model, quirks, output_tokens_max, delivery)
                    .remembering(&self.refuses_reasoning);
                ask(&self.client, &self.retry, exchange)
            }
            Wire::Chat(quirks) => {
                let exchange = ChatExchange::new(prompt, &self.model, quirks, output_tokens_max, delivery)
                    .remembering(&self.wants_nine_char_ids);
                ask(&self.client, &self.retry, exchange)
            }
            Wire::Gemini => {
                let exchange = GeminiExchange { prompt, model: &self.model, output_tokens_max, delivery };
                ask(&self.client, &self.retry, exchange)
            }
            Wire::Anthropic(quirks) => {
                let exchange = AnthropicExchange { prompt, model: &self.model, quirks, output_tokens_max, delivery };
                ask(&self.client, &self.retry, exchange)
            }
        }
    }
}
