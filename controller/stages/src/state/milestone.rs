//! Transitions of objects that metrics count.
//!
//! A transition is the difference between two versions of an object: what is there when an object is first seen is
//! none, so that a list counts nothing.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use muster_api::conditions::nodeclaim;
use muster_api::labels;

use super::class::LiveClass;
use super::cluster::{LiveClaim, LiveNode};
use super::kind::Kind;
use super::pod::LivePod;

/// A transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Milestone {
    /// A pod without a node was seen for the first time.
    PodWaits {
        /// `namespace/name`.
        path: Arc<str>,
        /// Its UID.
        uid: Box<str>,
        /// Its creation time.
        created: Option<Timestamp>,
        /// True if it asks for dynamic resources.
        has_resource_claims: bool,
    },
    /// A pod was bound to a node.
    PodBound {
        /// `namespace/name` of the pod.
        path: Arc<str>,
        /// Name of the node.
        node: Arc<str>,
    },
    /// A pod became ready.
    PodReady(Arc<str>),
    /// A pod was deleted, or has ended.
    PodGone(Arc<str>),
    /// A status condition changed.
    Condition(Box<ConditionChange>),
    /// A node was initialized.
    NodeInitialized(Box<NodeStart>),
    /// An object was removed.
    Removed(Box<Removal>),
}

/// A change of the status of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionChange {
    /// Kind of the object.
    pub kind: Kind,
    /// Name of the object.
    pub name: String,
    /// Labels of the object.
    pub of: NodeLabels,
    /// Type of the condition.
    pub condition: String,
    /// Status and time of the change before; `None` if the object did not have the condition.
    pub before: Option<(String, Timestamp)>,
    /// Status now.
    pub status: String,
    /// Reason.
    pub reason: String,
    /// Message.
    pub message: String,
    /// Time of the change.
    pub at: Timestamp,
}

/// The start of a node, from the decision to launch it until it was initialized. Times are those of the NodeClaim, to
/// the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStart {
    /// UID of the NodeClaim.
    pub uid: String,
    /// Name of the NodeClaim.
    pub claim: String,
    /// Name of the node.
    pub node: String,
    /// Labels of the NodeClaim.
    pub of: NodeLabels,
    /// Instance type.
    pub instance_type: String,
    /// Creation time of the NodeClaim.
    pub created: Timestamp,
    /// Time at which the instance was launched.
    pub launched: Timestamp,
    /// Time at which the node was registered.
    pub registered: Timestamp,
    /// Time at which the node was initialized.
    pub initialized: Timestamp,
}

/// The removal of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Kind of the object.
    pub kind: Kind,
    /// Labels of the object.
    pub of: NodeLabels,
    /// Its creation time.
    pub created: Option<Timestamp>,
    /// Time of the request to delete it.
    pub deleted: Option<Timestamp>,
    /// Time since which its instance was being terminated; only for NodeClaims.
    pub terminating: Option<Timestamp>,
}

/// Labels by which nodes are counted; empty if the object does not have them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeLabels {
    /// NodePool.
    pub pool: String,
    /// Capacity type.
    pub capacity_type: String,
    /// Zone.
    pub zone: String,
}

impl NodeLabels {
    /// Returns those of an object.
    #[must_use]
    pub fn of(meta: &ObjectMeta) -> Self {
        let label = |key: &str| meta.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default();
        Self { pool: label(labels::NODEPOOL), capacity_type: label(labels::CAPACITY_TYPE), zone: label(labels::ZONE) }
    }
}

/// The parts of a condition that count: type, status, reason, message and time of the last change.
pub(super) type ConditionState<'c> = (&'c str, &'c str, &'c str, &'c str, Timestamp);

/// Adds the transitions of a pod.
pub(super) fn of_pod(path: &Arc<str>, old: Option<&LivePod>, new: &LivePod, all: &mut Vec<Milestone>) {
    let old = old.filter(|old| old.uid == new.uid);
    let path = || Arc::clone(path);
    match old {
        None if new.waits() => all.push(Milestone::PodWaits {
            path: path(),
            uid: new.uid.clone(),
            created: new.created,
            has_resource_claims: !new.pod.template.resource_claims.is_empty(),
        }),
        None => {}
        Some(old) => {
            if let (None, Some(node)) = (&old.pod.node, &new.pod.node) {
                all.push(Milestone::PodBound { path: path(), node: Arc::clone(node) });
            }
            if !old.pod.ready && new.pod.ready {
                all.push(Milestone::PodReady(path()));
            }
            if !old.pod.terminal && new.pod.terminal {
                all.push(Milestone::PodGone(path()));
            }
        }
    }
}

/// Adds the changes between the conditions of two versions of an object.
pub(super) fn of_conditions<'c>(
    kind: Kind,
    meta: &ObjectMeta,
    old: impl Iterator<Item = ConditionState<'c>> + Clone,
    new: impl Iterator<Item = ConditionState<'c>>,
    all: &mut Vec<Milestone>,
) {
    for (condition, status, reason, message, at) in new {
        let before = old.clone().find(|(of, ..)| *of == condition);
        if before.is_some_and(|(_, before, ..)| before == status) {
            continue;
        }
        all.push(Milestone::Condition(Box::new(ConditionChange {
            kind,
            name: meta.name.clone().unwrap_or_default(),
            of: NodeLabels::of(meta),
            condition: condition.to_owned(),
            before: before.map(|(_, status, .., at)| (status.to_owned(), at)),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            at,
        })));
    }
}

/// Returns the conditions of our kinds.
pub(super) fn told(conditions: &[Condition]) -> impl Iterator<Item = ConditionState<'_>> + Clone {
    let state = |one| {
        let Condition { type_, status, reason, message, last_transition_time, .. }: &Condition = one;
        (type_.as_str(), status.as_str(), reason.as_str(), message.as_str(), last_transition_time.0)
    };
    conditions.iter().map(state)
}

impl LiveNode {
    /// Returns its conditions.
    pub(super) fn told(&self) -> impl Iterator<Item = ConditionState<'_>> + Clone {
        let conditions = self.typed.status.as_ref().and_then(|status| status.conditions.as_deref());
        conditions.unwrap_or_default().iter().map(|one| {
            let at = one.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            let reason = one.reason.as_deref().unwrap_or_default();
            (one.type_.as_str(), one.status.as_str(), reason, one.message.as_deref().unwrap_or_default(), at)
        })
    }

    /// Returns its removal.
    pub(super) fn removal(&self) -> Milestone {
        removal(Kind::Node, &self.typed.metadata, None)
    }
}

impl LiveClaim {
    /// Returns its conditions.
    pub(super) fn told(&self) -> impl Iterator<Item = ConditionState<'_>> + Clone {
        told(self.typed.status.as_ref().map_or(&[], |status| status.conditions.as_slice()))
    }

    /// Returns the start of its node, if the node is initialized and was not in `old`.
    pub(super) fn start_since(&self, old: &Self) -> Option<Milestone> {
        let since = |claim: &Self, condition: &str| {
            claim.told().find(|one| one.0 == condition && one.1 == "True").map(|(.., at)| at)
        };
        if since(old, nodeclaim::INITIALIZED).is_some() {
            return None;
        }
        let initialized = since(self, nodeclaim::INITIALIZED)?;
        let meta = &self.typed.metadata;
        let status = self.typed.status.as_ref()?;
        Some(Milestone::NodeInitialized(Box::new(NodeStart {
            uid: meta.uid.clone()?,
            claim: meta.name.clone()?,
            node: status.node_name.clone()?,
            of: NodeLabels::of(meta),
            instance_type: meta.labels.as_ref()?.get(labels::INSTANCE_TYPE).cloned().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref()?.0,
            launched: since(self, nodeclaim::LAUNCHED)?,
            registered: since(self, nodeclaim::REGISTERED)?,
            initialized,
        })))
    }

    /// Returns its removal.
    pub(super) fn removal(&self) -> Milestone {
        let ending = |one: &ConditionState<'_>| one.0 == nodeclaim::INSTANCE_TERMINATING && one.1 == "True";
        let terminating = self.told().find(ending).map(|(.., at)| at);
        removal(Kind::NodeClaim, &self.typed.metadata, terminating)
    }
}

impl LiveClass {
    /// Returns its conditions.
    pub(super) fn told(&self) -> impl Iterator<Item = ConditionState<'_>> + Clone {
        told(&self.conditions)
    }
}

/// Returns the removal of an object.
pub(super) fn removal(kind: Kind, meta: &ObjectMeta, terminating: Option<Timestamp>) -> Milestone {
    let of = NodeLabels::of(meta);
    let created = meta.creation_timestamp.as_ref().map(|time| time.0);
    let deleted = meta.deletion_timestamp.as_ref().map(|time| time.0);
    Milestone::Removed(Box::new(Removal { kind, of, created, deleted, terminating }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Cluster;
    use super::*;

    fn pod(node: Option<&str>, phase: &str, ready: &str) -> String {
        json!({
            "metadata": {"name": "a", "namespace": "x", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        })
        .to_string()
    }

    fn claim(conditions: &Value) -> String {
        json!({
            "metadata": {
                "name": "a", "labels": {"karpenter.sh/nodepool": "general"}, "deletionTimestamp": "2026-01-01T00:01:00Z",
            },
            "spec": {"nodeClassRef": {"group": "g", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
            "status": {"conditions": conditions},
        })
        .to_string()
    }

    #[test]
    fn a_pod_waits_is_bound_becomes_ready_and_goes() {
        let path: Arc<str> = "x/a".into();
        let mut cluster = Cluster::default();
        let mut seen = |text: &str| cluster.apply(Kind::Pod, text).milestones;
        let waits = Milestone::PodWaits {
            path: Arc::clone(&path),
            uid: "1".into(),
            created: "2026-01-01T00:00:00Z".parse().ok(),
            has_resource_claims: false,
        };
        assert_eq!(seen(&pod(None, "Pending", "False")), [waits]);
        assert_eq!(seen(&pod(None, "Pending", "False")), []);
        let bound = Milestone::PodBound { path: Arc::clone(&path), node: "n".into() };
        assert_eq!(seen(&pod(Some("n"), "Pending", "False")), [bound]);
        assert_eq!(seen(&pod(Some("n"), "Running", "True")), [Milestone::PodReady(Arc::clone(&path))]);
        assert_eq!(cluster.remove(Kind::Pod, "x/a").milestones, [Milestone::PodGone(path)]);
        let mut other = Cluster::default();
        assert_eq!(other.apply(Kind::Pod, &pod(Some("n"), "Running", "True")).milestones, [], "it was there before");
    }

    #[test]
    fn the_start_of_a_node_is_told_once() {
        let mut cluster = Cluster::default();
        let mut seen = |conditions: &[(&str, &str)]| {
            let conditions: Vec<Value> = conditions
                .iter()
                .map(|(kind, time)| json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time}))
                .collect();
            let claim = json!({
                "metadata": {
                    "name": "a", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": {"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "m7g.large"},
                },
                "spec": {"nodeClassRef": {"group": "g", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
                "status": {"conditions": conditions, "nodeName": "n"},
            });
            let milestones = cluster.apply(Kind::NodeClaim, &claim.to_string()).milestones;
            let start = |one| if let Milestone::NodeInitialized(start) = one { Some(*start) } else { None };
            milestones.into_iter().filter_map(start).collect::<Vec<_>>()
        };
        let launched = ("Launched", "2026-01-01T00:00:02Z");
        let registered = ("Registered", "2026-01-01T00:00:30Z");
        let initialized = ("Initialized", "2026-01-01T00:00:50Z");
        assert_eq!(seen(&[launched]), []);
        assert_eq!(seen(&[launched, registered]), []);
        let [start] = seen(&[launched, registered, initialized]).try_into().unwrap();
        let expected = NodeStart {
            uid: "1".to_owned(),
            claim: "a".to_owned(),
            node: "n".to_owned(),
            of: NodeLabels { pool: "general".to_owned(), ..NodeLabels::default() },
            instance_type: "m7g.large".to_owned(),
            created: "2026-01-01T00:00:00Z".parse().unwrap(),
            launched: launched.1.parse().unwrap(),
            registered: registered.1.parse().unwrap(),
            initialized: initialized.1.parse().unwrap(),
        };
        assert_eq!(start, expected);
        assert_eq!(seen(&[launched, registered, initialized]), []);
    }

    #[test]
    fn a_condition_changes_once_and_the_end_of_a_claim_is_told() {
        let mut cluster = Cluster::default();
        let of = |status: &str, time: &str| json!([{"type": "InstanceTerminating", "status": status, "reason": "R", "message": "", "lastTransitionTime": time}]);
        let (first, then) = ("2026-01-01T00:02:00Z", "2026-01-01T00:03:00Z");
        assert_eq!(cluster.apply(Kind::NodeClaim, &claim(&of("Unknown", first))).milestones, []);
        let changed = cluster.apply(Kind::NodeClaim, &claim(&of("True", then))).milestones;
        let [Milestone::Condition(change)] = changed.as_slice() else { panic!("{changed:?}") };
        assert_eq!(change.before, Some(("Unknown".to_owned(), first.parse().unwrap())));
        assert_eq!((change.status.as_str(), change.of.pool.as_str()), ("True", "general"));
        assert_eq!(cluster.apply(Kind::NodeClaim, &claim(&of("True", then))).milestones, []);
        let gone = cluster.remove(Kind::NodeClaim, "a").milestones;
        let [Milestone::Removed(removal)] = gone.as_slice() else { panic!("{gone:?}") };
        assert_eq!(removal.terminating, Some(then.parse().unwrap()));
        assert_eq!(removal.deleted, Some("2026-01-01T00:01:00Z".parse().unwrap()));
    }
}
