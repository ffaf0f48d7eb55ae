//! The validator finds each kind of fault: good plans are spoiled in one way at a time.

use std::sync::Arc;

use muster_scheduling::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, ZONE};
use muster_scheduling::model::*;
use muster_scheduling::{Promise, Solution, validate};

use crate::brute_force::cheapest;
use crate::cases::{one_of, plain};

fn amounts(cpu: i64, pods: i64) -> Resources {
    [(Resource::Cpu, cpu), (Resource::Memory, cpu << 20), (Resource::Pods, pods)].into_iter().collect()
}

fn kind(name: &str, cpu: i64, price: f64) -> InstanceType {
    let offering = |zone: &str| Offering {
        requirements: [(ZONE, one_of([zone])), (CAPACITY_TYPE, one_of(["on-demand"]))].into_iter().collect(),
        price: Some(price),
        available: true,
        reservation_capacity: 0,
    };
    let requirements = [
        (INSTANCE_TYPE, one_of([name])),
        (ZONE, one_of(["zone-a", "zone-b"])),
        (CAPACITY_TYPE, one_of(["on-demand"])),
    ];
    InstanceType {
        name: name.into(),
        requirements: requirements.into_iter().collect(),
        capacity: amounts(cpu, 10),
        overhead: Resources::new(),
        offerings: vec![offering("zone-a"), offering("zone-b")],
    }
}

fn pool(name: &str) -> NodePool {
    let labels: Labels = [(NODE_POOL, name)].into_iter().collect();
    NodePool {
        name: name.into(),
        weight: 0,
        requirements: Requirements::from_labels(&labels),
        labels,
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

fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        labels: [(HOSTNAME, name), (ZONE, "zone-a")].into_iter().collect(),
        taints: Vec::new(),
        allocatable: amounts(2000, 5),
        daemon_requests: Resources::new(),
        initialized: true,
        deleting: false,
        bound: Vec::new(),
        attach_limits: Vec::new(),
    }
}

/// Pods that each ask for one core, on types of two and four cores.
fn problem(pods: &[PodSpec]) -> Problem {
    let mut problem = Problem::default();
    problem.catalogues.push(vec![kind("small", 2000, 0.1), kind("large", 4000, 0.2)]);
    problem.pools.push(pool("general"));
    for (number, spec) in pods.iter().enumerate() {
        let spec = problem.intern(spec.clone());
        problem.pods.push(Pod { name: format!("default/p{number}").into(), spec });
    }
    problem
}

fn pod() -> PodSpec {
    plain(0, amounts(1000, 1))
}

fn term(key: &str) -> AffinityTerm {
    let app = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values: vec!["w0".into()] };
    AffinityTerm { topology_key: key.into(), selector: LabelSelector::Terms(vec![app]), namespaces: NamespaceScope::All }
}

fn spread(key: &str) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.into(),
        max_skew: 1,
        min_domains: None,
        selector: term(key).selector,
        required: true,
        honor_affinity: true,
        honor_taints: false,
    }
}

/// The best plan, which breaks nothing.
fn plan(problem: &Problem) -> Solution {
    let (_, plan) = cheapest(problem).expect("there is a plan");
    assert_eq!(validate(problem, &Options::default(), &plan), [], "{plan:?}");
    plan
}

#[track_caller]
fn breaks(problem: &Problem, plan: &Solution, promise: Promise) {
    breaks_with(problem, &Options::default(), plan, promise);
}

#[track_caller]
fn breaks_with(problem: &Problem, options: &Options, plan: &Solution, promise: Promise) {
    let found = validate(problem, options, plan);
    assert!(found.iter().any(|violation| violation.promise == promise), "{promise:?} is not among {found:?}");
    assert!(found.iter().all(|violation| !violation.to_string().is_empty()));
}

#[test]
fn indices() {
    let problem = problem(&[pod()]);
    let good = plan(&problem);
    for spoil in [
        |plan: &mut Solution| plan.new_nodes[0].pool = 7,
        |plan: &mut Solution| plan.new_nodes[0].pods = vec![9],
        |plan: &mut Solution| plan.new_nodes[0].instance_type = 5,
        |plan: &mut Solution| plan.new_nodes[0].offering = 5,
        |plan: &mut Solution| plan.new_nodes[0].alternatives = [4].into(),
        |plan: &mut Solution| plan.existing = vec![(0, Vec::new())],
    ] {
        let mut plan = good.clone();
        spoil(&mut plan);
        breaks(&problem, &plan, Promise::Index);
    }
}

#[test]
fn pods_missing_or_twice() {
    let problem = problem(&[pod(), pod()]);
    let mut missing = plan(&problem);
    missing.new_nodes[0].pods.pop();
    breaks(&problem, &missing, Promise::Once);
    let mut twice = plan(&problem);
    twice.new_nodes.push(twice.new_nodes[0].clone());
    breaks(&problem, &twice, Promise::Once);
}

#[test]
fn refused_pods() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    problem.specs[0].refusal = Some(Refusal::Volume("no such claim".into()));
    breaks(&problem, &plan, Promise::Refusal);
}

#[test]
fn existing_nodes() {
    let mut spec = pod();
    spec.host_ports.push(HostPort { ip: [0, 0, 0, 0].into(), port: 80, protocol: Protocol::Tcp });
    spec.attachments.push(Attachment { driver: "ebs".into(), claim: "a".into() });
    spec.node_selector.add(ZONE, one_of(["zone-a"]));
    let mut good = problem(&[spec]);
    good.nodes.push(node("n0"));
    let plan = plan(&good);
    assert_eq!(plan.existing, [(0, vec![0])]);
    let spoilt = |spoil: &dyn Fn(&mut Node)| {
        let mut problem = good.clone();
        spoil(&mut problem.nodes[0]);
        problem
    };
    let bound = BoundPod { name: "default/b".into(), spec: 0, counts: true };
    let taint = Taint { key: "t".into(), value: "".into(), effect: Effect::NoExecute };
    breaks(&spoilt(&|node| node.deleting = true), &plan, Promise::Deleting);
    breaks(&spoilt(&|node| node.taints.push(taint.clone())), &plan, Promise::Taints);
    breaks(&spoilt(&|node| node.labels.set(ZONE, "zone-b")), &plan, Promise::Requirements);
    breaks(&spoilt(&|node| node.allocatable = amounts(900, 5)), &plan, Promise::Resources);
    breaks(&spoilt(&|node| node.daemon_requests = amounts(1500, 1)), &plan, Promise::Resources);
    breaks(&spoilt(&|node| node.bound.push(bound.clone())), &plan, Promise::HostPorts);
    breaks(&spoilt(&|node| node.attach_limits = vec![("ebs".into(), 0)]), &plan, Promise::AttachLimits);
}

#[test]
fn pools_that_may_not_launch() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    problem.pools[0].state = PoolState::NotReady("its class is gone".into());
    breaks(&problem, &plan, Promise::Pool);
}

#[test]
fn static_pools() {
    let mut problem = problem(&[pod()]);
    let mut plan = plan(&problem);
    problem.pools[0].missing_replicas = Some(1);
    breaks(&problem, &plan, Promise::Replicas);
    plan.new_nodes[0].pods.clear();
    plan.new_nodes.push(plan.new_nodes[0].clone());
    breaks(&problem, &plan, Promise::Replicas);
    problem.pools[0].missing_replicas = None;
    breaks(&problem, &plan, Promise::Replicas);
}

#[test]
fn pool_taints() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    let taint = |effect| Taint { key: "t".into(), value: "".into(), effect };
    problem.pools[0].startup_taints.push(taint(Effect::NoSchedule));
    problem.pools[0].taints.push(taint(Effect::PreferNoSchedule));
    assert_eq!(validate(&problem, &Options::default(), &plan), []);
    problem.pools[0].taints.push(taint(Effect::NoSchedule));
    breaks(&problem, &plan, Promise::Taints);
}

#[test]
fn requirements_of_pods_and_pools() {
    let mut spec = pod();
    spec.node_selector.add(ZONE, one_of(["zone-b"]));
    let problem = problem(&[spec]);
    let mut loose = plan(&problem);
    Arc::make_mut(&mut loose.new_nodes[0].requirements).remove(ZONE);
    breaks(&problem, &loose, Promise::Requirements);
    let mut foreign = plan(&problem);
    Arc::make_mut(&mut foreign.new_nodes[0].requirements).remove(NODE_POOL);
    breaks(&problem, &foreign, Promise::Requirements);
    let mut elsewhere = plan(&problem);
    elsewhere.new_nodes[0].offering = 0;
    breaks(&problem, &elsewhere, Promise::Launchable);
}

#[test]
fn volumes_and_terms_need_one_alternative() {
    let mut spec = pod();
    spec.volume_terms = ["zone-a", "zone-b"].map(|zone| [(ZONE, one_of([zone]))].into_iter().collect()).to_vec();
    let problem = problem(&[spec]);
    let mut plan = plan(&problem);
    Arc::make_mut(&mut plan.new_nodes[0].requirements).remove(ZONE);
    breaks(&problem, &plan, Promise::Requirements);
}

#[test]
fn labels_that_nothing_defines() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    problem.specs[0].node_selector.add("example.com/unknown", one_of(["x"]));
    breaks(&problem, &plan, Promise::KnownLabels);
    problem.specs[0].node_selector.remove("example.com/unknown");
    problem.specs[0].node_selector.add(HOSTNAME, one_of(["n0"]));
    breaks(&problem, &plan, Promise::Requirements);
}

#[test]
fn alternatives() {
    let problem = problem(&[pod(), pod()]);
    let good = plan(&problem);
    assert_eq!(*good.new_nodes[0].alternatives, [0, 1]);
    let spoilt = |alternatives: &[usize]| {
        let mut plan = good.clone();
        plan.new_nodes[0].alternatives = alternatives.into();
        plan
    };
    for alternatives in [&[][..], &[1], &[1, 0], &[0, 1, 1]] {
        breaks(&problem, &spoilt(alternatives), Promise::Alternatives);
    }
    breaks(&problem, &spoilt(&vec![0; 601]), Promise::Alternatives);
    let mut narrow = good.clone();
    Arc::make_mut(&mut narrow.new_nodes[0].requirements).add(INSTANCE_TYPE, one_of(["small"]));
    breaks(&problem, &narrow, Promise::Launchable);
}

#[test]
fn every_alternative_holds_pods_and_daemons() {
    let mut problem = problem(&[pod(), pod()]);
    let daemon = problem.intern(plain(9, amounts(100, 1)));
    let plan = plan(&problem);
    problem.daemons.push(DaemonSet { name: "kube-system/agent".into(), spec: daemon });
    breaks(&problem, &plan, Promise::Resources);
    breaks(&problem, &plan, Promise::Requests);
    problem.specs[daemon].node_selector.add(INSTANCE_TYPE, one_of(["large"]));
    assert_eq!(validate(&problem, &Options::default(), &plan), [], "no daemon on small nodes");
}

#[test]
fn offerings_and_prices() {
    let mut problem = problem(&[pod()]);
    let good = plan(&problem);
    let mut lies = good.clone();
    lies.new_nodes[0].price = 0.05;
    breaks(&problem, &lies, Promise::Price);
    let mut dear = good.clone();
    dear.new_nodes[0].alternatives = [1, 0].into();
    (dear.new_nodes[0].instance_type, dear.new_nodes[0].price) = (1, 0.2);
    breaks(&problem, &dear, Promise::Price);
    problem.catalogues[0][0].offerings[0].available = false;
    breaks(&problem, &good, Promise::Launchable);
}

#[test]
fn requests_are_the_sum() {
    let problem = problem(&[pod()]);
    let mut plan = plan(&problem);
    plan.new_nodes[0].requests.set(Resource::Cpu, 1);
    breaks(&problem, &plan, Promise::Requests);
}

#[test]
fn host_ports_on_new_nodes() {
    let mut problem = problem(&[pod(), pod()]);
    let plan = plan(&problem);
    problem.specs[0].host_ports.push(HostPort { ip: [0, 0, 0, 0].into(), port: 80, protocol: Protocol::Tcp });
    breaks(&problem, &plan, Promise::HostPorts);
}

#[test]
fn min_values() {
    let mut problem = problem(&[pod()]);
    let mut plan = plan(&problem);
    let wanted = |count| Requirement::any().with_min_values(Some(count));
    problem.pools[0].requirements.add(INSTANCE_TYPE, wanted(2));
    Arc::make_mut(&mut plan.new_nodes[0].requirements).add(INSTANCE_TYPE, wanted(2));
    breaks(&problem, &plan, Promise::MinValues);
    plan.new_nodes[0].min_values_relaxed = Some(false);
    assert_eq!(validate(&problem, &Options::default(), &plan), []);
    problem.pools[0].requirements.add(INSTANCE_TYPE, wanted(3));
    breaks(&problem, &plan, Promise::MinValues);
    let lenient = Options { min_values: MinValuesPolicy::BestEffort, ..Options::default() };
    breaks_with(&problem, &lenient, &plan, Promise::MinValues);
    plan.new_nodes[0].min_values_relaxed = Some(true);
    assert_eq!(validate(&problem, &lenient, &plan), []);
}

#[test]
fn limits() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    let mut limited = |resource: Resource, limit| {
        problem.pools[0].limits = Some([(resource, limit)].into_iter().collect());
        breaks(&problem, &plan, Promise::Limits);
    };
    limited(Resource::Cpu, 1999);
    limited(Resource::Cpu, 3999); // the small type may be launched, the large alternative may not
    limited(Resource::new("nodes"), 0);
}

#[test]
fn reservations() {
    let reserved = |problem: &mut Problem| {
        let offering = Offering {
            requirements: [(ZONE, one_of(["zone-a"])), (CAPACITY_TYPE, one_of(["reserved"]))].into_iter().collect(),
            price: Some(0.0),
            available: true,
            reservation_capacity: 1,
        };
        problem.catalogues[0][0].offerings.push(offering);
        problem.catalogues[0][0].requirements.remove(CAPACITY_TYPE);
    };
    let mut alone = problem(&[pod()]);
    let dear = plan(&alone);
    reserved(&mut alone);
    breaks(&alone, &dear, Promise::Price);
    let mut two = problem(&[pod(), pod()]);
    reserved(&mut two);
    let mut overdrawn = plan(&two);
    let mut second = overdrawn.new_nodes[0].clone();
    second.pods = vec![overdrawn.new_nodes[0].pods.pop().expect("both pods are on the reserved node")];
    overdrawn.new_nodes.push(second);
    breaks(&two, &overdrawn, Promise::Reservations);
    let forbidden = Options { reserved_capacity: false, ..Options::default() };
    breaks_with(&two, &forbidden, &overdrawn, Promise::Launchable);
}

#[test]
fn heavier_pools_first() {
    let mut problem = problem(&[pod()]);
    let plan = plan(&problem);
    problem.pools.push(NodePool { weight: 10, ..pool("heavy") });
    breaks(&problem, &plan, Promise::Weights);
    problem.pools[1].limits = Some([(Resource::new("nodes"), 0)].into_iter().collect());
    assert_eq!(validate(&problem, &Options::default(), &plan), [], "the heavier pool has no room");
}

#[test]
fn rules_between_pods() {
    for (key, promise) in [(HOSTNAME, Promise::AntiAffinity), (ZONE, Promise::AntiAffinity)] {
        let mut problem = problem(&[pod(), pod()]);
        let plan = plan(&problem);
        problem.specs[0].anti_affinity.push(term(key));
        breaks(&problem, &plan, promise);
    }
    let mut problem = problem(&[pod(), pod()]);
    let plan = plan(&problem);
    problem.specs[0].spread.push(spread(HOSTNAME));
    breaks(&problem, &plan, Promise::Spread);
    problem.specs[0].spread = vec![spread(ZONE)];
    breaks(&problem, &plan, Promise::Spread);
    breaks(&problem, &plan, Promise::Pinned);
    problem.specs[0].spread = vec![spread("example.com/rack")];
    breaks(&problem, &plan, Promise::Spread);
}

#[test]
fn min_domains() {
    let mut problem = problem(&[PodSpec { spread: vec![spread(ZONE)], ..pod() }, PodSpec { spread: vec![spread(ZONE)], ..pod() }]);
    let plan = plan(&problem);
    assert_eq!(plan.new_nodes.len(), 2);
    problem.specs[0].spread[0].min_domains = Some(3);
    assert_eq!(validate(&problem, &Options::default(), &plan), []);
    problem.specs[0].spread[0].max_skew = 0;
    breaks(&problem, &plan, Promise::Spread);
}

#[test]
fn bound_pods_repel_too() {
    let mut good = problem(&[pod()]);
    let repelling = good.intern(PodSpec { anti_affinity: vec![term(HOSTNAME)], ..plain(1, amounts(100, 1)) });
    good.nodes.push(node("n0"));
    let plan = plan(&good);
    let bound = |counts| BoundPod { name: "default/b".into(), spec: repelling, counts };
    good.nodes[0].bound = vec![bound(false)];
    assert_eq!(validate(&good, &Options::default(), &plan), [], "a pod that ends repels nobody");
    good.nodes[0].bound = vec![bound(true)];
    breaks(&good, &plan, Promise::AntiAffinity);
}

#[test]
fn affinity_needs_somebody_to_follow() {
    let mut problem = problem(&[pod(), plain(1, amounts(1000, 1))]);
    problem.specs[1].affinity.push(term(HOSTNAME));
    let mut plan = plan(&problem);
    assert_eq!(plan.new_nodes.len(), 1);
    let mut apart = plan.new_nodes[0].clone();
    (plan.new_nodes[0].pods, apart.pods) = (vec![0], vec![1]);
    plan.new_nodes.push(apart);
    breaks(&problem, &plan, Promise::Affinity);
}

#[test]
fn only_one_domain_starts_an_affinity() {
    let spec = PodSpec { affinity: vec![term(HOSTNAME)], ..pod() };
    let problem = problem(&[spec.clone(), spec]);
    let mut plan = plan(&problem);
    let mut apart = plan.new_nodes[0].clone();
    (plan.new_nodes[0].pods, apart.pods) = (vec![0], vec![1]);
    plan.new_nodes.push(apart);
    breaks(&problem, &plan, Promise::Affinity);
}
