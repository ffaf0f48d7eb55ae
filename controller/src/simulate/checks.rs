//! What must hold at every moment of every day.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_cloud::after;

use super::api::{Path, node_of};
use super::trace::Event;
use super::world::{World, is_waiting};
use crate::lifecycle::condition;

/// For how long an instance may run that no claim owns: two looks of the garbage collector, and a controller that is away.
const ORPHANED: Duration = Duration::from_secs(10 * 60);
/// For how long a pod may wait that nothing keeps from a node: a batch, a launch that is refused everything first, a
/// machine that never joins and is given up, and another one.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// What is remembered from one moment to the next.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Instances without a claim, since when.
    orphans: BTreeMap<String, Timestamp>,
    /// Pods without a node, by UID, since when.
    waiting: BTreeMap<String, Timestamp>,
    /// What was said already.
    said: BTreeSet<String>,
    /// Claims that were being deleted at the last look.
    leaving: BTreeSet<String>,
    /// When something last happened that keeps pods waiting and is nobody's fault.
    excused_at: Option<Timestamp>,
}

// === impl Checks ===

impl Checks {
    /// Notes that something happened which keeps pods waiting through no fault of the controller.
    pub(crate) fn excuse(&mut self, until: Timestamp) {
        self.excused_at = self.excused_at.max(Some(until));
    }

    /// Looks whether everything holds that must.
    pub(crate) fn look(&mut self, world: &mut World) {
        let mut broken = Vec::new();
        self.instances(world, &mut broken);
        self.disruptions(world, &mut broken);
        self.pods(world, &mut broken);
        let now = world.clock.now();
        for what in broken {
            if self.said.insert(what.clone()) {
                world.trace.add(now, Event::Broken { what });
            }
        }
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

    /// Budgets of NodePools, and nodes that were not given the time to be of use.
    fn disruptions(&mut self, world: &World, broken: &mut Vec<String>) {
        let now = world.clock.now();
        let mut leaving = BTreeSet::new();
        for (path, claim) in world.api.claims.iter().filter(|(_, claim)| claim.metadata.deletion_timestamp.is_some()) {
            leaving.insert(path.name.clone());
            if self.leaving.contains(&path.name) {
                continue;
            }
            let reason = condition(claim, nodeclaim::DISRUPTION_REASON).filter(|one| one.status == "True");
            let Some(reason) = reason.map(|one| one.reason.clone()) else { continue };
            if reason != "Empty" && reason != "Underutilized" {
                continue;
            }
            let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(muster_api::labels::NODEPOOL));
            let pool = pool.and_then(|pool| world.api.pools.get(&Path::bare(pool.clone())));
            let wait = pool.and_then(|pool| pool.spec.disruption.consolidate_after.duration()).unwrap_or_default();
            let since = condition(claim, nodeclaim::INITIALIZED).map(|one| one.last_transition_time.0);
            if let Some(since) = since.filter(|since| now < after(*since, wait)) {
                broken.push(format!(
                    "NodeClaim {path} was up since {since}, and is given back ({reason}) before its consolidateAfter"
                ));
            }
        }
        self.leaving = leaving;
    }

    /// No pod waits for long that could have a node.
    fn pods(&mut self, world: &World, broken: &mut Vec<String>) {
        let now = world.clock.now();
        if let Some(until) = world.short_until() {
            self.excuse(until);
        }
        let mut waiting = BTreeMap::new();
        for (path, pod) in world.api.pods.iter().filter(|(_, pod)| is_waiting(pod) && node_of(pod).is_none()) {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let since = self.waiting.get(&uid).copied().unwrap_or(now);
            let from = self.excused_at.map_or(since, |excused| excused.max(since));
            let may_wait = pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MAY_WAIT));
            if now >= after(from, PATIENCE) && !may_wait {
                broken.push(format!("pod {path} waits for a node since {since}"));
            }
            waiting.insert(uid, since);
        }
        self.waiting = waiting;
    }
}

/// On pods that no node can hold: they may wait.
const MAY_WAIT: &str = "simulation.muster.dev/may-wait";
