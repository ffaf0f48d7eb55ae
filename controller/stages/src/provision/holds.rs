//! Held launches by NodePool, as the pool's status reports them.
//!
//! ```text
//!   pods whose launches are held ──► their sets ──► fruitless NodeClaims of each ──► the NodePools of these
//! ```

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use muster_scheduling::model::Pod;

use super::fruitless::Fruitless;
use super::{Round, claims};

/// Hold on launches of a NodePool, whose last nodes received none of the pods that they were launched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchHold {
    /// Time at which the next node is tried.
    pub until: Timestamp,
    /// Number of sets of pods for which launches are held.
    pub sets: usize,
    /// Reason of one of them.
    pub why: String,
}

/// Returns the holds by NodePool. `held` are pods with the end of the hold and its reason.
pub(super) fn by_pool(
    round: &Round<'_>,
    held: &[(Pod, Timestamp, String)],
    fruitless: &Fruitless,
) -> BTreeMap<String, LaunchHold> {
    let mut holds: BTreeMap<String, LaunchHold> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (pod, until, why) in held {
        let Some(set) = round.view.pending_pod(&pod.name).map(|one| &*one.set) else { continue };
        if !seen.insert(set) {
            continue;
        }
        let prefixes = fruitless.prefixes_of(set);
        for &pool in round.pools.keys().filter(|pool| prefixes.contains(claims::prefix(pool))) {
            match holds.get_mut(pool) {
                Some(hold) => {
                    hold.sets += 1;
                    hold.until = hold.until.min(*until);
                }
                None => {
                    holds.insert(pool.to_owned(), LaunchHold { until: *until, sets: 1, why: why.clone() });
                }
            }
        }
    }
    holds
}
