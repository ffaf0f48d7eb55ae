//! Trace of events, for people and programs.

use jiff::Timestamp;
use serde::Serialize;

/// Trace entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Time of the event.
    pub at: Timestamp,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// Event of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Event {
    /// The script executed an event.
    Script {
        /// Description of the event.
        what: String,
    },
    /// Pods were created.
    PodsCame {
        /// Their workload, as `namespace/name`.
        workload: String,
        /// Number of pods.
        pods: usize,
    },
    /// The controller created a NodeClaim.
    ClaimAndNode {
        /// Name of the NodeClaim.
        claim: String,
        /// Its NodePool.
        node_pool: String,
    },
    /// An instance was launched.
    Launched {
        /// Its NodeClaim.
        claim: String,
        /// Its NodePool.
        node_pool: String,
        /// Instance type.
        instance_type: String,
        /// Zone.
        zone: String,
        /// Capacity type.
        capacity_type: String,
        /// Price in USD per hour.
        price: f64,
    },
    /// A launch was refused some of its preferred offerings.
    Refused {
        /// Its NodeClaim.
        claim: String,
        /// Unavailable offerings, as `type/zone/capacity type`.
        offerings: Vec<String>,
    },
    /// An instance joined the cluster as a Node.
    Joined {
        /// Its NodeClaim.
        claim: String,
        /// The Node.
        node: String,
    },
    /// A node was initialized.
    Initialized {
        /// Its NodeClaim.
        claim: String,
        /// The Node.
        node: String,
        /// Time since the creation of the claim, in seconds.
        seconds: i64,
    },
    /// Pods were bound to nodes.
    Bound {
        /// Number of pods.
        pods: usize,
    },
    /// The cloud announced the interruption of an instance.
    Interrupted {
        /// Its NodeClaim.
        claim: String,
        /// Its Node.
        node: String,
    },
    /// The controller disrupts nodes.
    Disrupting {
        /// Reason of the disruption.
        reason: String,
        /// NodeClaims of the disrupted nodes.
        claims: Vec<String>,
        /// NodeClaims of the replacements.
        replacements: Vec<String>,
        /// Savings in USD per hour.
        savings: f64,
    },
    /// The controller reboots a node.
    Rebooting {
        /// Its NodeClaim.
        claim: String,
    },
    /// A NodeClaim is being deleted.
    Ending {
        /// Name of the NodeClaim.
        claim: String,
        /// Reason of the deletion.
        reason: String,
    },
    /// A NodeClaim was removed.
    Gone {
        /// Name of the NodeClaim.
        claim: String,
    },
    /// The controller recorded a warning event.
    Warned {
        /// Object of the event, as `kind name`.
        about: String,
        /// Reason of the event, in one word.
        reason: String,
        /// Message of the event.
        message: String,
    },
    /// The controller stopped between two writes.
    Stopped,
    /// The controller restarted.
    Back,
    /// An invariant was violated.
    Broken {
        /// Description of the violation.
        what: String,
    },
}

/// All events so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    entries: Vec<Entry>,
}

// === impl Trace ===

impl Trace {
    /// Adds an event.
    pub(crate) fn add(&mut self, at: Timestamp, event: Event) {
        self.entries.push(Entry { at, event });
    }

    /// Returns all entries, in order.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
