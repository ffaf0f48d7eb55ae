//! Times at which a decision may change without a change of the cluster: until the next one, an unchanged cluster need
//! not be checked.

use jiff::Timestamp;

use super::forceful::LATE;
use super::input::{DisruptionBlocker, DisruptionInput, ManagedNode, Policy, REBOOTS_WITHIN, RepairCondition, Window};
use super::{Repair, Settings};

/// The next such times; `None` if there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moments {
    /// Time at which a forceful disruption may become due: a node expires, or may no longer wait for places; a
    /// condition has lasted for its tolerated duration; a reboot is so old that the node may be rebooted again.
    pub forceful: Option<Timestamp>,
    /// Time at which a voluntary decision may change: a node has had no pod events for `consolidateAfter`; a launch has
    /// paid back; a pod's do-not-disrupt time ends; the window of a budget opens or closes.
    pub voluntary: Option<Timestamp>,
}

/// Returns the first times after `now` at which a decision about `input` may change although nothing in it has
/// changed.
#[must_use]
pub fn next_moments(input: &DisruptionInput, now: Timestamp, settings: &Settings) -> Moments {
    let first = |moments: &mut dyn Iterator<Item = Timestamp>| moments.filter(|moment| *moment > now).min();
    let nodes = input.problem.nodes.iter().zip(&input.managed_nodes).filter(|(node, _)| !node.deleting);
    let managed_nodes = || nodes.clone().filter_map(|(_, managed_node)| managed_node.as_ref());
    let forceful = first(&mut managed_nodes().flat_map(|managed_node| forceful(managed_node, settings)));
    let of_members = managed_nodes()
        .flat_map(|managed_node| voluntary(managed_node, managed_node.pool.map(|pool| &input.policies[pool])));
    let of_budgets = input.policies.iter().flat_map(|policy| &policy.budgets).flat_map(|budget| match &budget.window {
        Window::After(schedule, duration) => schedule.turns(now, *duration),
        Window::Always | Window::Unreadable(_) => [None, None],
    });
    Moments { forceful, voluntary: first(&mut of_members.chain(of_budgets.flatten())) }
}

fn forceful(managed_node: &ManagedNode, settings: &Settings) -> impl Iterator<Item = Timestamp> {
    let expires = managed_node.expires();
    let late = expires.and_then(|expires| expires.checked_add(LATE).ok());
    let repairs = settings.repair != Repair::Off;
    let repair = managed_node.repair_conditions.iter().filter(move |_| repairs).map(RepairCondition::due);
    let reboots = managed_node.reboots.iter().filter(move |_| repairs);
    // A node that was rebooted lately is replaced instead.
    let forgotten = reboots.filter_map(|at| at.checked_add(REBOOTS_WITHIN).ok());
    expires.into_iter().chain(late).chain(repair).chain(forgotten)
}

fn voluntary(managed_node: &ManagedNode, policy: Option<&Policy>) -> impl Iterator<Item = Timestamp> {
    let quiet = policy.and_then(|policy| policy.consolidate_after).and_then(|after| {
        let since = managed_node.last_pod_event.max(managed_node.initialized)?;
        since.checked_add(after).ok()
    });
    let held = managed_node.node_pods.iter().filter_map(|node_pod| match node_pod.hold {
        Some(DisruptionBlocker::Until(end)) => Some(end),
        Some(DisruptionBlocker::Always | DisruptionBlocker::Unreadable) | None => None,
    });
    let rest = policy.and_then(|policy| policy.rests_until);
    quiet.into_iter().chain(managed_node.keeps_until).chain(rest).chain(held)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::input::{BudgetLimit, NodeBudget, RepairAction};
    use super::super::schedule::Schedule;
    use super::*;
    use crate::model::{Labels, Node, Problem, Resources};

    fn at(minutes: i64) -> Timestamp {
        "2026-11-24T12:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
    }

    fn input(change: impl FnOnce(&mut ManagedNode, &mut Policy)) -> DisruptionInput {
        let mut managed_node = ManagedNode {
            pool_name: "general".into(),
            pool: Some(0),
            ready: true,
            created: Some(at(-100)),
            initialized: Some(at(-99)),
            ..ManagedNode::default()
        };
        let mut policy = Policy::default();
        change(&mut managed_node, &mut policy);
        let node = Node {
            name: "a".into(),
            labels: Labels::default(),
            taints: Vec::new(),
            allocatable: Resources::new(),
            daemon_requests: Resources::new(),
            initialized: true,
            deleting: false,
            bound: Vec::new(),
            attach_limits: Vec::new(),
            attached: Vec::new(),
        };
        let mut problem = Problem::default();
        problem.nodes.push(node);
        DisruptionInput {
            problem,
            managed_nodes: vec![Some(managed_node)],
            policies: vec![policy],
            pod_budgets: Vec::new(),
        }
    }

    fn next(change: impl FnOnce(&mut ManagedNode, &mut Policy)) -> Moments {
        let settings = Settings { repair: Repair::Voluntary, ..Settings::default() };
        next_moments(&input(change), at(0), &settings)
    }

    fn forceful_in(minutes: i64) -> Moments {
        Moments { forceful: Some(at(minutes)), voluntary: None }
    }

    fn voluntary_in(minutes: i64) -> Moments {
        Moments { forceful: None, voluntary: Some(at(minutes)) }
    }

    #[test]
    fn each_moment_is_known_and_past_ones_do_not_count() {
        let minutes = SignedDuration::from_mins;
        assert_eq!(next(|_, _| {}), Moments::default());
        assert_eq!(next(|managed_node, _| managed_node.expire_after = Some(minutes(105))), forceful_in(5));
        let late = "it waits for places ten minutes at most";
        assert_eq!(next(|managed_node, _| managed_node.expire_after = Some(minutes(95))), forceful_in(5), "{late}");
        assert_eq!(next(|_, policy| policy.consolidate_after = Some(minutes(102))), voluntary_in(3));
        assert_eq!(next(|managed_node, _| managed_node.keeps_until = Some(at(7))), voluntary_in(7));
        assert_eq!(next(|_, policy| policy.rests_until = Some(at(7))), voluntary_in(7));
        let (condition, reason) = ("Ready=False".into(), "".into());
        let (since, tolerated, action) = (at(-1), minutes(10), RepairAction::Replace);
        let sick = RepairCondition { condition, reason, since, tolerated, drain: None, action };
        assert_eq!(next(|managed_node, _| managed_node.repair_conditions = vec![sick]), forceful_in(9));
        let reboots = vec![at(5) - REBOOTS_WITHIN];
        assert_eq!(next(|managed_node, _| managed_node.reboots = reboots), forceful_in(5), "it may be rebooted again");
    }

    #[test]
    fn windows_of_budgets_open_and_close() {
        let window = |text: &str, long: i64| {
            let schedule = Schedule::parse(text).unwrap();
            let window = Window::After(schedule, SignedDuration::from_mins(long));
            let budget = NodeBudget { nodes: BudgetLimit::Count(0), causes: Vec::new(), window };
            next(|_, policy| policy.budgets = vec![budget])
        };
        assert_eq!(window("30 12 * * *", 60), voluntary_in(30), "it opens");
        assert_eq!(window("50 11 * * *", 60), voluntary_in(50), "it closes");
        assert_eq!(window("0 11 * * *", 30), voluntary_in(23 * 60), "it is over for today");
    }
}
