//! Output of a stage: writes in order, and the time of the next reconciliation.
//!
//! ```text
//!   provision   lifecycle   disruption   pools   classes        pure: compute writes from the observed state
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
use muster_api::capacitybuffer::CapacityBufferStatus;
use muster_api::nodeclaim::NodeClaimStatus;
use muster_api::nodeoverlay::NodeOverlayStatus;
use muster_api::nodepool::NodePoolStatus;
use muster_cloud::LaunchRequest;
use serde_json::Value;

pub use crate::deletion_cause::DeletionCause;

/// The next writes, and the time of the next reconciliation.
///
/// An edge executes the writes in order (adjacent independent writes, see [`Write::stands_alone`], may run
/// concurrently) and stops at the first failure of one that the rest depends on ([`Write::needs_success`]). It follows
/// these rules:
///
/// - An update is conditional on the observed resource version, or on the version that an earlier write of the same
///   step produced. If the object has changed since, the rest of the step is dropped and the next reconciliation
///   decides again.
/// - Deletions and evictions carry the UID as a precondition, so that they never affect a later object of the same
///   name. If the object does not exist any more, the write has succeeded.
/// - The result of a [`Write::Cloud`] or [`Write::Evict`] is stored in [`crate::lifecycle::Answers`], and the stages
///   run again at once on the same observed state. Answers are discarded as soon as a step requests nothing more.
/// - A change observed before [`Step::again`] triggers an earlier reconciliation and counts as one attempt. An edge
///   keeps 100 ms between two reconciliations of one claim, so that many terminating pods do not cause many eviction
///   calls.
/// - A failed event does not stop the step. An event is placed before or after the write it describes, so that it is
///   published once, or twice after a crash, but not repeatedly.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// Writes to execute, in this order.
    pub writes: Vec<Write>,
    /// Time of the next reconciliation if nothing changes before. Without writes and without this, the next change
    /// triggers it.
    pub again: Option<Timestamp>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Creates a NodeClaim. If a NodeClaim of that name exists, the same decision was executed before, and the write
    /// has succeeded.
    CreateClaim(Box<NodeClaim>),
    /// Changes the metadata of a NodeClaim.
    ClaimMeta {
        /// Its name.
        name: String,
        /// Change of its metadata.
        change: MetaChange,
    },
    /// Sets the status of a NodeClaim.
    ClaimStatus {
        /// Its name.
        name: String,
        /// The whole status; fields that the API server has and this type does not know must be kept.
        status: Box<NodeClaimStatus>,
    },
    /// Deletes a NodeClaim.
    DeleteClaim {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Cause.
        cause: DeletionCause,
    },
    /// Changes a Node.
    Node {
        /// Its name.
        name: String,
        /// Change of the Node.
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
    /// Sets the whole status of the NodeClass, in the form of its kind; fields that the API server has and this value
    /// does not contain must be kept.
    ClassStatus(Box<Value>),
    /// Changes the metadata of a NodePool.
    PoolMeta {
        /// Its name.
        name: String,
        /// Change of its metadata.
        change: MetaChange,
    },
    /// Sets the status of a NodePool.
    PoolStatus {
        /// Its name.
        name: String,
        /// The whole status; fields that the API server has and this type does not know must be kept.
        status: Box<NodePoolStatus>,
    },
    /// Sets the status of a NodeOverlay.
    OverlayStatus {
        /// Its name.
        name: String,
        /// The whole status; fields that the API server has and this type does not know must be kept.
        status: Box<NodeOverlayStatus>,
    },
    /// Sets the status of a CapacityBuffer.
    BufferStatus {
        /// Its `namespace/name`.
        path: String,
        /// The whole status; fields that the API server has and this type does not know must be kept.
        status: Box<CapacityBufferStatus>,
    },
    /// Sets `status.nominatedNodeName` of an unbound pod, a hint to kube-scheduler (KEP-5278).
    Nominate {
        /// The pod.
        pod: Subject,
        /// Name of the Node; `None` clears the hint.
        node: Option<String>,
    },
    /// Sets the annotation `controller.kubernetes.io/pod-deletion-cost` of a pod.
    PodDeletionCost {
        /// The pod.
        pod: Subject,
        /// The cost; `None` removes it.
        cost: Option<i32>,
    },
    /// Evicts a pod through the Eviction API.
    Evict(Subject),
    /// Deletes a pod.
    DeletePod {
        /// The pod.
        pod: Subject,
        /// Grace period of the deletion.
        grace: Duration,
    },
    /// Calls the cloud.
    Cloud(Call),
    /// Publishes an event.
    Event(Event),
}

/// A cloud API call.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// [`muster_cloud::Cloud::launch`]; result in [`crate::lifecycle::Answers::launch`].
    Launch(Box<LaunchRequest>),
    /// [`muster_cloud::Cloud::get`]; result in [`crate::lifecycle::Answers::instance`].
    Get(String),
    /// Finds the instance in [`muster_cloud::Cloud::list`] whose token belongs to the claim with this UID; result in
    /// [`crate::lifecycle::Answers::instance`], "not found" if it does not exist.
    Find(String),
    /// [`muster_cloud::Cloud::console`]; result in [`crate::lifecycle::Answers::console`].
    Console(String),
    /// [`muster_cloud::Cloud::terminate`]; result in [`crate::lifecycle::Answers::terminate`].
    Terminate(String),
    /// [`muster_cloud::Cloud::reboot`] of the instance; result in [`crate::lifecycle::Answers::reboot`].
    Reboot(String),
    /// [`muster_cloud::Cloud::tag`]; result in [`crate::lifecycle::Answers::tag`].
    Tag {
        /// Provider ID of the instance.
        provider_id: String,
        /// The tags to add.
        tags: BTreeMap<String, String>,
    },
}

/// Reference to an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Its kind, such as `NodeClaim`.
    pub kind: String,
    /// Its namespace; `None` for a cluster-scoped object.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// Information.
    Normal,
    /// A problem.
    Warning,
}

/// A Kubernetes event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Object that the event is about.
    pub about: Subject,
    /// Type of the event.
    pub kind: EventType,
    /// One of [`muster_api::events`].
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
}

/// A change of an object's metadata.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetaChange {
    /// Labels to set (`Some`) or to remove (`None`).
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set (`Some`) or to remove (`None`).
    pub annotations: BTreeMap<String, Option<String>>,
    /// The new list of finalizers, if it changes.
    pub finalizers: Option<Vec<String>>,
    /// The new list of owner references, if it changes.
    pub owners: Option<Vec<OwnerReference>>,
}

/// A change of a Node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeChange {
    /// Change of its metadata.
    pub meta: MetaChange,
    /// The new list of taints, if it changes.
    pub taints: Option<Vec<Taint>>,
}

// === impl Step ===

impl Step {
    /// Returns a step that waits for the next change.
    #[must_use]
    pub fn rest() -> Self {
        Self::default()
    }

    /// Returns a step without writes that reconciles again at `moment`.
    #[must_use]
    pub fn until(moment: Timestamp) -> Self {
        Self { writes: Vec::new(), again: Some(moment) }
    }

    /// Returns a step with these writes. The changes they cause trigger the next reconciliation.
    #[must_use]
    pub fn act(writes: impl IntoIterator<Item = Write>) -> Self {
        Self { writes: writes.into_iter().collect(), again: None }
    }

    /// Moves the next reconciliation to `moment` if that is earlier.
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
    /// Returns true if the stages need the result of the write.
    #[must_use]
    pub const fn is_question(&self) -> bool {
        matches!(self, Self::Cloud(_) | Self::Evict(_) | Self::DeletePod { .. })
    }

    /// Returns true if no other write of its kind changes the same object, so that adjacent writes may be executed
    /// concurrently.
    #[must_use]
    pub const fn stands_alone(&self) -> bool {
        matches!(self, Self::CreateClaim(_) | Self::Nominate { .. } | Self::PodDeletionCost { .. } | Self::Event(_))
    }

    /// Returns true if the rest of the step is dropped when the write fails. A failed event does not stop the step,
    /// and a failed eviction or deletion of a pod has an answer that says so: an admission policy of one namespace must
    /// not keep the pods of the others on the node.
    #[must_use]
    pub const fn needs_success(&self) -> bool {
        !matches!(
            self,
            Self::Event(_)
                | Self::Evict(_)
                | Self::DeletePod { .. }
                | Self::Nominate { .. }
                | Self::PodDeletionCost { .. }
        )
    }

    /// Returns the name of the write in metrics and logs.
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
            Self::OverlayStatus { .. } => "overlay_status",
            Self::BufferStatus { .. } => "buffer_status",
            Self::Nominate { .. } => "nominate",
            Self::PodDeletionCost { .. } => "pod_deletion_cost",
            Self::Evict(_) => "evict",
            Self::DeletePod { .. } => "delete_pod",
            Self::Event(_) => "event",
            Self::Cloud(call) => match call {
                Call::Launch(_) => "launch",
                Call::Get(_) => "get_instance",
                Call::Find(_) => "find_instance",
                Call::Console(_) => "console",
                Call::Terminate(_) => "terminate",
                Call::Reboot(_) => "reboot",
                Call::Tag { .. } => "tag",
            },
        }
    }
}

// === impl MetaChange ===

impl MetaChange {
    /// Returns true if nothing changes.
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

    /// Removes entries that `meta` already has.
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

    /// Applies the change to `meta`.
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
    /// Removes entries that `node` already has.
    #[must_use]
    pub fn against(mut self, node: &Node) -> Self {
        self.meta = self.meta.against(&node.metadata);
        let there = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        self.taints = self.taints.filter(|taints| taints != there);
        self
    }

    /// Returns true if nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taints.is_none() && self.meta.is_empty()
    }

    /// Applies the change to `node`, an object of the API server's type.
    pub fn apply(&self, node: &mut v1::Node) {
        self.meta.apply(&mut node.metadata);
        if let Some(taints) = &self.taints {
            node.spec.get_or_insert_default().taints = Some(taints.clone());
        }
    }
}
