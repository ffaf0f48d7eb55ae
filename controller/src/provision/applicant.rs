//! Pods that may need a node, and which of them are decided now.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_scheduling::labels::NODE_POOL;
use muster_scheduling::model::{PodSpec, Requirement, Requirements};

use crate::step::Subject;

/// The scheduler that binds a pod which names none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A pod without a node, or on a node that goes away: what the problem does not say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applicant {
    /// The pod.
    pub pod: Subject,
    /// Whether kube-scheduler's default profile is to bind it.
    pub is_of_default_scheduler: bool,
    /// Whether its scheduler has said that it fits nowhere: condition `PodScheduled` is False for the reason
    /// `Unschedulable`.
    pub is_marked: bool,
    /// Whether a command has marked its node, and has not taken it away yet. What is launched for it is that command's
    /// affair.
    pub is_provided_for: bool,
    /// The set of pods that it belongs to, by its controller: `namespace/kind/name`; a pod without one is a set of its own.
    pub set: Arc<str>,
    /// Its priority: who has more of it is tried first.
    pub priority: i32,
    /// The node that it is bound to.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`.
    pub nominated: Option<Arc<str>>,
    /// How often a nomination of it has been seen to go.
    pub denied: u32,
    /// How many pods had been seen to wait before it: those that are alike take their places in this order.
    pub arrival: u64,
    /// How many pods had been seen to join the queue of a scheduler before it. They are tried in this order, but for their
    /// priorities; who was tried in vain, which a mark or a nomination that goes shows, joins it anew.
    pub queued: u64,
}

/// When a pod is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// In this round.
    Now,
    /// In this round, if no node that is there or on its way takes it: else its scheduler is about to bind it.
    IfNothingTakesIt,
    /// When its scheduler has looked at it.
    OnceMarked,
    /// Nothing is launched for it, but what is there and comes up keeps room for it.
    KeepsRoom,
    /// Never: it asks for nodes of no pool.
    Never,
}

impl Applicant {
    /// What matters of `pod`.
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

    /// `namespace/name`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.pod.namespace.as_deref().unwrap_or("default"), self.pod.name)
    }

    /// Whether it waits for a scheduler.
    #[must_use]
    pub fn is_unbound(&self) -> bool {
        self.node.is_none()
    }
}

/// The set of a pod with this metadata.
fn set_of(meta: &ObjectMeta) -> Arc<str> {
    let controller = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    match controller {
        Some(owner) => set_named(namespace, &owner.kind, &owner.name),
        None => set_named(namespace, "Pod", meta.name.as_deref().unwrap_or_default()),
    }
}

/// The set of the pods that this object makes.
pub(crate) fn set_named(namespace: &str, kind: &str, name: &str) -> Arc<str> {
    format!("{namespace}/{kind}/{name}").into()
}

/// When a pod with this spec is decided. No applicant stands for the pods of buffers, which no scheduler ever sees.
pub(super) fn turn(applicant: Option<&Applicant>, spec: &PodSpec, waits_for_mark: bool) -> Turn {
    if shuns_pools(spec) {
        return Turn::Never;
    }
    match applicant {
        None => Turn::Now,
        Some(applicant) if applicant.is_provided_for => Turn::KeepsRoom,
        // It has to leave its node.
        Some(applicant) if !applicant.is_unbound() || applicant.is_marked => Turn::Now,
        Some(applicant) if applicant.is_of_default_scheduler && !waits_for_mark => Turn::IfNothingTakesIt,
        Some(_) => Turn::OnceMarked,
    }
}

/// Whether the pod asks for nodes that no pool has made, as the controller's own pods do.
fn shuns_pools(spec: &PodSpec) -> bool {
    let forbids = |one: &Requirements| one.get(NODE_POOL).is_some_and(|pool| *pool == Requirement::none());
    forbids(&spec.node_selector) || !spec.node_terms.is_empty() && spec.node_terms.iter().all(forbids)
}

#[cfg(test)]
mod tests {
    use muster_scheduling::model::{Operator, Resources};

    use super::*;

    fn applicant(spec: &str, status: &str) -> Applicant {
        let text = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u"}},"spec":{{"containers":[],{spec}}},"status":{{{status}}}}}"#
        );
        Applicant::of(&serde_json::from_str::<Pod>(&text).unwrap())
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
            assert_eq!(turn(Some(&applicant(spec_text, status)), &spec(), waits), expected, "{why}");
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
