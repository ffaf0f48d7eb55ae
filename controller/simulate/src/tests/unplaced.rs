//! Pods that fit nowhere, counted in problems that were solved for them.

use super::stories::script;
use super::{CLUSTER, Policy, day_of};

/// A pod that is larger than every type.
const HUGE: &str = "apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: shop}
spec:
  containers: [{name: c, image: c, resources: {requests: {cpu: 1000}}}]
";

/// A cluster without workloads: its namespace, class and pools.
fn pools() -> String {
    let kinds = ["kind: Namespace", "kind: EC2NodeClass", "kind: NodePool"];
    let is_one = |document: &&str| kinds.iter().any(|kind| document.contains(&format!("{kind}\n")));
    CLUSTER.split("---\n").filter(is_one).collect::<Vec<_>>().join("---\n")
}

/// Number of problems solved on a day with the huge pod, which waits to the end of it.
fn solved(length: &str, events: &str) -> usize {
    let cluster = format!("{}---\n{HUGE}", pools());
    let outcome = day_of(&cluster, script(&format!("  length: {length}\n{events}")), 0, Policy::Muster);
    assert_eq!(outcome.broken().collect::<Vec<_>>(), Vec::<&str>::new());
    assert_eq!((outcome.glance.waiting, outcome.nodes.len()), (1, 0));
    outcome.solved
}

#[test]
fn a_pod_that_fits_nowhere_is_not_solved_again_while_nothing_changes() {
    let first = solved("10m", "");
    assert!(first > 0);
    assert_eq!(solved("12h", ""), first);
}

#[test]
fn a_pod_that_fits_nowhere_is_not_solved_again_for_what_does_not_concern_it() {
    let budget = "  events:\n  - at: 1h\n    apply:\n      {apiVersion: policy/v1, kind: PodDisruptionBudget, \
                  metadata: {name: any, namespace: shop}, spec: {maxUnavailable: 1, selector: {}}}\n";
    assert_eq!(solved("12h", budget), solved("12h", ""));
}

#[test]
fn a_pod_that_fits_nowhere_is_solved_once_more_when_a_pool_has_changed() {
    let patch = |at: &str, most: u32| {
        format!(
            "  - {{at: {at}, patch: {{kind: NodePool, name: general, set: {{spec: {{limits: {{cpu: {most}}}}}}}}}}}\n"
        )
    };
    let once = format!("  events:\n{}", patch("1h", 90));
    let twice = format!("{once}{}", patch("2h", 80));
    let first = solved("12h", "");
    assert_eq!((solved("12h", &once), solved("12h", &twice)), (first + 1, first + 2));
}
