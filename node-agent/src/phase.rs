//! The stages on a node's way into its cluster.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A stage. Each needs those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The node is checked before its kubelet starts.
    Preflight,
    /// The kubelet's files are written and its unit is started.
    Bootstrap,
    /// The kubelet runs and says that it is well.
    Kubelet,
    /// The API server has this instance's Node.
    Registered,
    /// The node offers the devices that it was launched for.
    Devices,
    /// The node is Ready and nothing that is taken off at the start is left on it: it takes pods.
    Initialized,
}

impl Phase {
    /// All of them, in order.
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

/// How a stage stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// A stage before it is not done.
    Pending,
    /// It is under way.
    Running,
    /// It holds.
    Done,
    /// An error keeps it from holding.
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
