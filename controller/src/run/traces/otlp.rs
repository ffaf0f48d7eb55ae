//! The exporter of spans.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use muster_stages::state::NodeStart;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor,
};

use super::super::metrics::PodTimes;
use super::spans::{Span, of_node, of_pod};
use super::{ENDPOINTS, TracesError, first_set};

const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const QUEUE_SIZE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";
/// Spans of 5,000 pods that are bound within the interval of an export. Beyond it, spans are dropped.
const MOST_QUEUED: usize = 16_384;

/// Sender of traces, if the environment names a collector; clones share everything.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct Traces(Option<Arc<BatchSpanProcessor>>);

// === impl Traces ===

impl Traces {
    /// Reads the settings from the environment variables that OpenTelemetry specifies. Must be called in a runtime.
    ///
    /// # Errors
    /// If they cannot be used.
    pub(in crate::run) fn from_env() -> Result<Self, TracesError> {
        let is = |name, value| std::env::var(name).is_ok_and(|set| set.eq_ignore_ascii_case(value));
        let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
        match first_set(ENDPOINTS).filter(|_| !is_off) {
            Some((variable, endpoint)) => Self::to(variable, &endpoint),
            None => Ok(Self(None)),
        }
    }

    fn to(variable: &'static str, endpoint: &str) -> Result<Self, TracesError> {
        let endpoint_error = |reason| TracesError::Endpoint { variable, reason };
        if let Some((variable, _)) = first_set(PROTOCOLS).filter(|(_, protocol)| protocol != "grpc") {
            return Err(TracesError::Protocol { variable });
        }
        let parsed: http::Uri = endpoint.parse().map_err(|_| endpoint_error("it is not a URL"))?;
        match parsed.scheme_str() {
            Some("http") if parsed.host().is_some() => {}
            Some("https") => return Err(endpoint_error("TLS is not supported: use a collector in the cluster")),
            _ => return Err(endpoint_error("it is not a URL with the scheme `http`")),
        }
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let exporter = exporter.map_err(|error| TracesError::Exporter(error.to_string()))?;
        let mut queue = BatchConfigBuilder::default();
        if std::env::var_os(QUEUE_SIZE).is_none() {
            queue = queue.with_max_queue_size(MOST_QUEUED);
        }
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(queue.build()).build();
        processor.set_resource(&Resource::builder().with_service_name("muster").build());
        Ok(Self(Some(Arc::new(processor))))
    }

    /// Sends the trace of a pod that was bound now.
    pub(in crate::run) fn pod_bound(&self, path: &str, node: &str, times: &PodTimes, bound: Timestamp) {
        if let Some(processor) = &self.0 {
            send(processor, of_pod(path, node, times, bound));
        }
    }

    /// Sends the trace of a node that was initialized.
    pub(in crate::run) fn node_initialized(&self, start: &NodeStart) {
        if let Some(processor) = &self.0 {
            send(processor, of_node(start));
        }
    }

    /// Sends what is left, for at most five seconds.
    pub(in crate::run) async fn end(self) {
        let Some(processor) = self.0 else { return };
        // The exporter needs the runtime, whose only thread must not wait for it.
        let ended = tokio::task::spawn_blocking(move || processor.shutdown()).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!("the last traces were not sent");
        }
    }
}

/// Queues spans. Those for which there is no room are dropped: nothing waits for a collector.
fn send(processor: &BatchSpanProcessor, spans: Vec<Span>) {
    for span in spans {
        processor.on_end(data(span));
    }
}

fn data(span: Span) -> SpanData {
    let Span { trace, id, parent, name, start, end, attributes } = span;
    let trace = TraceId::from(trace);
    SpanData {
        span_context: SpanContext::new(trace, SpanId::from(id), TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time: SystemTime::from(start),
        end_time: SystemTime::from(end),
        attributes: attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("muster").with_version(env!("CARGO_PKG_VERSION")).build(),
    }
}
