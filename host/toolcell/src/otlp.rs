//! Traces to an OpenTelemetry collector, as OTLP over HTTP (protobuf).
//!
//! The spans are those of the run: `invoke_agent`, `chat` and `execute_tool`, named and described by the OpenTelemetry
//! semantic conventions for generative AI. They hold names, sizes and times, never what was said.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// Where the spans of runs come from.
const RUNS: &str = "toolcell_agent";

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("the exporter of traces cannot be set up: {0}")]
pub struct OtlpError(#[from] opentelemetry_otlp::ExporterBuildError);

/// The sending of traces. They are sent in batches from a thread of their own; what was not sent yet is sent when this
/// is dropped, which may take as long as the collector's timeout.
#[derive(Debug)]
pub struct Otlp {
    provider: SdkTracerProvider,
}

impl Otlp {
    /// Prepares the sending. The collector's address, headers and timeouts are those of the standard variables
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` (default `http://localhost:4318`), `OTEL_EXPORTER_OTLP_HEADERS` and so on; the
    /// program is called `service` unless `OTEL_SERVICE_NAME` says otherwise.
    ///
    /// # Errors
    /// [`OtlpError`] when an address or a header cannot be used.
    pub fn from_environment(service: &'static str) -> Result<Self, OtlpError> {
        toolcell_model::install_tls();
        let exporter = SpanExporter::builder().with_http().build()?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(service);
        }
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
        Ok(Self { provider })
    }

    /// The layer that hands the spans of runs over, for a `tracing_subscriber` registry. Log lines stay here, because
    /// they may quote a provider; so do the spans of other libraries, which would trace the sending of traces.
    #[must_use]
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let spans_of_runs = filter_fn(|metadata| metadata.is_span() && metadata.target().starts_with(RUNS));
        tracing_opentelemetry::layer().with_tracer(self.provider.tracer("toolcell")).with_filter(spans_of_runs)
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
