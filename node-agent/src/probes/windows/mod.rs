//! Windows implementations of the probes, with the same interfaces as on Linux.

pub mod journal;
pub mod machine;
pub mod services;

/// Device plugins, which are not supported on this platform: see [`Platform::lacks`](crate::platform::Platform::lacks).
pub mod pod_resources {
    use std::collections::BTreeMap;

    /// Returns `None`.
    #[expect(clippy::unused_async, reason = "asked like its counterpart")]
    pub async fn healthy() -> Option<BTreeMap<String, u64>> {
        None
    }
}
