//! Confirmation of decisions: a voluntary disruption is decided again after a delay, among the same nodes and in the
//! current state, before it begins.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_scheduling::disrupt::{
    Command, Decision, DisruptionInput, Moments, Settings, decide, decide_among, next_moments,
};
use muster_scheduling::{Place, Violation, validate_disruption};

use super::command_start::CommandStart;
use super::delivered_savings::{Delivered, Savings};
use super::pass_schedule::STILL;
use super::peak_load::PeakLoads;

/// Timing of disruption. It is not an option for operators; other values are for tests with hundreds of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Interval between decisions.
    pub every: Duration,
    /// Time for which a choice must hold before it is begun.
    pub validation: Duration,
    /// Time after the beginning of a command for which it may be incomplete, because its writes are still in progress
    /// or have not been observed yet.
    pub settled: Duration,
}

impl Default for Timing {
    /// Returns Karpenter's ten seconds, and its fifteen, within which a rollout that has just begun becomes visible.
    /// The marks of a hundred claims and as many replacements are two hundred writes, one second at Karpenter's rate:
    /// thirty are enough.
    fn default() -> Self {
        Self { every: Duration::from_secs(10), validation: Duration::from_secs(15), settled: Duration::from_secs(30) }
    }
}

/// Result of one pass.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Commands to begin, and the reasons why all other nodes stay.
    pub decision: Decision,
    /// Time of the next pass if something has changed by then.
    pub again: Timestamp,
    /// Times of the next pass if nothing changes.
    pub moments: Moments,
    /// Violations found by the independent validator. The voluntary commands concerned are not begun.
    pub violations: Vec<Violation>,
}

/// Proposal of the last pass, kept in memory only: without it the confirmation starts again.
#[derive(Debug, Clone, Default)]
pub struct DisruptionPlanner {
    timing: Timing,
    proposed: Option<Proposal>,
    loads: PeakLoads,
    savings: Savings,
    /// Nodes that a pod has left since the last pass.
    left: BTreeSet<Arc<str>>,
    /// Shared, since the leader gives each pass a clone of its state.
    rested: Option<Arc<Rested>>,
}

/// The last pass over all nodes that found nothing to do.
#[derive(Debug, Clone)]
struct Rested {
    at: Timestamp,
    input: DisruptionInput,
    settings: Settings,
    moments: Moments,
    decision: Decision,
}

#[derive(Debug, Clone)]
struct Proposal {
    at: Timestamp,
    nodes: BTreeSet<Arc<str>>,
}

// === impl DisruptionPlanner ===

impl DisruptionPlanner {
    /// Creates a state without a proposal.
    #[must_use]
    pub fn at(timing: Timing) -> Self {
        Self { timing, ..Self::default() }
    }

    /// Returns true if a proposal of the last pass is to be confirmed, which requires another pass even if nothing
    /// changes.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.proposed.is_some()
    }

    /// Records nodes that a pod has left or begins to leave.
    pub fn note_left(&mut self, nodes: &BTreeSet<Arc<str>>) {
        self.left.extend(nodes.iter().cloned());
    }

    /// Takes note of the commands of `decision` that are begun at `now`: what they promise is compared with what comes
    /// of them. A command that is held back, by a pause for example, promises nothing.
    pub fn note_begun(&mut self, input: &DisruptionInput, decision: &Decision, begun: &[CommandStart], now: Timestamp) {
        let commands = begun.iter().filter_map(|start| decision.commands.get(start.number));
        self.savings.note_begun(input, commands, now);
    }

    /// Savings that judged commands promised and delivered, by NodePool.
    pub fn delivered(&self) -> impl Iterator<Item = Delivered> {
        self.savings.delivered()
    }

    /// Decides the commands to begin at `now`. The blocked nodes of the decision are those of a pass over all nodes,
    /// except when a proposal is confirmed: then nodes outside of it are reported as staying.
    ///
    /// Forceful commands and repairs are begun at once, in the pass that finds them.
    pub fn turn(&mut self, input: &mut DisruptionInput, now: Timestamp, settings: &Settings) -> Turn {
        let Timing { every, validation, .. } = self.timing;
        let left = std::mem::take(&mut self.left);
        self.loads.observe(input, &left, settings.payback);
        self.savings.observe(input, now);
        let input = &*input;
        let moments = next_moments(input, now, settings);
        if let Some(proposal) = &self.proposed {
            let due = after(proposal.at, validation);
            let nodes = if now < due { BTreeSet::new() } else { chosen(input, &proposal.nodes) };
            if now >= due {
                self.proposed = None;
            }
            let again = if now < due { due.min(after(now, every)) } else { after(now, every) };
            let (decision, violations) = checked(decide_among(input, now, settings, &nodes), input, now, settings);
            return Turn { decision, again, moments, violations };
        }
        if let Some(rested) = self.rested.as_ref().filter(|rested| rested.holds(input, settings, moments, now)) {
            let decision = rested.decision.clone();
            return Turn { decision, again: after(now, every), moments, violations: Vec::new() };
        }
        let (mut decision, violations) = checked(decide(input, now, settings), input, now, settings);
        self.rested = (decision.is_empty() && violations.is_empty()).then(|| {
            let (input, settings, decision) = (input.clone(), *settings, decision.clone());
            Arc::new(Rested { at: now, input, settings, moments, decision })
        });
        let voluntary = |command: &&Command| !command.cause.begins_at_once();
        let nodes: BTreeSet<Arc<str>> = decision
            .commands
            .iter()
            .filter(voluntary)
            .flat_map(|command| &command.candidates)
            .map(|&node| Arc::clone(&input.problem.nodes[node].name))
            .collect();
        decision.commands.retain(|command| command.cause.begins_at_once());
        if nodes.is_empty() {
            return Turn { decision, again: after(now, every), moments, violations };
        }
        self.proposed = Some(Proposal { at: now, nodes });
        Turn { decision, again: after(now, every.min(validation)), moments, violations }
    }
}

// === impl Rested ===

impl Rested {
    /// Returns true if a pass at `now` would find the same: most changes of objects do not change the input. Times that
    /// [`next_moments`] does not know are noticed within five minutes, as in a cluster where nothing changes.
    fn holds(&self, input: &DisruptionInput, settings: &Settings, moments: Moments, now: Timestamp) -> bool {
        let is_recent = self.at <= now && now < after(self.at, STILL);
        is_recent && self.moments == moments && self.settings == *settings && self.input == *input
    }
}

/// Drops the voluntary commands that violations name, or all of them and all reboots if a violation names none.
/// Forceful commands are kept regardless of their violations.
pub(super) fn retain_sound(decision: &mut Decision, violations: &[Violation]) {
    let accused = |violation: &Violation| match violation.place {
        Place::Command(number) => Some(number),
        _ => None,
    };
    let Some(accused) = violations.iter().map(accused).collect::<Option<BTreeSet<usize>>>() else {
        decision.reboots.clear();
        return decision.commands.retain(|command| command.cause.forceful());
    };
    let mut number = 0..;
    decision.commands.retain(|command| {
        let is_accused = number.next().is_some_and(|number| accused.contains(&number));
        !is_accused || command.cause.forceful()
    });
}

/// Returns the decision without invalid voluntary commands, and the violations found by the validator.
fn checked(
    mut decision: Decision,
    input: &DisruptionInput,
    now: Timestamp,
    settings: &Settings,
) -> (Decision, Vec<Violation>) {
    if decision.is_empty() {
        return (decision, Vec::new());
    }
    let violations = validate_disruption(input, now, settings, &decision);
    retain_sound(&mut decision, &violations);
    (decision, violations)
}

/// Returns the indices of the nodes with these names.
fn chosen(input: &DisruptionInput, names: &BTreeSet<Arc<str>>) -> BTreeSet<usize> {
    let nodes = input.problem.nodes.iter().enumerate();
    nodes.filter(|(_, node)| names.contains(&node.name)).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use muster_scheduling::disrupt::{BudgetLimit, NodeBudget, Schedule, Window};

    use super::super::tests::planner::{at, input};
    use super::*;

    #[test]
    fn a_pass_that_found_nothing_is_kept_until_a_moment_comes_or_five_minutes_are_over() {
        let (mut input, settings) = (input(), Settings::default());
        let quiet = input.managed_nodes.iter_mut().flatten();
        quiet.for_each(|managed_node| managed_node.last_pod_event = Some(at(0)));
        input.policies[0].consolidate_after = Some(SignedDuration::from_hours(1));
        let mut planner = DisruptionPlanner::default();
        let mut decided_at = |input: &DisruptionInput, settings: &Settings, seconds| {
            let turn = planner.turn(&mut input.clone(), at(seconds), settings);
            assert_eq!((turn.decision.commands.len(), turn.decision.blocked.len()), (0, 2), "at {seconds} s");
            planner.rested.as_ref().map(|rested| rested.at)
        };
        for (seconds, decided) in [(0, 0), (10, 0), (299, 0), (300, 300), (310, 300)] {
            assert_eq!(decided_at(&input, &settings, seconds), Some(at(decided)), "at {seconds} s");
        }
        let other = Settings { move_price: 1.0, ..settings };
        assert_eq!(decided_at(&input, &other, 320), Some(at(320)), "another option");
        input.managed_nodes.iter_mut().flatten().for_each(|managed_node| managed_node.do_not_disrupt = true);
        assert_eq!(decided_at(&input, &other, 330), Some(at(330)), "another input");
        // Every minute for half of one: the window closes at 390 s, and opens again at 420 s.
        let window = Window::After(Schedule::parse("* * * * *").unwrap(), SignedDuration::from_secs(30));
        input.policies[0].budgets = vec![NodeBudget { nodes: BudgetLimit::Count(0), causes: Vec::new(), window }];
        for (seconds, decided) in [(365, 365), (389, 365), (390, 390), (419, 390), (420, 420)] {
            assert_eq!(decided_at(&input, &other, seconds), Some(at(decided)), "at {seconds} s");
        }
    }
}
