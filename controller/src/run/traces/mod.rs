//! Traces of pods and nodes, sent by OTLP. Only with the feature `otlp`.
//!
//! ```text
//!   pod that Muster decided about ── bound ──────────► spans::of_pod  ┐
//!                                                                     ├──► otlp: queue of bounded length ──► collector
//!   NodeClaim ── Initialized for the first time ─────► spans::of_node ┘
//! ```
//!
//! Spans are made when their way is complete, from times that are known anyway: nothing is carried along meanwhile. The
//! trace ID is the UID of the pod or NodeClaim, so that either leads to the other, and two leaders tell the same.

#[cfg(not(feature = "otlp"))]
mod absent;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod spans;

#[cfg(not(feature = "otlp"))]
pub(super) use self::absent::Traces;
#[cfg(feature = "otlp")]
pub(super) use self::otlp::Traces;

/// Environment variables that name a collector, the more specific one first.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Reason why traces cannot be sent. `Display` is the whole message, hint included. It quotes no endpoint, which may
/// hold credentials.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint cannot be used.
    #[error(
        "`{variable}`: {reason}\n\nhint: name a collector that takes OTLP over gRPC, such as `http://localhost:4317`"
    )]
    Endpoint {
        /// The variable.
        variable: &'static str,
        /// Fault of its value.
        reason: &'static str,
    },
    /// The protocol is not supported.
    #[error(
        "`{variable}`: only `grpc` is supported\n\nhint: leave it out, and name the collector's port for gRPC (4317)"
    )]
    Protocol {
        /// The variable.
        variable: &'static str,
    },
    /// The exporter cannot be built.
    #[error("traces cannot be sent: {0}\n\nhint: leave out OTEL_EXPORTER_OTLP_ENDPOINT to run without traces")]
    Exporter(String),
}

/// Returns the first of these environment variables that is set and not empty, with its value.
fn first_set(variables: [&'static str; 2]) -> Option<(&'static str, String)> {
    let set = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty()).map(|value| (name, value));
    variables.into_iter().find_map(set)
}
