//! Somebody else in the cluster, who makes nodes other than they were planned: by admission where a pod would otherwise
//! be bound first, and by a watch for the rest.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{LimitRange, Namespace, Node, Pod, Taint};
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::difference::Difference::{self, *};
use super::workloads::{
    AGENTS, ARCHITECTURE, DEVICE, DRIVER, HUGE_PAGES, NOISY, PORT, RACK, TIER, ZONE, late_daemons, limit_range,
};
use crate::run::ground::of_karpenter;

/// Label of the nodes of a world: the name of its difference.
pub(super) const WORLD: &str = "example.com/world";
/// Taint of nodes that nobody planned.
pub(super) const FOREIGN: &str = "example.com/agent";
/// A scheduler that binds nothing.
pub(super) const SCHEDULER: &str = "nobody";

/// How many pods a kubelet rejects.
const REJECTED: usize = 2;

pub(super) struct Meddler {
    client: Client,
    pub(super) nodes: Api<Node>,
    pub(super) pods: Api<Pod>,
    claims: Api<DynamicObject>,
    csi_nodes: Api<CSINode>,
    /// Nodes, pods and worlds that are done with.
    pub(super) done: BTreeSet<String>,
    rejected: usize,
}

enum Seen {
    Node(Box<Node>),
    Pod(Box<Pod>),
}

// === impl Meddler ===

impl Meddler {
    pub(super) fn new(client: &Client) -> Self {
        let (nodes, pods) = (Api::all(client.clone()), Api::namespaced(client.clone(), "default"));
        let (claims, csi_nodes) = (of_karpenter(client.clone(), "NodeClaim"), Api::all(client.clone()));
        Self { client: client.clone(), nodes, pods, claims, csi_nodes, done: BTreeSet::new(), rejected: 0 }
    }

    /// Looks at every Node and every pod whenever it changes, for ever.
    pub(super) async fn meddle(mut self) {
        let nodes =
            watcher(self.nodes.clone(), Config::default()).applied_objects().map_ok(Box::new).map_ok(Seen::Node);
        let all = Api::<Pod>::all(self.client.clone());
        let pods = watcher(all, Config::default()).applied_objects().map_ok(Box::new).map_ok(Seen::Pod);
        let mut seen = pin!(stream::select(nodes, pods));
        while let Some(one) = seen.next().await {
            // What is lost to another writer is seen again in its new version.
            let _lost = match one {
                Ok(Seen::Node(node)) => self.node(&node).await,
                Ok(Seen::Pod(pod)) => self.pod(&pod).await,
                Err(_) => Ok(()),
            };
        }
    }

    async fn node(&mut self, node: &Node) -> kube::Result<()> {
        let name = node.name_any();
        match Difference::named(node.labels().get(WORLD)) {
            Some(Reaper) => {
                if is_registered(node) && self.done.insert(name) {
                    let app = format!("app={}", Reaper.name());
                    for pod in self.pods.list(&ListParams::default().labels(&app)).await? {
                        self.pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
                    }
                }
                Ok(())
            }
            Some(TaintForAWhile) => {
                let here = format!("{WORLD}={}", TaintForAWhile.name());
                let nodes = self.nodes.list(&ListParams::default().labels(&here)).await?.items;
                match &nodes[..] {
                    [only] => self.taint(only, "NoSchedule").await,
                    all => futures::future::try_join_all(all.iter().map(|node| self.untaint(node))).await.map(drop),
                }
            }
            Some(CordonForAWhile) => {
                let here = format!("{WORLD}={}", CordonForAWhile.name());
                let nodes = self.nodes.list(&ListParams::default().labels(&here)).await?.items;
                if nodes.len() > 1 {
                    for node in &nodes {
                        self.merge(node, json!({"spec": {"unschedulable": null}})).await?;
                    }
                }
                Ok(())
            }
            Some(LessCpu) => self.allocate(node, "cpu", "1").await,
            Some(LessMemory) => self.allocate(node, "memory", "64Mi").await,
            Some(NoPods) => self.allocate(node, "pods", "0").await,
            Some(StaticPod) => {
                self.add_static_pod(node, &json!({"resources": {"requests": {"cpu": "7", "memory": "64Mi"}}})).await
            }
            Some(HostPort) => {
                let ports = json!([{"containerPort": PORT, "hostPort": PORT}]);
                self.add_static_pod(node, &json!({"ports": ports})).await
            }
            Some(LabelLost) if is_registered(node) => self.relabel(node, TIER, None).await,
            Some(Volumes) => {
                if self.done.insert(name.clone()) {
                    let driver = json!({"name": DRIVER, "nodeID": name, "allocatable": {"count": 0}});
                    let node = json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}});
                    let node: CSINode = serde_json::from_value(node).unwrap();
                    self.csi_nodes.create(&PostParams::default(), &node).await?;
                }
                self.untaint(node).await
            }
            Some(ClaimDeletion) if is_registered(node) && self.done.insert(name.clone()) => {
                let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
                let claims = self.claims.list(&ListParams::default()).await?;
                let Some(claim) = claims.iter().find(|claim| claim.data["status"]["providerID"] == id) else {
                    return Ok(());
                };
                self.claims.delete(&claim.name_any(), &DeleteParams::default()).await.map(drop)
            }
            Some(Deletion) if is_registered(node) && self.done.insert(name.clone()) => {
                self.nodes.delete(&name, &DeleteParams::default()).await.map(drop)
            }
            Some(world) => self.node_of(world, node).await,
            None => Ok(()),
        }
    }

    /// Returns true once for each world.
    fn is_first(&mut self, world: Difference) -> bool {
        self.done.insert(world.name().to_owned())
    }

    /// The same, for the worlds that are not of the first two tests.
    async fn node_of(&mut self, world: Difference, node: &Node) -> kube::Result<()> {
        match world {
            FewPods => {
                self.put_static_pod(node, &json!({}), &json!({})).await?;
                self.allocate(node, "pods", "1").await
            }
            FewDevices => self.allocate(node, DEVICE, "1").await,
            NoDevices => self.allocate(node, DEVICE, "0").await,
            HugePages => self.allocate(node, HUGE_PAGES, "32Mi").await,
            Zone if is_registered(node) => self.relabel(node, ZONE, Some("test-zone-b")).await,
            Architecture if is_registered(node) => self.relabel(node, ARCHITECTURE, Some("arm64")).await,
            RackLost if is_registered(node) => self.relabel(node, RACK, None).await,
            Neighbour => {
                self.put_static_pod(node, &json!({NOISY: "true"}), &json!({})).await?;
                self.untaint(node).await
            }
            NotReady => self.silence(node).await,
            Taker => {
                self.put_other_pod(node).await?;
                self.untaint(node).await
            }
            // The taint goes when the daemon is there.
            LateDaemons if self.is_first(world) => {
                let daemons: DaemonSet = serde_json::from_value(late_daemons()).unwrap();
                let all: Api<DaemonSet> = Api::namespaced(self.client.clone(), AGENTS);
                all.create(&PostParams::default(), &daemons).await.map(drop)
            }
            LateDefaults if self.is_first(world) => {
                let range = limit_range("3");
                let ranges: Api<LimitRange> = Api::namespaced(self.client.clone(), AGENTS);
                let patch = Patch::Merge(json!({"spec": range["spec"]}));
                ranges.patch("defaults", &PatchParams::default(), &patch).await.map(drop)
            }
            Terminating if self.is_first(world) => {
                let namespaces: Api<Namespace> = Api::all(self.client.clone());
                namespaces.delete(world.namespace(), &DeleteParams::default()).await.map(drop)
            }
            Grown => {
                if self.is_first(world) {
                    self.grow(world).await?;
                }
                self.untaint(node).await
            }
            _ => Ok(()),
        }
    }

    async fn pod(&mut self, pod: &Pod) -> kube::Result<()> {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let runs = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if let (Some(LateDaemons | LateDefaults), Some(node)) = (Difference::named(pod.labels().get("daemons")), node) {
            // The pod does not change again: who wrote the Node meanwhile must not have the last word.
            while self.untaint(&self.nodes.get(node).await?).await.is_err() {}
            return Ok(());
        }
        match (Difference::named(pod.labels().get("app")), node) {
            (Some(EvictingTaint), Some(node)) if runs => {
                while self.taint(&self.nodes.get(node).await?, "NoExecute").await.is_err() {}
                Ok(())
            }
            (Some(Preempted), Some(node)) if runs && self.is_first(Preempted) => self.put_urgent_pod(node).await,
            (Some(Rejected), Some(_)) if runs && self.rejected < REJECTED => {
                self.rejected += 1;
                self.reject(&pod.name_any()).await
            }
            // Long after the node came up: several rounds have looked at the pod by then.
            (Some(SlowScheduler), None) => self.bind_late(pod).await,
            (Some(Scheduler), _) if self.done.insert(pod.name_any()) => self.mark(&pod.name_any()).await,
            _ => Ok(()),
        }
    }
}

pub(super) fn taints(node: &Node) -> Vec<Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).cloned().collect()
}

pub(super) fn is_registered(node: &Node) -> bool {
    node.labels().contains_key("karpenter.sh/registered")
}
