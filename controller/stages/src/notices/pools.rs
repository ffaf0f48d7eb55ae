//! NodePools whose requirements no instance type meets.

use std::collections::BTreeMap;

use muster_api::{NodePool, events};
use muster_scheduling::model::{Catalogue, PoolState, Problem, Requirements};

use super::event;
use crate::step::{Event, EventType, Subject};

/// Returns the events of the pools that could launch, had they a type to launch.
#[must_use]
pub fn incompatible(problem: &Problem, pools: &BTreeMap<&str, &NodePool>) -> Vec<Event> {
    let lacking = problem.pools.iter().filter(|pool| {
        let catalogue = problem.catalogues.get(pool.catalogue);
        pool.state == PoolState::Ready && catalogue.is_some_and(|catalogue| !has_any(catalogue, &pool.requirements))
    });
    let of_pool = lacking.filter_map(|pool| {
        let live = pools.get(&*pool.name)?;
        let uid = live.metadata.uid.clone().unwrap_or_default();
        let about = Subject { kind: "NodePool".to_owned(), namespace: None, name: pool.name.to_string(), uid };
        let message = "NodePool requirements filtered out all compatible available instance types";
        Some(event(about, EventType::Warning, events::NO_COMPATIBLE_INSTANCE_TYPES, message))
    });
    of_pool.collect()
}

fn has_any(catalogue: &Catalogue, requirements: &Requirements) -> bool {
    let mut types = catalogue.types().iter().filter(|one| one.requirements.intersects(requirements));
    types.any(|one| {
        let mut offerings = one.offerings.iter().filter(|offering| offering.launchable());
        offerings.any(|offering| offering.requirements.intersects(requirements))
    })
}
