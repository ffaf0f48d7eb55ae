//! Disruption budgets: limits of NodePools on unavailable nodes, and of PodDisruptionBudgets on evictions.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::input::{BudgetLimit, Cause, DisruptionInput, NodeBudget, Window};

/// Causes to which budgets apply.
const VOLUNTARY: [Cause; 4] = [Cause::Empty, Cause::Underutilized, Cause::Drifted, Cause::Unhealthy];

/// Number of nodes that one pool allows to be unavailable for one cause.
#[derive(Debug, Clone, Default)]
struct Allowance {
    /// Maximum number of unavailable nodes.
    nodes: u64,
    /// The strictest budget, in words, and the time since which its schedule has been active, if it has one.
    rule: Option<(String, Option<Timestamp>)>,
}

/// The budgets at one time, and the part of them that commands have used.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    /// Allowances by pool and voluntary cause.
    allowed: Vec<[Allowance; 4]>,
    /// Nodes that are being removed or rebooted, by pool.
    away: Vec<u64>,
    /// Other nodes that are not ready, by pool. They do not count for their own repair.
    unready: Vec<u64>,
    /// Evictions of commands so far, by pod budget.
    evictions: Vec<u32>,
}

impl Ledger {
    pub(super) fn new(input: &DisruptionInput, now: Timestamp) -> Self {
        let pools = input.problem.pools.len();
        let (mut total, mut away, mut unready) = (vec![0_u64; pools], vec![0_u64; pools], vec![0_u64; pools]);
        for (node, managed_node) in input.problem.nodes.iter().zip(&input.managed_nodes) {
            let Some((managed_node, pool)) =
                managed_node.as_ref().and_then(|managed_node| Some((managed_node, managed_node.pool?)))
            else {
                continue;
            };
            // A node that is being rebooted has been initialized, and will be again; one whose instance ends does not
            // come back, and may keep its Node for minutes.
            if !managed_node.rebooting && (!node.initialized || managed_node.instance_ends) {
                continue;
            }
            let is_away = node.deleting || managed_node.rebooting;
            total[pool] += 1;
            away[pool] += u64::from(is_away);
            unready[pool] += u64::from(!is_away && !managed_node.ready);
        }
        let of_pool =
            |pool: usize| VOLUNTARY.map(|cause| Allowance::new(&input.policies[pool].budgets, cause, total[pool], now));
        let allowed = (0..pools).map(of_pool).collect();
        Self { allowed, away, unready, evictions: vec![0; input.pod_budgets.len()] }
    }

    /// Returns the number of nodes of `pool` that can still be disrupted for `cause`.
    pub(super) fn left(&self, pool: usize, cause: Cause) -> u64 {
        self.allowance(pool, cause).map_or(u64::MAX, |allowance| allowance.nodes.saturating_sub(self.gone(pool, cause)))
    }

    /// Returns the reason why none is left, and since when.
    pub(super) fn refusal(&self, pool: usize, cause: Cause) -> (String, Option<Timestamp>) {
        let rule = self.allowance(pool, cause).and_then(|allowance| allowance.rule.clone());
        let (rule, since) = rule.unwrap_or_default();
        let gone = self.gone(pool, cause);
        let nodes = if gone == 1 { "node is" } else { "nodes are" };
        (format!("{rule}, and {gone} {nodes} away already"), since)
    }

    /// Returns the number of nodes that count as unavailable for a cause.
    fn gone(&self, pool: usize, cause: Cause) -> u64 {
        self.away[pool] + if cause == Cause::Unhealthy { 0 } else { self.unready[pool] }
    }

    /// Counts one node of `pool` as unavailable, even if none is left.
    pub(super) fn take(&mut self, pool: Option<usize>) {
        if let Some(pool) = pool {
            self.away[pool] += 1;
        }
    }

    /// Returns the first pod budget that does not allow evicting all its pods on a node in addition to the evictions of
    /// earlier commands. The first node that needs a budget is always allowed: its pods are evicted one by one.
    pub(super) fn pods_left(&self, input: &DisruptionInput, node: usize) -> Option<usize> {
        let over = |&(budget, count): &(usize, u32)| {
            let taken = self.evictions[budget];
            taken > 0 && taken.saturating_add(count) > input.pod_budgets[budget].allowed
        };
        guarded(input, node).into_iter().find(over).map(|(budget, _)| budget)
    }

    /// Counts the evictions of a node.
    pub(super) fn evict(&mut self, input: &DisruptionInput, node: usize) {
        for (budget, count) in guarded(input, node) {
            self.evictions[budget] = self.evictions[budget].saturating_add(count);
        }
    }

    fn allowance(&self, pool: usize, cause: Cause) -> Option<&Allowance> {
        let at = VOLUNTARY.iter().position(|&known| known == cause)?;
        Some(&self.allowed[pool][at])
    }
}

/// Returns the number of nodes that can still be disrupted by pool (its index) and cause: the budgets minus the
/// unavailable nodes.
pub fn allowed_disruptions(input: &DisruptionInput, now: Timestamp) -> Vec<(usize, Cause, u64)> {
    let ledger = Ledger::new(input, now);
    let pools = 0..input.problem.pools.len();
    pools.flat_map(|pool| VOLUNTARY.map(|cause| (pool, cause, ledger.left(pool, cause)))).collect()
}

/// Returns the number of evictable pods of a node, by pod budget.
fn guarded(input: &DisruptionInput, node: usize) -> BTreeMap<usize, u32> {
    let mut counts = BTreeMap::new();
    let node_pods = input.managed_nodes[node].iter().flat_map(|managed_node| &managed_node.node_pods);
    for budget in node_pods.filter(|node_pod| node_pod.evictable).flat_map(|node_pod| &node_pod.budgets) {
        *counts.entry(*budget).or_default() += 1;
    }
    counts
}

impl Allowance {
    /// Returns the minimum that an active budget allows of `total` nodes.
    fn new(budgets: &[NodeBudget], cause: Cause, total: u64, now: Timestamp) -> Self {
        let mut least = Self { nodes: u64::MAX, rule: None };
        for budget in budgets.iter().filter(|budget| budget.causes.is_empty() || budget.causes.contains(&cause)) {
            let (since, window) = match &budget.window {
                Window::Always => (None, String::new()),
                Window::After(schedule, duration) => match schedule.open_since(now, *duration) {
                    Some(since) => (Some(since), format!(" since {since} (schedule `{schedule}`)")),
                    None => continue,
                },
                Window::Unreadable(why) => {
                    let rule = format!("a budget allows no node, since {why}");
                    return Self { nodes: 0, rule: Some((rule, None)) };
                }
            };
            let nodes = budget.nodes.of(total);
            if nodes < least.nodes {
                let share = match budget.nodes {
                    BudgetLimit::Count(count) => format!("`nodes: {count}`"),
                    BudgetLimit::Percent(percent) => format!("`nodes: {percent}%`"),
                };
                let word = if nodes == 1 { "node" } else { "nodes" };
                let rule = format!("budget {share}{window} allows {nodes} {word} of {total} for {}", cause.name());
                least = Self { nodes, rule: Some((rule, since)) };
            }
        }
        least
    }
}

impl BudgetLimit {
    /// Returns the number of nodes, out of `total`. Percentages round up, so that a small pool is not stuck.
    fn of(self, total: u64) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => total.saturating_mul(percent).div_ceil(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::schedule::Schedule;
    use super::*;

    fn budget(nodes: BudgetLimit, causes: &[Cause], window: Window) -> NodeBudget {
        NodeBudget { nodes, causes: causes.to_vec(), window }
    }

    fn allowed(budgets: &[NodeBudget], cause: Cause, total: u64, now: &str) -> u64 {
        Allowance::new(budgets, cause, total, now.parse().unwrap()).nodes
    }

    #[test]
    fn the_least_budget_in_force_counts() {
        let nights = Window::After(Schedule::parse("0 22 * * *").unwrap(), SignedDuration::from_hours(8));
        let budgets = [
            budget(BudgetLimit::Percent(10), &[], Window::Always),
            budget(BudgetLimit::Count(0), &[Cause::Drifted], nights),
        ];
        for (cause, now, total, expected) in [
            (Cause::Empty, "2026-11-20T12:00:00Z", 21, 3),
            (Cause::Drifted, "2026-11-20T12:00:00Z", 20, 2),
            (Cause::Drifted, "2026-11-20T23:00:00Z", 20, 0),
            (Cause::Underutilized, "2026-11-20T23:00:00Z", 1, 1),
        ] {
            assert_eq!(allowed(&budgets, cause, total, now), expected, "{cause:?} at {now}");
        }
    }

    #[test]
    fn a_schedule_that_nobody_can_read_allows_nothing() {
        let budgets = [budget(BudgetLimit::Count(5), &[], Window::Unreadable("no".into()))];
        assert_eq!(allowed(&budgets, Cause::Empty, 10, "2026-11-20T12:00:00Z"), 0);
    }
}
