//! Cost of the day, and its lower bound.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::time::Duration;

use jiff::Timestamp;
use muster_scheduling::lower_bound_of;
use muster_scheduling::model::{Options, Problem};
use rustc_hash::FxBuildHasher;

use super::editions::Editions;

/// States shorter than this count as free, which keeps the bound valid: a burst of pods passes through a hundred of
/// them.
const SHORTEST: Duration = Duration::from_secs(30);

/// Actual cost and its lower bound, in USD.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Cost of instances from launch until the request to terminate them.
    pub(crate) paid: f64,
    /// Instance seconds.
    pub(crate) node_seconds: f64,
    /// Lower bound of the cost of any assignment of the pods that ran to nodes.
    pub(crate) bound: f64,
    /// Maximum number of instances at one time.
    pub(crate) most_nodes: usize,
    /// Maximum hourly price, in USD.
    pub(crate) dearest_hour: f64,
    /// Total time that pods waited for a node, in seconds.
    pub(crate) waited: f64,
    /// Offerings that are launchable, and earlier ones that may still run.
    editions: Editions,
    /// Lower bounds with the current offerings, by set of pods.
    known: BTreeMap<Kinds, f64>,
    /// Running pods, the time since when, and the problem of placing them on new nodes.
    running: Option<(Timestamp, Kinds, Problem)>,
}

/// Number of pods by hash of their spec.
type Kinds = BTreeMap<u64, usize>;

/// Quantities that are constant between two moments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rate {
    /// Price in USD per hour.
    pub(crate) price: f64,
    /// Number of instances.
    pub(crate) nodes: usize,
    /// Number of pods without a node.
    pub(crate) waiting: usize,
}

/// Pods on nodes that are paid for, at one moment.
pub(crate) struct Running {
    /// Problem of placing them on new nodes.
    pub(crate) problem: Problem,
    /// Creation time of the oldest NodeClaim: running instances may be of any offering launchable since then.
    pub(crate) oldest: Option<Timestamp>,
}

// === impl Ledger ===

impl Ledger {
    /// Adds the cost of the time between two moments.
    pub(crate) fn pay(&mut self, rate: Rate, from: Timestamp, to: Timestamp) {
        let seconds = to.duration_since(from).as_secs_f64();
        self.paid += rate.price * seconds / 3600.0;
        self.node_seconds += rate.nodes as f64 * seconds;
        self.waited += rate.waiting as f64 * seconds;
        self.most_nodes = self.most_nodes.max(rate.nodes);
        self.dearest_hour = self.dearest_hour.max(rate.price);
    }

    /// Sets the pods that run from now on.
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

    /// Adds the lower bound for the pods that have run until now.
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
