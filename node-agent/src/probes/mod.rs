//! The edge towards the machine: each probe asks one thing, ends by a deadline, and judges nothing.

#[cfg(target_os = "linux")]
pub mod api;
#[cfg(target_os = "linux")]
pub mod cri;
#[cfg(target_os = "linux")]
pub mod documents;
#[cfg(target_os = "linux")]
pub mod gather;
#[cfg(target_os = "linux")]
pub mod http;
#[cfg(target_os = "linux")]
pub mod journal;
#[cfg(target_os = "linux")]
pub mod kubeconfig;
pub mod kubelet;
#[cfg(target_os = "linux")]
pub mod machine;
#[cfg(target_os = "linux")]
pub mod metadata;
#[cfg(target_os = "linux")]
pub mod pod_resources;
#[cfg(target_os = "linux")]
pub mod sts;
#[cfg(target_os = "linux")]
pub mod systemd;

use std::time::Duration;

/// How long a step on the network may take in the preflight. A healthy answer takes milliseconds; together the steps must
/// stay under the two seconds that a boot may be held up.
pub const STEP: Duration = Duration::from_millis(1500);

/// How long a program of the image may take, such as the one that makes the token: AWS's command line is Python, and takes
/// a second on a small instance.
pub const PROGRAM: Duration = Duration::from_secs(10);

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
