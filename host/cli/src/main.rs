//! The `toolcell` program: reads what was typed, runs the command, turns its end into an exit code.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod ask;
mod attach;
mod cancel;
mod causes;
mod commands;
mod examples;
mod exit;
mod form;
mod history;
mod host;
mod lines;
mod model;
mod news;
mod output;
mod printable;
mod save;
mod screen;
mod store;
mod telemetry;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::exit::Exit;
use crate::output::note;
use crate::store::Stores;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let _telemetry = telemetry::start();
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(dispatch(cli)));
    let exit = done.unwrap_or_else(|error| {
        note!("error: {}", printable::printable(&causes::causes(error.chain())));
        Exit::of(&error)
    });
    exit.into()
}

/// Runs the command, and closes the store that it has opened, however it ends.
async fn dispatch(cli: Cli) -> anyhow::Result<Exit> {
    let stores = Stores::default();
    let done = command(cli, &stores).await;
    stores.close().await;
    done
}

async fn command(cli: Cli, stores: &Stores) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Tools(args) => commands::tools::run(args).await,
        Command::Check(args) => commands::check::run(args).await,
        Command::Grant(args) => commands::grant::run(&args),
        Command::Call(args) => commands::call::run(args).await,
        Command::Run(args) => commands::run::run(args, stores).await,
        Command::Pending(args) => commands::pending::pending(args, stores).await,
        Command::Answer(args) => commands::answer::run(args, stores).await,
        Command::Grants(args) => commands::pending::grants(args, stores).await,
        Command::Resume(args) => commands::resume::run(args, stores).await,
        Command::Runs(args) => commands::runs::run(args, stores).await,
        Command::Worker(args) => commands::worker::run(args, stores).await,
        Command::Tenant(args) => commands::tenant::run(args, stores).await,
        Command::Audit(args) => commands::audit::run(args, stores).await,
    }
}
