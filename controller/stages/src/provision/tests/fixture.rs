//! A cluster of manifests that grows by what rounds decide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::node::Node;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use muster_api::{NodeClaim, NodePool, labels};
use muster_manifest::read_text;
use muster_manifest::snapshot::{self, assemble};
use muster_scheduling::model::{
    Catalogue, InstanceType, Offering, Operator, Requirement, Requirements, Resource, Resources,
};
use serde_json::{Value, json};

use crate::lifecycle::pause::Pause;
use crate::provision::{
    ClaimAndNode, NodeHold, Outcome, PendingPod, PlacementView, Plan, RecordedBindings, Round, Settings, Stop,
    provision,
};
use crate::step::{Step, Write};

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Everything there is, by kind and name.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    objects: BTreeMap<(String, String), Value>,
    pub(crate) plan: Plan,
    pub(crate) settings: Settings,
    pub(crate) pause: Pause,
    pub(crate) stops: BTreeMap<String, Stop>,
    /// Pods that have lost a nomination, as often as they have.
    pub(crate) denied: Vec<String>,
    /// Pods in the order in which they arrived; others came before them.
    pub(crate) arrived: Vec<String>,
}

/// What is looked at of a cluster.
struct View {
    pools: Vec<NodePool>,
    claims: Vec<NodeClaim>,
    nodes: Vec<Node>,
    pending_pods: BTreeMap<Arc<str>, Arc<PendingPod>>,
    bindings: RecordedBindings,
    snapshot: snapshot::Snapshot,
}

/// `large` has twice of everything, and costs a little less than two of `small`.
pub(crate) fn catalogue() -> Catalogue {
    let offering = |zone: &str, bought: &str, price: f64| Offering {
        requirements: [(labels::ZONE, zone), (labels::CAPACITY_TYPE, bought)]
            .map(|(key, value)| (key, Requirement::new(Operator::In, [value])))
            .into_iter()
            .collect(),
        price: Some(price),
        available: true,
        reservation_capacity: 0,
    };
    let one = |name: &str, cores: i64, price: f64| InstanceType {
        name: name.into(),
        requirements: [
            (labels::INSTANCE_TYPE, vec![name]),
            (labels::ARCH, vec!["amd64"]),
            (labels::OS, vec!["linux"]),
            (labels::INSTANCE_CPU, vec![if cores == 2 { "2" } else { "4" }]),
            (labels::ZONE, vec!["a", "b"]),
            (labels::CAPACITY_TYPE, vec!["on-demand", "spot"]),
        ]
        .into_iter()
        .map(|(key, values)| (key, Requirement::new(Operator::In, values)))
        .collect::<Requirements>(),
        capacity: Resources::from_iter([
            (Resource::Cpu, cores * 1000),
            (Resource::Memory, cores << 32),
            (Resource::Pods, 110),
        ]),
        overhead: Resources::from_iter([(Resource::Cpu, 100)]),
        offerings: vec![
            offering("a", "on-demand", price),
            offering("b", "on-demand", price),
            offering("a", "spot", price / 2.0),
        ],
    };
    vec![one("small", 2, 0.1), one("large", 4, 0.19)].into()
}

impl Cluster {
    /// With a NodePool `general` that takes anything.
    pub(crate) fn new() -> Self {
        let mut cluster = Self::default();
        cluster.add(pool("general"));
        cluster
    }

    pub(crate) fn add(&mut self, object: Value) -> &mut Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        self.objects.insert((text("/kind"), text("/metadata/name")), object);
        self
    }

    pub(crate) fn get(&mut self, kind: &str, name: &str) -> &mut Value {
        self.objects.get_mut(&(kind.to_owned(), name.to_owned())).unwrap()
    }

    pub(crate) fn remove(&mut self, kind: &str, name: &str) {
        self.objects.remove(&(kind.to_owned(), name.to_owned())).unwrap();
    }

    fn typed<T: serde::de::DeserializeOwned>(&self, kind: &str) -> Vec<T> {
        let all = self.objects.iter().filter(|((of, _), _)| of == kind);
        all.map(|(_, object)| serde_json::from_value(object.clone()).unwrap()).collect()
    }

    fn owned(&self) -> View {
        let text: Vec<String> = self.objects.values().map(Value::to_string).collect();
        let manifests = read_text("cluster", &text.join("\n---\n")).unwrap();
        let gates = snapshot::FeatureGates::default().of_files();
        let settings = snapshot::Settings { gates, ..snapshot::Settings::default() };
        let snapshot = assemble(&manifests, &settings, &|_| catalogue()).unwrap();
        let nodes: Vec<Node> = self.typed("Node");
        let leaves = |name: &str| {
            nodes
                .iter()
                .any(|node| node.metadata.name.as_deref() == Some(name) && node.metadata.deletion_timestamp.is_some())
        };
        let pods: Vec<Pod> = self.typed("Pod");
        let waits = |one: &PendingPod| one.node.as_deref().is_none_or(leaves);
        let pending_pods = pods.iter().map(PendingPod::of).filter(waits);
        let denied = |name: &str| self.denied.iter().filter(|one| *one == name).count() as u32;
        let arrival = |name: &str| self.arrived.iter().position(|one| one == name).map_or(0, |at| at as u64 + 1);
        let pending_pods = pending_pods.map(|one| {
            let (denied, arrival) = (denied(&one.pod.name), arrival(&one.pod.name));
            PendingPod { denied, arrival, queued: arrival, ..one }
        });
        let pending_pods = pending_pods.map(|one| (one.path().into(), Arc::new(one))).collect();
        let bound = pods.iter().map(PendingPod::of).filter(|one| !one.is_unbound());
        let bindings = bound.filter_map(|one| Some((one.path().into(), (one.pod.uid.clone(), one.node?)))).collect();
        View { bindings, pools: self.typed("NodePool"), claims: self.typed("NodeClaim"), pending_pods, snapshot, nodes }
    }

    fn look<T>(&self, then: impl FnOnce(&View, &PlacementView<'_>) -> T) -> T {
        let owned = self.owned();
        let node_of = |claim: &NodeClaim| {
            let id = claim.status.as_ref()?.provider_id.as_deref()?;
            owned.nodes.iter().find(|node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id))
        };
        let claims: Vec<ClaimAndNode<'_>> =
            owned.claims.iter().map(|claim| ClaimAndNode { claim, node: node_of(claim) }).collect();
        let nodes: BTreeSet<&str> = owned.nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
        then(
            &owned,
            &PlacementView {
                claims: &claims,
                pending_pods: &owned.pending_pods,
                nodes: &nodes,
                bindings: &owned.bindings,
            },
        )
    }

    /// What a round would come to.
    pub(crate) fn decide(&self, now: i64) -> Outcome {
        self.with_round(|round| provision(round, at(now)))
    }

    /// What a round looks at.
    pub(crate) fn with_round<T>(&self, decide: impl FnOnce(&Round<'_>) -> T) -> T {
        self.look(|owned, view| {
            let pools = owned.pools.iter().map(|pool| (pool.metadata.name.as_deref().unwrap(), pool)).collect();
            let round = Round {
                problem: &owned.snapshot.problem,
                buffers: &owned.snapshot.buffers,
                view: *view,
                pools: &pools,
                pause: self.pause,
                stops: &self.stops,
                settings: &self.settings,
                plan: &self.plan,
            };
            decide(&round)
        })
    }

    /// A round whose step is carried out.
    pub(crate) fn round(&mut self, now: i64) -> Vec<String> {
        let outcome = self.decide(now);
        self.plan = outcome.plan;
        self.carry_out(&outcome.step, now)
    }

    /// Pods are told of their nodes.
    pub(crate) fn nominate(&mut self, now: i64) -> Vec<String> {
        let mut plan = self.plan.clone();
        let step = self.look(|_, view| plan.nominate(view, at(now)));
        self.plan = plan;
        self.carry_out(&step, now)
    }

    pub(crate) fn hold(&self, claim: &str, now: i64) -> Option<NodeHold> {
        self.look(|_, view| {
            let claimed = view.claims.iter().find(|one| one.name() == claim).unwrap();
            self.plan.hold(claimed, view, &self.plan.late(view), at(now))
        })
    }

    fn carry_out(&mut self, step: &Step, now: i64) -> Vec<String> {
        let mut words = Vec::new();
        for write in &step.writes {
            match write {
                Write::CreateClaim(claim) => {
                    let name = claim.metadata.name.clone().unwrap();
                    assert!(!self.objects.contains_key(&("NodeClaim".to_owned(), name.clone())), "{name} twice");
                    let mut object = serde_json::to_value(claim).unwrap();
                    object["metadata"]["uid"] = json!(format!("uid-{name}"));
                    object["metadata"]["creationTimestamp"] = json!(at(now).to_string());
                    words.push(format!("create {}", claim.spec.resources.requests.get("pods").unwrap().0));
                    self.add(object);
                }
                Write::Nominate { pod, node } => {
                    words.push(format!("nominate {} {}", pod.name, node.as_deref().unwrap_or("-")));
                    self.get("Pod", &pod.name)["status"]["nominatedNodeName"] = json!(node);
                }
                Write::Event(event) => {
                    words.push(format!("{} {}: {}", event.reason, event.about.name, event.message));
                }
                other => panic!("{other:?}"),
            }
        }
        words
    }

    pub(crate) fn claims(&self) -> Vec<NodeClaim> {
        self.typed("NodeClaim")
    }

    /// The name of the only claim.
    pub(crate) fn only_claim(&self) -> String {
        let [claim] = &self.claims()[..] else { panic!("not one claim") };
        claim.metadata.name.clone().unwrap()
    }

    /// The claim was launched, and says what its node will hold.
    pub(crate) fn launch(&mut self, name: &str, cpu: &str) {
        let node = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
        self.get("NodeClaim", name)["status"] = json!({
            "providerID": format!("kwok://{name}"), "capacity": node, "allocatable": node,
            "conditions": [condition("Launched", 0)],
        });
    }

    /// Its Node has appeared, and is ready but for our taint.
    pub(crate) fn join(&mut self, name: &str, second: i64) {
        self.appear(name, second);
        self.ready(name, second);
    }

    /// Its kubelet is ready.
    pub(crate) fn ready(&mut self, name: &str, second: i64) {
        self.get("Node", &format!("node-{name}"))["status"]["conditions"] =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(second).to_string()}]);
    }

    /// Its Node has appeared, tainted as it comes, and is not ready.
    pub(crate) fn appear(&mut self, name: &str, second: i64) {
        let allocatable = self.get("NodeClaim", name)["status"]["allocatable"].clone();
        self.add(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("node-{name}"), "uid": format!("uid-node-{name}"),
                "creationTimestamp": at(second).to_string(), "labels": {"karpenter.sh/nodepool": "general"}},
            "spec": {"providerID": format!("kwok://{name}"),
                "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
            "status": {"capacity": allocatable, "allocatable": allocatable},
        }));
    }

    /// The Node is ready for pods.
    pub(crate) fn initialize(&mut self, name: &str, second: i64) {
        let conditions = ["Launched", "Registered", "Initialized"].map(|kind| condition(kind, second));
        self.get("NodeClaim", name)["status"]["conditions"] = json!(conditions);
        let node = self.get("Node", &format!("node-{name}"));
        node["spec"]["taints"] = json!([]);
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            node["metadata"]["labels"][key] = json!("true");
        }
    }

    /// kube-scheduler binds it.
    pub(crate) fn bind(&mut self, pod: &str, node: &str) {
        let pod = self.get("Pod", pod);
        pod["spec"]["nodeName"] = json!(node);
        pod["status"]["nominatedNodeName"] = Value::Null;
    }
}

fn condition(kind: &str, second: i64) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at(second).to_string()})
}

pub(crate) fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"template": {"spec": {
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "expireAfter": "720h",
        }}},
    })
}

/// A pod that nobody has looked at yet.
pub(crate) fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {"schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending"},
    })
}

/// A pod that its scheduler has given up.
pub(crate) fn marked(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name, cpu);
    pod["status"]["conditions"] = json!([
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": null}
    ]);
    pod
}

/// A node that was there before.
pub(crate) fn node(name: &str, cpu: &str) -> Value {
    let amounts = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "a"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}
