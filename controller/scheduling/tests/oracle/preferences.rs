//! Preferences that cost nothing are kept: random problems against brute force, which knows preferences as rules only.

use muster_scheduling::labels::ZONE;
use muster_scheduling::model::*;
use muster_scheduling::{Place, Promise, Solution, solve, validate};

use crate::brute_force::cheapest;
use crate::cases::{affinity, case, selector_entry};
use crate::random::Random;
use crate::rules_hold::Host;
use crate::{options, price};

/// Cases of every run, and of the large one.
const FEW: u64 = 150;
const MANY: u64 = 2_000;

fn soft_taint() -> Taint {
    Taint { key: "example.com/spare".into(), value: "x".into(), effect: Effect::PreferNoSchedule }
}

/// The case of `seed` with preferences of every kind.
fn preferring(seed: u64) -> Problem {
    let mut random = Random::new(seed ^ 0x9efe);
    let mut problem = case(seed);
    for pool in &mut problem.pools {
        if random.chance(30) {
            pool.taints.push(soft_taint());
        }
    }
    for node in &mut problem.nodes {
        if random.chance(30) {
            node.taints.push(soft_taint());
        }
    }
    let size = crate::cases::Size { pods: 0, zones: 3, types: 0, pools: 0 };
    for number in 0..problem.specs.len() {
        let spec = &mut problem.specs[number];
        if random.chance(20) {
            spec.tolerations.push(Toleration { key: Some("example.com/spare".into()), value: None, effect: None });
        }
        while random.chance(40) {
            let term = [selector_entry(&mut random, size)].into_iter().collect();
            spec.preferred_node_terms.push(WeightedNodeTerm { weight: 1 + random.below(100) as i32, term });
        }
        if random.chance(30) {
            let term = affinity(&mut random, number);
            spec.preferred_affinity.push(WeightedAffinityTerm { weight: 1 + random.below(100) as i32, term });
        }
        if random.chance(30) {
            let term = affinity(&mut random, number);
            // Those about the pod's own workload have a meaning of their own.
            if !meant(spec, &term) {
                spec.preferred_anti_affinity.push(WeightedAffinityTerm { weight: 1 + random.below(100) as i32, term });
            }
        }
    }
    problem
}

/// The problem with all preferences as rules. `None` if a pod's preferences contradict each other or its rules.
fn strict(problem: &Problem) -> Option<Problem> {
    let mut strict = problem.clone();
    let pools = strict.pools.iter_mut().flat_map(|pool| &mut pool.taints);
    for taint in pools.chain(strict.nodes.iter_mut().flat_map(|node| &mut node.taints)) {
        if !taint.repels() {
            taint.effect = Effect::NoSchedule;
        }
    }
    for number in 0..strict.specs.len() {
        let pending = problem.pods.iter().any(|pod| pod.spec == number);
        let bound = problem.nodes.iter().flat_map(|node| &node.bound).any(|bound| bound.spec == number);
        let spec = &mut strict.specs[number];
        if !pending {
            continue;
        }
        // Which domains count for a spread must not depend on taints that only repel by preference.
        if spec.spread.iter().any(|spread| spread.honor_taints) {
            return None;
        }
        for preferred in &spec.preferred_node_terms {
            if spec.node_selector.first_disjoint(&preferred.term).is_some() {
                return None;
            }
            spec.node_selector.add_all(&preferred.term);
        }
        // A pod that is alone of its kind is in the company that it prefers, and avoids nobody.
        let others = |term: &AffinityTerm| others(problem, number, term);
        let alone = |term: &AffinityTerm| meant(spec, term) && !others(term);
        let company = spec.preferred_affinity.iter().map(|one| one.term.clone()).filter(|term| !alone(term));
        spec.affinity.extend(company.collect::<Vec<_>>());
        // Rules of bound pods bind others, and preferences do not.
        if bound && !spec.preferred_anti_affinity.is_empty() {
            return None;
        }
        let avoided = spec.preferred_anti_affinity.iter().map(|one| one.term.clone());
        spec.anti_affinity.extend(avoided.filter(others));
    }
    Some(strict)
}

/// Whether the term selects pods of `spec`.
fn meant(spec: &PodSpec, term: &AffinityTerm) -> bool {
    term.namespaces.contains(&spec.namespace) && term.selector.matches(&spec.labels)
}

/// Whether the term of a pod of spec `own` selects another pod.
fn others(problem: &Problem, own: SpecId, term: &AffinityTerm) -> bool {
    let selects = |spec: SpecId| meant(&problem.specs[spec], term);
    let waiting = problem.pods.iter().map(|pod| pod.spec).filter(|&spec| selects(spec)).count();
    let bound = problem.nodes.iter().filter(|node| !node.deleting).flat_map(|node| &node.bound);
    let bound = bound.filter(|bound| bound.counts && selects(bound.spec)).count();
    waiting + bound > usize::from(selects(own))
}

/// What `solution` does not keep of the rules of `strict`. Labels that a node has whichever of its types and offerings it
/// is launched as need no requirement.
fn broken(strict: &Problem, solution: &Solution) -> Vec<String> {
    let violations = validate(strict, &options(), solution);
    // A zone may stay open to pods that count for others and prefer no company themselves.
    let owns = |pod: &usize| {
        let spec = strict.spec_of(*pod);
        let keys = spec.affinity.iter().chain(&spec.anti_affinity).map(|term| &term.topology_key);
        keys.chain(spec.spread.iter().map(|spread| &spread.topology_key)).any(|key| &**key == ZONE)
    };
    let is_open = |place: Place| matches!(place, Place::New(node) if !solution.new_nodes[node].pods.iter().any(owns));
    let others = violations
        .iter()
        .filter(|one| one.promise != Promise::Requirements && !(one.promise == Promise::Pinned && is_open(one.place)));
    let mut broken: Vec<String> = others.map(ToString::to_string).collect();
    for (number, node) in solution.new_nodes.iter().enumerate() {
        for &kind in &*node.alternatives {
            let offerings = strict.catalogues[0][kind].offerings.iter().filter(|one| one.available);
            for offering in offerings.filter(|one| node.requirements.intersects(&one.requirements)) {
                let host = Host::of(strict, node.pool, kind, offering, 0);
                let wants = |pod: &usize| !host.meets(&strict.spec_of(*pod).node_selector);
                if node.pods.iter().any(wants) {
                    broken
                        .push(format!("new node {number} may be launched as type {kind}, which a pod does not prefer"));
                }
            }
        }
    }
    broken
}

/// Faults of the plan for the case of `seed`, and true if its preferences cost nothing.
fn judge(seed: u64) -> (Vec<String>, bool) {
    let problem = preferring(seed);
    let free = Options { preference_price: 0, ..options() };
    let solution = solve(&problem, &free);
    let mut faults: Vec<String> =
        validate(&problem, &free, &solution).iter().map(|violation| format!("breaks a promise: {violation}")).collect();
    let plain = solve(&problem, &Options { preferences: PreferencePolicy::Ignore, ..options() });
    if solution.unschedulable.len() > plain.unschedulable.len() {
        faults.push("preferences keep pods pending".to_owned());
    }
    let Some(strict) = strict(&problem) else { return (faults, false) };
    let (Some((best, _)), Some((kept, _))) = (cheapest(&problem), cheapest(&strict)) else { return (faults, false) };
    if kept > best + 1e-9 {
        return (faults, false);
    }
    // How near plans come to the best price is the subject of other tests.
    let (reached, without) = (price(&solution), price(&plain));
    if reached > kept.max(without) + 1e-9 {
        faults.push(format!("costs {reached}, not {kept}, and {without} without preferences"));
    }
    if without > kept + 1e-9 {
        return (faults, false);
    }
    faults.extend(broken(&strict, &solution).into_iter().map(|text| format!("a preference is not kept: {text}")));
    (faults, true)
}

#[expect(clippy::print_stdout, reason = "a test says what it has measured")]
fn check(cases: u64) {
    let (mut failed, mut free) = (Vec::new(), 0);
    for seed in 0..cases {
        let (faults, costs_nothing) = judge(seed);
        free += u64::from(costs_nothing);
        for fault in &faults {
            println!("seed {seed}: {fault}");
        }
        if !faults.is_empty() {
            failed.push(seed);
        }
    }
    println!("{cases} cases, in {free} of them all preferences cost nothing");
    assert!(free > cases / 20, "{free} of {cases} cases say something");
    assert!(failed.is_empty(), "{} cases failed: {failed:?}", failed.len());
}

#[test]
fn what_costs_nothing_is_kept() {
    check(FEW);
}

#[test]
#[ignore = "takes minutes"]
fn what_costs_nothing_is_kept_in_many_cases() {
    check(MANY);
}

/// One type at one price in three zones, and one pool.
fn fleet() -> Problem {
    let mut problem = crate::small_sets::market();
    problem.pools[0].limits = None;
    problem
}

#[test]
fn a_preference_is_worth_its_price_and_no_more() {
    let mut problem = fleet();
    let mut spec = crate::cases::plain(0, crate::small_sets::amounts(500, 512, 1));
    let dearer = [("node.kubernetes.io/instance-type", crate::cases::one_of(["m6g.xlarge"]))];
    spec.preferred_node_terms.push(WeightedNodeTerm { weight: 50, term: dearer.into_iter().collect() });
    crate::small_sets::add(&mut problem, spec, 1);
    let launched = |preference_price: u32| {
        let solution = solve(&problem, &Options { preference_price, ..options() });
        assert!(validate(&problem, &options(), &solution).is_empty());
        problem.catalogues[0][solution.new_nodes[0].instance_type].name.to_string()
    };
    // 0.018 USD an hour more, for a preference of half the weight.
    assert_eq!(launched(0), "c6g.xlarge");
    assert_eq!(launched(35_000), "c6g.xlarge");
    assert_eq!(launched(37_000), "m6g.xlarge");
}

#[test]
fn another_workload_is_avoided_for_what_that_is_worth() {
    let mut problem = fleet();
    let (cores, mebibytes) = (1500, 512);
    let mut shy = crate::cases::plain(1, crate::small_sets::amounts(cores, mebibytes, 1));
    let term = crate::small_sets::apart(0);
    shy.preferred_anti_affinity.push(WeightedAffinityTerm { weight: 100, term });
    crate::small_sets::add(&mut problem, crate::cases::plain(0, crate::small_sets::amounts(cores, mebibytes, 1)), 1);
    crate::small_sets::add(&mut problem, shy, 1);
    let nodes = |preference_price: u32| {
        let solution = solve(&problem, &Options { preference_price, ..options() });
        assert!(solution.unschedulable.is_empty() && validate(&problem, &options(), &solution).is_empty());
        solution.new_nodes.len()
    };
    // A node of its own costs 0.136 USD an hour.
    assert_eq!((nodes(0), nodes(130_000), nodes(140_000)), (1, 1, 2));
}
