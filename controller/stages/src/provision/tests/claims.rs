//! NodeClaims as they are written.

use muster_api::validation;
use serde_json::json;

use super::fixture::{Cluster, pod};
use crate::provision::name;

#[test]
fn a_claim_says_all_that_karpenters_does() {
    let mut cluster = Cluster::new();
    let pool = cluster.get("NodePool", "general");
    pool["spec"]["template"]["metadata"] =
        json!({"labels": {"team": "shop"}, "annotations": {"example.com/owner": "me"}});
    let template = &mut pool["spec"]["template"]["spec"];
    template["terminationGracePeriod"] = json!("48h");
    template["taints"] = json!([{"key": "dedicated", "value": "shop", "effect": "NoSchedule"}]);
    template["startupTaints"] = json!([{"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}]);
    template["requirements"] = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"], "minValues": 1},
        {"key": "example.com/rack", "operator": "Gt", "values": ["6"]},
        {"key": "example.com/disk", "operator": "In", "values": ["nvme", "hdd"]},
        {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]},
    ]);
    let mut one = pod("a", "1");
    one["spec"]["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    one["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "a", "example.com/disk": "nvme"});
    one["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
    {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "example.com/never", "operator": "DoesNotExist"},
        {"key": "karpenter.sh/strange", "operator": "DoesNotExist"},
    ]}]}}});
    cluster.add(one);
    let words = cluster.round(0);
    let [claim] = &cluster.claims()[..] else { panic!("{words:?}") };
    let object = serde_json::to_value(claim).unwrap();
    let checked = validation::check(&object);
    assert_eq!((checked.errors, checked.warnings), (Vec::new(), Vec::new()));
    insta::assert_yaml_snapshot!(object);
}

#[test]
fn names_are_short_and_follow_from_the_decision() {
    let one = name("general", ["a", "b"]);
    assert_eq!(one, name("general", ["a", "b"]));
    for (pool, reasons) in [("general", ["a", "c"]), ("general", ["ab", ""]), ("other", ["a", "b"])] {
        assert_ne!(name(pool, reasons), one);
    }
    let pool = "x".repeat(51) + "-and-more-of-it";
    let long = name(&pool, ["a"]);
    assert!(long.len() <= 63 && long.starts_with(&"x".repeat(51)) && !long.contains("--"), "{long}");
    assert_ne!(name(&("x".repeat(51) + "-and-less"), ["a"])[52..], long[52..], "what was cut off counts");
}
