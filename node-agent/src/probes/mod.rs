//! I/O with the machine: each probe asks one thing within a timeout, and judges nothing.

#[cfg(any(target_os = "linux", windows))]
pub mod api;
#[cfg(target_os = "linux")]
pub mod cri;
#[cfg(any(target_os = "linux", windows))]
pub mod documents;
#[cfg(any(target_os = "linux", windows))]
pub mod fault;
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

// The service manager, and other parts of a machine with an implementation per platform.
#[cfg(target_os = "linux")]
pub use self::systemd as supervisor;
#[cfg(windows)]
pub use self::windows::{journal, machine, pod_resources, services as supervisor};

use std::time::Duration;

/// Timeout of a network step in the preflight. A healthy response takes milliseconds. All steps together must stay
/// below the two seconds by which a boot may be delayed.
pub const STEP: Duration = Duration::from_millis(1500);

/// Timeout of a program in the image, such as the token program. The AWS CLI is written in Python and takes a second on
/// a small instance.
pub const PROGRAM: Duration = Duration::from_secs(10);

#[cfg(test)]
#[cfg(any(target_os = "linux", windows))]
pub(crate) mod tests;
