//! Random pods with costly rules in one namespace, beside ordinary pods of others, on a catalogue as large as EC2's.

use std::collections::BTreeSet;

use muster_scheduling::labels;
use muster_scheduling::model::*;

use crate::random::Random;

pub const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const SIZE: &str = "karpenter.k8s.aws/instance-size";
const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
const CORES: &str = "karpenter.k8s.aws/instance-cpu";
const MEMORY: &str = "karpenter.k8s.aws/instance-memory";
const NETWORK: &str = "karpenter.k8s.aws/instance-network-bandwidth";
const HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";

/// Labels that pods can have rules about; some of a type, some of an offering, some of a node, one that no node has.
pub const KEYS: [&str; 16] = [
    labels::HOSTNAME,
    labels::ZONE,
    labels::CAPACITY_TYPE,
    labels::INSTANCE_TYPE,
    labels::ARCH,
    labels::OS,
    labels::NODE_POOL,
    FAMILY,
    SIZE,
    CATEGORY,
    GENERATION,
    CORES,
    MEMORY,
    NETWORK,
    HYPERVISOR,
    "example.com/rack",
];

/// Namespace of the costly pods.
pub const HOSTILE: &str = "hostile";

const FAMILIES: usize = 90;
const SIZES: [(&str, i64); 10] = [
    ("medium", 1),
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("24xlarge", 96),
    ("metal", 96),
];

/// Kinds of rules that costly pods have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    Any,
    AntiAffinity,
    Spread,
}

/// Parameters of the costly pods.
#[derive(Debug, Clone)]
pub struct Case {
    pub pods: usize,
    /// Most terms of a pod.
    pub terms: usize,
    pub rules: Rules,
    /// Labels that the rules are about.
    pub keys: Vec<&'static str>,
    pub seed: u64,
}

impl Case {
    /// Returns a random case.
    pub fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pods = [20, 60, 120, 250, 500, 1_000][random.below(6)];
        let rules = [Rules::Any, Rules::Any, Rules::AntiAffinity, Rules::Spread][random.below(4)];
        let terms = 1 + random.below(if rules == Rules::Spread { 5 } else { 8 });
        let mut keys = KEYS.to_vec();
        while keys.len() > 1 && random.chance(85) {
            keys.swap_remove(random.below(keys.len()));
        }
        Self { pods, terms, rules, keys, seed }
    }
}

fn amounts(cpu: i64, mebibytes: i64) -> Resources {
    [(Resource::Cpu, cpu), (Resource::Memory, mebibytes << 20), (Resource::Pods, 1)].into_iter().collect()
}

fn one_of<'v>(values: impl IntoIterator<Item = &'v str>) -> Requirement {
    Requirement::new(Operator::In, values)
}

fn instance_type(family: usize, (size, cores): (&str, i64)) -> InstanceType {
    let category = ["c", "m", "r", "t", "x", "i", "d", "g"][family % 8];
    let generation = (1 + family / 8 % 8).to_string();
    let family_name = format!("{category}{generation}{}", ["", "a", "g", "i", "d", "n"][family / 16 % 6]);
    let family_name = format!("{family_name}{family}");
    let name = format!("{family_name}.{size}");
    let gibibytes = cores * [2, 4, 8][family % 3];
    let price = cores as f64 * (0.02 + 0.004 * [2.0, 4.0, 8.0][family % 3]) * (1.0 + family as f64 / 200.0);
    let offerings = ["a", "b", "c"].into_iter().enumerate().flat_map(|(number, zone)| {
        let spot = 0.3 + 0.02 * ((family + number) % 7) as f64;
        [("on-demand", 1.0), ("spot", spot)].map(|(capacity_type, share)| Offering {
            requirements: [(labels::ZONE, one_of([zone])), (labels::CAPACITY_TYPE, one_of([capacity_type]))]
                .into_iter()
                .collect(),
            price: Some(price * share),
            available: true,
            reservation_capacity: 0,
        })
    });
    let (cpu_label, memory_label) = (cores.to_string(), (gibibytes << 10).to_string());
    let network = (750 * cores * (1 + family as i64 % 3)).to_string();
    let requirements = [
        (labels::INSTANCE_TYPE, one_of([&*name])),
        (FAMILY, one_of([&*family_name])),
        (SIZE, one_of([size])),
        (CATEGORY, one_of([category])),
        (GENERATION, one_of([&*generation])),
        (CORES, one_of([&*cpu_label])),
        (MEMORY, one_of([&*memory_label])),
        (NETWORK, one_of([&*network])),
        (HYPERVISOR, one_of([if size == "metal" { "" } else { "nitro" }])),
        (labels::ARCH, one_of([if family % 6 == 2 { "arm64" } else { "amd64" }])),
        (labels::OS, one_of(["linux"])),
        (labels::ZONE, one_of(["a", "b", "c"])),
        (labels::CAPACITY_TYPE, one_of(["on-demand", "spot"])),
    ];
    InstanceType {
        requirements: requirements.into_iter().collect(),
        capacity: [(Resource::Cpu, cores * 1_000), (Resource::Memory, gibibytes << 30), (Resource::Pods, 110)]
            .into_iter()
            .collect(),
        overhead: amounts(80, 600),
        offerings: offerings.collect(),
        name: name.into(),
    }
}

fn pool(name: &str) -> NodePool {
    let labels: Labels = [(labels::NODE_POOL, name)].into_iter().collect();
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

fn selector(key: &str, operator: SelectorOperator, values: &[&str]) -> LabelSelector {
    let mut values: Vec<std::sync::Arc<str>> = values.iter().map(|&value| value.into()).collect();
    values.sort();
    values.dedup();
    LabelSelector::Terms(vec![SelectorTerm { key: key.into(), operator, values }])
}

fn own(key: &str, value: &str) -> LabelSelector {
    selector(key, SelectorOperator::In, &[value])
}

fn only(namespace: &str) -> NamespaceScope {
    NamespaceScope::Only(BTreeSet::from([namespace.into()]))
}

fn spread(key: &str, selector: LabelSelector) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.into(),
        max_skew: 1,
        min_domains: None,
        required: true,
        selector,
        honor_affinity: true,
        honor_taints: false,
    }
}

fn push(problem: &mut Problem, spec: PodSpec, count: usize, name: &str) {
    let namespace = spec.namespace.clone();
    let spec = problem.intern(spec);
    problem.pods.extend((0..count).map(|pod| Pod { name: format!("{namespace}/{name}-{pod}").into(), spec }));
}

/// `pods` pods of three namespaces, five of each workload, with the rules that charts have.
pub fn ordinary(pods: usize) -> Problem {
    let mut problem = Problem::default();
    let types = (0..FAMILIES).flat_map(|family| SIZES.map(|size| instance_type(family, size)));
    problem.catalogues.push(types.collect());
    problem.pools.push(pool("general"));
    let mut random = Random::new(7);
    for number in 0..pods.div_ceil(5) {
        let namespace = format!("team-{}", number % 3);
        let mut spec =
            PodSpec::unconstrained(&*namespace, amounts(200 + 100 * random.below(20) as i64, 512 << random.below(4)));
        let name = format!("app-{number}");
        spec.labels = Labels::from_iter([("app", &*name)]);
        match number % 4 {
            0 => spec.spread.push(spread(labels::ZONE, own("app", &name))),
            1 => spec.anti_affinity.push(AffinityTerm {
                topology_key: labels::HOSTNAME.into(),
                selector: own("app", &name),
                namespaces: only(&namespace),
            }),
            _ => {}
        }
        push(&mut problem, spec, 5_usize.min(pods - 5 * number), &name);
    }
    problem
}

/// Adds the costly pods of a case.
pub fn add_hostile(problem: &mut Problem, case: &Case) {
    let mut random = Random::new(case.seed ^ 0x5EED);
    // Half of the cases are replicas of few workloads, half have pods of which none is like another.
    let distinct = if random.chance(50) { case.pods } else { 1 + random.below(5) };
    let mut specs: Vec<PodSpec> = Vec::new();
    for number in 0..distinct {
        let mut spec = PodSpec::unconstrained(HOSTILE, amounts(100 + 100 * random.below(9) as i64, 256));
        let (mine, group) = (number.to_string(), (number % 7).to_string());
        spec.labels = Labels::from_iter([("app", "hostile"), ("number", &*mine), ("group", &*group)]);
        let terms = if random.chance(50) { case.terms } else { 1 + random.below(case.terms) };
        for _ in 0..terms {
            let selector = match random.below(8) {
                0..3 => own("app", "hostile"),
                3 => own("group", &group),
                4 => selector("number", SelectorOperator::In, &[&mine, &random.below(distinct).to_string()]),
                5 => selector("number", SelectorOperator::NotIn, &[&random.below(distinct).to_string()]),
                6 => selector("group", SelectorOperator::Exists, &[]),
                _ => LabelSelector::Terms(Vec::new()),
            };
            let topology_key = *random.pick(&case.keys);
            let namespaces = if random.chance(10) { NamespaceScope::All } else { only(HOSTILE) };
            let term = AffinityTerm { topology_key: topology_key.into(), selector: selector.clone(), namespaces };
            let kind = match case.rules {
                Rules::Any => random.below(5),
                Rules::AntiAffinity => 1,
                Rules::Spread => 3,
            };
            match kind {
                0 => spec.affinity.push(term),
                1 | 2 => spec.anti_affinity.push(term),
                _ => {
                    let max_skew = if random.chance(70) { 1 } else { 1 + random.below(1_000) as i32 };
                    spec.spread.push(SpreadConstraint { max_skew, ..spread(topology_key, selector) });
                }
            }
        }
        specs.push(spec);
    }
    let each = case.pods.div_ceil(distinct);
    let mut left = case.pods;
    for (number, spec) in specs.into_iter().enumerate() {
        let count = each.min(left);
        left -= count;
        push(problem, spec, count, &format!("p{number}"));
    }
}

/// Adds `count` pods, each with a selector of its own in `terms` spreads over zones and hosts and in one anti-affinity.
pub fn add_selectors(problem: &mut Problem, count: usize) {
    for number in 0..count {
        let name = format!("one-{number}");
        let mut spec = PodSpec::unconstrained("selectors", amounts(250, 512));
        spec.labels = Labels::from_iter([("app", &*name), ("group", if number % 2 == 0 { "even" } else { "odd" })]);
        let mut other = own("app", &format!("one-{}", (number + 1) % count));
        if number % 3 == 0
            && let LabelSelector::Terms(terms) = &mut other
        {
            terms.push(SelectorTerm { key: "group".into(), operator: SelectorOperator::Exists, values: Vec::new() });
        }
        let key = if number % 2 == 0 { labels::HOSTNAME } else { labels::ZONE };
        match number % 5 {
            0 => spec.spread.push(spread(labels::ZONE, own("app", &name))),
            _ => spec.anti_affinity.push(AffinityTerm {
                topology_key: key.into(),
                selector: other,
                namespaces: only("selectors"),
            }),
        }
        push(problem, spec, 1, &name);
    }
}
