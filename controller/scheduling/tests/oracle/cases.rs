//! Random problems, small enough for brute force and with every constraint that the oracle understands.

use std::sync::Arc;

use muster_scheduling::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, ZONE};
use muster_scheduling::model::*;

use crate::random::Random;

pub const TEAM: &str = "example.com/team";
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const GPU: &str = "nvidia.com/gpu";

/// How much a case holds, so that brute force stays quick.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub pods: usize,
    pub zones: usize,
    pub types: usize,
    pub pools: usize,
}

/// The case of `seed`, with too many pods for brute force.
pub fn crowd(seed: u64) -> Problem {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut problem = case(seed);
    let specs: Vec<SpecId> = problem.pods.iter().map(|pod| pod.spec).collect();
    for number in problem.pods.len()..9 + random.below(52) {
        problem.pods.push(Pod { name: format!("default/p{number}").into(), spec: *random.pick(&specs) });
    }
    if random.chance(20) {
        let least = 1 + random.below(3) as u32;
        problem.pools[0].requirements.add(INSTANCE_TYPE, Requirement::any().with_min_values(Some(least)));
    }
    for spec in &mut problem.specs {
        spec.priority = if random.chance(20) { 1000 } else { 0 };
    }
    problem
}

/// The case of `seed`.
pub fn case(seed: u64) -> Problem {
    let mut random = Random::new(seed);
    let fine = random.chance(25);
    let size = if fine {
        Size { pods: 1 + random.below(4), zones: 2, types: 2, pools: 1 + random.below(2) }
    } else {
        Size {
            pods: 1 + random.below(6),
            zones: 1 + random.below(3),
            types: 1 + random.below(4),
            pools: 1 + random.below(2),
        }
    };
    let mut problem = Problem::default();
    problem.catalogues.push((0..size.types).map(|number| instance_type(&mut random, number, size)).collect());
    for number in 0..size.pools {
        problem.pools.push(pool(&mut random, number, size));
    }
    if size.pools == 1 && fine && random.chance(50) {
        let limits = [
            (Resource::Cpu, 4000 + 2000 * random.below(6) as i64),
            (Resource::new("nodes"), 2 + random.below(3) as i64),
        ];
        problem.pools[0].limits = Some(limits.into_iter().collect());
        problem.pools[0].usage = [(Resource::Cpu, 1000), (Resource::new("nodes"), 1)].into_iter().collect();
    }
    let workloads: Vec<SpecId> = (0..1 + random.below(3))
        .map(|number| {
            let spec = workload(&mut random, number, size, fine);
            problem.intern(spec)
        })
        .collect();
    for number in 0..size.pods {
        problem.pods.push(Pod { name: format!("default/p{number}").into(), spec: *random.pick(&workloads) });
    }
    if random.chance(35) {
        for number in 0..1 + random.below(2) {
            let node = node(&mut random, number, size, &workloads);
            problem.nodes.push(node);
        }
    }
    if random.chance(30) {
        let spec = daemon(&mut random);
        let spec = problem.intern(spec);
        problem.daemons.push(DaemonSet { name: "kube-system/agent".into(), spec });
    }
    problem
}

pub fn one_of<'v>(values: impl IntoIterator<Item = &'v str>) -> Requirement {
    Requirement::new(Operator::In, values)
}

fn amounts(cpu: i64, gibibytes: i64, pods: i64) -> Resources {
    [(Resource::Cpu, cpu), (Resource::Memory, gibibytes << 30), (Resource::Pods, pods)].into_iter().collect()
}

pub fn instance_type(random: &mut Random, number: usize, size: Size) -> InstanceType {
    let cpu = *random.pick(&[1000, 2000, 4000, 8000]);
    let memory = cpu / 1000 * *random.pick(&[2, 4, 8]);
    let mut capacity = amounts(cpu, memory, *random.pick(&[3, 8, 110]));
    let gpu = random.chance(15);
    if gpu {
        capacity.set(Resource::new(GPU), 1);
    }
    let name = format!("type-{number}");
    let base = cpu as f64 * 0.00002 + memory as f64 * 0.002 + if gpu { 0.5 } else { 0.0 };
    let base = base * (80 + random.below(40)) as f64 / 100.0;
    let mut offerings = Vec::new();
    for zone in &ZONES[..size.zones] {
        for capacity_type in ["on-demand", "spot"] {
            if capacity_type == "spot" && !random.chance(40) || random.chance(8) {
                continue;
            }
            let cut = if capacity_type == "spot" { 0.4 } else { 1.0 };
            let wobble = if random.chance(50) { 1.0 } else { (90 + random.below(20)) as f64 / 100.0 };
            offerings.push(offering(zone, capacity_type, base * cut * wobble, 0, !random.chance(5)));
        }
    }
    if random.chance(6) {
        offerings.push(offering(ZONES[0], "reserved", 0.001, 1 + random.below(2) as u32, true));
    }
    let launchable = || offerings.iter().filter(|offering| offering.available);
    let zones: Vec<&str> = launchable().filter_map(Offering::zone).collect();
    let capacity_types: Vec<&str> = launchable().filter_map(Offering::capacity_type).collect();
    let requirements = [
        (INSTANCE_TYPE, one_of([&*name])),
        (ARCH, one_of([if random.chance(70) { "amd64" } else { "arm64" }])),
        ("example.com/size", one_of([&*(cpu / 1000).to_string()])),
        (ZONE, one_of(zones)),
        (CAPACITY_TYPE, one_of(capacity_types)),
    ];
    InstanceType {
        name: name.into(),
        requirements: requirements.into_iter().collect(),
        capacity,
        overhead: [(Resource::Cpu, 100), (Resource::Memory, 200 << 20)].into_iter().collect(),
        offerings,
    }
}

fn offering(zone: &str, capacity_type: &str, price: f64, reservation_capacity: u32, available: bool) -> Offering {
    let requirements = [(ZONE, one_of([zone])), (CAPACITY_TYPE, one_of([capacity_type]))];
    Offering { requirements: requirements.into_iter().collect(), price: Some(price), available, reservation_capacity }
}

fn taint() -> Taint {
    Taint { key: "dedicated".into(), value: "x".into(), effect: Effect::NoSchedule }
}

pub fn pool(random: &mut Random, number: usize, size: Size) -> NodePool {
    let name = format!("pool-{number}");
    let mut labels = Labels::default();
    labels.set(NODE_POOL, &*name);
    if random.chance(40) {
        labels.set(TEAM, *random.pick(&["red", "blue"]));
    }
    let mut requirements = Requirements::from_labels(&labels);
    if random.chance(25) {
        requirements.add(ARCH, one_of(["amd64"]));
    }
    if random.chance(20) {
        requirements.add(CAPACITY_TYPE, one_of(["on-demand"]));
    }
    if size.zones > 1 && random.chance(20) {
        requirements.add(ZONE, one_of(ZONES[..size.zones - 1].iter().copied()));
    }
    NodePool {
        name: name.into(),
        weight: if random.chance(40) { random.below(3) as i32 * 10 } else { 0 },
        requirements,
        labels,
        annotations: Labels::default(),
        taints: if random.chance(20) { vec![taint()] } else { Vec::new() },
        startup_taints: if random.chance(10) { vec![Taint { key: "startup".into(), ..taint() }] } else { Vec::new() },
        limits: None,
        usage: Resources::new(),
        catalogue: 0,
        state: if random.chance(4) { PoolState::NotReady("class".into()) } else { PoolState::Ready },
        missing_replicas: None,
    }
}

pub fn plain(number: usize, requests: Resources) -> PodSpec {
    let mut labels = Labels::default();
    labels.set("app", format!("w{number}"));
    PodSpec { labels, ..PodSpec::unconstrained("default", requests) }
}

fn selected(random: &mut Random, number: usize) -> LabelSelector {
    let term = |operator, values: Vec<Arc<str>>| SelectorTerm { key: "app".into(), operator, values };
    LabelSelector::Terms(match random.below(10) {
        0..6 => vec![term(SelectorOperator::In, vec![format!("w{number}").into()])],
        6..8 => vec![term(SelectorOperator::In, vec![format!("w{}", random.below(3)).into()])],
        8 => vec![term(SelectorOperator::Exists, Vec::new())],
        _ => Vec::new(),
    })
}

pub fn affinity(random: &mut Random, number: usize) -> AffinityTerm {
    let namespaces =
        if random.chance(80) { NamespaceScope::Only([Arc::from("default")].into()) } else { NamespaceScope::All };
    let topology_key = (*random.pick(&[HOSTNAME, HOSTNAME, ZONE])).into();
    AffinityTerm { topology_key, selector: selected(random, number), namespaces }
}

pub fn selector_entry(random: &mut Random, size: Size) -> (&'static str, Requirement) {
    let zones = &ZONES[..size.zones];
    match random.below(16) {
        0..4 => (ZONE, one_of([*random.pick(zones)])),
        4 => (ZONE, Requirement::new(Operator::NotIn, [*random.pick(zones)])),
        5..7 => (ARCH, one_of([*random.pick(&["amd64", "arm64"])])),
        7 => (CAPACITY_TYPE, one_of([*random.pick(&["spot", "on-demand"])])),
        8..10 => (TEAM, one_of([*random.pick(&["red", "blue"])])),
        10 => (TEAM, Requirement::new(Operator::NotIn, ["red"])),
        11 => (TEAM, Requirement::none()),
        12 => ("example.com/size", Requirement::new(*random.pick(&[Operator::Gt, Operator::Lte]), ["2"])),
        13 => (INSTANCE_TYPE, Requirement::new(Operator::NotIn, ["type-0"])),
        14 => (HOSTNAME, Requirement::new(*random.pick(&[Operator::In, Operator::NotIn]), ["node-0"])),
        _ => ("example.com/unknown", Requirement::new(*random.pick(&[Operator::In, Operator::NotIn]), ["x"])),
    }
}

pub fn workload(random: &mut Random, number: usize, size: Size, fine: bool) -> PodSpec {
    let cpu = *random.pick(&[100, 300, 500, 900, 1000, 1500, 2500]);
    let mut requests = amounts(cpu, *random.pick(&[0, 1, 2, 3]), 1);
    if random.chance(5) {
        requests.set(Resource::new(GPU), 1);
    }
    let mut spec = plain(number, requests);
    if random.chance(10) {
        spec.namespace = "other".into();
    }
    if random.chance(30) {
        let (key, requirement) = selector_entry(random, size);
        spec.node_selector.add(key, requirement);
    }
    if random.chance(12) {
        for _ in 0..1 + random.below(2) {
            spec.node_terms.push([selector_entry(random, size)].into_iter().collect());
        }
    }
    if random.chance(40) {
        spec.tolerations.push(Toleration { key: Some("dedicated".into()), value: None, effect: None });
    }
    // How many of a domain's pods count depends on labels that brute force tells apart only in fine cases.
    let plain_labels = spec.node_selector.is_empty() && spec.node_terms.is_empty();
    while random.chance(25) {
        let zonal = random.chance(50) && (fine || plain_labels);
        spec.spread.push(SpreadConstraint {
            topology_key: if zonal { ZONE } else { HOSTNAME }.into(),
            max_skew: 1 + random.below(2) as i32,
            min_domains: random.chance(15).then(|| 1 + random.below(4) as i32),
            selector: selected(random, number),
            required: true,
            honor_affinity: random.chance(75),
            honor_taints: fine && random.chance(25),
        });
    }
    if random.chance(20) {
        spec.anti_affinity.push(affinity(random, number));
    }
    if random.chance(12) {
        spec.affinity.push(affinity(random, number));
    }
    if random.chance(8) {
        let ip = if random.chance(50) { [0, 0, 0, 0] } else { [10, 0, 0, 1] };
        spec.host_ports.push(HostPort { ip: ip.into(), port: 80, protocol: Protocol::Tcp });
    }
    if random.chance(10) {
        for _ in 0..1 + random.below(2) {
            spec.volume_terms.push([(ZONE, one_of([*random.pick(&ZONES[..size.zones])]))].into_iter().collect());
        }
        let claim = format!("default/data-{}", random.below(2)).into();
        spec.attachments.push(Attachment { driver: "ebs.csi.aws.com".into(), claim });
    }
    spec
}

pub fn daemon(random: &mut Random) -> PodSpec {
    let mut spec = plain(9, amounts(*random.pick(&[50, 200]), 0, 1));
    spec.namespace = "kube-system".into();
    match random.below(4) {
        0 => spec.node_selector.add(ARCH, one_of(["amd64"])),
        1 => spec.node_selector.add(TEAM, one_of(["red"])),
        _ => {}
    }
    if random.chance(60) {
        spec.tolerations.push(Toleration { key: None, value: None, effect: None });
    }
    if random.chance(20) {
        spec.host_ports.push(HostPort { ip: [10, 0, 0, 1].into(), port: 80, protocol: Protocol::Tcp });
    }
    spec
}

pub fn node(random: &mut Random, number: usize, size: Size, workloads: &[SpecId]) -> Node {
    let name = format!("node-{number}");
    let mut labels = Labels::default();
    labels.set(HOSTNAME, &*name);
    labels.set(ZONE, *random.pick(&ZONES[..size.zones]));
    labels.set(ARCH, "amd64");
    labels.set(CAPACITY_TYPE, "on-demand");
    labels.set(INSTANCE_TYPE, "type-0");
    labels.set("example.com/size", "4");
    if random.chance(40) {
        labels.set(TEAM, "red");
    }
    let bound = (0..random.below(3)).map(|at| BoundPod {
        name: format!("default/b{number}-{at}").into(),
        spec: *random.pick(workloads),
        counts: !random.chance(15),
        planned: false,
        daemon: false,
    });
    let bound = bound.collect();
    Node {
        name: name.into(),
        labels,
        taints: if random.chance(20) { vec![taint()] } else { Vec::new() },
        allocatable: amounts(4000, 8, 10),
        daemon_requests: if random.chance(30) { amounts(200, 0, 1) } else { Resources::new() },
        initialized: random.chance(80),
        deleting: random.chance(10),
        bound,
        attach_limits: if random.chance(50) {
            vec![("ebs.csi.aws.com".into(), random.below(4) as u32)]
        } else {
            Vec::new()
        },
        attached: if random.chance(20) {
            let claim = format!("default/data-{}", random.below(4)).into();
            vec![Attachment { driver: "ebs.csi.aws.com".into(), claim }]
        } else {
            Vec::new()
        },
    }
}
