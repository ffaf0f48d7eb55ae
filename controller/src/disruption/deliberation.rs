//! From what is decided to what is begun: what a pass wants to take away by its own choice is decided once more a while later,
//! among the same nodes, in the cluster as it is then.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_scheduling::disrupt::{Command, Decision, Estate, Settings, decide, decide_among};

/// How often it is asked what is to go. Karpenter's figure.
pub const EVERY: Duration = Duration::from_secs(10);
/// How long a choice must have been the right one. Karpenter's figure: a rollout that has just begun shows within it.
pub const VALIDATION_DELAY: Duration = Duration::from_secs(15);

/// What was wanted in the last pass. It is memory and no state: who forgets it waits once more.
#[derive(Debug, Clone, Default)]
pub struct Deliberation {
    proposed: Option<Proposal>,
}

#[derive(Debug, Clone)]
struct Proposal {
    at: Timestamp,
    nodes: BTreeSet<Arc<str>>,
}

// === impl Deliberation ===

impl Deliberation {
    /// Whether something was wanted in the last pass that is to be confirmed: then it is asked again although nothing has
    /// changed.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.proposed.is_some()
    }

    /// What is to be begun at `now`, and when to ask again. The blocked nodes of the decision are those of a pass over
    /// everything, except where an earlier choice is confirmed: then nodes that were not among it are said to stay.
    ///
    /// What cannot wait is begun at once, in the pass that sees it.
    pub fn turn(&mut self, estate: &Estate, now: Timestamp, settings: &Settings) -> (Decision, Timestamp) {
        if let Some(proposal) = &self.proposed {
            let due = after(proposal.at, VALIDATION_DELAY);
            let nodes = if now < due { BTreeSet::new() } else { chosen(estate, &proposal.nodes) };
            if now >= due {
                self.proposed = None;
            }
            let again = if now < due { due.min(after(now, EVERY)) } else { after(now, EVERY) };
            return (decide_among(estate, now, settings, &nodes), again);
        }
        let mut decision = decide(estate, now, settings);
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
            return (decision, after(now, EVERY));
        }
        self.proposed = Some(Proposal { at: now, nodes });
        (decision, after(now, EVERY.min(VALIDATION_DELAY)))
    }
}

/// The nodes of these names, by index.
fn chosen(estate: &Estate, names: &BTreeSet<Arc<str>>) -> BTreeSet<usize> {
    let nodes = estate.problem.nodes.iter().enumerate();
    nodes.filter(|(_, node)| names.contains(&node.name)).map(|(index, _)| index).collect()
}
