//! What a stage decides: writes, in order, and when to look again.
//!
//! ```text
//!   provision   lifecycle   disruption   pools   classes        pure: what is to be written, given what is seen
//!        └──────────┴──────────┴──────────┴────────┘
//!                           ▼
//!                    Step: writes, again ──► edge, one write after the other
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use crate::node::Node;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use muster_api::NodeClaim;
use muster_api::nodeclaim::NodeClaimStatus;
use muster_api::nodepool::NodePoolStatus;
use muster_cloud::LaunchRequest;
use serde_json::Value;

/// The next writes, and when to look again.
///
/// An edge carries the writes out one after the other (those that stand alone, [`Write::stands_alone`], with their
/// neighbours), and stops at the first that fails. It keeps these rules:
///
/// - A change of an object holds for the version that was seen, or that an earlier write of the same step has left: if
///   the object has changed since, the rest of the step is dropped. Whoever looks again decides anew.
/// - Deletions and evictions name a UID, and hold for nothing else of that name. What is gone already is done.
/// - After a [`Write::Cloud`] or [`Write::Evict`], what came of it is put into [`crate::lifecycle::Answers`], and the stages are
///   asked again at once, with what was seen before. Answers are forgotten as soon as a step asks for nothing more.
/// - A change that is seen before [`Step::again`] is a reason to look earlier, and costs a try of what is waited for. An
///   edge keeps 100 ms between two looks at one claim, so that a crowd of leaving pods is not a crowd of evictions.
/// - An event is no reason to stop. It stands before or after the write that it tells of, so that it is published once,
///   or twice after a crash, and not forever.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// What to do, in this order.
    pub writes: Vec<Write>,
    /// When to look again although nothing has changed. Without writes and without this, the next change is awaited.
    pub again: Option<Timestamp>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Creates a NodeClaim. One of that name is the same decision, carried out before: then it is done.
    CreateClaim(Box<NodeClaim>),
    /// Changes the metadata of a NodeClaim.
    ClaimMeta {
        /// Its name.
        name: String,
        /// What changes.
        change: MetaChange,
    },
    /// Sets the status of a NodeClaim.
    ClaimStatus {
        /// Its name.
        name: String,
        /// The whole of it; fields that the API server knows and we do not are to be kept.
        status: Box<NodeClaimStatus>,
    },
    /// Deletes a NodeClaim.
    DeleteClaim {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Why, as metrics name it (`karpenter_nodeclaims_disrupted_total{reason}`).
        cause: &'static str,
    },
    /// Changes a Node.
    Node {
        /// Its name.
        name: String,
        /// What changes.
        change: NodeChange,
    },
    /// Deletes a Node.
    DeleteNode {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Changes the metadata of the NodeClass.
    ClassMeta(MetaChange),
    /// Sets one condition in the status of the NodeClass.
    ClassCondition(Condition),
    /// Sets the status of the NodeClass, in the form of its kind: the whole of it; fields that the API server knows and we do
    /// not are to be kept.
    ClassStatus(Box<Value>),
    /// Changes the metadata of a NodePool.
    PoolMeta {
        /// Its name.
        name: String,
        /// What changes.
        change: MetaChange,
    },
    /// Sets the status of a NodePool.
    PoolStatus {
        /// Its name.
        name: String,
        /// The whole of it; fields that the API server knows and we do not are to be kept.
        status: Box<NodePoolStatus>,
    },
    /// Sets `status.nominatedNodeName` of a pod that is bound to no node, a hint to kube-scheduler (KEP-5278).
    Nominate {
        /// The pod.
        pod: Subject,
        /// Name of the Node; none takes the hint back.
        node: Option<String>,
    },
    /// Asks the API server to evict a pod.
    Evict(Subject),
    /// Deletes a pod.
    DeletePod {
        /// The pod.
        pod: Subject,
        /// Seconds that it is given to end.
        grace: Duration,
    },
    /// Asks the cloud.
    Cloud(Call),
    /// Publishes an event.
    Event(Event),
}

/// What the cloud is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// [`muster_cloud::Cloud::launch`]; answered in [`crate::lifecycle::Answers::launch`].
    Launch(Box<LaunchRequest>),
    /// [`muster_cloud::Cloud::get`]; answered in [`crate::lifecycle::Answers::instance`].
    Get(String),
    /// The instance of [`muster_cloud::Cloud::list`] whose token is of the claim with this UID; answered in
    /// [`crate::lifecycle::Answers::instance`], not found if there is none.
    Find(String),
    /// [`muster_cloud::Cloud::console`]; answered in [`crate::lifecycle::Answers::console`].
    Console(String),
    /// [`muster_cloud::Cloud::terminate`]; answered in [`crate::lifecycle::Answers::terminate`].
    Terminate(String),
    /// [`muster_cloud::Cloud::tag`]; answered in [`crate::lifecycle::Answers::tag`].
    Tag {
        /// The instance.
        provider_id: String,
        /// The tags to add.
        tags: BTreeMap<String, String>,
    },
}

/// An object that is named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Its kind, such as `NodeClaim`.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// Whether an event tells of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// It does not.
    Normal,
    /// It does.
    Warning,
}

/// An event for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub about: Subject,
    /// Whether it tells of trouble.
    pub kind: EventType,
    /// One of [`muster_api::events`].
    pub reason: &'static str,
    /// What happened.
    pub message: String,
}

/// A change of an object's metadata.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetaChange {
    /// Labels to set, or to remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set, or to remove.
    pub annotations: BTreeMap<String, Option<String>>,
    /// All finalizers, if they change.
    pub finalizers: Option<Vec<String>>,
    /// All owners, if they change.
    pub owners: Option<Vec<OwnerReference>>,
}

/// A change of a Node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeChange {
    /// Change of its metadata.
    pub meta: MetaChange,
    /// All its taints, if they change.
    pub taints: Option<Vec<Taint>>,
}

// === impl Step ===

impl Step {
    /// Nothing to do until something changes.
    #[must_use]
    pub fn rest() -> Self {
        Self::default()
    }

    /// Nothing to do until then.
    #[must_use]
    pub fn until(moment: Timestamp) -> Self {
        Self { writes: Vec::new(), again: Some(moment) }
    }

    /// These writes. What they change is the reason to look again.
    #[must_use]
    pub fn act(writes: impl IntoIterator<Item = Write>) -> Self {
        Self { writes: writes.into_iter().collect(), again: None }
    }

    /// The same, looking again at that moment if it comes first.
    #[must_use]
    pub fn or_sooner(mut self, moment: Option<Timestamp>) -> Self {
        self.again = match (self.again, moment) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self
    }
}

// === impl Write ===

impl Write {
    /// Whether something comes back that the stages wait for.
    #[must_use]
    pub const fn is_question(&self) -> bool {
        matches!(self, Self::Cloud(_) | Self::Evict(_))
    }

    /// Whether it changes no object that another write of its kind changes, so that several that stand side by side may be
    /// carried out at once.
    #[must_use]
    pub const fn stands_alone(&self) -> bool {
        matches!(self, Self::CreateClaim(_) | Self::Nominate { .. } | Self::Event(_))
    }

    /// What it is called in metrics and logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreateClaim(_) => "create_claim",
            Self::ClaimMeta { .. } => "claim_meta",
            Self::ClaimStatus { .. } => "claim_status",
            Self::DeleteClaim { .. } => "delete_claim",
            Self::Node { .. } => "node",
            Self::DeleteNode { .. } => "delete_node",
            Self::ClassMeta(_) => "class_meta",
            Self::ClassCondition(_) => "class_condition",
            Self::ClassStatus(_) => "class_status",
            Self::PoolMeta { .. } => "pool_meta",
            Self::PoolStatus { .. } => "pool_status",
            Self::Nominate { .. } => "nominate",
            Self::Evict(_) => "evict",
            Self::DeletePod { .. } => "delete_pod",
            Self::Event(_) => "event",
            Self::Cloud(call) => match call {
                Call::Launch(_) => "launch",
                Call::Get(_) => "get_instance",
                Call::Find(_) => "find_instance",
                Call::Console(_) => "console",
                Call::Terminate(_) => "terminate",
                Call::Tag { .. } => "tag",
            },
        }
    }
}

// === impl MetaChange ===

impl MetaChange {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Sets one annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: impl Into<String>) -> Self {
        self.annotations.insert(key.to_owned(), Some(value.into()));
        self
    }

    /// Removes one annotation.
    #[must_use]
    pub fn without_annotation(mut self, key: &str) -> Self {
        self.annotations.insert(key.to_owned(), None);
        self
    }

    /// Drops what `meta` says already.
    #[must_use]
    pub fn against(mut self, meta: &ObjectMeta) -> Self {
        let differs = |there: Option<&BTreeMap<String, String>>, key: &String, value: &Option<String>| {
            there.and_then(|there| there.get(key)) != value.as_ref()
        };
        self.labels.retain(|key, value| differs(meta.labels.as_ref(), key, value));
        self.annotations.retain(|key, value| differs(meta.annotations.as_ref(), key, value));
        self.finalizers =
            self.finalizers.filter(|all| meta.finalizers.as_deref().unwrap_or_default() != all.as_slice());
        self.owners = self.owners.filter(|all| meta.owner_references.as_deref().unwrap_or_default() != all.as_slice());
        self
    }

    /// Carries the change out on `meta`.
    pub fn apply(&self, meta: &mut ObjectMeta) {
        let set = |there: &mut Option<BTreeMap<String, String>>, wanted: &BTreeMap<String, Option<String>>| {
            for (key, value) in wanted {
                match value {
                    Some(value) => {
                        there.get_or_insert_default().insert(key.clone(), value.clone());
                    }
                    None => {
                        there.get_or_insert_default().remove(key);
                    }
                }
            }
        };
        set(&mut meta.labels, &self.labels);
        set(&mut meta.annotations, &self.annotations);
        if let Some(finalizers) = &self.finalizers {
            meta.finalizers = Some(finalizers.clone());
        }
        if let Some(owners) = &self.owners {
            meta.owner_references = Some(owners.clone());
        }
    }
}

// === impl NodeChange ===

impl NodeChange {
    /// Drops what `node` says already.
    #[must_use]
    pub fn against(mut self, node: &Node) -> Self {
        self.meta = self.meta.against(&node.metadata);
        let there = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        self.taints = self.taints.filter(|taints| taints != there);
        self
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taints.is_none() && self.meta.is_empty()
    }

    /// Carries the change out on `node`, as an API server has it.
    pub fn apply(&self, node: &mut v1::Node) {
        self.meta.apply(&mut node.metadata);
        if let Some(taints) = &self.taints {
            node.spec.get_or_insert_default().taints = Some(taints.clone());
        }
    }
}
