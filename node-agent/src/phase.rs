//! Stages of a node joining its cluster.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A stage. Each requires the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Checks before the kubelet starts.
    Preflight,
    /// The kubelet's files are written and its unit is started.
    Bootstrap,
    /// The kubelet runs and is healthy.
    Kubelet,
    /// This instance's Node exists in the API server.
    Registered,
    /// The Node offers the devices that it was launched for.
    Devices,
    /// The Node is Ready and has no startup taints left, so that pods can be scheduled to it.
    Initialized,
}

impl Phase {
    /// All stages, in order.
    pub const ALL: [Self; 6] =
        [Self::Preflight, Self::Bootstrap, Self::Kubelet, Self::Registered, Self::Devices, Self::Initialized];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Preflight => "preflight",
            Self::Bootstrap => "bootstrap",
            Self::Kubelet => "kubelet",
            Self::Registered => "registered",
            Self::Devices => "devices",
            Self::Initialized => "initialized",
        })
    }
}

/// State of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// An earlier stage is not done.
    Pending,
    /// In progress.
    Running,
    /// Done.
    Done,
    /// Blocked by an error.
    Failed,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        })
    }
}
