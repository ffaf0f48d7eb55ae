//! A build without traces.

use jiff::Timestamp;
use muster_stages::state::NodeStart;

use super::super::metrics::PodTimes;
use super::{ENDPOINTS, TracesError, first_set};

/// Nowhere to send traces.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct Traces(());

// === impl Traces ===

impl Traces {
    /// Warns if the environment names a collector.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::unnecessary_wraps, reason = "a build with traces may fail")]
    pub(in crate::run) fn from_env() -> Result<Self, TracesError> {
        if let Some((variable, _)) = first_set(ENDPOINTS) {
            tracing::warn!("`{variable}` has no effect: this build sends no traces; the feature `otlp` has them");
        }
        Ok(Self(()))
    }

    #[expect(clippy::unused_self, reason = "a build with traces sends it")]
    pub(in crate::run) const fn pod_bound(&self, _path: &str, _node: &str, _times: &PodTimes, _bound: Timestamp) {}

    #[expect(clippy::unused_self, reason = "a build with traces sends it")]
    pub(in crate::run) const fn node_initialized(&self, _start: &NodeStart) {}

    #[expect(clippy::unused_async, reason = "a build with traces sends what is left")]
    pub(in crate::run) async fn end(self) {}
}
