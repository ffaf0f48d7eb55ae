//! What must hold at every moment of every day.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_api::conditions::nodeclaim;
use muster_api::nodepool::{Budget, BudgetNodes};
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

/// Reasons for which nodes are taken away by our own choice.
const VOLUNTARY: [&str; 3] = ["Empty", "Underutilized", "Drifted"];

/// What is remembered from one moment to the next.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Instances without a claim, since when.
    orphans: BTreeMap<String, Timestamp>,
    /// Pods without a node, by UID, since when.
    waiting: BTreeMap<String, Timestamp>,
    /// What was said already.
    said: BTreeSet<String>,
    /// Claims that were to be disrupted at the last look.
    marked: BTreeSet<String>,
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

    /// Budgets of NodePools, and nodes that are given back before they had the time to be of use: both when a disruption
    /// begins, by what its pool says then.
    fn disruptions(&mut self, world: &World, broken: &mut Vec<String>) {
        let now = world.clock.now();
        let mut away: BTreeMap<&str, usize> = BTreeMap::new();
        let mut begun: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut marked = BTreeSet::new();
        for (path, claim) in world.api.claims.iter() {
            let pool = claim.metadata.labels.as_ref().and_then(|all| all.get(muster_api::labels::NODEPOOL));
            let pool = pool.map_or("", String::as_str);
            let reason = condition(claim, nodeclaim::DISRUPTION_REASON).filter(|one| one.status == "True");
            let is_leaving = claim.metadata.deletion_timestamp.is_some();
            if is_leaving || reason.is_some() {
                *away.entry(pool).or_default() += 1;
            }
            let Some(reason) = reason.map(|one| one.reason.as_str()) else { continue };
            marked.insert(path.name.clone());
            if self.marked.contains(&path.name) || !VOLUNTARY.contains(&reason) {
                continue;
            }
            begun.entry(pool).or_default().push(path.name.as_str());
            let there = world.api.pools.get(&Path::bare(pool));
            let wait = there.and_then(|pool| pool.spec.disruption.consolidate_after.duration()).unwrap_or_default();
            let since = condition(claim, nodeclaim::INITIALIZED).map(|one| one.last_transition_time.0);
            if let Some(since) = since.filter(|since| reason != "Drifted" && now < after(*since, wait)) {
                broken.push(format!(
                    "NodeClaim {path} is up since {since}, and is given back ({reason}) before its consolidateAfter"
                ));
            }
        }
        for (pool, claims) in begun {
            let total = world.api.claims.values().filter(|claim| pool_of(claim) == pool).count();
            let there = world.api.pools.get(&Path::bare(pool));
            let budgets = there.map(|pool| pool.spec.disruption.budgets.clone()).unwrap_or_default();
            // Budgets with a schedule or with reasons are the engine's tests' business.
            let shares = budgets.iter().filter(|one| one.schedule.is_none() && one.reasons.is_empty());
            let most = shares.filter_map(Budget::parsed_nodes).map(|nodes| match nodes {
                BudgetNodes::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
                BudgetNodes::Percent(percent) => (total * usize::from(percent)).div_ceil(100),
            });
            let most = most.min().unwrap_or(usize::MAX);
            let count = away.get(pool).copied().unwrap_or(0);
            if count > most {
                broken.push(format!(
                    "{count} nodes of NodePool {pool} are on their way out with {}, and its budget is {most} of {total}",
                    claims.join(", ")
                ));
            }
        }
        self.marked = marked;
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

fn pool_of(claim: &NodeClaim) -> &str {
    let labels = claim.metadata.labels.as_ref();
    labels.and_then(|all| all.get(muster_api::labels::NODEPOOL)).map_or("", String::as_str)
}
