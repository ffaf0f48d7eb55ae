//! Somebody else in the cluster, who makes nodes other than they were planned: by admission where a pod would otherwise be
//! bound first, and by a watch for the rest.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, ResourceExt};
use muster_tests::wait;
use serde_json::{Value, json};

use super::WORLDS;
use crate::ground::SOON;

/// Label of the nodes of a world: the name of its difference.
pub(super) const WORLD: &str = "example.com/world";
/// Taint of nodes that nobody planned.
pub(super) const FOREIGN: &str = "example.com/agent";
/// A scheduler that binds nothing.
pub(super) const SCHEDULER: &str = "nobody";

/// The reason for which nodes of a world are not what was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    /// Each has a taint of somebody's agent.
    Taint,
    /// A taint that evicts comes as soon as the pod runs.
    EvictingTaint,
    /// The first has a taint, until there is a second.
    TaintForAWhile,
    /// Each is cordoned.
    Cordon,
    /// The kubelet has less CPU to give than its type has.
    LessCpu,
    /// A static pod takes the room.
    StaticPod,
    /// The Node is deleted as soon as it is registered.
    Deletion,
    /// The pod is another scheduler's, which binds nothing.
    Scheduler,
    /// Daemons take more than their template says, by their RuntimeClass. Nobody meddles with that.
    Overhead,
    /// Admission adds a container to daemons. Nobody meddles with that.
    Sidecar,
    /// A taint keeps pods away, and pods that wait are deleted when their node is there: new ones have other names.
    Reaper,
}

use Difference::{
    Cordon, Deletion, EvictingTaint, LessCpu, Overhead, Reaper, Scheduler, Sidecar, StaticPod, Taint as Tainted,
    TaintForAWhile,
};

pub(super) struct Meddler {
    nodes: Api<Node>,
    pods: Api<Pod>,
    /// Nodes and pods that are done with.
    done: BTreeSet<String>,
}

enum Seen {
    Node(Box<Node>),
    Pod(Box<Pod>),
}

// === impl Difference ===

impl Difference {
    /// Name of the NodePool and of the Deployment.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tainted => "taint",
            EvictingTaint => "evicting",
            TaintForAWhile => "awhile",
            Cordon => "cordon",
            LessCpu => "cpu",
            StaticPod => "static",
            Deletion => "deletion",
            Scheduler => "scheduler",
            Overhead => "overhead",
            Sidecar => "sidecar",
            Reaper => "reaper",
        }
    }

    fn named(name: Option<&String>) -> Option<Self> {
        WORLDS.into_iter().map(|(world, _)| world).find(|one| name.is_some_and(|name| name == one.name()))
    }
}

// === impl Meddler ===

impl Meddler {
    pub(super) fn new(client: &Client) -> Self {
        let (nodes, pods) = (Api::all(client.clone()), Api::namespaced(client.clone(), "default"));
        Self { nodes, pods, done: BTreeSet::new() }
    }

    /// Looks at every Node and every pod whenever it changes, for ever.
    pub(super) async fn meddle(mut self) {
        let nodes =
            watcher(self.nodes.clone(), Config::default()).applied_objects().map_ok(Box::new).map_ok(Seen::Node);
        let pods = watcher(self.pods.clone(), Config::default()).applied_objects().map_ok(Box::new).map_ok(Seen::Pod);
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
            Some(LessCpu) => {
                let cpu = node.status.as_ref().and_then(|status| status.allocatable.as_ref()?.get("cpu"));
                if cpu.is_none_or(|cpu| cpu.0 == "1") {
                    return self.untaint(node).await;
                }
                let patch = Patch::Merge(json!({"status": {"allocatable": {"cpu": "1"}}}));
                self.nodes.patch_status(&name, &PatchParams::default(), &patch).await.map(drop)
            }
            Some(StaticPod) if self.done.insert(name.clone()) => {
                let owner = json!({
                    "apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid(), "controller": true,
                });
                let container =
                    json!({"name": "main", "image": "none", "resources": {"requests": {"cpu": "7", "memory": "64Mi"}}});
                let pod = json!({
                    "metadata": {"name": format!("mirror-{name}"), "ownerReferences": [owner]},
                    "spec": {"nodeName": name, "tolerations": [{"operator": "Exists"}], "containers": [container]},
                });
                let pod: Pod = serde_json::from_value(pod).unwrap();
                self.pods.create(&PostParams::default(), &pod).await?;
                self.untaint(node).await
            }
            Some(StaticPod) => self.untaint(node).await,
            Some(Deletion) if is_registered(node) && self.done.insert(name.clone()) => {
                self.nodes.delete(&name, &DeleteParams::default()).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    async fn pod(&mut self, pod: &Pod) -> kube::Result<()> {
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        match Difference::named(pod.labels().get("app")) {
            Some(EvictingTaint) if status.and_then(|status| status.phase.as_deref()) == Some("Running") => {
                let Some(node) = spec.and_then(|spec| spec.node_name.as_deref()) else { return Ok(()) };
                // The pod does not change again: who wrote the Node meanwhile must not have the last word.
                while self.taint(&self.nodes.get(node).await?, "NoExecute").await.is_err() {}
                Ok(())
            }
            Some(Scheduler) if self.done.insert(pod.name_any()) => {
                let condition = json!({
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "nobody binds it",
                });
                let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
                self.pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    async fn taint(&self, node: &Node, effect: &str) -> kube::Result<()> {
        let mut taints = taints(node);
        if taints.iter().any(|taint| taint.key == FOREIGN) {
            return Ok(());
        }
        taints.push(Taint { key: FOREIGN.to_owned(), effect: effect.to_owned(), ..Taint::default() });
        self.merge(node, json!({"spec": {"taints": taints}})).await
    }

    async fn untaint(&self, node: &Node) -> kube::Result<()> {
        let mut taints = taints(node);
        let before = taints.len();
        taints.retain(|taint| taint.key != FOREIGN);
        if taints.len() == before { Ok(()) } else { self.merge(node, json!({"spec": {"taints": taints}})).await }
    }

    /// Changes this version of the Node.
    async fn merge(&self, node: &Node, mut patch: Value) -> kube::Result<()> {
        patch["metadata"]["resourceVersion"] = json!(node.resource_version());
        self.nodes.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    }
}

/// Policies of admission: which nodes have a taint, or are cordoned, when they are created. Where room is to be taken, the taint goes
/// when it is.
pub(super) fn policies() -> Vec<Value> {
    let worlds = |worlds: &[Difference]| -> Vec<&str> { worlds.iter().map(|world| world.name()).collect() };
    let taint = format!(
        r#"[JSONPatch{{op: "add", path: "/spec/taints/-", value: Object.spec.taints{{key: "{FOREIGN}", effect: "NoSchedule"}}}}]"#
    );
    let cordon = "Object{spec: Object.spec{unschedulable: true}}";
    let policy = |name: &str, worlds: Vec<&str>, mutation: Value| {
        let rules =
            json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"]}]);
        let selector = json!({"matchExpressions": [{"key": WORLD, "operator": "In", "values": worlds}]});
        let constraints = json!({"resourceRules": rules, "objectSelector": selector});
        let version = "admissionregistration.k8s.io/v1";
        [
            json!({
                "apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
                "spec": {
                    "matchConstraints": constraints, "reinvocationPolicy": "Never", "failurePolicy": "Fail",
                    "mutations": [mutation],
                },
            }),
            json!({
                "apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
                "spec": {"policyName": name},
            }),
        ]
    };
    let by_patch = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": taint}});
    let by_fields = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": cordon}});
    let tainted = policy("taint", worlds(&[Tainted, Reaper, LessCpu, StaticPod]), by_patch);
    tainted.into_iter().chain(policy("cordon", worlds(&[Cordon]), by_fields)).collect()
}

/// Waits until admission does what the policies say.
pub(super) async fn policies_hold(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let of = |world: Difference| {
        let taints = json!([{"key": "example.com/other", "effect": "NoSchedule"}]);
        let metadata = json!({"name": "probe", "labels": {WORLD: world.name()}});
        serde_json::from_value::<Node>(json!({"metadata": metadata, "spec": {"taints": taints}})).unwrap()
    };
    let hold = wait::until_some("admission changes nodes", SOON, || async {
        let (tainted, cordoned) =
            (nodes.create(&dry_run, &of(Tainted)).await?, nodes.create(&dry_run, &of(Cordon)).await?);
        let is_cordoned = cordoned.spec.and_then(|spec| spec.unschedulable) == Some(true);
        Ok((is_cordoned && taints(&tainted).iter().any(|taint| taint.key == FOREIGN)).then_some(()))
    });
    hold.await.unwrap();
}

fn taints(node: &Node) -> Vec<Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).cloned().collect()
}

fn is_registered(node: &Node) -> bool {
    node.labels().contains_key("karpenter.sh/registered")
}
