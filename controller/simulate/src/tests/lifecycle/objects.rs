//! Objects of the cluster, and the instance types.

use muster_api::{NodeClaim, decode};
use muster_scheduling::model::Catalogue;
use serde_json::{Value, json};

use super::life::Story;
use crate::world::STUCK;

/// Class, daemon, and the namespace whose annotation pauses the controller.
pub(super) const CLUSTER: &str = "apiVersion: v1
kind: Namespace
metadata: {name: karpenter}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: shop}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: shop}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: proxy, namespace: shop}
spec:
  selector: {matchLabels: {app: proxy}}
  template:
    metadata: {labels: {app: proxy}}
    spec:
      priorityClassName: system-node-critical
      containers: [{name: c, image: proxy}]
";

/// Budget that permits no eviction of the pods `web`.
pub(super) const BUDGET: &str = "apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec:
  minAvailable: 100%
  selector: {matchLabels: {app: web}}
";

/// Returns three types with a GPU: `a` on spot and on demand, `b` on spot, `c` on demand.
pub(super) fn catalogue() -> Catalogue {
    let offering = |(capacity_type, price): &(&str, f64)| {
        let term = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        json!({
            "requirements": [
                term("topology.kubernetes.io/zone", "eu-west-1a"),
                term("karpenter.sh/capacity-type", capacity_type),
            ],
            "price": price,
            "available": true,
        })
    };
    let instance_type = |name: &str, offerings: &[(&str, f64)]| {
        json!({
            "name": name,
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}],
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "58", "nvidia.com/gpu": "1"},
            "overhead": {},
            "offerings": offerings.iter().map(offering).collect::<Vec<_>>(),
        })
    };
    let catalogue = json!({
        "apiVersion": "muster.dev/v1", "kind": "InstanceCatalog",
        "instanceTypes": [
            instance_type("a", &[("spot", 0.1), ("on-demand", 0.3)]),
            instance_type("b", &[("spot", 0.2)]),
            instance_type("c", &[("on-demand", 0.4)]),
        ],
    });
    muster_aws::catalogue::read(&catalogue.to_string()).unwrap().into()
}

/// Returns a claim that requests a GPU.
pub(super) fn claim(name: &str, story: &Story) -> NodeClaim {
    let mut claim: NodeClaim = decode(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "startupTaints": [{"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}],
            "resources": {"requests": {"nvidia.com/gpu": "1"}},
            "requirements": [],
        },
    }))
    .unwrap();
    claim.spec.termination_grace_period = story.grace.map(muster_api::Span::from_secs);
    claim.spec.expire_after = story.expire_after;
    claim
}

/// Returns the pods of a claim's node, of which `web` has a volume.
pub(super) fn pods(claim: &str, node: &str, story: &Story) -> Vec<Value> {
    let pod = |app: &str, annotation: Option<&str>, spec: Value| {
        let annotations: Value = annotation.map_or_else(|| json!({}), |key| json!({key: "true"}));
        let mut all = json!({"nodeName": node, "containers": [{"name": "c", "image": app}]});
        json_patch::merge(&mut all, &spec);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{app}-{claim}"), "namespace": "shop",
                "labels": {"app": app}, "annotations": annotations,
            },
            "spec": all,
        })
    };
    let (volume, volume_claim) = (format!("pv-{claim}"), format!("data-{claim}"));
    let size = json!({"storage": "1Gi"});
    let mounted = json!([{"name": "data", "persistentVolumeClaim": {"claimName": volume_claim}}]);
    let hold = story.has_hold.then_some("karpenter.sh/do-not-disrupt");
    let stuck = story.has_stuck_pod.then_some(STUCK);
    vec![
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {
                "capacity": size, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{claim}")},
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": volume_claim, "namespace": "shop"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "volumeName": volume},
            "status": {"phase": "Bound"},
        }),
        pod("web", hold, json!({"volumes": mounted})),
        pod("dns", stuck, json!({"priorityClassName": "system-cluster-critical"})),
    ]
}
