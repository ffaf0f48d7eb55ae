//! Somebody else in the cluster, who makes nodes other than they were planned: by admission where a pod would otherwise be
//! bound first, and by a watch for the rest.

use std::collections::BTreeSet;
use std::pin::pin;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Binding, Node, Pod, Taint};
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, Client, ResourceExt};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use super::{BAD, MORE_WORLDS, WORLDS};
use crate::ground::{SOON, of_karpenter};

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
    /// A taint that evicts is there from the beginning.
    EvictingFromTheStart,
    /// A taint asks schedulers to prefer other nodes. Nothing keeps the pod away.
    Discouraged,
    /// It is cordoned until there is a second.
    CordonForAWhile,
    /// The kubelet has less memory to give than its type has.
    LessMemory,
    /// The kubelet takes no pods.
    NoPods,
    /// A label of the pool that the pod selects is taken off the Node.
    LabelLost,
    /// A label that the pod must not have is put on the Node.
    LabelAdded,
    /// A static pod has the port of the pod.
    HostPort,
    /// The node attaches no volume of the driver.
    Volumes,
    /// The NodeClaim is deleted as soon as its Node is registered.
    ClaimDeletion,
    /// The pod is another scheduler's, which binds it long after its node is there.
    SlowScheduler,
}

use Difference::{
    ClaimDeletion, Cordon, CordonForAWhile, Deletion, Discouraged, EvictingFromTheStart, EvictingTaint, HostPort,
    LabelAdded, LabelLost, LessCpu, LessMemory, NoPods, Overhead, Reaper, Scheduler, Sidecar, SlowScheduler, StaticPod,
    Taint as Tainted, TaintForAWhile, Volumes,
};

pub(super) struct Meddler {
    nodes: Api<Node>,
    pods: Api<Pod>,
    claims: Api<DynamicObject>,
    csi_nodes: Api<CSINode>,
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
            EvictingFromTheStart => "evictor",
            Discouraged => "discouraged",
            CordonForAWhile => "uncordoned",
            LessMemory => "memory",
            NoPods => "pods",
            LabelLost => "unlabelled",
            LabelAdded => "labelled",
            HostPort => "port",
            Volumes => "volumes",
            ClaimDeletion => "unclaimed",
            SlowScheduler => "slow",
        }
    }

    fn named(name: Option<&String>) -> Option<Self> {
        WORLDS
            .into_iter()
            .chain(MORE_WORLDS)
            .map(|(world, _)| world)
            .find(|one| name.is_some_and(|name| name == one.name()))
    }
}

// === impl Meddler ===

impl Meddler {
    pub(super) fn new(client: &Client) -> Self {
        let (nodes, pods) = (Api::all(client.clone()), Api::namespaced(client.clone(), "default"));
        let (claims, csi_nodes) = (of_karpenter(client.clone(), "NodeClaim"), Api::all(client.clone()));
        Self { nodes, pods, claims, csi_nodes, done: BTreeSet::new() }
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
                let ports = json!([{"containerPort": super::PORT, "hostPort": super::PORT}]);
                self.add_static_pod(node, &json!({"ports": ports})).await
            }
            Some(LabelLost) if is_registered(node) => {
                if node.labels().contains_key(super::TIER) {
                    return self.merge(node, json!({"metadata": {"labels": {super::TIER: null}}})).await;
                }
                self.untaint(node).await
            }
            Some(Volumes) => {
                if self.done.insert(name.clone()) {
                    let driver = json!({"name": super::DRIVER, "nodeID": name, "allocatable": {"count": 0}});
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
            // Long after the node came up: several rounds have looked at the pod by then.
            Some(SlowScheduler) if spec.is_some_and(|spec| spec.node_name.is_none()) => self.bind_late(pod).await,
            Some(Scheduler) if self.done.insert(pod.name_any()) => self.mark(&pod.name_any()).await,
            _ => Ok(()),
        }
    }

    /// Has the kubelet give so much of a resource, and then lets pods come.
    async fn allocate(&self, node: &Node, resource: &str, amount: &str) -> kube::Result<()> {
        let there = node.status.as_ref().and_then(|status| status.allocatable.as_ref()?.get(resource));
        if there.is_none_or(|there| there.0 == amount) {
            return self.untaint(node).await;
        }
        let patch = Patch::Merge(json!({"status": {"allocatable": {resource: amount}}}));
        self.nodes.patch_status(&node.name_any(), &PatchParams::default(), &patch).await.map(drop)
    }

    /// Puts a static pod with such a container on the node, and then lets others come.
    async fn add_static_pod(&mut self, node: &Node, fields: &Value) -> kube::Result<()> {
        let name = node.name_any();
        if self.done.insert(name.clone()) {
            let owner =
                json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid(), "controller": true});
            let mut container = json!({"name": "main", "image": "none"});
            container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let pod = json!({
                "metadata": {"name": format!("mirror-{name}"), "ownerReferences": [owner]},
                "spec": {"nodeName": name, "tolerations": [{"operator": "Exists"}], "containers": [container]},
            });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            self.pods.create(&PostParams::default(), &pod).await?;
        }
        self.untaint(node).await
    }

    /// Marks the pod as unschedulable, and binds it once its node has been up for a while.
    async fn bind_late(&mut self, pod: &Pod) -> kube::Result<()> {
        let name = pod.name_any();
        if self.done.insert(name.clone()) {
            self.mark(&name).await?;
            let (nodes, pods) = (self.nodes.clone(), self.pods.clone());
            tokio::spawn(async move {
                let here = Selection::labelled(&format!("{WORLD}={}", SlowScheduler.name()));
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
    async fn mark(&self, pod: &str) -> kube::Result<()> {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "nobody binds it",
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        self.pods.patch_status(pod, &PatchParams::default(), &patch).await.map(drop)
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
    let taint = |effect: &str| {
        format!(
            r#"[JSONPatch{{op: "add", path: "/spec/taints/-", value: Object.spec.taints{{key: "{FOREIGN}", effect: "{effect}"}}}}]"#
        )
    };
    let label = format!(r#"Object{{metadata: Object.metadata{{labels: {{"{BAD}": "true"}}}}}}"#);
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
    let tainted = |effect: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": taint(effect)}});
    let set = |fields: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": fields}});
    let until_changed = [Tainted, Reaper, LessCpu, LessMemory, NoPods, StaticPod, HostPort, LabelLost, Volumes];
    let all = [
        policy("taint", worlds(&until_changed), tainted("NoSchedule")),
        policy("evict", worlds(&[EvictingFromTheStart]), tainted("NoExecute")),
        policy("discourage", worlds(&[Discouraged]), tainted("PreferNoSchedule")),
        policy("cordon", worlds(&[Cordon, CordonForAWhile]), set(cordon)),
        policy("label", worlds(&[LabelAdded]), set(&label)),
    ];
    all.into_iter().flatten().collect()
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
