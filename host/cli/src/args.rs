//! What was typed. What it means is decided by the commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use toolcell::{Approve, Tenant};

use crate::{examples, exit};

mod stored;

pub(crate) use stored::*;

/// Runs the tools of language models inside WebAssembly components.
///
/// Every .wasm file of a directory is a tool. Each call gets a fresh sandbox, without files, network or environment, but
/// for what the operator's policy grants.
#[derive(Debug, Parser)]
#[command(name = "toolcell", version, after_help = format!("{}\n\n{}", examples::TOOLCELL, exit::TABLE))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the tools of a directory: what they do, take, weigh and ask for
    Tools(ToolsArgs),
    /// Explain what each component asks for, what the policy grants it, and what is missing
    Check(CheckArgs),
    /// Add a grant to the policy, after showing what it adds
    Grant(GrantArgs),
    /// Call one tool and print its result
    Call(CallArgs),
    /// Let a model answer a prompt with the tools of a directory
    Run(RunArgs),
    /// List the questions that runs on record wait for
    Pending(PendingArgs),
    /// Answer a question of a run on record
    Answer(AnswerArgs),
    /// List what `toolcell answer --also` has granted, or take it back
    Grants(GrantsArgs),
    /// Go on with a run on record
    Resume(ResumeArgs),
    /// List, show, export and cancel runs on record
    Runs(RunsArgs),
    /// Work on runs on record, of all tenants, until it is stopped
    Worker(WorkerArgs),
    /// Show and set what a tenant may do and how long its runs are kept, or remove it
    Tenant(TenantArgs),
    /// Print the audit of a tenant: who asked, decided and ran what, each line chained to the one before
    Audit(AuditArgs),
}

/// Where tools and their compiled code are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct Place {
    /// The directory with the .wasm files
    #[arg(long, value_name = "DIR", env = "TOOLCELL_TOOLS", default_value = "tools")]
    pub(crate) tools: PathBuf,
    /// Where compiled code is kept [default: toolcell/compiled in the user's cache directory]
    #[arg(long, value_name = "DIR", env = "TOOLCELL_CACHE")]
    pub(crate) cache: Option<PathBuf>,
    /// What the tools may do beyond computing [default: toolcell.toml in the directory with the .wasm files, if it is there]
    #[arg(long, value_name = "FILE", env = "TOOLCELL_POLICY")]
    pub(crate) policy: Option<PathBuf>,
}

/// Who answers a tool that waits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Questions")]
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
#[command(after_help = examples::CHECK)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Print one JSON object for each component instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the JSON Schema of the policy file instead, for editors
    #[arg(long, conflicts_with = "json")]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples::GRANT)]
#[command(group = clap::ArgGroup::new("grant").required(true).multiple(true).args(["http", "mount", "env", "key_value"]))]
pub(crate) struct GrantArgs {
    /// The component: the name of its file without .wasm
    pub(crate) component: String,
    /// Requests to this origin, for example https://api.example.org or https://*.example.org:8443
    #[arg(long, value_name = "ORIGIN", requires = "method")]
    pub(crate) http: Vec<String>,
    /// With these methods
    #[arg(long, value_name = "METHOD", requires = "http")]
    pub(crate) method: Vec<String>,
    /// To this path and what is below it only
    #[arg(long, value_name = "PATH", requires = "http")]
    pub(crate) path: Option<String>,
    /// A directory of the host under a path of the tool's; with :rw at its end the tool may change it
    #[arg(long, value_name = "HOST:GUEST[:rw]")]
    pub(crate) mount: Vec<String>,
    /// A variable of the environment
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A key-value space of its own
    #[arg(long)]
    pub(crate) key_value: bool,
    /// Write it without asking
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::TOOLS)]
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
#[command(after_help = examples::CALL)]
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
#[command(after_help = examples::RUN)]
pub(crate) struct RunArgs {
    /// What the model is asked
    pub(crate) prompt: String,
    /// Send a file along with the prompt: an image, a PDF, a sound or text. May be given several times; at most 4 MiB a file,
    /// and 12 MiB all together
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
    /// Go on with the conversation in this file, and write it back with what is said now; made when it is not there
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// Standing instructions for the model
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
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
    /// Keep the run on record: the path of a file, or postgres://…. It survives this program: `toolcell pending` and
    /// `toolcell answer` answer it later, `toolcell resume` or a worker goes on with it [env: TOOLCELL_STORE, which counts
    /// when neither --store nor --history is given]
    #[arg(long, value_name = "PLACE", conflicts_with = "history")]
    pub(crate) store: Option<String>,
    /// Whose run it is, with --store
    #[arg(long, value_name = "NAME", env = "TOOLCELL_TENANT", default_value = "local")]
    pub(crate) tenant: Tenant,
    #[command(flatten)]
    pub(crate) approval: Approval,
    #[command(flatten)]
    pub(crate) asking: Asking,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Which model answers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
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
}

/// What a person must approve before it runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Questions")]
pub(crate) struct Approval {
    /// Which calls a person must approve before they run at all
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = ApproveArg::Never)]
    pub(crate) approve: ApproveArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApproveArg {
    /// Each call
    Always,
    /// Calls of tools that may destroy something; a tool that says nothing about it counts as one
    Destructive,
    /// No call
    Never,
}

impl From<ApproveArg> for Approve {
    fn from(arg: ApproveArg) -> Self {
        match arg {
            ApproveArg::Always => Self::Always,
            ApproveArg::Destructive => Self::Destructive,
            ApproveArg::Never => Self::Never,
        }
    }
}
