//! What cannot wait: the cloud takes a node back, a node is broken, a node is too old. Budgets, pods and owners have no say.
//! Where the pods go is planned all the same, so that replacements are up before old nodes go.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::consolidate::MOST_TOGETHER;
use super::decision::{Block, Method};
use super::estate::{Cause, Member};
use super::pass::Pass;
use super::world::Trial;

/// Of a pool, more than this share may be broken before nobody believes it and nothing is repaired: a fifth, rounded up.
const REPAIRED_AT_MOST: (u64, u64) = (1, 5);

/// For how long a node that is too old waits for places for its pods: capacity comes back, and other nodes come up. As long
/// as Karpenter waits for a replacement; its own expiration waits for nothing.
pub(crate) const LATE: SignedDuration = SignedDuration::from_mins(10);

/// When a node that expires then no longer waits.
fn late(expires: Timestamp) -> Timestamp {
    expires.checked_add(LATE).unwrap_or(Timestamp::MAX)
}

/// Why nodes go, and how that was found.
type Why = (Cause, Method);

impl Pass<'_> {
    /// What cannot wait, by why: which comes first, and the order within it.
    pub(super) fn forced(&mut self) -> [(Why, Vec<usize>); 3] {
        let members = self.members();
        let interrupted = |member: &Member| member.interrupted.is_some();
        let broken: Vec<usize> = if self.world.settings.node_repair { self.broken() } else { Vec::new() };
        let now = self.world.now;
        let expired = |member: &Member| member.expires().is_some_and(|end| end <= now);
        let mut groups = [
            ((Cause::Interrupted, Method::Interruption), Vec::new()),
            ((Cause::Unhealthy, Method::Repair), Vec::new()),
            ((Cause::Expired, Method::Expiration), Vec::new()),
        ];
        for (node, member) in members {
            let group = match () {
                () if interrupted(member) => 0,
                () if broken.contains(&node) => 1,
                () if expired(member) => 2,
                () => continue,
            };
            groups[group].1.push(node);
        }
        let expires = |&node: &usize| (self.estate().members[node].as_ref().and_then(Member::expires), node);
        groups[2].1.sort_by_key(expires);
        groups
    }

    /// Takes away what cannot wait; it takes no pods any more.
    pub(super) fn forceful(&mut self, forced: [(Why, Vec<usize>); 3]) {
        for (why, nodes) in forced {
            let (fixed, others): (Vec<usize>, Vec<usize>) = nodes.into_iter().partition(|&node| self.is_static(node));
            for node in fixed {
                let trial = self.attempt_static(node);
                let launches = trial.solution.new_nodes.clone();
                self.accept(why, &trial, launches);
            }
            for company in others.chunks(MOST_TOGETHER) {
                for part in self.world.attempt_anyway(company).parts() {
                    if why.0 == Cause::Expired && self.waits_for_places(&part) {
                        continue;
                    }
                    let launches = part.solution.new_nodes.clone();
                    self.accept(why, &part, launches);
                }
            }
        }
    }

    /// Whether pods of nodes that are too old find no place, and these are not so much too old that they go all the same;
    /// notes it.
    pub(super) fn waits_for_places(&mut self, part: &Trial) -> bool {
        let Some(homeless) = part.solution.unschedulable.first() else { return false };
        let expired = part.nodes.iter().filter_map(|&node| self.estate().members[node].as_ref()?.expires());
        let Some(due) = expired.min().map(late) else { return false };
        if due <= self.world.now {
            return false;
        }
        let pod = self.world.pod(part.pods[homeless.pod]).name;
        let message = format!("its time is up, but pod `{pod}` would find no place; it goes all the same at {due}");
        part.nodes.iter().for_each(|&node| self.keep(node, Block::PodsWouldNotFit, message.clone()));
        true
    }

    /// Whether the node's pool has a fixed number of nodes.
    pub(super) fn is_static(&self, node: usize) -> bool {
        let pool = self.estate().members[node].as_ref().and_then(|member| member.pool);
        pool.is_some_and(|pool| self.estate().problem.pools[pool].missing_replicas.is_some())
    }

    /// Nodes that have been broken for too long, in pools of which not too many are.
    fn broken(&mut self) -> Vec<usize> {
        let now = self.world.now;
        let ails = |member: &Member| {
            member.ailment.as_ref().is_some_and(|ailment| now.duration_since(ailment.since) >= ailment.tolerated)
        };
        let members = self.members();
        let of_pool = |pool: &Arc<str>| {
            let nodes = members.iter().filter(|(_, member)| member.pool_name == *pool);
            nodes.fold((0_u64, 0_u64), |(all, sick), (_, member)| (all + 1, sick + u64::from(ails(member))))
        };
        let mut broken = Vec::new();
        for (node, member) in members.iter().filter(|(_, member)| ails(member)) {
            let (all, sick) = of_pool(&member.pool_name);
            let (part, whole) = REPAIRED_AT_MOST;
            if sick <= (all * part).div_ceil(whole) {
                broken.push(*node);
                continue;
            }
            let condition = member.ailment.as_ref().map_or("", |ailment| &ailment.condition);
            let message = format!(
                "it is to be repaired ({condition}), but {sick} of {all} nodes of NodePool `{}` are broken, and more than a fifth points to another cause",
                member.pool_name
            );
            self.keep(*node, Block::Budget, message);
        }
        broken
    }
}
