//! The `toolcell` program: reads what was typed, runs the command, turns its end into an exit code.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod ask;
mod cancel;
mod commands;
mod exit;
mod form;
mod host;
mod lines;
mod output;
mod printable;
mod save;
mod screen;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::exit::Exit;
use crate::output::note;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(dispatch(cli)));
    let exit = done.unwrap_or_else(|error| {
        note!("error: {}", printable::printable(&format!("{error:#}")));
        Exit::of(&error)
    });
    exit.into()
}

async fn dispatch(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Tools(args) => commands::tools::run(args).await,
        Command::Call(args) => commands::call::run(args).await,
        Command::Run(args) => commands::run::run(args).await,
    }
}

/// Warnings, or what `TOOLCELL_LOG` asks for. What guests do is never logged by the libraries below, whatever it asks.
fn log_to_stderr() {
    let wanted = std::env::var("TOOLCELL_LOG").unwrap_or_else(|_| "warn".to_owned());
    let pinned = "wasmtime=warn,wasmtime_wasi=warn,wasmtime_wasi_io=warn,cranelift=warn,hyper=warn,rustls=warn";
    let filter = tracing_subscriber::EnvFilter::try_new(format!("{wanted},{pinned}"))
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(format!("warn,{pinned}")));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // A log that cannot be written is no reason to panic over.
        .log_internal_errors(false)
        .init();
}
