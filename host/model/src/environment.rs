//! From what a person typed and what the environment holds to a provider, or to a sentence that says what is missing.

use std::num::NonZeroU32;

use crate::ask::Delivery;
use crate::base_url::{BaseUrl, BaseUrlError};
use crate::key::{ApiKey, KeyError};
use crate::provider::{HttpOptions, Provider, ProviderOptions};
use crate::vendor::{VENDORS, Vendor, vendor_by_name, vendor_by_url};

/// What a person chose; everything else comes from the environment.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// The model's name. `vendor/name` also chooses the vendor, as in `ollama/llama3.2`, unless an address is given here
    /// or in the environment. Without it: `TOOLCELL_MODEL`, then the vendor's default.
    pub model: Option<String>,
    /// The address of the API, taken as it is. Without it: the vendor's variable ([`Vendor::address`]), then its usual
    /// address.
    pub base_url: Option<String>,
    /// The name of a row of [`VENDORS`]. Without it: whose address `base_url` or `OPENAI_BASE_URL` is, then whose key there
    /// is.
    pub vendor: Option<String>,
    /// The longest answer, in tokens.
    pub output_tokens_max: Option<NonZeroU32>,
    /// The model's window, in tokens; see [`ProviderOptions::context_tokens`].
    pub context_tokens: Option<NonZeroU32>,
    /// How answers are asked for.
    pub delivery: Delivery,
    /// Times and retries.
    pub http: HttpOptions,
}

/// Why there is no provider. Each text says what to set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Neither a key nor an address is known.
    #[error(
        "no model is configured. Do one of these:\n\
         \x20 - set {variables} to use that provider\n\
         \x20 - use a server of your own, for example Ollama: --base-url http://localhost:11434/v1 --model llama3.2\n\
         \x20 - see everything work offline and without a key: cargo xtask demo",
        variables = key_variables()
    )]
    NoProvider,
    /// No vendor has that name.
    #[error("there is no provider \"{name}\": use one of {known}, or give a base URL", known = vendor_names())]
    UnknownVendor {
        /// What was asked for.
        name: String,
    },
    /// The vendor wants a key, and its variable is not set.
    #[error("{vendor} needs a key: set {variable}, or see everything work offline and without a key: cargo xtask demo")]
    NoKey {
        /// The vendor.
        vendor: &'static str,
        /// The variable.
        variable: &'static str,
    },
    /// No model is named, and the vendor has no default.
    #[error("no model is named for {vendor}: name one or set TOOLCELL_MODEL; {models} shows which there are")]
    NoModel {
        /// The vendor.
        vendor: &'static str,
        /// How to find out.
        models: &'static str,
    },
    /// The vendor is whoever serves its wire, and nothing says where.
    #[error(
        "{vendor} has no usual address: give its base URL{or_variable}",
        or_variable = variable.map(|name| format!(" or set {name}")).unwrap_or_default()
    )]
    NoBaseUrl {
        /// The vendor.
        vendor: &'static str,
        /// The variable for its address, if it has one.
        variable: Option<&'static str>,
    },
    /// The base URL cannot be used.
    #[error("the base URL from {origin} cannot be used: {reason}")]
    BadBaseUrl {
        /// Where it came from.
        origin: &'static str,
        /// What is wrong.
        reason: BaseUrlError,
    },
    /// The variable holds no key.
    #[error("{variable} does not hold a key: {reason}")]
    BadKey {
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        reason: KeyError,
    },
    /// The key would be sent unencrypted to another machine.
    #[error(
        "the key in {variable} would travel unencrypted to {origin}: use an https address, or unset {variable} if that \
         server needs no key"
    )]
    KeyInClear {
        /// Scheme, host and port.
        origin: String,
        /// The variable that holds the key.
        variable: &'static str,
    },
    /// The HTTP client cannot be set up, for example because the system has no root certificates.
    #[error("the HTTP client cannot be set up")]
    Http(#[source] reqwest::Error),
}

/// Finds a provider. `environment` is asked for variables; an empty one counts as unset.
///
/// In this order: the vendor that was named; the owner of the address that was given; the owner of the address in
/// `OPENAI_BASE_URL`; the vendor in front of the model's name; the first vendor whose key is set, in [`KeyUse::variable`](crate::KeyUse::variable)
/// before [`KeyUse::preferred`](crate::KeyUse::preferred). It is reached at the
/// address that was given, else where its own variable says ([`Vendor::address`]), else at its usual address; its key
/// goes there and nowhere else.
///
/// # Errors
/// [`ConfigError`] says precisely what to set.
pub fn provider_from_environment(
    options: &ModelOptions,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Provider, ConfigError> {
    let variable = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
    Provider::new(resolve(options, &variable)?)
}

fn resolve(options: &ModelOptions, variable: &dyn Fn(&str) -> Option<String>) -> Result<ProviderOptions, ConfigError> {
    let model = options.model.clone().or_else(|| variable("TOOLCELL_MODEL"));
    let Choice { vendor, base_url, model } = choose(options, model, variable)?;
    let key = key_of(vendor, &base_url, variable)?;
    if key.is_none() && vendor.key.is_required {
        return Err(ConfigError::NoKey { vendor: vendor.name, variable: vendor.key.variable });
    }
    let model = model
        .or_else(|| vendor.default_model.map(str::to_owned))
        .ok_or(ConfigError::NoModel { vendor: vendor.name, models: vendor.models })?;
    let ModelOptions { output_tokens_max, context_tokens, delivery, ref http, .. } = *options;
    let http = http.clone();
    Ok(ProviderOptions { vendor, base_url, key, model, output_tokens_max, context_tokens, delivery, http })
}

/// The vendor's key, where one is set and may go to that address.
fn key_of(
    vendor: &Vendor,
    base_url: &BaseUrl,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ApiKey>, ConfigError> {
    let Some((name, text)) = vendor.key.variables().find_map(|name| Some((name, variable(name)?))) else {
        return Ok(None);
    };
    let key = ApiKey::new(&text).map_err(|reason| ConfigError::BadKey { variable: name, reason })?;
    check_secrecy(base_url, name)?;
    Ok(Some(key))
}

/// Refuses an address to which the key in that variable would travel unencrypted.
pub(crate) fn check_secrecy(base_url: &BaseUrl, variable: &'static str) -> Result<(), ConfigError> {
    let is_secret = !base_url.is_plain() || base_url.is_loopback();
    if is_secret { Ok(()) } else { Err(ConfigError::KeyInClear { origin: base_url.origin(), variable }) }
}

struct Choice {
    vendor: &'static Vendor,
    base_url: BaseUrl,
    model: Option<String>,
}

fn choose(
    options: &ModelOptions,
    model: Option<String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Choice, ConfigError> {
    let given = options.base_url.as_deref().map(|text| parse_url(text, "the options")).transpose()?;
    let named = options.vendor.as_deref().map(named_vendor).transpose()?;
    match (named, given) {
        (Some(vendor), Some(base_url)) => return Ok(Choice { vendor, base_url, model }),
        (None, Some(base_url)) => return Ok(Choice { vendor: vendor_by_url(&base_url), base_url, model }),
        (Some(vendor), None) => return at_its_address(vendor, model, variable),
        (None, None) => {}
    }
    if let Some(text) = variable("OPENAI_BASE_URL") {
        let base_url = parse_url(&text, "OPENAI_BASE_URL")?;
        return Ok(Choice { vendor: vendor_by_url(&base_url), base_url, model });
    }
    let has_key = |vendor: &Vendor| vendor.key.variables().any(|name| variable(name).is_some());
    if let Some((vendor, name)) = model.as_deref().and_then(split_model) {
        // OpenRouter's names of models begin with their vendor, too; its key alone says that one of those is meant.
        let is_routed = vendor.key.is_required && !has_key(vendor) && vendor_by_name("openrouter").is_some_and(has_key);
        if !is_routed {
            return at_its_address(vendor, Some(name.to_owned()), variable);
        }
    }
    let has_own_key = |vendor: &Vendor| variable(vendor.key.variable).is_some();
    let first = |has_key: &dyn Fn(&Vendor) -> bool| VENDORS.iter().find(|one| one.key.is_required && has_key(one));
    first(&has_own_key)
        .or_else(|| first(&has_key))
        .map_or(Err(ConfigError::NoProvider), |vendor| at_its_address(vendor, model, variable))
}

/// A vendor where its variable says, or at its usual address.
fn at_its_address(
    vendor: &'static Vendor,
    model: Option<String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Choice, ConfigError> {
    let said = vendor.address.as_ref().and_then(|address| Some((address, variable(address.variable)?)));
    let base_url = match said {
        Some((address, text)) => parse_url(&text, address.variable)?.with_version(address.version),
        None => usual_address(vendor)?,
    };
    Ok(Choice { vendor, base_url, model })
}

/// Where a vendor's API usually lives.
pub(crate) fn usual_address(vendor: &Vendor) -> Result<BaseUrl, ConfigError> {
    let variable = vendor.address.as_ref().map(|address| address.variable);
    let text = vendor.base_url.ok_or(ConfigError::NoBaseUrl { vendor: vendor.name, variable })?;
    parse_url(text, "the table of vendors")
}

fn named_vendor(name: &str) -> Result<&'static Vendor, ConfigError> {
    vendor_by_name(name).ok_or_else(|| ConfigError::UnknownVendor { name: name.to_owned() })
}

/// `ollama/llama3.2` names a vendor; `meta-llama/Llama-3` does not.
fn split_model(model: &str) -> Option<(&'static Vendor, &str)> {
    let (vendor, name) = model.split_once('/')?;
    Some((vendor_by_name(vendor)?, name)).filter(|_| !name.is_empty())
}

fn parse_url(text: &str, origin: &'static str) -> Result<BaseUrl, ConfigError> {
    BaseUrl::parse(text).map_err(|reason| ConfigError::BadBaseUrl { origin, reason })
}

fn key_variables() -> String {
    let mut variables: Vec<_> = VENDORS.iter().filter(|v| v.key.is_required).map(|v| v.key.variable).collect();
    variables.dedup();
    variables.join(" or ")
}

fn vendor_names() -> String {
    VENDORS.iter().map(|vendor| vendor.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
