//! Comparison of a Node with what was launched for it: a machine with less than it should have takes fewer pods than
//! planned.

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_api::conditions::{nodeclaim, reason};

use super::conditions::{Status, at, condition, is_true, set};
use crate::node::{Node, amounts};
use crate::step::Write;

/// Share of a resource below which a Node is inconsistent, in percent: Karpenter's value.
const LEAST: i64 = 90;

/// Returns the first requested resource of which the Node has too little, in words.
pub(super) fn shortage(claim: &NodeClaim, node: &Node) -> Option<String> {
    let expected = amounts(&claim.status.as_ref()?.capacity);
    let found = amounts(node.status.as_ref()?.capacity.as_ref()?);
    let requested = amounts(&claim.spec.resources.requests);
    let mut short = requested.iter().filter(|(_, amount)| *amount > 0).filter_map(|(resource, _)| {
        let (wanted, there) = (expected.get(resource), found.get(resource));
        let percent = i128::from(there) * 100 / i128::from(wanted.max(1));
        (wanted > 0 && percent < i128::from(LEAST)).then(|| {
            let amount = |amount| muster_aws::quantity::format(resource, amount);
            format!(
                "expected {} of resource {resource}, but found {} ({percent}% of expected)",
                amount(wanted),
                amount(there)
            )
        })
    });
    short.next()
}

/// Returns the status update of an initialized claim whose condition ConsistentStateFound does not hold any more.
#[must_use]
pub fn tell(claim: &NodeClaim, node: &Node, now: Timestamp) -> Option<Write> {
    if claim.metadata.deletion_timestamp.is_some() || !is_true(claim, nodeclaim::INITIALIZED) {
        return None;
    }
    let kind = nodeclaim::CONSISTENT_STATE_FOUND;
    let (wanted, reason, message) = match shortage(claim, node) {
        None => (Status::True, kind, String::new()),
        Some(short) => (Status::False, reason::CONSISTENCY_CHECK_FAILED, short),
    };
    if condition(claim, kind).is_some_and(|there| there.status == wanted.name() && there.message == message) {
        return None;
    }
    let mut status = claim.status.clone()?;
    set(&mut status.conditions, at(kind, wanted, reason, &message, claim.metadata.generation, now));
    let name = claim.metadata.name.clone().unwrap_or_default();
    Some(Write::ClaimStatus { name, status: Box::new(status) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_with_less_than_nine_tenths_of_what_was_launched_is_inconsistent() {
        let time = "2026-01-01T00:00:00Z";
        let initialized = json!({
            "type": "Initialized", "status": "True", "reason": "Initialized", "message": "", "lastTransitionTime": time,
        });
        let claim: NodeClaim = serde_json::from_value(json!({
            "metadata": {"name": "general-a"},
            "spec": {
                "nodeClassRef": {"group": "g", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
                "resources": {"requests": {"memory": "1Gi"}},
            },
            "status": {"capacity": {"cpu": "4", "memory": "16Gi"}, "conditions": [initialized]},
        }))
        .unwrap();
        let of = |memory: &str, cpu: &str| -> Node {
            serde_json::from_value(json!({"status": {"capacity": {"memory": memory, "cpu": cpu}}})).unwrap()
        };
        assert_eq!(shortage(&claim, &of("15Gi", "1")), None, "no CPU was requested");
        let short = shortage(&claim, &of("8Gi", "4")).unwrap();
        assert_eq!(short, "expected 16Gi of resource memory, but found 8Gi (50% of expected)");
        let now: Timestamp = time.parse().unwrap();
        let told = tell(&claim, &of("8Gi", "4"), now).unwrap();
        let Write::ClaimStatus { status, .. } = told else { panic!("another write") };
        let told = NodeClaim { status: Some(*status), ..claim };
        assert_eq!(tell(&told, &of("8Gi", "4"), now), None);
        assert!(tell(&told, &of("16Gi", "4"), now).is_some());
    }
}
