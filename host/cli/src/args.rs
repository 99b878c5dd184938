//! What was typed. What it means is decided by the commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit;

/// Runs the tools of language models inside WebAssembly components.
///
/// Every .wasm file of a directory is a tool. Each call gets a fresh sandbox, without files, network or environment.
#[derive(Debug, Parser)]
#[command(name = "toolcell", version, after_help = exit::TABLE)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the tools of a directory: what they do, take, weigh and ask for
    Tools(ToolsArgs),
    /// Call one tool and print its result
    Call(CallArgs),
    /// Let a model answer a prompt with the tools of a directory
    Run(RunArgs),
}

/// Where tools and their compiled code are.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The directory with the .wasm files
    #[arg(long, value_name = "DIR", env = "TOOLCELL_TOOLS", default_value = "tools")]
    pub(crate) tools: PathBuf,
    /// Where compiled code is kept [default: toolcell/compiled in the user's cache directory]
    #[arg(long, value_name = "DIR", env = "TOOLCELL_CACHE")]
    pub(crate) cache: Option<PathBuf>,
}

/// Who answers a tool that waits.
#[derive(Debug, Args)]
pub(crate) struct Asking {
    /// Answer yes to everything a tool asks; what has to be typed stays open
    #[arg(long, conflicts_with = "ask")]
    pub(crate) yes: bool,
    /// Whether to ask in the terminal when a tool waits for a person
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Auto)]
    pub(crate) ask: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// If standard input is a terminal
    Auto,
    /// Also when standard input is a pipe: each answer is a line
    Always,
    /// Never: what waits stays open, and the exit code is 3
    Never,
}

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Show the whole JSON Schema of each tool's arguments
    #[arg(long)]
    pub(crate) schema: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool's name, as `toolcell tools` shows it
    pub(crate) tool: String,
    /// The arguments, a JSON object, for example '{"text": "hello"}'
    #[arg(long, value_name = "JSON", default_value = "{}", conflicts_with = "args_file")]
    pub(crate) args: String,
    /// Read the arguments from a file; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) args_file: Option<PathBuf>,
    /// Write images, sounds and files of the result into this directory; nothing is overwritten
    #[arg(long, value_name = "DIR")]
    pub(crate) save_parts: Option<PathBuf>,
    /// Print the whole result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What the model is asked
    pub(crate) prompt: String,
    /// Send a file along with the prompt: an image, a PDF, a sound or text; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
    /// Go on with the conversation in this file, and write it back with what is said now; made when it is not there
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Standing instructions for the model
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// The model's name, as its provider knows it [env: TOOLCELL_MODEL]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Whose API it is: openai, openai-responses, anthropic, gemini, openrouter, deepseek, or a server's: ollama,
    /// ollama-responses, lmstudio, llamacpp, llamacpp-responses, vllm, anthropic-compatible. Without it: the one whose
    /// key is set, OPENAI_API_KEY before ANTHROPIC_API_KEY before GEMINI_API_KEY and so on
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Where the API answers, for example http://localhost:11434/v1. Without it: what OPENAI_BASE_URL says, or, for a
    /// provider that is named, its own variable: OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL. A server
    /// that none of the providers above is speaks OpenAI chat completions, and gets the key in OPENAI_API_KEY, if there
    /// is one
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Play a conversation from a JSON file instead of asking a model (the README says what is in it)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "provider", "base_url"])]
    pub(crate) script: Option<PathBuf>,
    /// Ask for each answer whole instead of streamed: for servers whose streams do not work with tools
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// The longest answer of the model, in tokens, reasoning included [default: the provider's]
    #[arg(long, value_name = "N")]
    pub(crate) output_tokens_max: Option<std::num::NonZeroU32>,
    /// The model's window in tokens: a conversation that nears it is sent shorter [default: until the provider refuses]
    #[arg(long, value_name = "N")]
    pub(crate) context_tokens: Option<std::num::NonZeroU32>,
    /// How often the model may be asked
    #[arg(long, value_name = "N", default_value = "25")]
    pub(crate) turns_max: std::num::NonZeroU32,
    /// Write images, sounds and files of results into this directory; nothing is overwritten
    #[arg(long, value_name = "DIR")]
    pub(crate) save_parts: Option<PathBuf>,
    /// Show what tools print and log
    #[arg(long)]
    pub(crate) log: bool,
    /// Print one JSON object for each event, the last of type "result"
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) asking: Asking,
    #[command(flatten)]
    pub(crate) place: Place,
}
