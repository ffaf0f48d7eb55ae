//! Which of several pods that are alike gets which place: the order in which kube-scheduler takes them.
//!
//! ```text
//!   places of a spec, by zone:   a a a b b b c c c      as the engine lists them
//!   its pods, as they came:      1 4 7 2 5 8 3 6 9      the emptiest zone next
//! ```
//!
//! The spread of a plan is right when all of its pods are there, and kube-scheduler asks after each one. A pod whose turn
//! comes too early for its zone is bound elsewhere, where another one was to go, and so on: with the pods of a node in the
//! order of their names, half of a thousand did not go where they were told.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_scheduling::Solution;
use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::model::{Pod, Problem, SpecId};

/// Where a pod can be: on a node that is there, or on one to launch; positions in the solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Existing(usize),
    New(usize),
}

/// Pods of one spec, and the places of each node among theirs.
#[derive(Default)]
struct Alike {
    pods: Vec<usize>,
    places: Vec<(Place, usize)>,
}

/// Has pods that came first go to the domains that are the emptiest then. What is launched, and how much of each spec goes
/// to each node, stays as it is.
pub(super) fn take_turns(problem: &Problem, solution: &mut Solution, arrived: impl Fn(&Pod) -> u64) {
    let mut alike: BTreeMap<SpecId, Alike> = BTreeMap::new();
    for (place, pods) in places(solution) {
        for &pod in pods {
            let spec = problem.pods[pod].spec;
            if !problem.specs[spec].spread.iter().any(|constraint| constraint.required) {
                continue;
            }
            let alike = alike.entry(spec).or_default();
            alike.pods.push(pod);
            match alike.places.last_mut() {
                Some((last, count)) if *last == place => *count += 1,
                _ => alike.places.push((place, 1)),
            }
        }
    }
    for (spec, Alike { mut pods, places }) in alike {
        if places.len() < 2 {
            continue;
        }
        pods.sort_by_key(|&pod| (arrived(&problem.pods[pod]), pod));
        let mut turns = Turns::new(problem, solution, spec, places);
        let turns: Vec<(Place, usize)> = pods.into_iter().filter_map(|pod| Some((turns.next()?, pod))).collect();
        give(problem, solution, spec, turns);
    }
}

fn places(solution: &Solution) -> impl Iterator<Item = (Place, &Vec<usize>)> {
    let existing = solution.existing.iter().enumerate().map(|(number, (_, pods))| (Place::Existing(number), pods));
    let new = solution.new_nodes.iter().enumerate().map(|(number, node)| (Place::New(number), &node.pods));
    existing.chain(new)
}

/// Puts the pods of a spec where their turn has them go.
fn give(problem: &Problem, solution: &mut Solution, spec: SpecId, turns: Vec<(Place, usize)>) {
    let mut by_place: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
    for (place, pod) in turns {
        by_place.entry(place).or_default().push(pod);
    }
    for (place, given) in by_place {
        let pods = match place {
            Place::Existing(number) => &mut solution.existing[number].1,
            Place::New(number) => &mut solution.new_nodes[number].pods,
        };
        pods.retain(|&pod| problem.pods[pod].spec != spec);
        pods.extend(given);
        pods.sort_unstable();
    }
}

/// Domains of one constraint, and the pods that count there.
#[derive(Default)]
struct Domains {
    numbers: BTreeMap<Arc<str>, usize>,
    counts: Vec<usize>,
}

impl Domains {
    fn number_of(&mut self, domain: Arc<str>) -> usize {
        let next = self.counts.len();
        let number = *self.numbers.entry(domain).or_insert(next);
        if number == next {
            self.counts.push(0);
        }
        number
    }
}

/// Places of the same domains.
struct Group {
    /// By constraint.
    domains: Vec<usize>,
    /// What is left of the places, the next one last.
    left: Vec<(Place, usize)>,
}

/// The places of a spec in the order in which its constraints allow them.
struct Turns {
    groups: Vec<Group>,
    /// By constraint.
    domains: Vec<Domains>,
}

impl Turns {
    fn new(problem: &Problem, solution: &Solution, spec: SpecId, places: Vec<(Place, usize)>) -> Self {
        let this = &problem.specs[spec];
        let required: Vec<_> = this.spread.iter().filter(|constraint| constraint.required).collect();
        let mut domains: Vec<Domains> = required.iter().map(|_| Domains::default()).collect();
        for node in problem.nodes.iter().filter(|node| !node.deleting) {
            for (of, domains) in required.iter().zip(&mut domains) {
                let Some(domain) = node.labels.get(&of.topology_key) else { continue };
                let number = domains.number_of(Arc::clone(domain));
                let counting = node.bound.iter().filter(|bound| bound.counts).map(|bound| &problem.specs[bound.spec]);
                let counting = counting.filter(|it| it.namespace == this.namespace && of.selector.matches(&it.labels));
                domains.counts[number] += counting.count();
            }
        }
        let mut groups: BTreeMap<Vec<usize>, Group> = BTreeMap::new();
        // The last one is taken first.
        for (place, count) in places.into_iter().rev() {
            let of_place = required.iter().zip(&mut domains);
            let of_place = of_place.map(|(of, all)| all.number_of(domain(problem, solution, place, &of.topology_key)));
            let domains: Vec<usize> = of_place.collect();
            let group = groups.entry(domains.clone()).or_insert_with(|| Group { domains, left: Vec::new() });
            group.left.push((place, count));
        }
        Self { groups: groups.into_values().collect(), domains }
    }

    /// The next place: the one whose domains hold the fewest pods, those of the first constraint first.
    fn next(&mut self) -> Option<Place> {
        let domains = &self.domains;
        let held = |group: &Group| {
            let counts = group.domains.iter().zip(domains).map(|(&domain, all)| all.counts[domain]);
            counts.collect::<Vec<_>>()
        };
        let open = self.groups.iter_mut().filter(|group| !group.left.is_empty());
        let group = open.min_by_key(|group| held(group))?;
        let (place, count) = group.left.last_mut()?;
        let place = *place;
        *count -= 1;
        if *count == 0 {
            group.left.pop();
        }
        for (&domain, all) in group.domains.iter().zip(&mut self.domains) {
            all.counts[domain] += 1;
        }
        Some(place)
    }
}

/// The value of `key` that a node has, or will have; where the launch decides, one that nothing else has.
fn domain(problem: &Problem, solution: &Solution, place: Place, key: &str) -> Arc<str> {
    let found = match place {
        Place::Existing(number) => problem.nodes[solution.existing[number].0].labels.get(key).cloned(),
        Place::New(number) if key == HOSTNAME => return format!("new {number}").into(),
        Place::New(number) => {
            let node = &solution.new_nodes[number];
            let one = &problem.catalogues[problem.pools[node.pool].catalogue][node.instance_type];
            let offering = &one.offerings[node.offering].requirements;
            let known = [&*node.requirements, offering, &one.requirements];
            known.into_iter().find_map(|all| all.single(key)).map(Arc::from)
        }
    };
    found.unwrap_or_else(|| format!("unknown {place:?}").into())
}
