//! Initialization of a registered Node, after which its pods may run; until then the condition shows the missing part.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use muster_api::conditions::{nodeclaim, reason};
use muster_api::{annotations, labels, resources, taints};

use super::breaker;
use super::conditions::{Draft, Status, condition, is_true};
use super::consistency;
use super::launch;
use super::register::{is_same, name, taints_of};
use super::seen::Seen;
use crate::node::Node;
use crate::step::{MetaChange, NodeChange, Step, Write};

pub(super) fn initialize(seen: &Seen<'_>, now: Timestamp) -> Step {
    if !is_true(seen.claim, nodeclaim::REGISTERED) || is_true(seen.claim, nodeclaim::INITIALIZED) {
        return Step::rest();
    }
    let mut draft = Draft::of(seen, now);
    let [node] = seen.nodes.as_slice() else {
        draft.set(nodeclaim::INITIALIZED, Status::Unknown, reason::NODE_NOT_FOUND, "Node not registered with cluster");
        return Step::act(draft.write());
    };
    if let Some((reason, message)) = missing(seen, node) {
        draft.set(nodeclaim::INITIALIZED, Status::Unknown, reason, &message);
        return Step::act(draft.write());
    }
    let mut writes: Vec<Write> = breaker::succeed(seen).into_iter().collect();
    let mut meta = MetaChange::default();
    meta.labels.insert(labels::INITIALIZED.to_owned(), Some("true".to_owned()));
    let change = NodeChange { meta, taints: None }.against(node);
    if !change.is_empty() {
        writes.push(Write::Node { name: name(node), change });
    }
    draft.set_true(nodeclaim::INITIALIZED);
    match consistency::shortage(seen.claim, node) {
        None => draft.set_true(nodeclaim::CONSISTENT_STATE_FOUND),
        Some(short) => {
            let reason = reason::CONSISTENCY_CHECK_FAILED;
            draft.set(nodeclaim::CONSISTENT_STATE_FOUND, Status::False, reason, &short);
        }
    }
    writes.extend(draft.write());
    Step::act(writes)
}

/// Returns the condition `Ready` of the Node.
pub(super) fn readiness(node: &Node) -> Option<&NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|one| one.type_ == "Ready")
}

pub(super) fn is_ready(node: &Node) -> bool {
    readiness(node).is_some_and(|one| one.status == "True")
}

/// Returns the reason and the message for the first missing part.
fn missing(seen: &Seen<'_>, node: &Node) -> Option<(&'static str, String)> {
    if !is_ready(node) {
        return Some((reason::NODE_NOT_READY, not_ready(node)));
    }
    let is_startup = |taint: &&Taint| seen.claim.spec.startup_taints.iter().any(|wanted| is_same(wanted, taint));
    if let Some(taint) = taints_of(node).iter().find(is_startup) {
        let message = format!("StartupTaint `{}` still exists; {}", spelled(taint), owner(taint));
        return Some((reason::STARTUP_TAINTS_EXIST, message));
    }
    if let Some(taint) = taints_of(node).iter().find(|taint| taints::is_ephemeral(&taint.key)) {
        let message = format!("KnownEphemeralTaint `{}` still exists; {}", spelled(taint), owner(taint));
        return Some((reason::KNOWN_EPHEMERAL_TAINTS_EXIST, message));
    }
    let requests = seen.claim.spec.resources.requests.iter();
    if let Some((resource, _)) =
        requests.filter(|(_, wanted)| !is_zero(wanted)).find(|(resource, _)| !has(node, resource))
    {
        let publisher = resources::publisher(resource).unwrap_or("its device plugin or controller");
        let message = format!(
            "Resource `{resource}` was requested but not registered; the Node's allocatable has none: it is published \
             by {publisher}"
        );
        return Some((reason::RESOURCE_NOT_REGISTERED, message));
    }
    let unheard = launch::drivers(seen).filter(|driver| !seen.device_drivers.contains(*driver));
    let unheard: Vec<String> = unheard.map(|driver| format!("driver `{driver}`")).collect();
    if !unheard.is_empty() {
        let message = format!(
            "{} has not published the devices of the Node; its pods are those of a DaemonSet that has to run there",
            unheard.join(" and ")
        );
        return Some((reason::DRA_DRIVER_POOLS_NOT_PUBLISHED, message));
    }
    agent(seen).map(|message| (reason::AGENT_NOT_READY, message))
}

/// Returns a message if the claim waits for its agent and the agent is not ready. Checked last: all other conditions
/// are observed without the agent, so it can delay initialization but never cause it.
fn agent(seen: &Seen<'_>) -> Option<String> {
    if seen.annotation(annotations::AGENT) != Some(annotations::AGENT_EXPECTED) {
        return None;
    }
    match condition(seen.claim, nodeclaim::AGENT_READY) {
        None => Some("the node's agent has not reported yet".to_owned()),
        Some(one) if one.status == Status::True.name() => None,
        Some(one) => Some(format!("the node's agent reports {}: {}", one.reason, one.message)),
    }
}

fn not_ready(node: &Node) -> String {
    match readiness(node) {
        None => "Node status is NotReady: its kubelet has not reported yet".to_owned(),
        Some(one) => {
            let reason = one.reason.as_deref().unwrap_or("no reason given");
            let message = one.message.as_deref().filter(|message| !message.is_empty());
            message.map_or_else(
                || format!("Node status is NotReady: {reason}"),
                |message| format!("Node status is NotReady: {reason}: {message}"),
            )
        }
    }
}

/// Formats the taint as `kubectl taint` does.
fn spelled(taint: &Taint) -> String {
    match taint.value.as_deref().filter(|value| !value.is_empty()) {
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
        None => format!("{}:{}", taint.key, taint.effect),
    }
}

fn owner(taint: &Taint) -> String {
    taints::owner(&taint.key)
        .map_or_else(|| "its owner has to remove it".to_owned(), |owner| format!("it is removed by {owner}"))
}

/// Returns true if the Node's allocatable has any of the resource.
fn has(node: &Node, resource: &str) -> bool {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    allocatable.and_then(|all| all.get(resource)).is_some_and(|amount| !is_zero(amount))
}

/// Returns true if the quantity is zero in any notation. Only digits before an exponent or a suffix count.
fn is_zero(quantity: &Quantity) -> bool {
    let number = quantity.0.trim_start_matches(['+', '-']);
    let digits = number.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    !digits.contains(|c: char| c.is_ascii_digit() && c != '0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_zero_in_every_spelling() {
        for zero in ["0", "0.00", "0Gi", "0m", "0e3", "-0", ""] {
            assert!(is_zero(&Quantity(zero.to_owned())), "{zero}");
        }
        for some in ["1", "0.5", "100m", "1e3", "10Gi", "0.001k"] {
            assert!(!is_zero(&Quantity(some.to_owned())), "{some}");
        }
    }
}
