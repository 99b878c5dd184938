//! What was typed for the commands that work with runs on record.

use clap::{Args, Subcommand, ValueEnum};
use toolcell::{RETENTION_DAYS_MAX, Tenant, WEIGHT_MAX};

use super::{Approval, Asking, ModelArgs, Place};
use crate::examples;

/// Where runs are on record, and whose they are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Record")]
pub(crate) struct StoreArgs {
    /// Where runs are on record: the path of a file, or postgres://… [default: toolcell/runs.db in the user's data directory]
    #[arg(long, global = true, value_name = "PLACE", env = "TOOLCELL_STORE", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Whose runs
    #[arg(long, global = true, value_name = "NAME", env = "TOOLCELL_TENANT", default_value = "local")]
    pub(crate) tenant: Tenant,
}

#[derive(Debug, Args)]
#[command(after_help = examples::PENDING)]
pub(crate) struct PendingArgs {
    /// Show this question alone, with all that the host recorded
    pub(crate) id: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = examples::ANSWER)]
#[command(group = clap::ArgGroup::new("decision").required(true).args(["approve", "decline", "data"]).multiple(true))]
pub(crate) struct AnswerArgs {
    /// The question's id, as `toolcell pending` shows it
    pub(crate) id: String,
    /// Answer yes
    #[arg(long)]
    pub(crate) approve: bool,
    /// Answer no: the tool does not run
    #[arg(long, conflicts_with_all = ["approve", "data", "edit_args", "also"])]
    pub(crate) decline: bool,
    /// Answer yes, with what the question asks for: a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) data: Option<String>,
    /// Let the tool run with these arguments instead of the model's: a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) edit_args: Option<String>,
    /// Say yes to later calls of the same tool and component too, for a day; only to plain yes-or-no questions
    #[arg(long, value_name = "WHICH", value_enum, requires = "approve", conflicts_with_all = ["data", "edit_args"])]
    pub(crate) also: Option<AlsoArg>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AlsoArg {
    /// Those of this run with the same arguments
    Same,
    /// Those of this run
    Run,
    /// Those of all runs of the tenant
    Tenant,
}

#[derive(Debug, Args)]
#[command(after_help = examples::GRANTS)]
pub(crate) struct GrantsArgs {
    /// Take this grant back, instead of listing them
    #[arg(long, value_name = "ID")]
    pub(crate) revoke: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = examples::RESUME)]
pub(crate) struct ResumeArgs {
    /// The run's id, as `toolcell runs` shows it
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Show what tools print and log
    #[arg(long)]
    pub(crate) log: bool,
    /// Print one JSON object for each event, the last of type "result"
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) approval: Approval,
    #[command(flatten)]
    pub(crate) asking: Asking,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Args)]
#[command(after_help = examples::RUNS)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// The runs, newest first
    List {
        /// At most so many
        #[arg(long, value_name = "N", default_value = "50")]
        limit: u32,
        /// Those before the run with this id
        #[arg(long, value_name = "RUN")]
        after: Option<String>,
    },
    /// One run: where it stands and what was said
    Show {
        /// The run's id
        run: String,
    },
    /// All that is known of a run, as JSON
    Export {
        /// The run's id
        run: String,
    },
    /// End a run: what waits is closed, what works is stopped
    Cancel {
        /// The run's id
        run: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = examples::TENANT)]
pub(crate) struct TenantArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TenantCommand>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// Its settings
    Show,
    /// Change settings; what is not named stays as it is
    Set(TenantSet),
    /// Remove a tenant with its runs, questions, grants and audit
    Delete {
        /// The same as --tenant, once more: nothing of it can be brought back
        name: Tenant,
    },
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("setting").required(true).multiple(true)
    .args(["weight", "open_max", "retention_days", "webhook", "no_webhook"]))]
pub(crate) struct TenantSet {
    /// Its share of the workers against other tenants'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(WEIGHT_MAX)))]
    pub(crate) weight: Option<u32>,
    /// Questions that may be open at once; a call that asks one more is refused as busy
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) open_max: Option<u32>,
    /// Days for which runs are kept after they have ended
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=i64::from(RETENTION_DAYS_MAX)))]
    pub(crate) retention_days: Option<u32>,
    /// Tell this URL when its runs wait or have ended; signed with the key in TOOLCELL_WEBHOOK_SECRET, which is whsec_ and
    /// the base64 of 24 to 64 bytes
    #[arg(long, value_name = "URL", conflicts_with = "no_webhook")]
    pub(crate) webhook: Option<String>,
    /// Tell nobody any more
    #[arg(long)]
    pub(crate) no_webhook: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples::AUDIT)]
pub(crate) struct AuditArgs {
    /// Begin behind the line with this number
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) after: u64,
    /// Check that no line was changed or removed, instead of printing them
    #[arg(long, conflicts_with = "after")]
    pub(crate) verify: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = examples::WORKER)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Runs at the same time
    #[arg(long, value_name = "N", default_value = "16")]
    pub(crate) runs_at_once: std::num::NonZeroUsize,
    /// How long a run is this worker's without being heard of, in seconds; then another takes it over
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) lease: u64,
    /// Tell the tenant of --tenant here when its runs wait or have ended, from now on, as `toolcell tenant set --webhook`
    /// does; signed with the key in TOOLCELL_WEBHOOK_SECRET (`toolcell tenant --help` says its form)
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// Print one JSON object for each thing that happens on standard output, instead of lines on standard error
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) approval: Approval,
    #[command(flatten)]
    pub(crate) place: Place,
}
