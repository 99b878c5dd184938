//! The vendors: one row of data for each.

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::anthropic::{AnthropicKey, AnthropicQuirks};
use crate::base_url::BaseUrl;
use crate::chat::{ChatQuirks, MediaSupport, ReasoningEcho};
use crate::responses::ResponsesQuirks;

/// A company or a program that serves models.
#[derive(Debug, PartialEq, Eq)]
pub struct Vendor {
    /// Its name in options, in lower case.
    pub name: &'static str,
    /// Its name in traces and metrics: the one that the OpenTelemetry conventions for generative AI give it, or its own.
    /// Whichever wire it speaks, it is the same vendor.
    pub convention_name: &'static str,
    /// Where its API usually lives; none where that is for each to say.
    pub base_url: Option<&'static str>,
    /// The environment variable that says where else it lives, if it has one.
    pub address: Option<AddressVariable>,
    /// Its key.
    pub key: KeyUse,
    /// The wire format that it speaks.
    pub wire: Wire,
    /// The model that is used when none is named. Only names that stay valid: a vendor retires its models within a year
    /// or two.
    pub default_model: Option<&'static str>,
    /// How to find out which models there are.
    pub models: &'static str,
}

/// The environment variable in which a vendor's own SDK looks for the address of its API.
#[derive(Debug, PartialEq, Eq)]
pub struct AddressVariable {
    /// Its name.
    pub variable: &'static str,
    /// What the SDK adds to the address before the path of an operation, and what is therefore missing in the variable.
    pub version: &'static str,
}

/// Read by OpenAI's SDKs (`src/openai/_client.py` in <https://github.com/openai/openai-python>, `src/client.ts` in
/// <https://github.com/openai/openai-node>), which take it as it is, and by most programs that speak its wires.
const OPENAI_ADDRESS: AddressVariable = AddressVariable { variable: "OPENAI_BASE_URL", version: "" };

/// Read by Anthropic's SDK (`src/anthropic/_client.py` in <https://github.com/anthropics/anthropic-sdk-python>), which
/// asks `/v1/messages` below it.
const ANTHROPIC_ADDRESS: AddressVariable = AddressVariable { variable: "ANTHROPIC_BASE_URL", version: "/v1" };

/// Read by Google's SDKs (`google/genai/_base_url.py` in <https://github.com/googleapis/python-genai>,
/// `src/node/node_client.ts` in <https://github.com/googleapis/js-genai>), which ask `/v1beta/models/…` below it. Their
/// `GOOGLE_VERTEX_BASE_URL` is for another service.
const GEMINI_ADDRESS: AddressVariable = AddressVariable { variable: "GOOGLE_GEMINI_BASE_URL", version: "/v1beta" };

/// Whether a vendor wants a key, and where it is found.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The environment variable that customarily holds it.
    pub variable: &'static str,
    /// A variable that the vendor's own SDK reads besides, and whose key it prefers when both are set. It may hold a key
    /// for something else of the same company, so it makes no vendor the chosen one while another has its own key.
    pub preferred: Option<&'static str>,
    /// Whether it does nothing without.
    pub is_required: bool,
}

impl KeyUse {
    /// The variables in the order in which they count.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &'static str> {
        self.preferred.into_iter().chain([self.variable])
    }
}

/// A wire format, with a vendor's peculiarities in it.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wire {
    /// OpenAI chat completions.
    Chat(ChatQuirks),
    /// OpenAI Responses.
    Responses(ResponsesQuirks),
    /// Gemini `generateContent`.
    Gemini,
    /// Anthropic Messages.
    Anthropic(AnthropicQuirks),
}

impl Wire {
    /// The header that carries the key, and what stands before the key in it.
    pub(crate) fn key_header(&self) -> (HeaderName, &'static str) {
        match self {
            Self::Chat(_) | Self::Responses(_) => (AUTHORIZATION, "Bearer "),
            Self::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
            Self::Anthropic(quirks) => match quirks.key {
                AnthropicKey::ApiKey => (HeaderName::from_static("x-api-key"), ""),
                AnthropicKey::Bearer => (AUTHORIZATION, "Bearer "),
            },
        }
    }

    /// Headers that every request has.
    pub(crate) fn headers(&self) -> HeaderMap {
        match self {
            Self::Chat(_) | Self::Responses(_) | Self::Gemini => HeaderMap::new(),
            Self::Anthropic(quirks) => {
                let name = HeaderName::from_static("anthropic-version");
                HeaderMap::from_iter([(name, HeaderValue::from_static(quirks.version))])
            }
        }
    }
}

/// All vendors that are known by name.
pub static VENDORS: [Vendor; 13] = [
    Vendor {
        name: "openai",
        convention_name: "openai",
        base_url: Some("https://api.openai.com/v1"),
        address: Some(OPENAI_ADDRESS),
        key: KeyUse { variable: "OPENAI_API_KEY", preferred: None, is_required: true },
        wire: Wire::Chat(ChatQuirks {
            output_limit_key: "max_completion_tokens",
            reasoning: ReasoningEcho::Dropped,
            media: MediaSupport::ALL,
            call_id_chars_max: Some(40),
        }),
        default_model: None,
        models: "https://developers.openai.com/api/docs/models",
    },
    // After `openai`, whose address and key it shares: it is used when it is named.
    Vendor {
        name: "openai-responses",
        convention_name: "openai",
        base_url: Some("https://api.openai.com/v1"),
        address: Some(OPENAI_ADDRESS),
        key: KeyUse { variable: "OPENAI_API_KEY", preferred: None, is_required: true },
        wire: Wire::Responses(ResponsesQuirks::OPENAI),
        default_model: None,
        models: "https://developers.openai.com/api/docs/models",
    },
    Vendor {
        name: "anthropic",
        convention_name: "anthropic",
        base_url: Some("https://api.anthropic.com/v1"),
        address: Some(ANTHROPIC_ADDRESS),
        key: KeyUse { variable: "ANTHROPIC_API_KEY", preferred: None, is_required: true },
        wire: Wire::Anthropic(AnthropicQuirks::ANTHROPIC),
        default_model: None,
        models: "https://platform.claude.com/docs/en/about-claude/models/overview",
    },
    Vendor {
        name: "gemini",
        convention_name: "gcp.gemini",
        base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
        address: Some(GEMINI_ADDRESS),
        // The order in which Google's SDKs read them: `get_env_api_key` in `google/genai/_api_client.py`.
        key: KeyUse { variable: "GEMINI_API_KEY", preferred: Some("GOOGLE_API_KEY"), is_required: true },
        wire: Wire::Gemini,
        default_model: None,
        models: "https://ai.google.dev/gemini-api/docs/models",
    },
    Vendor {
        name: "openrouter",
        convention_name: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        address: None,
        key: KeyUse { variable: "OPENROUTER_API_KEY", preferred: None, is_required: true },
        wire: Wire::Chat(ChatQuirks { media: MediaSupport::ALL, ..ChatQuirks::COMPATIBLE }),
        default_model: Some("openrouter/auto"),
        models: "https://openrouter.ai/models",
    },
    Vendor {
        name: "deepseek",
        convention_name: "deepseek",
        base_url: Some("https://api.deepseek.com"),
        address: None,
        key: KeyUse { variable: "DEEPSEEK_API_KEY", preferred: None, is_required: true },
        wire: Wire::Chat(ChatQuirks {
            reasoning: ReasoningEcho::Required,
            media: MediaSupport::NONE,
            ..ChatQuirks::COMPATIBLE
        }),
        default_model: None,
        models: "https://api-docs.deepseek.com/quick_start/pricing",
    },
    Vendor {
        name: "ollama",
        convention_name: "ollama",
        base_url: Some("http://localhost:11434/v1"),
        address: None,
        key: KeyUse { variable: "OLLAMA_API_KEY", preferred: None, is_required: false },
        wire: Wire::Chat(ChatQuirks {
            media: MediaSupport {
                images: &["image/png", "image/jpeg", "image/webp"],
                audio: &["wav"],
                ..MediaSupport::NONE
            },
            ..ChatQuirks::COMPATIBLE
        }),
        default_model: None,
        models: "`ollama list`",
    },
    Vendor {
        name: "ollama-responses",
        convention_name: "ollama",
        base_url: Some("http://localhost:11434/v1"),
        address: None,
        key: KeyUse { variable: "OLLAMA_API_KEY", preferred: None, is_required: false },
        wire: Wire::Responses(ResponsesQuirks {
            images: &["image/png", "image/jpeg", "image/webp"],
            pdf: false,
            ..ResponsesQuirks::OPENAI
        }),
        default_model: None,
        models: "`ollama list`",
    },
    Vendor {
        name: "lmstudio",
        convention_name: "lmstudio",
        base_url: Some("http://localhost:1234/v1"),
        address: None,
        key: KeyUse { variable: "LM_API_TOKEN", preferred: None, is_required: false },
        wire: Wire::Chat(ChatQuirks {
            media: MediaSupport { images: &["image/png", "image/jpeg", "image/webp"], ..MediaSupport::NONE },
            ..ChatQuirks::COMPATIBLE
        }),
        default_model: None,
        models: "`lms ls`",
    },
    Vendor {
        name: "llamacpp",
        convention_name: "llamacpp",
        base_url: Some("http://localhost:8080/v1"),
        address: None,
        key: KeyUse { variable: "LLAMA_API_KEY", preferred: None, is_required: false },
        wire: Wire::Chat(ChatQuirks {
            media: MediaSupport {
                images: &["image/png", "image/jpeg", "image/gif"],
                audio: &["wav", "mp3"],
                ..MediaSupport::NONE
            },
            ..ChatQuirks::COMPATIBLE
        }),
        // The server holds one model and does not look at the name.
        default_model: Some("default"),
        models: "http://localhost:8080/v1/models",
    },
    Vendor {
        name: "llamacpp-responses",
        convention_name: "llamacpp",
        base_url: Some("http://localhost:8080/v1"),
        address: None,
        key: KeyUse { variable: "LLAMA_API_KEY", preferred: None, is_required: false },
        wire: Wire::Responses(ResponsesQuirks {
            images: &["image/png", "image/jpeg", "image/gif"],
            pdf: false,
            media_in_results: false,
        }),
        // The server holds one model and does not look at the name.
        default_model: Some("default"),
        models: "http://localhost:8080/v1/models",
    },
    Vendor {
        name: "vllm",
        convention_name: "vllm",
        base_url: Some("http://localhost:8000/v1"),
        address: None,
        key: KeyUse { variable: "VLLM_API_KEY", preferred: None, is_required: false },
        wire: Wire::Chat(ChatQuirks {
            media: MediaSupport { pdf: false, ..MediaSupport::ALL },
            ..ChatQuirks::COMPATIBLE
        }),
        default_model: None,
        models: "http://localhost:8000/v1/models",
    },
    // Whatever else serves Anthropic Messages. It has to be named, together with its address: Ollama, LM Studio and
    // llama.cpp serve chat completions at the same one, and that is what their own rows speak.
    Vendor {
        name: "anthropic-compatible",
        convention_name: "anthropic-compatible",
        base_url: None,
        address: Some(ANTHROPIC_ADDRESS),
        // The variable that such servers tell people to set.
        key: KeyUse { variable: "ANTHROPIC_AUTH_TOKEN", preferred: None, is_required: false },
        wire: Wire::Anthropic(AnthropicQuirks::COMPATIBLE),
        default_model: None,
        models: "the list at /models below the base URL",
    },
];

/// Whatever else serves OpenAI chat completions.
pub static CUSTOM_VENDOR: Vendor = Vendor {
    name: "custom",
    convention_name: "custom",
    base_url: None,
    address: Some(OPENAI_ADDRESS),
    key: KeyUse { variable: "OPENAI_API_KEY", preferred: None, is_required: false },
    wire: Wire::Chat(ChatQuirks::COMPATIBLE),
    default_model: None,
    models: "the list at /models below the base URL",
};

/// The vendor of that name.
#[must_use]
pub fn vendor_by_name(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.name == name)
}

/// The vendor whose address that is: the host of a company, or the customary port of a server program, on whichever
/// machine it runs. The ports 8000 and 8080 are everyone's and say nothing.
pub(crate) fn vendor_by_url(url: &BaseUrl) -> &'static Vendor {
    let is_at = |vendor: &&Vendor| {
        let Some(Ok(own)) = vendor.base_url.map(BaseUrl::parse) else { return false };
        if own.is_loopback() {
            url.is_plain() && own.port() == url.port() && !matches!(own.port(), Some(8000 | 8080))
        } else {
            // Google serves chat completions, too, under the same host.
            let is_compatible_api = vendor.wire == Wire::Gemini && url.to_string().ends_with("/openai");
            own.host() == url.host() && !is_compatible_api
        }
    };
    VENDORS.iter().find(is_at).unwrap_or(&CUSTOM_VENDOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name_and_has_an_address_or_a_variable_for_it() {
        for vendor in &VENDORS {
            assert_eq!(vendor_by_name(vendor.name), Some(vendor));
            let Some(text) = vendor.base_url else {
                assert!(vendor.address.is_some(), "{}", vendor.name);
                continue;
            };
            let url = BaseUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), text);
            // A company is reached encrypted and wants a key; a program on this machine does not.
            assert_eq!((url.is_plain(), url.is_loopback()), (!vendor.key.is_required, !vendor.key.is_required));
            // What its variable leaves out is there.
            assert!(vendor.address.as_ref().is_none_or(|address| text.ends_with(address.version)), "{text}");
        }
        assert_eq!(vendor_by_name("custom"), None);
    }

    #[test]
    fn a_vendor_has_one_name_in_traces_whichever_wire_it_speaks() {
        let name = |name: &str| vendor_by_name(name).unwrap().convention_name;
        assert_eq!(name("gemini"), "gcp.gemini");
        for vendor in &VENDORS {
            let without_wire = vendor.name.strip_suffix("-responses").unwrap_or(vendor.name);
            assert_eq!(vendor.convention_name, name(without_wire));
        }
    }

    #[test]
    fn a_vendor_is_recognised_by_its_address() {
        let name = |url: &str| vendor_by_url(&BaseUrl::parse(url).unwrap()).name;
        assert_eq!(name("https://api.openai.com/v1/"), "openai");
        assert_eq!(name("https://openrouter.ai/api/v1"), "openrouter");
        assert_eq!(name("https://api.deepseek.com/beta"), "deepseek");
        assert_eq!(name("https://generativelanguage.googleapis.com/v1beta/"), "gemini");
        assert_eq!(name("https://generativelanguage.googleapis.com/v1beta/openai/"), "custom");
        assert_eq!(name("https://api.anthropic.com/v1"), "anthropic");
        assert_eq!(name("http://192.168.1.5:11434/v1"), "ollama");
        assert_eq!(name("http://127.0.0.1:1234/v1"), "lmstudio");
        assert_eq!(name("http://localhost:8000/v1"), "custom");
        assert_eq!(name("https://api.openai.com.example.org/v1"), "custom");
    }
}
