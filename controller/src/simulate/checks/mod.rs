//! What must hold at every moment of every day.

mod disruptions;
mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

use self::disruptions::Leaving;
use self::pods::Waits;
use super::controller::Controller;
use super::trace::Event;
use super::world::World;
use crate::manifest::InputError;

/// For how long an instance may run that no claim owns: two looks of the garbage collector, and a controller that is away.
const ORPHANED: Duration = Duration::from_secs(10 * 60);
/// For how long a pod may wait that nothing keeps from a node: a batch, a launch that is refused everything first, a
/// machine that never joins and is given up, and another one.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// After so long nothing may be left of what was deleted: pods end, volumes leave, instances end.
pub(crate) const CLEARED: Duration = Duration::from_secs(30 * 60);

/// What is remembered from one moment to the next.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Instances without a claim, since when.
    orphans: BTreeMap<String, Timestamp>,
    waits: Waits,
    leaving: Leaving,
    /// What was said already.
    said: BTreeSet<String>,
    /// When something last happened that keeps pods waiting and is nobody's fault.
    excused_at: Option<Timestamp>,
}

// === impl Checks ===

impl Checks {
    /// Notes that something happened which keeps pods waiting through no fault of the controller.
    pub(crate) fn excuse(&mut self, until: Timestamp) {
        self.excused_at = self.excused_at.max(Some(until));
    }

    /// Looks whether everything holds that must; `controller` is none while it is away.
    ///
    /// # Errors
    /// An object that makes no sense.
    pub(crate) fn look(&mut self, world: &mut World, controller: Option<&mut Controller>) -> Result<(), InputError> {
        let mut broken = Vec::new();
        self.instances(world, &mut broken);
        self.disruptions(world, &mut broken);
        self.pods(world, controller, &mut broken)?;
        let now = world.clock.now();
        for what in broken {
            if self.said.insert(what.clone()) {
                world.trace.add(now, Event::Broken { what });
            }
        }
        Ok(())
    }

    /// What must hold when everything has been deleted.
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

    /// One instance for a claim, and a claim for every instance.
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
