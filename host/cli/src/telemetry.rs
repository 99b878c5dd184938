//! The log on standard error, and traces to a collector where the environment names one.

use std::io::IsTerminal as _;

use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, fmt, registry};

/// What guests do is never logged by the libraries below, whatever is asked for; and one line about lost traces is enough.
const PINNED: &str = "wasmtime=warn,wasmtime_wasi=warn,wasmtime_wasi_io=warn,cranelift=warn,hyper=warn,rustls=warn,\
                      opentelemetry_sdk=off";

/// Starts both. Traces that were not sent yet are sent when the value is dropped.
pub(crate) fn start() -> Telemetry {
    let wanted = std::env::var("TOOLCELL_LOG").unwrap_or_else(|_| "warn".to_owned());
    let filter =
        EnvFilter::try_new(format!("{wanted},{PINNED}")).unwrap_or_else(|_| EnvFilter::new(format!("warn,{PINNED}")));
    let log = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // A log that cannot be written is no reason to panic over.
        .log_internal_errors(false)
        .with_filter(filter);
    let traces = traces();
    registry().with(traces.as_ref().map(layer)).with(log).init();
    traces
}

#[cfg(feature = "otlp")]
use otlp::{Telemetry, layer, traces};

#[cfg(feature = "otlp")]
mod otlp {
    use toolcell::Otlp;
    use tracing_subscriber::layer::Layer;
    use tracing_subscriber::registry::Registry;

    use crate::output::note;

    pub(super) type Telemetry = Option<Otlp>;

    /// The variables that name a collector.
    const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

    pub(super) fn traces() -> Telemetry {
        ENDPOINTS.iter().find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))?;
        // A run is worth more than its trace.
        Otlp::from_environment("toolcell").inspect_err(|error| note!("warning: {error}; the run is not traced")).ok()
    }

    pub(super) fn layer(otlp: &Otlp) -> impl Layer<Registry> + use<> {
        otlp.layer()
    }
}

#[cfg(not(feature = "otlp"))]
use without::{Telemetry, layer, traces};

#[cfg(not(feature = "otlp"))]
mod without {
    use tracing_subscriber::layer::Identity;

    pub(super) type Telemetry = Option<()>;

    pub(super) fn traces() -> Telemetry {
        None
    }

    pub(super) fn layer(_: &()) -> Identity {
        Identity::new()
    }
}
