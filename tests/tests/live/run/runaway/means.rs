//! The meddler's means: what it does to Nodes and pods.

use k8s_openapi::api::core::v1::{Binding, Node, Pod, Taint};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::difference::Difference;
use super::meddler::{FOREIGN, Meddler, SCHEDULER, WORLD, is_registered, taints};
use super::workloads::URGENT;

/// The annotation of Nodes that KWOK keeps alive.
const FAKE: &str = "kwok.x-k8s.io/node";
/// The label of a Node that its pods select.
const HOSTNAME: &str = "kubernetes.io/hostname";

impl Meddler {
    /// Has the kubelet give so much of a resource, and then lets pods come.
    pub(super) async fn allocate(&self, node: &Node, resource: &str, amount: &str) -> kube::Result<()> {
        let there = node.status.as_ref().and_then(|status| status.allocatable.as_ref()?.get(resource));
        if there.is_none_or(|there| there.0 == amount) {
            return self.untaint(node).await;
        }
        let patch = Patch::Merge(json!({"status": {"allocatable": {resource: amount}}}));
        self.nodes.patch_status(&node.name_any(), &PatchParams::default(), &patch).await.map(drop)
    }

    /// Gives a label of the Node this value, or takes it off, and then lets pods come.
    pub(super) async fn relabel(&self, node: &Node, label: &str, value: Option<&str>) -> kube::Result<()> {
        if node.labels().get(label).map(String::as_str) == value {
            return self.untaint(node).await;
        }
        self.merge(node, json!({"metadata": {"labels": {label: value}}})).await
    }

    /// Lets the kubelet fall silent when its node is initialized, and pods come when that is known.
    pub(super) async fn silence(&self, node: &Node) -> kube::Result<()> {
        if !node.labels().contains_key("karpenter.sh/initialized") {
            return Ok(());
        }
        if node.annotations().contains_key(FAKE) {
            // KWOK would mend it.
            return self.merge(node, json!({"metadata": {"annotations": {FAKE: null}}})).await;
        }
        if taints(node).iter().any(|taint| taint.key == "node.kubernetes.io/not-ready") {
            return self.untaint(node).await;
        }
        let condition = json!({
            "type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "its runtime is down",
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        self.nodes.patch_status(&node.name_any(), &PatchParams::default(), &patch).await.map(drop)
    }

    /// Puts a static pod with such a container on the node, and then lets others come.
    pub(super) async fn add_static_pod(&mut self, node: &Node, fields: &Value) -> kube::Result<()> {
        self.put_static_pod(node, &json!({}), fields).await?;
        self.untaint(node).await
    }

    /// Puts a static pod with these labels and such a container on the node.
    pub(super) async fn put_static_pod(&mut self, node: &Node, labels: &Value, fields: &Value) -> kube::Result<()> {
        let name = node.name_any();
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid(), "controller": true});
        let mut container = json!({"name": "main", "image": "none"});
        container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let metadata = json!({"name": format!("mirror-{name}"), "labels": labels, "ownerReferences": [owner]});
        self.put(node, &metadata, &json!({"containers": [container]})).await
    }

    /// Puts a pod of another scheduler on the node, which takes nearly all of it.
    pub(super) async fn put_other_pod(&mut self, node: &Node) -> kube::Result<()> {
        let resources = json!({"requests": {"cpu": "3500m", "memory": "64Mi"}});
        let containers = json!([{"name": "main", "image": "none", "resources": resources}]);
        let metadata = json!({"name": format!("other-{}", node.name_any())});
        self.put(node, &metadata, &json!({"schedulerName": SCHEDULER, "containers": containers})).await
    }

    /// Puts such a pod on the node, once.
    async fn put(&mut self, node: &Node, metadata: &Value, fields: &Value) -> kube::Result<()> {
        let name = node.name_any();
        if !self.done.insert(name.clone()) {
            return Ok(());
        }
        let mut spec = json!({"nodeName": name, "tolerations": [{"operator": "Exists"}]});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        self.pods.create(&PostParams::default(), &pod).await.map(drop)
    }

    /// Creates a pod of higher priority that needs most of that node.
    pub(super) async fn put_urgent_pod(&self, node: &str) -> kube::Result<()> {
        let host = self.nodes.get(node).await?.labels().get(HOSTNAME).cloned();
        let resources = json!({"requests": {"cpu": "3"}});
        let containers = json!([{"name": "main", "image": "none", "resources": resources}]);
        let spec = json!({"priorityClassName": URGENT, "nodeSelector": {HOSTNAME: host}, "containers": containers});
        let pod = json!({"metadata": {"name": URGENT}, "spec": spec});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods.create(&PostParams::default(), &pod).await.map(drop)
    }

    /// Says of the pod what a kubelet says that has no room for it after all.
    pub(super) async fn reject(&self, pod: &str) -> kube::Result<()> {
        let status =
            json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"});
        let patch = Patch::Strategic(json!({"status": status}));
        self.pods.patch_status(pod, &PatchParams::default(), &patch).await.map(drop)
    }

    /// Has the pods of a world ask for six CPUs.
    pub(super) async fn grow(&self, world: Difference) -> kube::Result<()> {
        let container = json!({"name": "main", "resources": {"requests": {"cpu": "6"}}});
        let patch = Patch::Strategic(json!({"spec": {"containers": [container]}}));
        for pod in self.pods.list(&ListParams::default().labels(&format!("app={}", world.name()))).await? {
            self.pods.patch_subresource("resize", &pod.name_any(), &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    /// Marks the pod as unschedulable, and binds it once its node has been up for a while.
    pub(super) async fn bind_late(&mut self, pod: &Pod) -> kube::Result<()> {
        let name = pod.name_any();
        if self.done.insert(name.clone()) {
            self.mark(&name).await?;
            let (nodes, pods) = (self.nodes.clone(), self.pods.clone());
            tokio::spawn(async move {
                let here = Selection::labelled(&format!("{WORLD}={}", Difference::SlowScheduler.name()));
                let is_up = |nodes: &[Node]| nodes.iter().any(is_registered);
                let nodes = wait::until_all(nodes, here, super::THREE_NODES, "its node is up", is_up).await.unwrap();
                tokio::time::sleep(super::LATE).await;
                let target = json!({"apiVersion": "v1", "kind": "Node", "name": nodes[0].name_any()});
                let binding = json!({"metadata": {"name": name}, "target": target});
                let binding: Binding = serde_json::from_value(binding).unwrap();
                pods.create_subresource("binding", &name, &PostParams::default(), &binding).await.map(|_: Value| ())
            });
        }
        Ok(())
    }

    /// Says of the pod what its scheduler would.
    pub(super) async fn mark(&self, pod: &str) -> kube::Result<()> {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "nobody binds it",
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        self.pods.patch_status(pod, &PatchParams::default(), &patch).await.map(drop)
    }

    pub(super) async fn taint(&self, node: &Node, effect: &str) -> kube::Result<()> {
        let mut taints = taints(node);
        if taints.iter().any(|taint| taint.key == FOREIGN) {
            return Ok(());
        }
        taints.push(Taint { key: FOREIGN.to_owned(), effect: effect.to_owned(), ..Taint::default() });
        self.merge(node, json!({"spec": {"taints": taints}})).await
    }

    pub(super) async fn untaint(&self, node: &Node) -> kube::Result<()> {
        let mut taints = taints(node);
        let before = taints.len();
        taints.retain(|taint| taint.key != FOREIGN);
        if taints.len() == before { Ok(()) } else { self.merge(node, json!({"spec": {"taints": taints}})).await }
    }

    /// Changes this version of the Node.
    pub(super) async fn merge(&self, node: &Node, mut patch: Value) -> kube::Result<()> {
        patch["metadata"]["resourceVersion"] = json!(node.resource_version());
        self.nodes.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    }
}
