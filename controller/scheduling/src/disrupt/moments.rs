//! Times at which a decision may change without a change of the cluster: until the next one, an unchanged cluster need
//! not be checked.

use jiff::Timestamp;

use super::Settings;
use super::forceful::LATE;
use super::input::{DisruptionInput, Hold, Member, Policy, Window};

/// The next such times; `None` if there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moments {
    /// Time at which a forceful disruption may become due: a node expires, or may no longer wait for places; a
    /// condition has lasted for its tolerated duration.
    pub forceful: Option<Timestamp>,
    /// Time at which a voluntary decision may change: a node has had no pod events for `consolidateAfter`; a launch has
    /// paid back; a pod's do-not-disrupt time ends; the window of a budget opens or closes.
    pub voluntary: Option<Timestamp>,
}

/// Returns the first times after `now` at which a decision about `estate` may change although nothing in it has
/// changed.
#[must_use]
pub fn next_moments(estate: &DisruptionInput, now: Timestamp, settings: &Settings) -> Moments {
    let first = |moments: &mut dyn Iterator<Item = Timestamp>| moments.filter(|moment| *moment > now).min();
    let nodes = estate.problem.nodes.iter().zip(&estate.members).filter(|(node, _)| !node.deleting);
    let members = || nodes.clone().filter_map(|(_, member)| member.as_ref());
    let forceful = first(&mut members().flat_map(|member| forceful(member, settings)).flatten());
    let of_members = members().flat_map(|member| voluntary(member, member.pool.map(|pool| &estate.policies[pool])));
    let of_budgets =
        estate.policies.iter().flat_map(|policy| &policy.budgets).flat_map(|budget| match &budget.window {
            Window::After(schedule, duration) => schedule.turns(now, *duration),
            Window::Always | Window::Unreadable(_) => [None, None],
        });
    Moments { forceful, voluntary: first(&mut of_members.chain(of_budgets.flatten())) }
}

fn forceful(member: &Member, settings: &Settings) -> [Option<Timestamp>; 3] {
    let expires = member.expires();
    let repair_condition = member.repair_condition.as_ref().filter(|_| settings.node_repair);
    [
        expires,
        expires.and_then(|expires| expires.checked_add(LATE).ok()),
        repair_condition
            .and_then(|repair_condition| repair_condition.since.checked_add(repair_condition.tolerated).ok()),
    ]
}

fn voluntary(member: &Member, policy: Option<&Policy>) -> impl Iterator<Item = Timestamp> {
    let quiet = policy.and_then(|policy| policy.consolidate_after).and_then(|after| {
        let since = member.last_pod_event.max(member.initialized)?;
        since.checked_add(after).ok()
    });
    let held = member.node_pods.iter().filter_map(|node_pod| match node_pod.hold {
        Some(Hold::Until(end)) => Some(end),
        Some(Hold::Always) | None => None,
    });
    let rest = policy.and_then(|policy| policy.rests_until);
    quiet.into_iter().chain(member.keeps_until).chain(rest).chain(held)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::input::{NodeBudget, RepairCondition, Share};
    use super::super::schedule::Schedule;
    use super::*;
    use crate::model::{Labels, Node, Problem, Resources};

    fn at(minutes: i64) -> Timestamp {
        "2026-11-24T12:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
    }

    fn estate(change: impl FnOnce(&mut Member, &mut Policy)) -> DisruptionInput {
        let mut member = Member {
            pool_name: "general".into(),
            pool: Some(0),
            ready: true,
            created: Some(at(-100)),
            initialized: Some(at(-99)),
            consolidatable: false,
            last_pod_event: None,
            drifted: None,
            expire_after: None,
            drain_is_bounded: false,
            interrupted: None,
            repair_condition: None,
            do_not_disrupt: false,
            nominated_by: None,
            launched_for: 0.0,
            keeps_until: None,
            is_replacement: false,
            node_pods: Vec::new(),
        };
        let mut policy = Policy::default();
        change(&mut member, &mut policy);
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
        };
        let mut problem = Problem::default();
        problem.nodes.push(node);
        DisruptionInput { problem, members: vec![Some(member)], policies: vec![policy], pod_budgets: Vec::new() }
    }

    fn next(change: impl FnOnce(&mut Member, &mut Policy)) -> Moments {
        let settings = Settings { node_repair: true, ..Settings::default() };
        next_moments(&estate(change), at(0), &settings)
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
        assert_eq!(next(|member, _| member.expire_after = Some(minutes(105))), forceful_in(5));
        let late = "it waits for places ten minutes at most";
        assert_eq!(next(|member, _| member.expire_after = Some(minutes(95))), forceful_in(5), "{late}");
        assert_eq!(next(|_, policy| policy.consolidate_after = Some(minutes(102))), voluntary_in(3));
        assert_eq!(next(|member, _| member.keeps_until = Some(at(7))), voluntary_in(7));
        assert_eq!(next(|_, policy| policy.rests_until = Some(at(7))), voluntary_in(7));
        let sick = RepairCondition { condition: "Ready=False".into(), since: at(-1), tolerated: minutes(10) };
        assert_eq!(next(|member, _| member.repair_condition = Some(sick)), forceful_in(9));
    }

    #[test]
    fn windows_of_budgets_open_and_close() {
        let window = |text: &str, long: i64| {
            let schedule = Schedule::parse(text).unwrap();
            let window = Window::After(schedule, SignedDuration::from_mins(long));
            let budget = NodeBudget { nodes: Share::Count(0), causes: Vec::new(), window };
            next(|_, policy| policy.budgets = vec![budget])
        };
        assert_eq!(window("30 12 * * *", 60), voluntary_in(30), "it opens");
        assert_eq!(window("50 11 * * *", 60), voluntary_in(50), "it closes");
        assert_eq!(window("0 11 * * *", 30), voluntary_in(23 * 60), "it is over for today");
    }
}
