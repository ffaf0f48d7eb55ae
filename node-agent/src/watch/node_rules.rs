//! Rules on Node objects.

use muster_api::labels;
pub use muster_api::taints::owner;
use muster_bootstrap::agent_config::Expectation;
use muster_bootstrap::finding::{Finding, Severity};
use muster_bootstrap::kubelet::taints::Taint;
use muster_bootstrap::place::{Place, Source};
use muster_bootstrap::verdicts;

use super::node_object::NodeObject;

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Resource that Windows pods request. The control plane writes its count to the Node.
const ADDRESSES: &str = "vpc.amazonaws.com/PrivateIPv4Address";
const TRUNK: &str = "vpc.amazonaws.com/has-trunk-attached";

/// Returns the taints that keep the node from being initialized, each with the component that removes it.
#[must_use]
pub fn startup_taints<'n>(node: &'n NodeObject, expect: &Expectation) -> Vec<(&'n Taint, &'static str)> {
    let is_named = |taint: &Taint| expect.startup_taints.iter().any(|named| *named == taint.to_string());
    let owner_of =
        |taint: &Taint| owner(&taint.key).or_else(|| is_named(taint).then_some("the component that asked for it"));
    node.taints.iter().filter_map(|taint| Some((taint, owner_of(taint)?))).collect()
}

/// Returns true if the Node is initialized, as defined by Karpenter, except for resources, which the device chains
/// check.
#[must_use]
pub fn is_initialized(node: &NodeObject, expect: &Expectation) -> bool {
    node.is("Ready", "True") && startup_taints(node, expect).is_empty()
}

/// Returns faults that are visible in the Node at once.
#[must_use]
pub fn faults(node: &NodeObject, instance_id: Option<&str>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(own) = instance_id
        && !node.provider_id.is_empty()
        && node.instance_id() != Some(own)
    {
        let message = format!("Node `{}` belongs to another instance", node.name);
        found.push(Finding::new(&verdicts::AU13, &message, at(node, &format!("providerID: {}", node.provider_id))));
    }
    if node.is("DiskPressure", "True") {
        let text = format!("DiskPressure: {}", node.message("DiskPressure"));
        found.push(Finding::new(&verdicts::CR11, "the node is short of disk space", at(node, &text)));
    }
    if let Some(value) = node.labels.get(TRUNK).filter(|value| *value != "true") {
        let text = format!("{TRUNK}={value}");
        let finding = Finding::new(&verdicts::CN10, "the control plane attached no trunk interface", at(node, &text));
        found.push(finding.with_severity(Severity::Warning));
    }
    found
}

/// Returns conditions that the Node waits for. They become warnings if `is_late` is true.
#[must_use]
pub fn waits(node: &NodeObject, expect: &Expectation, is_late: bool) -> Vec<Finding> {
    let severity = if is_late { Severity::Warning } else { Severity::Info };
    let mut found = Vec::new();
    let ready = node.message("Ready");
    if node.is("Ready", "False") && ready.contains("cni plugin not initialized") {
        let finding = Finding::new(&verdicts::CN01, "the node waits for a CNI plugin", at(node, ready));
        found.push(finding.with_severity(severity));
    }
    if !node.is("Ready", "True") {
        return found;
    }
    let is_windows = node.labels.get("kubernetes.io/os").is_some_and(|os| os == "windows");
    if is_windows && !node.capacity.contains_key(ADDRESSES) && !expect.resources.contains_key(ADDRESSES) {
        let message = format!("the node offers no `{ADDRESSES}`");
        found.push(Finding::new(&verdicts::WN02, &message, at(node, "")).with_severity(severity));
    }
    for (taint, owner) in startup_taints(node, expect) {
        let (verdict, message) = match taint.key.as_str() {
            UNINITIALIZED => (&verdicts::AU16, "the node waits for the cloud controller".to_owned()),
            _ => (&verdicts::CN11, format!("taint `{taint}` waits for {owner}")),
        };
        found.push(Finding::new(verdict, &message, at(node, &taint.to_string())).with_severity(severity));
    }
    found
}

/// Returns a finding for each required taint that the Node's first version lacked.
#[must_use]
pub fn lost_taints(node: &NodeObject, required: &[Taint]) -> Vec<Finding> {
    let missing = required.iter().filter(|taint| !node.taints.contains(taint));
    let finding = |taint: &Taint| {
        let message = format!("the node registered without required taint {taint}");
        Finding::new(&verdicts::KA07, &message, at(node, ""))
    };
    missing.map(finding).collect()
}

/// Like [`lost_taints`], for a Node that had existed for a while when it was first seen, as on a machine short of CPU.
/// A taint counts as lost only if it cannot have been removed meanwhile. Startup taints are removed by their owners.
/// The unregistered taint is only removed when the controller registers the node, and other taints are not removed
/// before that.
#[must_use]
pub fn taints_lost_before(node: &NodeObject, required: &[Taint], expect: &Expectation) -> Vec<Finding> {
    if node.labels.contains_key(labels::REGISTERED) {
        return Vec::new();
    }
    let unregistered = Taint::unregistered();
    let is_named = |taint: &Taint| expect.startup_taints.iter().any(|named| *named == taint.to_string());
    let stays = |taint: &&Taint| **taint == unregistered || !is_named(taint) && owner(&taint.key).is_none();
    let required: Vec<Taint> = required.iter().filter(stays).cloned().collect();
    lost_taints(node, &required)
}

fn at<'t>(node: &NodeObject, text: &'t str) -> Option<(Place, &'t str)> {
    Some((Source::whole(format!("Node {}", node.name)).anywhere(), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(ready: &str, message: &str, taints: &[&str]) -> NodeObject {
        let taints: Vec<_> = taints
            .iter()
            .map(|it| it.parse::<Taint>().unwrap())
            .map(|it| json!({"key": it.key, "value": it.value, "effect": it.effect}))
            .collect();
        NodeObject::read(&json!({"metadata": {"name": "a"}, "spec": {"taints": taints, "providerID": "aws:///z/i-1"},
            "status": {"conditions": [{"type": "Ready", "status": ready, "message": message}]}}))
        .unwrap()
    }

    fn codes(found: &[Finding]) -> Vec<(&'static str, Severity)> {
        found.iter().map(|it| (it.verdict.code, it.severity)).collect()
    }

    #[test]
    fn what_somebody_takes_off_is_waited_for_and_then_a_fault() {
        let expect =
            Expectation { startup_taints: vec!["example.com/agent:NoSchedule".to_owned()], ..Default::default() };
        let tainted = node("True", "", &["example.com/agent:NoSchedule", "dedicated=gpu:NoSchedule"]);
        assert!(!is_initialized(&tainted, &expect));
        assert_eq!(codes(&waits(&tainted, &expect, false)), [("CN11", Severity::Info)]);
        assert_eq!(codes(&waits(&tainted, &expect, true)), [("CN11", Severity::Warning)]);
        assert!(is_initialized(&tainted, &Expectation::default()), "a taint for good is nobody's to take off");
        for (taint, code) in [
            ("node.cilium.io/agent-not-ready:NoExecute", "CN11"),
            ("readiness.k8s.io/x:NoSchedule", "CN11"),
            ("node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule", "AU16"),
        ] {
            assert_eq!(codes(&waits(&node("True", "", &[taint]), &expect, true)), [(code, Severity::Warning)]);
        }
        let waiting = node("False", "Network plugin returns error: cni plugin not initialized", &[]);
        assert_eq!(codes(&waits(&waiting, &expect, true)), [("CN01", Severity::Warning)]);
        assert!(waits(&node("True", "", &[]), &expect, true).is_empty());
    }

    #[test]
    fn a_windows_node_waits_for_its_addresses() {
        let windows = |addresses: &str| {
            NodeObject::read(&json!({"metadata": {"name": "a", "labels": {"kubernetes.io/os": "windows"}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {addresses: "9"}}}))
            .unwrap()
        };
        let expect = Expectation::default();
        assert_eq!(codes(&waits(&windows("pods"), &expect, false)), [("WN02", Severity::Info)]);
        assert_eq!(codes(&waits(&windows("pods"), &expect, true)), [("WN02", Severity::Warning)]);
        assert!(waits(&windows(ADDRESSES), &expect, true).is_empty());
    }

    #[test]
    fn a_node_of_another_instance_is_told_from_the_own_one() {
        assert_eq!(codes(&faults(&node("True", "", &[]), Some("i-2"))), [("AU13", Severity::Error)]);
        assert!(faults(&node("True", "", &[]), Some("i-1")).is_empty());
        assert!(faults(&node("True", "", &[]), None).is_empty());
    }

    #[test]
    fn a_taint_that_was_lost_on_the_way_is_seen() {
        let required = [Taint::unregistered()];
        assert_eq!(codes(&lost_taints(&node("True", "", &[]), &required)), [("KA07", Severity::Error)]);
        assert!(lost_taints(&node("True", "", &["karpenter.sh/unregistered:NoExecute"]), &required).is_empty());
    }

    #[test]
    fn of_a_node_that_is_there_for_a_while_only_what_nobody_takes_off_is_missed() {
        let startup = "example.com/agent:NoSchedule";
        let required = ["karpenter.sh/unregistered:NoExecute", "ebs.csi.aws.com/agent-not-ready:NoExecute", startup];
        let required = required.map(|taint| taint.parse::<Taint>().unwrap());
        let expect = Expectation { startup_taints: vec![startup.to_owned()], ..Default::default() };
        let lost = |node: &NodeObject| taints_lost_before(node, &required, &expect);
        let found = lost(&node("True", "", &[]));
        assert_eq!(codes(&found), [("KA07", Severity::Error)]);
        assert!(found[0].message.contains("karpenter.sh/unregistered"), "{}", found[0].message);
        assert!(lost(&node("True", "", &["karpenter.sh/unregistered:NoExecute"])).is_empty());
        let mut registered = node("True", "", &[]);
        registered.labels.insert(labels::REGISTERED.to_owned(), "true".to_owned());
        assert!(lost(&registered).is_empty(), "the controller has taken it off");
    }
}
