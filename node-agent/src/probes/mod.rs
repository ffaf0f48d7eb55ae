//! The edge towards the machine: each probe asks one thing, ends by a deadline, and judges nothing.

#[cfg(any(target_os = "linux", windows))]
pub mod api;
#[cfg(target_os = "linux")]
pub mod cri;
#[cfg(any(target_os = "linux", windows))]
pub mod documents;
#[cfg(any(target_os = "linux", windows))]
pub mod gather;
#[cfg(any(target_os = "linux", windows))]
pub mod http;
#[cfg(target_os = "linux")]
pub mod journal;
#[cfg(any(target_os = "linux", windows))]
pub mod kubeconfig;
pub mod kubelet;
#[cfg(target_os = "linux")]
pub mod machine;
#[cfg(any(target_os = "linux", windows))]
pub mod metadata;
#[cfg(target_os = "linux")]
pub mod pod_resources;
#[cfg(any(target_os = "linux", windows))]
pub mod sts;
#[cfg(target_os = "linux")]
pub mod systemd;
#[cfg(windows)]
pub mod windows;

// Whoever starts services, and the other parts of a machine that each platform has in its own way.
#[cfg(target_os = "linux")]
pub use self::systemd as supervisor;
#[cfg(windows)]
pub use self::windows::{journal, machine, pod_resources, services as supervisor};

use std::time::Duration;

/// How long a step on the network may take in the preflight. A healthy answer takes milliseconds; together the steps must
/// stay under the two seconds that a boot may be held up.
pub const STEP: Duration = Duration::from_millis(1500);

/// How long a program of the image may take, such as the one that makes the token: AWS's command line is Python, and takes
/// a second on a small instance.
pub const PROGRAM: Duration = Duration::from_secs(10);

#[cfg(test)]
#[cfg(any(target_os = "linux", windows))]
pub(crate) mod tests;
