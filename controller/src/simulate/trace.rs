//! What happened, for people and for programs.

use jiff::Timestamp;
use serde::Serialize;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Event {
    /// The script did something.
    Script {
        /// What, in words.
        what: String,
    },
    /// New pods are there.
    PodsCame {
        /// Their workload, as `namespace/name`.
        workload: String,
        /// How many.
        pods: usize,
    },
    /// The controller made a NodeClaim.
    Claimed {
        /// Its name.
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
        /// What was bought.
        instance_type: String,
        /// Where.
        zone: String,
        /// How.
        capacity_type: String,
        /// USD per hour.
        price: f64,
    },
    /// A launch was refused some of what it would have taken.
    Refused {
        /// Its NodeClaim.
        claim: String,
        /// What could not be had, as `type/zone/capacity type`.
        offerings: Vec<String>,
    },
    /// An instance has become a Node.
    Joined {
        /// Its NodeClaim.
        claim: String,
        /// The Node.
        node: String,
    },
    /// The pods of a node may run.
    Initialized {
        /// Its NodeClaim.
        claim: String,
        /// The Node.
        node: String,
        /// Since the claim was made.
        seconds: i64,
    },
    /// Pods got their nodes.
    Bound {
        /// How many.
        pods: usize,
    },
    /// The cloud announces that it takes an instance back.
    Interrupted {
        /// Its NodeClaim.
        claim: String,
        /// Its Node.
        node: String,
    },
    /// The controller takes nodes away.
    Disrupting {
        /// Why.
        reason: String,
        /// The NodeClaims.
        claims: Vec<String>,
        /// The NodeClaims that are to replace them.
        replacements: Vec<String>,
        /// USD per hour that it saves.
        savings: f64,
    },
    /// A NodeClaim is being deleted.
    Ending {
        /// Its name.
        claim: String,
        /// Why.
        reason: String,
    },
    /// Nothing is left of a NodeClaim.
    Gone {
        /// Its name.
        claim: String,
    },
    /// The controller warned somebody.
    Warned {
        /// What about, as `kind/name`.
        about: String,
        /// In one word.
        reason: String,
        /// In words.
        message: String,
    },
    /// The controller stopped between two writes.
    Stopped,
    /// The controller is back.
    Back,
    /// A rule was broken that must always hold.
    Broken {
        /// Which, and how.
        what: String,
    },
}

/// All that happened so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    entries: Vec<Entry>,
}

// === impl Trace ===

impl Trace {
    /// Notes what happened.
    pub(crate) fn add(&mut self, at: Timestamp, event: Event) {
        self.entries.push(Entry { at, event });
    }

    /// All of it, in order.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
