//! Pods and their constraints.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::{LabelSelector, Labels, Requirements, Resources, SpecId, Toleration};

/// A pod to place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// Its constraints.
    pub spec: SpecId,
}

/// All constraints on where a pod can run; the pods of one workload share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its labels, for the selectors of other pods.
    pub labels: Labels,
    /// Its resource requests, with `pods: 1`.
    pub requests: Resources,
    /// `spec.nodeSelector`.
    pub node_selector: Requirements,
    /// Required node affinity: one of these terms must hold; empty means no constraint.
    pub node_terms: Vec<NodeTerm>,
    /// Preferred node affinity.
    pub preferred_node_terms: Vec<WeightedNodeTerm>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Topology spread constraints, the cluster's defaults included.
    pub spread: Vec<SpreadConstraint>,
    /// Required pod affinity.
    pub affinity: Vec<AffinityTerm>,
    /// Required pod anti-affinity.
    pub anti_affinity: Vec<AffinityTerm>,
    /// Preferred pod affinity.
    pub preferred_affinity: Vec<WeightedAffinityTerm>,
    /// Preferred pod anti-affinity.
    pub preferred_anti_affinity: Vec<WeightedAffinityTerm>,
    /// Host ports.
    pub host_ports: Vec<HostPort>,
    /// Requirements of its volumes on the node: one of these must hold; empty means any node.
    pub volume_terms: Vec<Requirements>,
    /// Volumes that it attaches.
    pub attachments: Vec<Attachment>,
    /// `spec.priority` resolved, 0 if absent.
    pub priority: i32,
    /// True if it only keeps room for others, as the pods of a CapacityBuffer: no scheduler sees it.
    pub is_virtual: bool,
    /// Set if it cannot be placed on any node (dynamic resource claims, a claim that does not exist).
    pub refusal: Option<Refusal>,
}

impl PodSpec {
    /// Returns the spec of a pod of `namespace` with `requests` and no constraints.
    pub fn unconstrained(namespace: impl Into<Arc<str>>, requests: Resources) -> Self {
        Self {
            namespace: namespace.into(),
            labels: Labels::default(),
            requests,
            node_selector: Requirements::new(),
            node_terms: Vec::new(),
            preferred_node_terms: Vec::new(),
            tolerations: Vec::new(),
            spread: Vec::new(),
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            preferred_affinity: Vec::new(),
            preferred_anti_affinity: Vec::new(),
            host_ports: Vec::new(),
            volume_terms: Vec::new(),
            attachments: Vec::new(),
            priority: 0,
            is_virtual: false,
            refusal: None,
        }
    }
}

/// One term of required node affinity.
pub type NodeTerm = Requirements;

/// A preferred node affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedNodeTerm {
    /// 1–100.
    pub weight: i32,
    /// The preferred requirements.
    pub term: Requirements,
}

/// `topologySpreadConstraints[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// The label whose values are the domains.
    pub topology_key: Arc<str>,
    /// Maximum number of matching pods by which a domain may exceed the emptiest one.
    pub max_skew: i32,
    /// Number of domains below which the minimum counts as zero.
    pub min_domains: Option<i32>,
    /// Pods that count, `matchLabelKeys` already merged.
    pub selector: LabelSelector,
    /// True for `DoNotSchedule`, false for `ScheduleAnyway`.
    pub required: bool,
    /// `nodeAffinityPolicy: Honor`: only nodes that match the pod's node selector and affinity count.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: only nodes whose taints the pod tolerates count.
    pub honor_taints: bool,
}

/// `podAffinityTerm`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AffinityTerm {
    /// The label whose values are the domains.
    pub topology_key: Arc<str>,
    /// Pods that the term selects, `matchLabelKeys` already merged.
    pub selector: LabelSelector,
    /// Namespaces of these pods, `namespaceSelector` already resolved.
    pub namespaces: NamespaceScope,
}

/// A preferred `podAffinityTerm`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedAffinityTerm {
    /// 1–100.
    pub weight: i32,
    /// The preferred term.
    pub term: AffinityTerm,
}

/// Namespaces that a term applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NamespaceScope {
    /// Every namespace.
    All,
    /// These.
    Only(BTreeSet<Arc<str>>),
}

impl NamespaceScope {
    /// Returns true if the scope includes `namespace`.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(namespace),
        }
    }
}

/// A host port of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// The address; unspecified (`0.0.0.0`, `::`) means every address.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

impl HostPort {
    /// Returns true if the two ports cannot be used on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip.is_unspecified() || other.ip.is_unspecified())
    }
}

/// Transport of a host port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A volume that a node must attach.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attachment {
    /// The CSI driver.
    pub driver: Arc<str>,
    /// The claim (`namespace/name`): two pods with one claim attach it once.
    pub claim: Arc<str>,
}

/// Reason why a pod cannot be placed on any node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It claims dynamic resources that no node can have.
    DynamicResources {
        /// The claim, and the reason.
        why: String,
        /// Action that its author can take.
        fix: String,
    },
    /// One of its volumes can never be attached.
    Volume {
        /// The volume, and the reason.
        why: String,
        /// Action that its author can take.
        fix: String,
    },
    /// Its node affinity uses `matchFields`, which matches existing nodes only; the fields.
    MatchFields(String),
    /// Its required node affinity has only empty terms, and an empty term matches no node.
    EmptyTerm,
    /// Expressions of its required node affinity exclude each other; the label that they are about.
    Contradiction(String),
}
