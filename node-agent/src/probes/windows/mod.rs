//! The edge towards a Windows machine, in the shape of its Linux counterparts.

pub mod journal;
pub mod machine;
pub mod services;

/// Device plugins, which are not on this platform: see [`Platform::lacks`](crate::platform::Platform::lacks).
pub mod pod_resources {
    use std::collections::BTreeMap;

    /// Nothing is known.
    #[expect(clippy::unused_async, reason = "asked like its counterpart")]
    pub async fn healthy() -> Option<BTreeMap<String, u64>> {
        None
    }
}
