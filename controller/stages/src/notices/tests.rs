use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::state::{Cluster, Kind};

fn cluster(annotation: &str, conditions: &Value, deleted_at: Option<&str>) -> Cluster {
    let mut cluster = Cluster::default();
    let node = json!({"metadata": {"name": "n"}, "spec": {"providerID": "kwok://n"}});
    let claim = json!({
        "metadata": {
            "name": "general-a", "uid": "c", "deletionTimestamp": deleted_at, "finalizers": ["karpenter.sh/termination"],
            "annotations": {"muster.dev/replaces": "x"},
        },
        "spec": {"nodeClassRef": {"group": "g", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
        "status": {"providerID": "kwok://n", "conditions": conditions},
    });
    let pod = json!({
        "metadata": {
            "name": "p", "namespace": "x", "uid": "p", "annotations": {"karpenter.sh/do-not-disrupt": annotation},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "none"}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    });
    cluster.apply(Kind::Node, &node.to_string());
    cluster.apply(Kind::NodeClaim, &claim.to_string());
    cluster.apply(Kind::Pod, &pod.to_string());
    cluster
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    let time = "2026-01-01T00:00:00Z";
    json!({"type": kind, "status": status, "reason": reason, "message": "words", "lastTransitionTime": time})
}

fn words(all: &[Event]) -> Vec<String> {
    all.iter().map(|one| format!("{} `{}`: {}: {}", one.about.kind, one.about.name, one.reason, one.message)).collect()
}

#[test]
fn an_annotation_of_a_pod_is_told_as_long_as_it_matters() {
    let told = |annotation: &str, time: &str| {
        let now: Timestamp = time.parse().unwrap();
        words(&holds(&cluster(annotation, &json!([]), None), now)).join("; ")
    };
    let (early, late, later) = ("2026-01-01T00:10:00Z", "2026-01-01T00:30:10Z", "2026-01-01T00:40:00Z");
    assert_eq!(told("true", early), "");
    insta::assert_snapshot!(told("maybe", early), @"Pod `p`: InvalidDoNotDisruptAnnotation: `karpenter.sh/do-not-disrupt` is neither `true` nor a duration such as `30m`: it is ignored");
    insta::assert_snapshot!(told("30m", early), @"Pod `p`: DoNotDisruptUntil: Its node is not disrupted voluntarily until 2026-01-01T00:30:00Z");
    insta::assert_snapshot!(told("30m", late), @"Pod `p`: DoNotDisruptGracePeriodElapsed: The duration for which its node was not disrupted has passed");
    assert_eq!(told("30m", later), "");
}

#[test]
fn what_is_waited_for_is_told_of_the_node_or_of_the_claim() {
    let coming =
        json!([condition("Launched", "True", "Launched"), condition("Initialized", "Unknown", "NodeNotReady")]);
    let other = json!([condition("ConsistentStateFound", "False", "ConsistencyCheckFailed")]);
    let going = json!([
        condition("VolumesDetached", "Unknown", "AwaitingVolumeDetachment"),
        condition("InstanceTerminating", "Unknown", "Throttled"),
    ]);
    let told =
        |conditions: &Value, deleted_at: Option<&str>| words(&progress(&cluster("true", conditions, deleted_at)));
    assert_eq!(
        told(&coming, None),
        ["NodeClaim `general-a`: DisruptionWaitingReadiness: Waiting on readiness to continue disruption"]
    );
    assert_eq!(told(&other, None), ["NodeClaim `general-a`: FailedConsistencyCheck: words"]);
    assert_eq!(
        told(&going, Some("2026-01-01T00:00:00Z")),
        ["Node `n`: AwaitingVolumeDetachment: words", "Node `n`: FailedTermination: words"]
    );
    assert!(told(&coming, Some("2026-01-01T00:00:00Z")).is_empty());
}
