//! What the day costs: the bill, and what nobody could have paid less than.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::time::Duration;

use jiff::Timestamp;
use muster_scheduling::lower_bound_of;
use muster_scheduling::model::{Options, Problem};
use rustc_hash::FxBuildHasher;

use super::editions::Editions;

/// States that last shorter than this count as if they needed nothing: a burst of pods passes through a hundred of them,
/// and the bound stays a bound.
const SHORTEST: Duration = Duration::from_secs(30);

/// What has been spent, and what had to be, in USD.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// What instances cost from their launch until they were told to end.
    pub(crate) paid: f64,
    /// Seconds times instances.
    pub(crate) node_seconds: f64,
    /// No assignment of the pods that ran to nodes can cost less.
    pub(crate) bound: f64,
    /// The most that ran at once.
    pub(crate) most_nodes: usize,
    /// USD per hour of that moment at which most was paid.
    pub(crate) dearest_hour: f64,
    /// Seconds that pods waited for a node, all together.
    pub(crate) waited: f64,
    /// What could be bought, and what may run yet of what was bought before.
    editions: Editions,
    /// Bounds of this edition by the pods that they are of.
    known: BTreeMap<Kinds, f64>,
    /// What has run since when, and the problem that it would be to place it anew.
    running: Option<(Timestamp, Kinds, Problem)>,
}

/// How many pods there are of each make.
type Kinds = BTreeMap<u64, usize>;

/// What there is to pay for between two moments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rate {
    /// USD per hour.
    pub(crate) price: f64,
    /// Instances.
    pub(crate) nodes: usize,
    /// Pods without a node.
    pub(crate) waiting: usize,
}

/// Pods that run on nodes that are paid for, at one moment.
pub(crate) struct Running {
    /// They, as if they were to be placed anew; there are no nodes.
    pub(crate) problem: Problem,
    /// When the oldest NodeClaim was made: what runs may be what could be bought since then.
    pub(crate) oldest: Option<Timestamp>,
}

// === impl Ledger ===

impl Ledger {
    /// Pays for the time between two moments.
    pub(crate) fn pay(&mut self, rate: Rate, from: Timestamp, to: Timestamp) {
        let seconds = to.duration_since(from).as_secs_f64();
        self.paid += rate.price * seconds / 3600.0;
        self.node_seconds += rate.nodes as f64 * seconds;
        self.waited += rate.waiting as f64 * seconds;
        self.most_nodes = self.most_nodes.max(rate.nodes);
        self.dearest_hour = self.dearest_hour.max(rate.price);
    }

    /// Takes note of what runs from now on.
    pub(crate) fn run(&mut self, running: Running, now: Timestamp) {
        let Running { mut problem, oldest } = running;
        let is_another = self.editions.turn(&mut problem, oldest, now);
        let mut kinds = Kinds::new();
        for pod in &problem.pods {
            *kinds.entry(FxBuildHasher.hash_one(&problem.specs[pod.spec])).or_default() += 1;
        }
        if !is_another && self.running.as_ref().is_some_and(|(_, before, _)| *before == kinds) {
            return;
        }
        self.close(now);
        if is_another {
            self.known.clear();
        }
        self.running = Some((now, kinds, problem));
    }

    /// Settles what has run until now.
    pub(crate) fn close(&mut self, now: Timestamp) {
        let Some((since, kinds, problem)) = self.running.take() else { return };
        let lasted = now.duration_since(since).as_secs_f64();
        if lasted < SHORTEST.as_secs_f64() || problem.pods.is_empty() {
            return;
        }
        let bound = *self
            .known
            .entry(kinds)
            .or_insert_with(|| lower_bound_of(&problem, &Options::default(), 0..problem.pods.len()));
        self.bound += bound * lasted / 3600.0;
    }
}
