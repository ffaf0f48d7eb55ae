//! Requirements of the NodeClaim of a planned node: those that it is planned with, as far as its launch can keep them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::labels::CAPACITY_TYPE;
use crate::model::{InstanceType, Operator, Problem, Requirement, Requirements};
use crate::solution::NewNode;

const RESERVED: &str = "reserved";

impl NewNode {
    /// Returns the requirements of its NodeClaim. A `minValues` that was lowered is the number of values that its types
    /// have, and a node that is planned without reservation may not be launched into one, which is meant for another.
    pub fn claim_requirements(&self, problem: &Problem) -> Requirements {
        let types = problem.catalogues[problem.pools[self.pool].catalogue].types();
        let candidates: Vec<&InstanceType> = self.alternatives.iter().filter_map(|&index| types.get(index)).collect();
        let mut all = Requirements::new();
        for (key, requirement) in self.requirements.iter() {
            let min_values = requirement.min_values.map(|wanted| match self.min_values_relaxed {
                Some(true) => wanted.min(distinct(key, &candidates)).max(1),
                _ => wanted,
            });
            let mut requirement = requirement.clone();
            requirement.min_values = min_values;
            all.add(Arc::clone(key), requirement);
        }
        let offering = types.get(self.instance_type).and_then(|one| one.offerings.get(self.offering));
        let is_reserved = offering.is_some_and(|offering| offering.reserved());
        let is_listed = all.get(CAPACITY_TYPE).is_some_and(|listed| listed.is_finite() && listed.has(RESERVED));
        let is_offered = || {
            let mut offerings = candidates.iter().flat_map(|one| &one.offerings);
            offerings.any(|offering| offering.reserved() && offering.launchable() && offering.reservation_capacity > 0)
        };
        // The launch of a static node chooses its type.
        let is_static = problem.pools[self.pool].missing_replicas.is_some();
        if !is_static && !is_reserved && (is_listed || is_offered()) {
            all.add(CAPACITY_TYPE, Requirement::new(Operator::NotIn, [RESERVED]));
        }
        all
    }
}

/// Returns the number of distinct values of the label among the types.
fn distinct(key: &str, types: &[&InstanceType]) -> u32 {
    let of_type = |one: &InstanceType| -> Vec<Arc<str>> {
        let own = one.requirements.get(key).into_iter();
        let offered = one.offerings.iter().filter(|offering| offering.launchable());
        let all = own.chain(offered.filter_map(|offering| offering.requirements.get(key)));
        all.filter(|one| one.is_finite()).flat_map(|one| one.values().cloned()).collect()
    };
    let all: BTreeSet<Arc<str>> = types.iter().flat_map(|one| of_type(one)).collect();
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{CAPACITY_RESERVATION_ID, INSTANCE_TYPE, ZONE};
    use crate::model::{
        Labels, MinValuesPolicy, NodePool, Offering, Options, Pod, PodSpec, PoolState, Resource, Resources,
    };
    use crate::solve;

    fn only(key: &str, value: &str) -> (String, Requirement) {
        (key.to_owned(), Requirement::new(Operator::In, [value]))
    }

    /// One type with one reserved instance, and two pods of which each takes a node.
    fn problem(requirements: Requirements) -> Problem {
        let amounts = |cpu: i64| Resources::from_iter([(Resource::Cpu, cpu), (Resource::Pods, 10)]);
        let offering = |capacity_type: &str, reservation: Option<&str>, price: f64| Offering {
            requirements: [only(ZONE, "a"), only(CAPACITY_TYPE, capacity_type)]
                .into_iter()
                .chain(reservation.map(|id| only(CAPACITY_RESERVATION_ID, id)))
                .collect(),
            price: Some(price),
            available: true,
            reservation_capacity: u32::from(reservation.is_some()),
        };
        let either = Requirement::new(Operator::In, ["on-demand", RESERVED]);
        let large = InstanceType {
            name: "m.xlarge".into(),
            requirements: [only(ZONE, "a"), (CAPACITY_TYPE.to_owned(), either), only(INSTANCE_TYPE, "m.xlarge")]
                .into_iter()
                .collect(),
            capacity: amounts(4000),
            overhead: Resources::new(),
            offerings: vec![offering(RESERVED, Some("cr-1"), 0.0001), offering("on-demand", None, 0.2)],
        };
        let mut problem = Problem::default();
        problem.catalogues.push(vec![large].into());
        problem.pools.push(NodePool {
            name: "general".into(),
            weight: 0,
            requirements,
            labels: Labels::default(),
            annotations: Labels::default(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            limits: None,
            usage: Resources::new(),
            catalogue: 0,
            state: PoolState::Ready,
            missing_replicas: None,
        });
        for name in ["a", "b"] {
            let spec = Resources::from_iter([(Resource::Cpu, 3000), (Resource::Pods, 1)]);
            let spec = problem.intern(PodSpec::unconstrained("shop", spec));
            problem.pods.push(Pod { name: format!("shop/{name}").into(), spec });
        }
        problem
    }

    #[test]
    fn a_node_without_reservation_is_not_launched_into_one() {
        let problem = problem(Requirements::new());
        let solution = solve(&problem, &Options::default());
        let mut lists: Vec<(bool, bool)> = solution
            .new_nodes
            .iter()
            .map(|node| {
                let offering = &problem.catalogues[0].types()[node.instance_type].offerings[node.offering];
                let wanted = node.claim_requirements(&problem);
                (offering.reserved(), wanted.get(CAPACITY_TYPE).is_none_or(|listed| listed.has(RESERVED)))
            })
            .collect();
        lists.sort_unstable();
        assert_eq!(lists, [(false, false), (true, true)]);
    }

    #[test]
    fn a_lowered_minimum_is_that_of_the_claim() {
        let any = Requirement::any().with_min_values(Some(5));
        let problem = problem([(INSTANCE_TYPE.to_owned(), any)].into_iter().collect());
        let options = Options { min_values: MinValuesPolicy::BestEffort, ..Options::default() };
        let solution = solve(&problem, &options);
        assert_eq!(solution.new_nodes.len(), 2);
        for node in &solution.new_nodes {
            assert_eq!(node.min_values_relaxed, Some(true));
            let wanted = node.claim_requirements(&problem);
            assert_eq!(wanted.get(INSTANCE_TYPE).and_then(|wanted| wanted.min_values), Some(1));
        }
    }
}
