//! Checks of disruption budgets, pauses and `consolidateAfter`, applied when a disruption begins, with the pool's
//! settings at that time.

use std::collections::{BTreeMap, BTreeSet};

use croner::parser::CronParser;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use muster_api::conditions::nodeclaim;
use muster_api::nodepool::{Budget, BudgetNodes, DisruptionReason};
use muster_api::{NodeClaim, NodePool, annotations, labels};
use muster_cloud::after;
use muster_stages::disruption::mark_of;
use muster_stages::lifecycle::pause::Pause;
use muster_stages::lifecycle::{condition, is_true};

use super::Checks;
use crate::api::Path;
use crate::world::World;

/// Reasons of voluntary disruptions.
const VOLUNTARY: [DisruptionReason; 4] =
    [DisruptionReason::Empty, DisruptionReason::Underutilized, DisruptionReason::Drifted, DisruptionReason::Unhealthy];

/// State kept between two checks: names of claims and commands.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Claims that a command had marked.
    marked: BTreeSet<String>,
    /// Running commands.
    commands: BTreeSet<String>,
    /// Claims whose nodes were being rebooted.
    rebooting: BTreeSet<String>,
    /// Claims that budgets count as disrupted.
    away: BTreeSet<String>,
    /// Those of them that are removed or rebooted, and not only not ready.
    going: BTreeSet<String>,
}

// === impl Checks ===

impl Checks {
    /// Checks the disruptions that have begun since the last check.
    pub(super) fn disruptions(&mut self, world: &World, broken: &mut Vec<String>) {
        let mut begun: BTreeMap<&str, BTreeMap<DisruptionReason, Vec<&str>>> = BTreeMap::new();
        let mut now = Leaving::default();
        let mut begun_commands = BTreeSet::new();
        for (path, claim) in world.api.claims.iter() {
            let mark = mark_of(claim);
            let is_rebooting = is_true(claim, nodeclaim::REBOOTING);
            let is_leaving = claim.metadata.deletion_timestamp.is_some() || mark.is_some() || is_rebooting;
            if counts(claim) && is_leaving {
                now.going.insert(path.name.clone());
            }
            if counts(claim) && (is_leaving || !is_ready(node_of(claim, world))) {
                now.away.insert(path.name.clone());
            }
            if is_rebooting && now.rebooting.insert(path.name.clone()) && !self.leaving.rebooting.contains(&path.name) {
                let begun = begun.entry(pool_of(claim)).or_default();
                begun.entry(DisruptionReason::Unhealthy).or_default().push(path.name.as_str());
            }
            let Some(mark) = mark else { continue };
            now.marked.insert(path.name.clone());
            let voluntary = VOLUNTARY.into_iter().find(|one| format!("{one:?}") == mark.cause.name());
            // Nodes that were never initialized are repaired without regard to budgets.
            let voluntary = voluntary.filter(|_| !mark.cause.forceful());
            // A command interrupted by a crash continues: it was decided when its first claim was marked.
            let is_new = now.commands.insert(mark.command.clone()) && !self.leaving.commands.contains(&mark.command)
                || begun_commands.contains(&mark.command);
            let Some(reason) = voluntary.filter(|_| is_new && !self.leaving.marked.contains(&path.name)) else {
                continue;
            };
            begun_commands.insert(mark.command);
            if is_rebooting {
                broken.push(format!("NodeClaim {path} is disrupted ({reason:?}) while its node is being rebooted"));
            }
            begun.entry(pool_of(claim)).or_default().entry(reason).or_default().push(path.name.as_str());
            broken.extend(early(claim, reason, world));
        }
        for (pool, begun) in begun {
            let Some(there) = world.api.pools.get(&Path::bare(pool)) else { continue };
            if paused(there, world).disruption {
                let claims: Vec<&str> = begun.values().flatten().copied().collect();
                broken.push(format!("{} are disrupted though NodePool {pool} is paused", claims.join(", ")));
            }
            // Claims that were and still are disrupted: involuntary disruptions at this moment may have followed the
            // decision.
            let mine =
                |name: &&str| world.api.claims.get(&Path::bare(*name)).is_some_and(|claim| pool_of(claim) == pool);
            let both = |before: &BTreeSet<String>, now: &'_ BTreeSet<String>| -> BTreeSet<String> {
                before.intersection(now).filter(|name| mine(&name.as_str())).cloned().collect()
            };
            // Nodes that are not ready are what repair is for.
            let unready: BTreeSet<String> =
                &both(&self.leaving.away, &now.away) - &both(&self.leaving.going, &now.going);
            let mut gone: BTreeSet<String> = both(&self.leaving.going, &now.going);
            let total = world.api.claims.values().filter(|claim| pool_of(claim) == pool && counts(claim)).count();
            // A budget applies when a node is chosen for its reason, and does not limit later choices for other
            // reasons. Among choices of one moment, checking the strictest budget first finds whether all may have been
            // kept.
            let mut chosen: Vec<(usize, DisruptionReason, Vec<&str>)> = begun
                .into_iter()
                .map(|(reason, claims)| (allowed(there, reason, total, world.clock.now()), reason, claims))
                .collect();
            chosen.sort_unstable();
            for (most, reason, claims) in chosen {
                gone.extend(claims.iter().map(|claim| (*claim).to_owned()));
                let mut count = gone.len();
                if reason != DisruptionReason::Unhealthy {
                    count += unready.iter().filter(|name| !gone.contains(*name)).count();
                }
                if count > most {
                    broken.push(format!(
                        "{count} nodes of NodePool {pool} are away with {} ({reason:?}), and its budgets allow {most} of {total}",
                        claims.join(", ")
                    ));
                }
            }
        }
        self.leaving = now;
    }
}

/// Returns a message if a node is disrupted before its `consolidateAfter` has passed.
fn early(claim: &NodeClaim, reason: DisruptionReason, world: &World) -> Option<String> {
    let there = world.api.pools.get(&Path::bare(pool_of(claim)));
    let wait = there.and_then(|pool| pool.spec.disruption.consolidate_after.duration()).unwrap_or_default();
    let since = condition(claim, nodeclaim::INITIALIZED)?.last_transition_time.0;
    let waits = [DisruptionReason::Empty, DisruptionReason::Underutilized].contains(&reason);
    let is_early = waits && world.clock.now() < after(since, wait);
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    is_early.then(|| {
        format!("NodeClaim {name} is up since {since}, and is given back ({reason:?}) before its consolidateAfter")
    })
}

/// Returns the number of nodes that may be disrupted for a reason, counted as in Karpenter: the minimum of the active
/// budgets for that reason; `total` is the number of initialized nodes that are not being terminated.
fn allowed(pool: &NodePool, reason: DisruptionReason, total: usize, now: Timestamp) -> usize {
    let budgets = pool.spec.disruption.budgets.iter();
    let concerned = budgets.filter(|one| one.reasons.is_empty() || one.reasons.contains(&reason));
    let shares = concerned.filter(|one| is_in_force(one, now)).filter_map(Budget::parsed_nodes);
    let counts = shares.map(|nodes| match nodes {
        BudgetNodes::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
        BudgetNodes::Percent(percent) => (total * usize::from(percent)).div_ceil(100),
    });
    counts.min().unwrap_or(usize::MAX)
}

/// Returns true if the budget's schedule has fired within its duration.
fn is_in_force(budget: &Budget, now: Timestamp) -> bool {
    let Some(schedule) = &budget.schedule else { return true };
    let Ok(schedule) = CronParser::builder().build().parse(schedule) else { return true };
    let duration = budget.duration.and_then(|span| SignedDuration::try_from(span.0).ok()).unwrap_or_default();
    let Ok(from) = now.checked_sub(duration) else { return true };
    let hit = schedule.find_next_occurrence(&from.to_zoned(TimeZone::UTC), false);
    hit.is_ok_and(|hit| hit.timestamp() <= now)
}

fn counts(claim: &NodeClaim) -> bool {
    is_true(claim, nodeclaim::INITIALIZED) && !is_true(claim, nodeclaim::INSTANCE_TERMINATING)
}

fn node_of<'w>(claim: &NodeClaim, world: &'w World) -> Option<&'w Node> {
    let name = claim.status.as_ref()?.node_name.as_deref()?;
    world.api.nodes.get(&Path::bare(name))
}

fn is_ready(node: Option<&Node>) -> bool {
    let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Returns the pause of the pool, including the cluster-wide one.
fn paused(pool: &NodePool, world: &World) -> Pause {
    let own = pool.metadata.annotations.as_ref().and_then(|all| all.get(annotations::PAUSE));
    let namespace = world.api.others.get("Namespace").and_then(|store| store.get(&Path::bare(crate::NAMESPACE)));
    let all = namespace.and_then(|it| it.metadata.annotations.as_ref()?.get(annotations::PAUSE));
    [own, all].into_iter().flatten().fold(Pause::NOTHING, |pause, text| pause | Pause::read(text).0)
}

fn pool_of(claim: &NodeClaim) -> &str {
    let labels = claim.metadata.labels.as_ref();
    labels.and_then(|all| all.get(labels::NODEPOOL)).map_or("", String::as_str)
}
