//! Traces to an OpenTelemetry collector, as OTLP over HTTP (protobuf).
//!
//! The spans are those of the run: `invoke_agent`, `chat` and `execute_tool`, named and described by the OpenTelemetry
//! semantic conventions for generative AI. They hold names, sizes and times, never what was said.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

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

    /// The layer that hands spans over, for a `tracing_subscriber` registry.
    #[must_use]
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer().with_tracer(self.provider.tracer("toolcell"))
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
