//! Registration of a Node: labels, annotations, taints, owner and finalizer are set in one write, which also removes
//! the taint that has kept pods away.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::{annotations, events, labels, taints};

use super::conditions::{Draft, Status, is_true};
use super::seen::Seen;
use crate::node::Node;
use crate::step::{EventType, NodeChange, Step, Write};

pub(super) fn register(seen: &Seen<'_>, now: Timestamp) -> Step {
    if !is_true(seen.claim, nodeclaim::LAUNCHED) || is_true(seen.claim, nodeclaim::REGISTERED) {
        return Step::rest();
    }
    let mut draft = Draft::of(seen, now);
    let mut pending = |reason: &str, message: &str| {
        draft.set(nodeclaim::REGISTERED, Status::Unknown, reason, message);
    };
    let node = match seen.nodes.as_slice() {
        // A Node deleted before its registration cannot get a finalizer any more; the kubelet may create another one.
        [node] if is_lost(node) => {
            pending(reason::NODE_NOT_FOUND, "the Node is being deleted");
            return Step::act(draft.write());
        }
        [node] => *node,
        [] => {
            pending(reason::NODE_NOT_FOUND, "Node not registered with cluster");
            return Step::act(draft.write());
        }
        several => {
            let names: Vec<String> = several.iter().map(|node| format!("`{}`", name(node))).collect();
            pending(reason::MULTIPLE_NODES_FOUND, &format!("several Nodes have its provider ID: {}", names.join(", ")));
            return Step::act(draft.write());
        }
    };
    if let Some(hold) = seen.registration_hold {
        pending(reason::REGISTRATION_HOOK_PENDING, hold);
        return Step::act(draft.write());
    }
    let mut writes = Vec::new();
    let is_ours = has_label(node, labels::REGISTERED);
    if !is_ours && !has_taint(node, &taints::unregistered()) {
        let message = format!(
            "Node `{}` came without the taint {}:{}; pods may have started there before it had its labels and taints",
            name(node),
            taints::UNREGISTERED,
            taints::NO_EXECUTE
        );
        writes.push(seen.event(EventType::Warning, events::UNREGISTERED_TAINT_MISSING, message));
    }
    let change = adopt(seen, node, is_ours).against(node);
    if !change.is_empty() {
        writes.push(Write::Node { name: name(node), change });
    }
    draft.fields().node_name = Some(name(node));
    draft.set_true(nodeclaim::REGISTERED);
    writes.extend(draft.write());
    Step::act(writes)
}

pub(super) fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

pub(super) fn uid(node: &Node) -> String {
    node.metadata.uid.clone().unwrap_or_default()
}

pub(super) fn taints_of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns true if the Node has a taint with this key and effect.
pub(super) fn has_taint(node: &Node, taint: &Taint) -> bool {
    taints_of(node).iter().any(|there| is_same(there, taint))
}

/// Returns true if the Node has this label with the value `true`.
pub fn has_label(node: &Node, key: &str) -> bool {
    node.metadata.labels.as_ref().and_then(|all| all.get(key)).is_some_and(|value| value == "true")
}

pub(super) fn has_finalizer(node: &Node) -> bool {
    let all = node.metadata.finalizers.as_deref().unwrap_or_default();
    all.iter().any(|one| one == annotations::TERMINATION_FINALIZER)
}

/// Returns the finalizers of the Node, including ours.
pub(super) fn with_finalizer(node: &Node) -> Vec<String> {
    let mut all = node.metadata.finalizers.clone().unwrap_or_default();
    if !has_finalizer(node) {
        all.push(annotations::TERMINATION_FINALIZER.to_owned());
    }
    all
}

pub(super) fn is_same(one: &Taint, other: &Taint) -> bool {
    one.key == other.key && one.effect == other.effect
}

fn is_lost(node: &Node) -> bool {
    node.metadata.deletion_timestamp.is_some() && !has_finalizer(node)
}

/// Returns the change that registers the Node. Labels and taints are set once: later changes by others are kept.
fn adopt(seen: &Seen<'_>, node: &Node, is_ours: bool) -> NodeChange {
    let mut change = NodeChange::default();
    let mut taints: Vec<Taint> = taints_of(node).to_vec();
    if !is_ours {
        let some = |(key, value): (&String, &String)| (key.clone(), Some(value.clone()));
        let meta = &seen.claim.metadata;
        change.meta.labels = meta.labels.iter().flatten().map(some).collect();
        change.meta.annotations =
            meta.annotations.iter().flatten().filter(|(key, _)| is_shared(key)).map(some).collect();
        let brings_its_own = has_label(node, labels::DO_NOT_SYNC_TAINTS)
            || meta.labels.as_ref().and_then(|all| all.get(labels::DO_NOT_SYNC_TAINTS)).is_some_and(|v| v == "true");
        if !brings_its_own {
            merge(&mut taints, &seen.claim.spec.taints);
            // The kubelet registers with the startup taints. One that is missing has already been removed, and its
            // owner would not remove it a second time.
            if !seen.class.hands_over_taints {
                merge(&mut taints, &seen.claim.spec.startup_taints);
            }
        }
    }
    taints.retain(|taint| taint.key != taints::UNREGISTERED);
    change.taints = Some(taints);
    change.meta.labels.insert(labels::REGISTERED.to_owned(), Some("true".to_owned()));
    change.meta.finalizers = Some(with_finalizer(node));
    change.meta.owners = Some(owned(seen, node));
    change
}

/// Returns true if an annotation of the claim is copied to its Node. Those about the launch, disruption and the agent
/// are not.
fn is_shared(key: &str) -> bool {
    let own = [
        annotations::LAUNCH_ATTEMPT,
        annotations::LAUNCH_NOT_BEFORE,
        annotations::DISRUPTION,
        annotations::REPLACES,
        annotations::AGENT_SECRET,
        annotations::AGENT_PINS,
        annotations::AGENT_HEARD,
        annotations::AGENT_KEY,
        annotations::AGENT_ENROL_AGAIN,
    ];
    !own.contains(&key)
}

fn merge(taints: &mut Vec<Taint>, wanted: &[Taint]) {
    for taint in wanted {
        if !taints.iter().any(|there| is_same(there, taint)) {
            taints.push(taint.clone());
        }
    }
}

/// Returns the owner references of the Node, with the claim as an owner whose deletion is blocked until the Node is
/// gone.
fn owned(seen: &Seen<'_>, node: &Node) -> Vec<OwnerReference> {
    let mut owners = node.metadata.owner_references.clone().unwrap_or_default();
    if !owners.iter().any(|owner| owner.uid == seen.uid()) {
        owners.push(OwnerReference {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodeClaim".to_owned(),
            name: seen.name(),
            uid: seen.uid(),
            block_owner_deletion: Some(true),
            controller: None,
        });
    }
    owners
}
