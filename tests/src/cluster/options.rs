//! What a control plane can be asked for.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use jiff::SignedDuration;

/// How a control plane is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name, unique within a world: the prefix of its processes and logs, and the name of its folder.
    pub name: String,
    /// Where its servers listen.
    pub network: Network,
    /// Whether every request is written to `audit.log` among the logs: at level `Metadata`, in JSON.
    pub audit: bool,
    /// Where the API server asks about tokens that it does not know itself (`TokenReview` over HTTP), as EKS does for
    /// those of `aws eks get-token`.
    pub token_webhook: Option<String>,
    /// How far the clock of the API server is ahead of that of the machines (behind, if negative): the certificate that it
    /// shows to whoever calls it by its address was made that much later, and holds for a year. Clients of the world
    /// itself call it by a name, and see another.
    pub ahead: SignedDuration,
    /// How long a node may be silent until it counts as lost. Kubernetes: 50 s.
    pub node_grace: Option<Duration>,
    /// Whether there are scheduler and controllers. Without them nothing changes but by who calls: no pod is bound, no Node is
    /// lost, and no service account is made.
    pub has_controllers: bool,
}

/// Where the servers of a control plane listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// On the machine's own loopback: for everything but machines.
    Loopback,
    /// In a network namespace that machines can reach. A relay on the machine's loopback leads in.
    Namespace {
        /// As `ip netns` knows it.
        name: String,
        /// Of the API server within. The namespace has it already.
        address: Ipv4Addr,
    },
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "plane".to_owned(),
            network: Network::Loopback,
            audit: false,
            token_webhook: None,
            ahead: SignedDuration::ZERO,
            node_grace: None,
            has_controllers: true,
        }
    }
}

impl Options {
    /// A control plane of this name on loopback.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

impl Network {
    /// The namespace to start a server in.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Loopback => None,
            Self::Namespace { name, .. } => Some(name),
        }
    }

    /// Where the API server listens.
    pub(super) fn address(&self) -> IpAddr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Namespace { address, .. } => (*address).into(),
        }
    }
}
