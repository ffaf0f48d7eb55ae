//! Small problems, put together from texts.

use std::sync::Arc;

use crate::labels;
use crate::model::{
    AffinityTerm, BoundPod, DaemonSet, Effect, InstanceType, LabelSelector, Labels, NamespaceScope, Node, NodePool,
    Offering, Operator, Options, Pod, PodSpec, PoolState, Problem, Requirement, Requirements, Resource, Resources,
    SelectorOperator, SelectorTerm, SpreadConstraint, Taint,
};
use crate::solution::{NewNode, Solution};

pub(super) const GI: i64 = 1 << 30;
pub(super) const FAMILY: &str = "karpenter.k8s.aws/instance-family";

/// A problem with its options and what is decided already.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) problem: Problem,
    pub(super) options: Options,
    pub(super) solution: Solution,
}

pub(super) fn values(values: &[&str]) -> Requirement {
    Requirement::new(Operator::In, values.iter().copied())
}

pub(super) fn requires(entries: &[(&str, &[&str])]) -> Requirements {
    entries.iter().map(|(key, allowed)| (*key, values(allowed))).collect()
}

pub(super) fn amounts(entries: &[(&str, i64)]) -> Resources {
    entries.iter().map(|(name, amount)| (Resource::new(name), *amount)).collect()
}

/// A pod of namespace `default` with the label `app`.
pub(super) fn app(app: &str, milli_cpu: i64, memory: i64) -> PodSpec {
    let requests = amounts(&[("cpu", milli_cpu), ("memory", memory), ("pods", 1)]);
    PodSpec { labels: Labels::from_iter([("app", app)]), ..PodSpec::unconstrained("default", requests) }
}

pub(super) fn selecting(app: &str) -> LabelSelector {
    let values = vec![app.into()];
    LabelSelector::Terms(vec![SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values }])
}

pub(super) fn term(app: &str, key: &str) -> AffinityTerm {
    let namespaces = NamespaceScope::Only(["default".into()].into());
    AffinityTerm { topology_key: key.into(), selector: selecting(app), namespaces }
}

pub(super) fn spread(app: &str, key: &str) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.into(),
        max_skew: 1,
        min_domains: None,
        selector: selecting(app),
        required: true,
        honor_affinity: false,
        honor_taints: false,
    }
}

pub(super) fn taint(key: &str, value: &str) -> Taint {
    Taint { key: key.into(), value: value.into(), effect: Effect::NoSchedule }
}

/// On-demand in zones a and b, spot in a for half the price.
pub(super) fn instance_type(name: &str, cpu: i64, gi: i64, price: f64) -> InstanceType {
    let offer = |zone: &str, kind: &str, price| Offering {
        requirements: requires(&[(labels::ZONE, &[zone]), (labels::CAPACITY_TYPE, &[kind])]),
        price: Some(price),
        available: true,
        reservation_capacity: 0,
    };
    InstanceType {
        name: name.into(),
        requirements: requires(&[
            (labels::INSTANCE_TYPE, &[name]),
            (labels::ARCH, &["amd64"]),
            (labels::ZONE, &["a", "b"]),
            (labels::CAPACITY_TYPE, &["on-demand", "spot"]),
            (FAMILY, &[name.split('.').next().unwrap_or_default()]),
        ]),
        capacity: amounts(&[("cpu", cpu * 1000), ("memory", gi * GI), ("pods", 20)]),
        overhead: amounts(&[("cpu", 100), ("memory", GI)]),
        offerings: vec![
            offer("a", "on-demand", price),
            offer("b", "on-demand", price),
            offer("a", "spot", price / 2.0),
        ],
    }
}

pub(super) fn pool(name: &str, weight: i32) -> NodePool {
    NodePool {
        name: name.into(),
        weight,
        requirements: requires(&[(labels::NODE_POOL, &[name])]),
        labels: Labels::from_iter([(labels::NODE_POOL, name)]),
        annotations: Labels::default(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: None,
        usage: Resources::new(),
        catalogue: 0,
        state: PoolState::Ready,
        missing_replicas: None,
    }
}

/// 4 cpu and 8 Gi in zone a, with hostname `name`.
pub(super) fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        labels: Labels::from_iter([(labels::HOSTNAME, name), (labels::ZONE, "a"), (labels::NODE_POOL, "general")]),
        taints: Vec::new(),
        allocatable: amounts(&[("cpu", 4000), ("memory", 8 * GI), ("pods", 20)]),
        daemon_requests: Resources::new(),
        initialized: true,
        deleting: false,
        bound: Vec::new(),
        attach_limits: Vec::new(),
        attached: Vec::new(),
    }
}

impl World {
    /// One pool `general` with m.small (2 cpu, 4 Gi) and m.large (8 cpu, 32 Gi).
    pub(super) fn new() -> Self {
        let mut world = Self::default();
        world.problem.pools.push(pool("general", 0));
        let types = vec![instance_type("m.small", 2, 4, 0.1), instance_type("m.large", 8, 32, 0.4)];
        world.problem.catalogues.push(types.into());
        world
    }

    pub(super) fn pool(&mut self) -> &mut NodePool {
        &mut self.problem.pools[0]
    }

    pub(super) fn pod(&mut self, spec: PodSpec) -> usize {
        let name: Arc<str> = format!("default/pod-{}", self.problem.pods.len()).into();
        let spec = self.problem.intern(spec);
        self.problem.pods.push(Pod { name, spec });
        self.problem.pods.len() - 1
    }

    /// A node with pods bound to it.
    pub(super) fn node(&mut self, mut node: Node, bound: impl IntoIterator<Item = PodSpec>) -> usize {
        for (number, spec) in bound.into_iter().enumerate() {
            let name = format!("default/bound-{number}").into();
            node.bound.push(BoundPod {
                name,
                spec: self.problem.intern(spec),
                counts: true,
                planned: false,
                daemon: false,
            });
        }
        self.problem.nodes.push(node);
        self.problem.nodes.len() - 1
    }

    pub(super) fn daemon(&mut self, spec: PodSpec) {
        let spec = self.problem.intern(spec);
        self.problem.daemons.push(DaemonSet { name: "kube-system/agent".into(), spec });
    }

    /// A decided node of the first pool.
    pub(super) fn launch(&mut self, instance_type: usize, offering: usize, pods: Vec<usize>) {
        let chosen = &self.problem.catalogues[0][instance_type];
        let mut requirements = self.problem.pools[0].requirements.clone();
        requirements.add_all(&chosen.offerings[offering].requirements);
        let mut requests = Resources::new();
        pods.iter().for_each(|pod| requests.add(&self.problem.spec_of(*pod).requests));
        self.solution.new_nodes.push(NewNode {
            pool: 0,
            pods,
            instance_type,
            offering,
            price: chosen.offerings[offering].price.unwrap_or(0.0),
            alternatives: [instance_type].into(),
            requirements: requirements.into(),
            requests,
            min_values_relaxed: None,
        });
    }
}
