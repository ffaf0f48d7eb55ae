//! Plain first fit for workloads with rules about hosts only: the largest pod first, each to the first node that takes it,
//! a new one of the type on which such a pod costs least. Written apart from the engine, to hold it against.

use muster_scheduling::labels::HOSTNAME;
use muster_scheduling::model::*;

struct Node {
    room: Vec<i64>,
    pods: Vec<usize>,
}

fn row(requests: &Resources) -> Vec<i64> {
    [Resource::Cpu, Resource::Memory, Resource::Pods].iter().map(|resource| requests.get(resource)).collect()
}

/// Returns true if anti-affinity and spreads over hosts, read as final states, let `pod` join `others`.
fn joins(problem: &Problem, pod: usize, others: &[usize]) -> bool {
    let own = problem.spec_of(pod);
    let refuses = |one: &PodSpec, other: &PodSpec| {
        let terms = one.anti_affinity.iter().filter(|term| &*term.topology_key == HOSTNAME);
        terms.into_iter().any(|term| term.selector.matches(&other.labels))
    };
    let crowded = |spec: &PodSpec| {
        spec.spread.iter().filter(|spread| &*spread.topology_key == HOSTNAME).any(|spread| {
            let all = others.iter().map(|&other| problem.spec_of(other)).chain([own]);
            all.filter(|spec| spread.selector.matches(&spec.labels)).count() > spread.max_skew as usize
        })
    };
    let clashes = others.iter().any(|&other| {
        let other = problem.spec_of(other);
        refuses(own, other) || refuses(other, own) || crowded(other)
    });
    !clashes && !crowded(own)
}

/// USD per hour of plain first fit, and its nodes.
pub fn price(problem: &Problem) -> (f64, usize) {
    let types: Vec<(Vec<i64>, f64)> = problem.catalogues[0]
        .iter()
        .map(|one| {
            let room: Vec<i64> =
                row(&one.capacity).iter().zip(row(&one.overhead)).map(|(all, less)| all - less).collect();
            (room, one.offerings[0].price.expect("a price"))
        })
        .collect();
    let fits = |size: &[i64], room: &[i64]| size.iter().zip(room).all(|(size, room)| size <= room);
    let sizes: Vec<Vec<i64>> = (0..problem.pods.len()).map(|pod| row(&problem.spec_of(pod).requests)).collect();
    let mut order: Vec<usize> = (0..problem.pods.len()).collect();
    order.sort_by_key(|&pod| (std::cmp::Reverse((sizes[pod][0], sizes[pod][1])), pod));
    let (mut nodes, mut total): (Vec<Node>, f64) = (Vec::new(), 0.0);
    let mut first_open = 0;
    for pod in order {
        let size = &sizes[pod];
        while nodes.get(first_open).is_some_and(|node| node.room[0] < 50) {
            first_open += 1;
        }
        let found =
            nodes[first_open..].iter().position(|node| fits(size, &node.room) && joins(problem, pod, &node.pods));
        let at = found.map_or_else(
            || {
                let per_pod = |(room, price): &(Vec<i64>, f64)| {
                    let most = room.iter().zip(size).map(|(room, size)| room / size.max(&1)).min().unwrap_or(0);
                    price / most as f64
                };
                let holding = types.iter().filter(|(room, _)| fits(size, room));
                let (room, price) = holding.min_by(|a, b| per_pod(a).total_cmp(&per_pod(b))).expect("a type");
                nodes.push(Node { room: room.clone(), pods: Vec::new() });
                total += price;
                nodes.len() - 1
            },
            |at| at + first_open,
        );
        nodes[at].room.iter_mut().zip(size).for_each(|(room, size)| *room -= size);
        nodes[at].pods.push(pod);
    }
    (total, nodes.len())
}
