//! Whatever the problem is, there is an answer, and twice the same.

use proptest::prelude::*;

use super::fixture::{FAMILY, GI, World, amounts, app, instance_type, node, pool, spread, taint, term, values};
use crate::explain::{Explainer, PlacedOn};
use crate::labels;
use crate::model::{Attachment, HostPort, MinValuesPolicy, Operator, PodSpec, PoolState, Protocol, Requirement};

const KEYS: [&str; 6] = [labels::ZONE, labels::HOSTNAME, labels::ARCH, labels::CAPACITY_TYPE, FAMILY, "example.com/x"];
const VALUES: [&str; 6] = ["a", "b", "amd64", "spot", "m", "7"];

fn requirement() -> impl Strategy<Value = (&'static str, Requirement)> {
    let operators =
        [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist, Operator::Gt, Operator::Lte];
    let listed = proptest::sample::subsequence(VALUES.to_vec(), 0..3);
    (proptest::sample::select(KEYS.to_vec()), proptest::sample::select(operators.to_vec()), listed)
        .prop_map(|(key, operator, listed)| (key, Requirement::new(operator, listed)))
}

fn spec() -> impl Strategy<Value = PodSpec> {
    let sizes = (0i64..12_000, 0i64..40, 0i64..2);
    let selectors = (prop::collection::vec(requirement(), 0..2), prop::collection::vec(requirement(), 0..3));
    let rules = prop::collection::vec((0u8..6, 0usize..6, 0usize..2), 0..3);
    (0usize..2, sizes, selectors, rules).prop_map(|(name, (cpu, gi, gpu), (selector, terms), rules)| {
        let apps = ["web", "db"];
        let mut spec = app(apps[name], cpu, gi * GI);
        spec.requests.add(&amounts(&[("nvidia.com/gpu", gpu)]));
        selector.into_iter().for_each(|(key, requirement)| spec.node_selector.add(key, requirement));
        spec.node_terms = terms.into_iter().map(|entry| [entry].into_iter().collect()).collect();
        for (kind, key, about) in rules {
            match kind {
                0 => spec.spread.push(spread(apps[about], KEYS[key])),
                1 => spec.affinity.push(term(apps[about], KEYS[key])),
                2 => spec.anti_affinity.push(term(apps[about], KEYS[key])),
                3 => {
                    spec.host_ports.push(HostPort { ip: [0, 0, 0, 0].into(), port: 80, protocol: Protocol::Udp });
                }
                4 => spec.volume_terms.push([(KEYS[key], values(&[VALUES[about]]))].into_iter().collect()),
                _ => spec.attachments.push(Attachment { driver: "d".into(), claim: VALUES[key].into() }),
            }
        }
        spec
    })
}

fn world() -> impl Strategy<Value = World> {
    let pods = prop::collection::vec(spec(), 1..6);
    let shape = (0u8..64, 0i64..20, prop::collection::vec(requirement(), 0..2), 0usize..3);
    (pods, prop::collection::vec(spec(), 0..3), shape).prop_map(
        |(pods, bound, (flags, limit, requirements, placed))| {
            let flag = |number: u8| flags & (1 << number) != 0;
            let mut world = World::new();
            requirements.into_iter().for_each(|(key, requirement)| {
                world.pool().requirements.add(key, requirement.with_min_values(flag(0).then_some(2)));
            });
            world.pool().limits = flag(1).then(|| amounts(&[("cpu", limit * 1000), ("nodes", limit)]));
            let mut other = pool("other", 5);
            other.taints = if flag(2) { vec![taint("t", "v")] } else { Vec::new() };
            other.state = if flag(3) { PoolState::NotReady("why".into()) } else { PoolState::Ready };
            other.catalogue = if flag(4) { 9 } else { 0 };
            world.problem.pools.push(other);
            world.problem.catalogues[0].edit(|types| {
                types.push(instance_type("g.small", 4, 2, 0.1));
                types[2].offerings[0].price = None;
            });
            world.options.min_values = if flag(5) { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict };
            bound.iter().take(1).cloned().for_each(|spec| world.daemon(spec));
            let mut standing = node("a");
            standing.attach_limits.push(("d".into(), 1));
            world.node(standing, bound);
            let pods: Vec<usize> = pods.into_iter().map(|spec| world.pod(spec)).collect();
            for (number, pod) in pods.into_iter().take(placed).enumerate() {
                match number {
                    0 => world.launch(limit as usize % 3, 1, vec![pod]),
                    _ => world.solution.existing.push((0, vec![pod])),
                }
            }
            world
        },
    )
}

proptest! {
    #[test]
    fn every_question_has_an_answer(world in world()) {
        let mut explainer = Explainer::new(&world.problem, &world.options, &world.solution);
        for pod in 0..=world.problem.pods.len() {
            let answer = explainer.unschedulable(pod);
            let again = super::unschedulable(&world.problem, &world.options, &world.solution, pod);
            prop_assert_eq!(&answer, &again);
            prop_assert!(!answer.message.is_empty() && !answer.message.contains('\n'));
            prop_assert_eq!(answer.pools.len(), if pod < world.problem.pods.len() { 2 } else { 0 });
            let _ = explainer.placed(pod);
        }
        for index in 0..3 {
            let _ = explainer.node(PlacedOn::New(index));
            let _ = explainer.node(PlacedOn::Existing(index));
        }
    }
}
