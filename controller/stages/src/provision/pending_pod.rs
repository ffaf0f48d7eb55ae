//! Pods that may need a node, and the selection of those to be decided now.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_scheduling::labels::NODE_POOL;
use muster_scheduling::model::{PodSpec, Requirement, Requirements};

use crate::step::Subject;

/// Scheduler of a pod that names none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A pod that is unbound or on a node that is being removed: the data that the problem does not contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingPod {
    /// The pod.
    pub pod: Subject,
    /// True if the default profile of kube-scheduler is responsible for it.
    pub is_of_default_scheduler: bool,
    /// True if its scheduler has found no node: condition `PodScheduled` is False with reason `Unschedulable`.
    pub is_marked: bool,
    /// True if a disruption command has marked its node and not removed it yet. Launches for the pod are part of that
    /// command.
    pub is_provided_for: bool,
    /// Set of the pod, named after its controller: `namespace/kind/name`; a pod without one is a set of its own.
    pub set: Arc<str>,
    /// Its priority: pods with a higher one are tried first.
    pub priority: i32,
    /// Node to which it is bound.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`.
    pub nominated: Option<Arc<str>>,
    /// Number of times that a nomination of it was observed to be removed.
    pub denied: u32,
    /// Number of pods observed to be pending before it: similar pods take their places in this order.
    pub arrival: u64,
    /// Number of pods observed to join a scheduler's queue before it. Pods of equal priority are tried in this order. A
    /// failed try, visible as a mark or a removed nomination, puts the pod at the end.
    pub queued: u64,
}

/// Time at which a pod is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// In this round.
    Now,
    /// In this round, if no existing or coming node has room for it; otherwise its scheduler is about to bind it.
    IfNothingTakesIt,
    /// After its scheduler has tried it.
    OnceMarked,
    /// Nothing is launched for it, but room is reserved on existing and coming nodes.
    KeepsRoom,
    /// Never: it excludes nodes of all pools.
    Never,
}

impl PendingPod {
    /// Returns the relevant fields of `pod`.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let text = |text: Option<&String>| text.filter(|text| !text.is_empty()).map(|text| Arc::from(text.as_str()));
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        Self {
            pod: Subject {
                kind: "Pod".to_owned(),
                namespace: meta.namespace.clone(),
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
            },
            is_of_default_scheduler: spec
                .and_then(|spec| spec.scheduler_name.as_deref())
                .is_none_or(|name| name.is_empty() || name == DEFAULT_SCHEDULER),
            is_marked: conditions.iter().any(|one| {
                one.type_ == "PodScheduled" && one.status == "False" && one.reason.as_deref() == Some("Unschedulable")
            }),
            is_provided_for: false,
            set: set_of(meta),
            priority: spec.and_then(|spec| spec.priority).unwrap_or_default(),
            node: text(spec.and_then(|spec| spec.node_name.as_ref())),
            nominated: text(status.and_then(|status| status.nominated_node_name.as_ref())),
            denied: 0,
            arrival: 0,
            queued: 0,
        }
    }

    /// Returns `namespace/name`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.pod.namespace.as_deref().unwrap_or("default"), self.pod.name)
    }

    /// Returns true if the pod is not bound to a node.
    #[must_use]
    pub fn is_unbound(&self) -> bool {
        self.node.is_none()
    }
}

/// Returns the set of a pod with this metadata.
fn set_of(meta: &ObjectMeta) -> Arc<str> {
    let controller = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    match controller {
        Some(owner) => set_named(namespace, &owner.kind, &owner.name),
        None => set_named(namespace, "Pod", meta.name.as_deref().unwrap_or_default()),
    }
}

/// Returns the set of the pods that this object controls.
pub(crate) fn set_named(namespace: &str, kind: &str, name: &str) -> Arc<str> {
    format!("{namespace}/{kind}/{name}").into()
}

/// Returns the turn of a pod with this spec. Pods of buffers have no `PendingPod`, since no scheduler sees them.
pub(super) fn turn(pending_pod: Option<&PendingPod>, spec: &PodSpec, waits_for_mark: bool) -> Turn {
    if shuns_pools(spec) {
        return Turn::Never;
    }
    match pending_pod {
        None => Turn::Now,
        Some(pending_pod) if pending_pod.is_provided_for => Turn::KeepsRoom,
        // A bound pod must leave its node.
        Some(pending_pod) if !pending_pod.is_unbound() || pending_pod.is_marked => Turn::Now,
        Some(pending_pod) if pending_pod.is_of_default_scheduler && !waits_for_mark => Turn::IfNothingTakesIt,
        Some(_) => Turn::OnceMarked,
    }
}

/// Returns true if the pod only accepts nodes without a pool, as the controller's own pods do.
fn shuns_pools(spec: &PodSpec) -> bool {
    let forbids = |one: &Requirements| one.get(NODE_POOL).is_some_and(|pool| *pool == Requirement::none());
    forbids(&spec.node_selector) || !spec.node_terms.is_empty() && spec.node_terms.iter().all(forbids)
}

#[cfg(test)]
mod tests {
    use muster_scheduling::model::{Operator, Resources};

    use super::*;

    fn pending_pod(spec: &str, status: &str) -> PendingPod {
        let text = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u"}},"spec":{{"containers":[],{spec}}},"status":{{{status}}}}}"#
        );
        PendingPod::of(&serde_json::from_str::<Pod>(&text).unwrap())
    }

    const MARK: &str =
        r#""conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","lastTransitionTime":null}]"#;
    const GATED: &str = r#""conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated","lastTransitionTime":null}]"#;

    fn spec() -> PodSpec {
        PodSpec::unconstrained("n", Resources::new())
    }

    #[test]
    fn whose_turn_it_is() {
        let ours = r#""schedulerName":"default-scheduler""#;
        let theirs = r#""schedulerName":"volcano""#;
        for (why, spec_text, status, waits, expected) in [
            ("nobody has looked at it yet", ours, "", false, Turn::IfNothingTakesIt),
            ("Karpenter's rule is restored", ours, "", true, Turn::OnceMarked),
            ("its scheduler has given up", ours, MARK, true, Turn::Now),
            ("another scheduler knows best", theirs, "", false, Turn::OnceMarked),
            ("and says so", theirs, MARK, false, Turn::Now),
            ("a gate is no mark", theirs, GATED, false, Turn::OnceMarked),
            ("it has to leave its node", r#""nodeName":"x""#, "", true, Turn::Now),
        ] {
            assert_eq!(turn(Some(&pending_pod(spec_text, status)), &spec(), waits), expected, "{why}");
        }
        assert_eq!(turn(None, &spec(), true), Turn::Now, "a buffer waits for nobody");
    }

    #[test]
    fn who_wants_no_pool_is_left_alone() {
        let mut shy = spec();
        let never: Requirements = [(NODE_POOL, Requirement::none())].into_iter().collect();
        shy.node_terms = vec![never.clone()];
        assert_eq!(turn(None, &shy, false), Turn::Never);
        shy.node_terms.push([(NODE_POOL, Requirement::new(Operator::In, ["general"]))].into_iter().collect());
        assert_eq!(turn(None, &shy, false), Turn::Now, "another term lets it");
        shy.node_selector = never;
        assert_eq!(turn(None, &shy, false), Turn::Never);
    }
}
