//! Invariants that are checked at every moment of a simulation.

mod disruptions;
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_manifest::InputError;

use self::disruptions::Leaving;
use self::pods::Waits;
use super::controller::Controller;
use super::trace::Event;
use super::world::World;

/// Maximum lifetime of an instance without a claim: two runs of the garbage collector, and downtime of the controller.
const ORPHANED: Duration = Duration::from_secs(10 * 60);
/// Maximum wait of a pod that can be scheduled: a batch, a launch that is first refused all capacity, a machine that
/// never joins and is given up, and its replacement.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// Time after which nothing of deleted objects may be left: pods end, volumes are detached, instances end.
pub(crate) const CLEARED: Duration = Duration::from_secs(30 * 60);

/// State kept between two checks.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Instances without a claim, with the time since when.
    orphans: BTreeMap<String, Timestamp>,
    waits: Waits,
    leaving: Leaving,
    /// Messages reported already.
    said: BTreeSet<String>,
    /// Latest time at which pods waited for a reason outside the controller.
    excused_at: Option<Timestamp>,
}

// === impl Checks ===

impl Checks {
    /// Records that pods have to wait until then for a reason outside the controller.
    pub(crate) fn excuse(&mut self, until: Timestamp) {
        self.excused_at = self.excused_at.max(Some(until));
    }

    /// Checks all invariants; `controller` is none while it is down.
    ///
    /// # Errors
    /// Fails if an object is invalid.
    pub(crate) fn look(&mut self, world: &mut World, controller: Option<&mut Controller>) -> Result<(), InputError> {
        let mut broken = Vec::new();
        self.instances(world, &mut broken);
        self.disruptions(world, &mut broken);
        let in_spite = world.api.take_evicted_in_spite();
        broken.extend(in_spite.iter().map(|path| format!("{path} was evicted although it is not to be disrupted")));
        self.pods(world, controller, &mut broken)?;
        let now = world.clock.now();
        for what in broken {
            if self.said.insert(what.clone()) {
                world.trace.add(now, Event::Broken { what });
            }
        }
        Ok(())
    }

    /// Checks that nothing is left after everything was deleted.
    pub(crate) fn end(world: &mut World) {
        let now = world.clock.now();
        let mut left = Vec::new();
        world.cloud.each(now, |instance, state| {
            if !state.is_ending() {
                left.push(format!("instance {}", instance.provider_id));
            }
        });
        left.extend(world.api.claims.iter().map(|(path, _)| format!("NodeClaim {path}")));
        left.extend(world.api.nodes.iter().map(|(path, _)| format!("Node {path}")));
        for what in left {
            world.trace.add(now, Event::Broken { what: format!("{what} is left although everything was deleted") });
        }
    }

    /// Checks that each claim has at most one instance, and each instance has a claim.
    fn instances(&mut self, world: &World, broken: &mut Vec<String>) {
        let now = world.clock.now();
        let owners: BTreeSet<&str> =
            world.api.claims.values().filter_map(|claim| claim.metadata.uid.as_deref()).collect();
        let mut alive: BTreeMap<String, String> = BTreeMap::new();
        let mut orphans = BTreeMap::new();
        world.cloud.each(now, |instance, state| {
            if state.is_ending() {
                return;
            }
            let uid = instance.token.as_ref().map(|token| token.claim_uid.clone()).unwrap_or_default();
            let id = instance.provider_id.clone();
            if !owners.contains(uid.as_str()) {
                let since = self.orphans.get(&id).copied().unwrap_or(now);
                if now >= after(since, ORPHANED) {
                    broken.push(format!("instance {id} runs without a NodeClaim since {since}"));
                }
                orphans.insert(id.clone(), since);
            }
            if let Some(other) = alive.insert(uid.clone(), id.clone()) {
                broken.push(format!("the NodeClaim with UID {uid} has two instances: {other} and {id}"));
            }
        });
        self.orphans = orphans;
    }
}
