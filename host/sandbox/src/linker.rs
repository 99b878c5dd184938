//! Everything that a guest can link to, interface by interface. What is not in here does not exist for a guest.

use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Result};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random, sockets};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};
use wasmtime_wasi_io::bindings::wasi::io;

use crate::bindings::toolcell::tool as toolcell;
use crate::state::CallState;

/// The interfaces that are linked, without their version, and the versions that fit.
pub(crate) const LINKED: [(&str, &str); 34] = [
    ("wasi:io/error", "0.2."),
    ("wasi:io/poll", "0.2."),
    ("wasi:io/streams", "0.2."),
    ("wasi:clocks/wall-clock", "0.2."),
    ("wasi:clocks/monotonic-clock", "0.2."),
    ("wasi:random/random", "0.2."),
    ("wasi:random/insecure", "0.2."),
    ("wasi:random/insecure-seed", "0.2."),
    ("wasi:cli/environment", "0.2."),
    ("wasi:cli/exit", "0.2."),
    ("wasi:cli/stdin", "0.2."),
    ("wasi:cli/stdout", "0.2."),
    ("wasi:cli/stderr", "0.2."),
    ("wasi:cli/terminal-input", "0.2."),
    ("wasi:cli/terminal-output", "0.2."),
    ("wasi:cli/terminal-stdin", "0.2."),
    ("wasi:cli/terminal-stdout", "0.2."),
    ("wasi:cli/terminal-stderr", "0.2."),
    ("wasi:filesystem/types", "0.2."),
    ("wasi:filesystem/preopens", "0.2."),
    ("wasi:sockets/network", "0.2."),
    ("wasi:sockets/instance-network", "0.2."),
    ("wasi:sockets/ip-name-lookup", "0.2."),
    ("wasi:sockets/tcp", "0.2."),
    ("wasi:sockets/tcp-create-socket", "0.2."),
    ("wasi:sockets/udp", "0.2."),
    ("wasi:sockets/udp-create-socket", "0.2."),
    ("wasi:http/types", "0.2."),
    ("wasi:http/outgoing-handler", "0.2."),
    ("toolcell:tool/tool-types", "0.1."),
    ("toolcell:tool/log", "0.1."),
    ("toolcell:tool/progress", "0.1."),
    ("toolcell:tool/http", "0.1."),
    ("toolcell:tool/key-value", "0.1."),
];

/// Whether an imported name, for example `wasi:io/poll@0.2.6`, is one of [`LINKED`].
pub(crate) fn is_linked(import: &str) -> bool {
    let Some((name, version)) = import.split_once('@') else { return false };
    LINKED.iter().any(|(linked, prefix)| *linked == name && version.starts_with(prefix))
}

/// The linker of every component.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<CallState>> {
    let mut linker = Linker::new(engine);
    link_io_and_clocks(&mut linker)?;
    link_cli(&mut linker)?;
    link_files_and_sockets(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    link_toolcell(&mut linker)?;
    Ok(linker)
}

struct WasiIo;

impl HasData for WasiIo {
    type Data<'a> = &'a mut ResourceTable;
}

fn link_io_and_clocks(l: &mut Linker<CallState>) -> Result<()> {
    io::error::add_to_linker::<_, WasiIo>(l, |state| state.ctx().table)?;
    io::poll::add_to_linker::<_, WasiIo>(l, |state| state.ctx().table)?;
    io::streams::add_to_linker::<_, WasiIo>(l, |state| state.ctx().table)?;
    clocks::wall_clock::add_to_linker::<_, WasiClocks>(l, CallState::clocks)?;
    clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(l, CallState::clocks)?;
    random::random::add_to_linker::<_, WasiRandom>(l, |state| state.ctx().ctx.random())?;
    random::insecure::add_to_linker::<_, WasiRandom>(l, |state| state.ctx().ctx.random())?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(l, |state| state.ctx().ctx.random())
}

fn link_cli(l: &mut Linker<CallState>) -> Result<()> {
    cli::environment::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::exit::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(l, CallState::cli)
}

/// Standard libraries import files and interpreters import sockets whether a tool uses them or not. Without a
/// preopened directory and with every socket refused by its context, there is nothing behind them.
fn link_files_and_sockets(l: &mut Linker<CallState>) -> Result<()> {
    filesystem::types::add_to_linker::<_, WasiFilesystem>(l, CallState::filesystem)?;
    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(l, CallState::filesystem)?;
    sockets::network::add_to_linker::<_, WasiSockets>(
        l,
        &sockets::network::LinkOptions::default(),
        CallState::sockets,
    )?;
    sockets::instance_network::add_to_linker::<_, WasiSockets>(l, CallState::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(l, CallState::sockets)?;
    sockets::tcp::add_to_linker::<_, WasiSockets>(l, CallState::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(l, CallState::sockets)?;
    sockets::udp::add_to_linker::<_, WasiSockets>(l, CallState::sockets)?;
    sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(l, CallState::sockets)
}

fn link_toolcell(l: &mut Linker<CallState>) -> Result<()> {
    toolcell::tool_types::add_to_linker::<_, HasSelf<_>>(l, |state| state)?;
    toolcell::log::add_to_linker::<_, HasSelf<_>>(l, |state| state)?;
    toolcell::progress::add_to_linker::<_, HasSelf<_>>(l, |state| state)?;
    toolcell::http::add_to_linker::<_, HasSelf<_>>(l, |state| state)?;
    toolcell::key_value::add_to_linker::<_, HasSelf<_>>(l, |state| state)
}
