//! A picture of a cluster and its instances side by side, for snapshots and for failures.
//!
//! ```text
//!  Nodes ──────┐
//!  Pods ───────┼──► Snapshot ──► one line for each pair: instance │ Node │ state │ taints │ pods
//!  instances ──┘                an instance without a Node, and a Node without an instance, show as a gap
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::cluster::Cluster;
use crate::error::Result;

/// An instance as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// As `i-0123456789abcdef0`.
    pub id: String,
    /// As `m7g.large`.
    pub instance_type: String,
    /// As `us-east-1a`.
    pub zone: String,
    /// As `running`.
    pub state: String,
}

/// A Node with what runs on it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeLine {
    name: String,
    instance: Option<String>,
    is_ready: bool,
    taints: Vec<String>,
    pods: Vec<String>,
}

/// What there is at one moment. `Display` shows it as a table whose lines are sorted by instance type, zone and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    instances: Vec<Instance>,
    nodes: Vec<NodeLine>,
    unplaced: Vec<String>,
}

impl Snapshot {
    /// Takes the picture of a cluster and of the `instances` that EC2 describes. Only Nodes, pods and namespaces whose
    /// name or labels hold `mark` are on it, so that tests which run at once do not see each other; an empty mark shows
    /// all. Pods that daemons and the control plane run are left out.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn take(cluster: &Cluster, instances: Vec<Instance>, mark: &str) -> Result<Self> {
        let all = ListParams::default();
        let nodes: Api<Node> = Api::all(cluster.client());
        let pods: Api<Pod> = Api::all(cluster.client());
        Ok(Self::of(&nodes.list(&all).await?.items, &pods.list(&all).await?.items, instances, mark))
    }

    fn of(nodes: &[Node], pods: &[Pod], instances: Vec<Instance>, mark: &str) -> Self {
        let mut by_node: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut unplaced = Vec::new();
        for pod in pods.iter().filter(|pod| is_workload(pod) && pod.namespace().is_some_and(|it| it.contains(mark))) {
            match pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) {
                Some(node) => by_node.entry(node).or_default().push(pod.name_any()),
                None => unplaced.push(pod.name_any()),
            }
        }
        let is_marked =
            |node: &&Node| node.name_any().contains(mark) || node.labels().values().any(|value| value.contains(mark));
        let mut lines: Vec<NodeLine> = nodes.iter().filter(is_marked).map(|node| line(node, &mut by_node)).collect();
        lines.sort_by(|one, other| one.name.cmp(&other.name));
        unplaced.sort();
        Self { instances, nodes: lines, unplaced }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<[String; 6]> = Vec::new();
        let mut shown = BTreeSet::new();
        let mut instances: Vec<&Instance> = self.instances.iter().collect();
        instances.sort_by_key(|it| (&it.instance_type, &it.zone, &it.id));
        for instance in instances {
            let node = self.nodes.iter().find(|node| node.instance.as_deref() == Some(instance.id.as_str()));
            shown.extend(node.map(|node| node.name.as_str()));
            let place = format!("{} {}", instance.instance_type, instance.zone);
            rows.push(row([instance.id.clone(), place, instance.state.clone()], node));
        }
        for node in self.nodes.iter().filter(|node| !shown.contains(node.name.as_str())) {
            let gone = node.instance.as_ref().map_or_else(|| "-".to_owned(), |id| format!("({id})"));
            rows.push(row([gone, "-".to_owned(), "-".to_owned()], Some(node)));
        }
        let titles = ["INSTANCE", "TYPE AND ZONE", "STATE", "NODE", "TAINTS", "PODS"].map(String::from);
        let all: Vec<&[String; 6]> = std::iter::once(&titles).chain(&rows).collect();
        for cells in &all {
            let mut text = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let width = all.iter().map(|other| other[column].chars().count()).max().unwrap_or(0);
                text.push_str(&format!("{cell:width$}  "));
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        if !self.unplaced.is_empty() {
            writeln!(f, "without a node: {}", self.unplaced.join(", "))?;
        }
        Ok(())
    }
}

fn row([id, place, state]: [String; 3], node: Option<&NodeLine>) -> [String; 6] {
    let dash = || "-".to_owned();
    let list = |values: &[String]| if values.is_empty() { dash() } else { values.join(", ") };
    match node {
        Some(node) => {
            let ready = if node.is_ready { "Ready" } else { "NotReady" };
            [id, place, state, format!("{} {ready}", node.name), list(&node.taints), list(&node.pods)]
        }
        None => [id, place, state, dash(), dash(), dash()],
    }
}

fn line(node: &Node, by_node: &mut BTreeMap<&str, Vec<String>>) -> NodeLine {
    let name = node.name_any();
    let spec = node.spec.as_ref();
    let mut taints: Vec<String> = spec
        .and_then(|spec| spec.taints.as_ref())
        .into_iter()
        .flatten()
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect();
    taints.sort();
    let mut pods = by_node.remove(name.as_str()).unwrap_or_default();
    pods.sort();
    // aws:///ZONE/i-0123
    let provider = spec.and_then(|spec| spec.provider_id.as_deref());
    let instance = provider.and_then(|id| id.rsplit('/').next()).filter(|id| id.starts_with("i-")).map(String::from);
    NodeLine { instance, is_ready: is_ready(node), taints, pods, name }
}

/// Whether the Node's condition says so.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Pods of daemons and static ones come with the node and say nothing of what was packed on it.
fn is_workload(pod: &Pod) -> bool {
    !pod.owner_references().iter().any(|owner| matches!(owner.kind.as_str(), "DaemonSet" | "Node"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str, id: Value, is_ready: bool) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"providerID": id, "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]},
        }))
        .unwrap()
    }

    fn pod(name: &str, node: Value, owner: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "web",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u"}]},
            "spec": {"nodeName": node, "containers": []},
        }))
        .unwrap()
    }

    #[test]
    fn instances_and_nodes_stand_side_by_side() {
        let instance = |id: &str, kind: &str| Instance {
            id: id.into(),
            instance_type: kind.into(),
            zone: "us-east-1a".into(),
            state: "running".into(),
        };
        let nodes = [
            node("ip-10-0-0-2", json!("aws:///us-east-1a/i-2"), false),
            node("ip-10-0-0-1", json!("aws:///us-east-1a/i-1"), true),
            node("ip-10-0-0-9", json!("aws:///us-east-1a/i-9"), false),
            node("bare", json!(null), true),
        ];
        let pods = [
            pod("web-1", json!("ip-10-0-0-1"), "ReplicaSet"),
            pod("web-0", json!("ip-10-0-0-1"), "ReplicaSet"),
            pod("proxy", json!("ip-10-0-0-1"), "DaemonSet"),
            pod("web-2", json!(null), "ReplicaSet"),
        ];
        let instances = vec![instance("i-3", "m7g.large"), instance("i-2", "m7g.large"), instance("i-1", "c7g.large")];
        insta::assert_snapshot!(Snapshot::of(&nodes, &pods, instances, ""));
    }
}
