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
    /// Where its API usually lives.
    pub base_url: &'static str,
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

impl Vendor {
    /// Its name in traces and metrics: the one that the OpenTelemetry conventions for generative AI give it, or its own.
    #[must_use]
    pub fn convention_name(&self) -> &'static str {
        match self.name {
            "gemini" => "gcp.gemini",
            "mistral" => "mistral_ai",
            "xai" => "x_ai",
            name => name,
        }
    }
}

/// Whether a vendor wants a key, and where it is found.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The environment variable that customarily holds it.
    pub variable: &'static str,
    /// Whether it does nothing without.
    pub is_required: bool,
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
        base_url: "https://api.openai.com/v1",
        key: KeyUse { variable: "OPENAI_API_KEY", is_required: true },
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
        base_url: "https://api.openai.com/v1",
        key: KeyUse { variable: "OPENAI_API_KEY", is_required: true },
        wire: Wire::Responses(ResponsesQuirks::OPENAI),
        default_model: None,
        models: "https://developers.openai.com/api/docs/models",
    },
    Vendor {
        name: "anthropic",
        base_url: "https://api.anthropic.com/v1",
        key: KeyUse { variable: "ANTHROPIC_API_KEY", is_required: true },
        wire: Wire::Anthropic(AnthropicQuirks::ANTHROPIC),
        default_model: None,
        models: "https://platform.claude.com/docs/en/about-claude/models/overview",
    },
    Vendor {
        name: "gemini",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        key: KeyUse { variable: "GEMINI_API_KEY", is_required: true },
        wire: Wire::Gemini,
        default_model: None,
        models: "https://ai.google.dev/gemini-api/docs/models",
    },
    Vendor {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        key: KeyUse { variable: "OPENROUTER_API_KEY", is_required: true },
        wire: Wire::Chat(ChatQuirks { media: MediaSupport::ALL, ..ChatQuirks::COMPATIBLE }),
        default_model: Some("openrouter/auto"),
        models: "https://openrouter.ai/models",
    },
    Vendor {
        name: "deepseek",
        base_url: "https://api.deepseek.com",
        key: KeyUse { variable: "DEEPSEEK_API_KEY", is_required: true },
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
        base_url: "http://localhost:11434/v1",
        key: KeyUse { variable: "OLLAMA_API_KEY", is_required: false },
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
        base_url: "http://localhost:11434/v1",
        key: KeyUse { variable: "OLLAMA_API_KEY", is_required: false },
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
        base_url: "http://localhost:1234/v1",
        key: KeyUse { variable: "LM_API_TOKEN", is_required: false },
        wire: Wire::Chat(ChatQuirks {
            media: MediaSupport { images: &["image/png", "image/jpeg", "image/webp"], ..MediaSupport::NONE },
            ..ChatQuirks::COMPATIBLE
        }),
        default_model: None,
        models: "`lms ls`",
    },
    Vendor {
        name: "llamacpp",
        base_url: "http://localhost:8080/v1",
        key: KeyUse { variable: "LLAMA_API_KEY", is_required: false },
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
        base_url: "http://localhost:8080/v1",
        key: KeyUse { variable: "LLAMA_API_KEY", is_required: false },
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
        base_url: "http://localhost:8000/v1",
        key: KeyUse { variable: "VLLM_API_KEY", is_required: false },
        wire: Wire::Chat(ChatQuirks {
            media: MediaSupport { pdf: false, ..MediaSupport::ALL },
            ..ChatQuirks::COMPATIBLE
        }),
        default_model: None,
        models: "http://localhost:8000/v1/models",
    },
    // Whatever else serves Anthropic Messages. It has to be named, together with a base URL: Ollama, LM Studio and
    // llama.cpp serve chat completions at the same address, and that is what their own rows speak.
    Vendor {
        name: "anthropic-compatible",
        base_url: "http://localhost:11434/v1",
        // The variable that such servers tell people to set.
        key: KeyUse { variable: "ANTHROPIC_AUTH_TOKEN", is_required: false },
        wire: Wire::Anthropic(AnthropicQuirks::COMPATIBLE),
        default_model: None,
        models: "the list at /models below the base URL",
    },
];

/// Whatever else serves OpenAI chat completions.
pub static CUSTOM_VENDOR: Vendor = Vendor {
    name: "custom",
    base_url: "",
    key: KeyUse { variable: "OPENAI_API_KEY", is_required: false },
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
        let Ok(own) = BaseUrl::parse(vendor.base_url) else { return false };
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
    fn every_row_is_found_by_its_name_and_has_an_address() {
        for vendor in &VENDORS {
            assert_eq!(vendor_by_name(vendor.name), Some(vendor));
            let url = BaseUrl::parse(vendor.base_url).unwrap();
            assert_eq!(url.to_string(), vendor.base_url);
            // A company is reached encrypted and wants a key; a program on this machine does not.
            assert_eq!((url.is_plain(), url.is_loopback()), (!vendor.key.is_required, !vendor.key.is_required));
        }
        assert_eq!(vendor_by_name("custom"), None);
    }

    #[test]
    fn a_vendor_has_the_name_that_the_conventions_give_it_or_its_own() {
        let key = || KeyUse { variable: "", is_required: false };
        let wire = || Wire::Chat(ChatQuirks::COMPATIBLE);
        let name = |name: &'static str| {
            Vendor { name, base_url: "", key: key(), wire: wire(), default_model: None, models: "" }.convention_name()
        };
        assert_eq!(name("gemini"), "gcp.gemini");
        assert_eq!(name("openai"), "openai");
        assert_eq!(name("ollama"), "ollama");
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
