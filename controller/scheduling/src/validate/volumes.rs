//! Check of the volumes of nodes to launch.

use std::collections::{BTreeMap, BTreeSet};

use super::violation::{Findings, Place, Promise};
use crate::model::{Problem, Resource};
use crate::solution::NewNode;

/// Checks that each type that the node may be launched as can attach the volumes of its pods.
pub(super) fn check(problem: &Problem, node: &NewNode, place: Place, findings: &mut Findings) {
    let mut claims: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for attachment in node.pods.iter().flat_map(|&pod| &problem.spec_of(pod).attachments) {
        claims.entry(&attachment.driver).or_default().insert(&attachment.claim);
    }
    let types = &problem.catalogues[problem.pools[node.pool].catalogue];
    for (driver, claims) in claims {
        let resource = Resource::attachable(driver);
        let holds = |kind: &&usize| {
            let capacity = &types[**kind].capacity;
            !capacity.contains(&resource) || i64::try_from(claims.len()).is_ok_and(|all| all <= capacity.get(&resource))
        };
        if let Some(kind) = node.alternatives.iter().find(|kind| !holds(kind)) {
            let text = format!("{driver}: type {kind} cannot attach {} volumes", claims.len());
            findings.note(place, Promise::AttachLimits, text);
        }
    }
}
