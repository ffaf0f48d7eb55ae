//! From what is decided to what is begun: what a pass wants to take away by its own choice is decided once more a while later,
//! among the same nodes, in the cluster as it is then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_scheduling::disrupt::{Command, Decision, Estate, Moments, Settings, decide, decide_among, next_moments};
use muster_scheduling::{Place, Violation, validate_disruption};

use super::peak_load::PeakLoads;
use super::savings::{Delivered, Rest, Savings};

/// How fast everything goes. It is no option of operators: figures of its own are for tests that play a hundred rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tempo {
    /// How often it is asked what is to go.
    pub every: Duration,
    /// How long a choice must have been the right one before it is begun.
    pub validation: Duration,
    /// How long after its beginning a command may be incomplete: until then somebody may still be writing, or our picture of
    /// the cluster may not have all of it yet.
    pub settled: Duration,
}

impl Default for Tempo {
    /// Karpenter's ten seconds, and its fifteen, within which a rollout that has just begun shows. A hundred claims with as
    /// many replacements are some four hundred writes, two seconds at Karpenter's rate: thirty are enough.
    fn default() -> Self {
        Self { every: Duration::from_secs(10), validation: Duration::from_secs(15), settled: Duration::from_secs(30) }
    }
}

/// What one pass comes to.
#[derive(Debug, Clone)]
pub struct Turn {
    /// What is to be begun, and why everything else stays.
    pub decision: Decision,
    /// When to ask again, if anything has changed by then.
    pub again: Timestamp,
    /// When to ask again although nothing has changed.
    pub moments: Moments,
    /// What the independent validator says against what was decided. Voluntary commands that it concerns are not begun.
    pub violations: Vec<Violation>,
}

/// What was wanted in the last pass. It is memory and no state: who forgets it waits once more.
#[derive(Debug, Clone, Default)]
pub struct Deliberation {
    tempo: Tempo,
    proposed: Option<Proposal>,
    loads: PeakLoads,
    savings: Savings,
    /// Nodes that a pod has left since the last pass.
    left: BTreeSet<Arc<str>>,
}

#[derive(Debug, Clone)]
struct Proposal {
    at: Timestamp,
    nodes: BTreeSet<Arc<str>>,
}

// === impl Deliberation ===

impl Deliberation {
    /// Nothing is wanted yet.
    #[must_use]
    pub fn at(tempo: Tempo) -> Self {
        Self { tempo, proposed: None, loads: PeakLoads::default(), savings: Savings::default(), left: BTreeSet::new() }
    }

    /// Whether something was wanted in the last pass that is to be confirmed: then it is asked again although nothing has
    /// changed.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.proposed.is_some()
    }

    /// Takes note of nodes that a pod has left, or begins to leave.
    pub fn note_left(&mut self, nodes: &BTreeSet<Arc<str>>) {
        self.left.extend(nodes.iter().cloned());
    }

    /// Takes note of the commands of `decision`, which are begun at `now`: what they promise is compared with what comes of them.
    pub fn note_begun(&mut self, estate: &Estate, decision: &Decision, now: Timestamp) {
        self.savings.note_begun(estate, decision, now);
    }

    /// Savings that judged commands promised and delivered, by NodePool.
    pub fn delivered(&self) -> impl Iterator<Item = Delivered> {
        self.savings.delivered()
    }

    /// The last rest of a NodePool, which may be over.
    #[must_use]
    pub fn rest_of(&self, pool: &str) -> Option<Rest> {
        self.savings.rest_of(pool)
    }

    /// What is to be begun at `now`. The blocked nodes of the decision are those of a pass over
    /// everything, except where an earlier choice is confirmed: then nodes that were not among it are said to stay.
    ///
    /// What cannot wait is begun at once, in the pass that sees it.
    pub fn turn(&mut self, estate: &mut Estate, now: Timestamp, settings: &Settings) -> Turn {
        let Tempo { every, validation, .. } = self.tempo;
        let left = std::mem::take(&mut self.left);
        self.loads.observe(estate, &left, settings.payback);
        self.savings.observe(estate, now);
        let estate = &*estate;
        let moments = next_moments(estate, now, settings);
        if let Some(proposal) = &self.proposed {
            let due = after(proposal.at, validation);
            let nodes = if now < due { BTreeSet::new() } else { chosen(estate, &proposal.nodes) };
            if now >= due {
                self.proposed = None;
            }
            let again = if now < due { due.min(after(now, every)) } else { after(now, every) };
            let (decision, violations) = checked(decide_among(estate, now, settings, &nodes), estate, now, settings);
            return Turn { decision, again, moments, violations };
        }
        let (mut decision, violations) = checked(decide(estate, now, settings), estate, now, settings);
        let voluntary = |command: &&Command| !command.cause.forceful();
        let nodes: BTreeSet<Arc<str>> = decision
            .commands
            .iter()
            .filter(voluntary)
            .flat_map(|command| &command.candidates)
            .map(|&node| Arc::clone(&estate.problem.nodes[node].name))
            .collect();
        decision.commands.retain(|command| command.cause.forceful());
        if nodes.is_empty() {
            return Turn { decision, again: after(now, every), moments, violations };
        }
        self.proposed = Some(Proposal { at: now, nodes });
        Turn { decision, again: after(now, every.min(validation)), moments, violations }
    }
}

/// Drops voluntary commands that something is said against, or all of them where it is said of none. What cannot wait goes
/// whatever is wrong with its plan.
pub(super) fn retain_sound(decision: &mut Decision, violations: &[Violation]) {
    let accused = |violation: &Violation| match violation.place {
        Place::Command(number) => Some(number),
        _ => None,
    };
    let Some(accused) = violations.iter().map(accused).collect::<Option<BTreeSet<usize>>>() else {
        return decision.commands.retain(|command| command.cause.forceful());
    };
    let mut number = 0..;
    decision.commands.retain(|command| {
        let is_accused = number.next().is_some_and(|number| accused.contains(&number));
        !is_accused || command.cause.forceful()
    });
}

/// The decision as far as it may be acted on, and what the validator says against it.
fn checked(mut decision: Decision, estate: &Estate, now: Timestamp, settings: &Settings) -> (Decision, Vec<Violation>) {
    if decision.commands.is_empty() {
        return (decision, Vec::new());
    }
    let violations = validate_disruption(estate, now, settings, &decision);
    retain_sound(&mut decision, &violations);
    (decision, violations)
}

/// The nodes of these names, by index.
fn chosen(estate: &Estate, names: &BTreeSet<Arc<str>>) -> BTreeSet<usize> {
    let nodes = estate.problem.nodes.iter().enumerate();
    nodes.filter(|(_, node)| names.contains(&node.name)).map(|(index, _)| index).collect()
}
