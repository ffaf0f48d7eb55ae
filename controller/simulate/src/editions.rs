//! Offerings that could be launched at some time of the day, for as long as instances launched then may run.
//!
//! Running nodes need not be launchable now: their NodePool may have been changed or deleted. So the lower bound of
//! their cost is the minimum over all offerings that could be launched since the oldest claim was created.

use jiff::Timestamp;
use muster_scheduling::model::{Catalogue, NodePool, PodSpec, PoolState, Problem, Resources};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Editions {
    /// Ordered by time; the last one is current.
    all: Vec<Edition>,
}

/// Offerings that could be launched until `replaced_at`.
#[derive(Debug, PartialEq)]
struct Edition {
    pools: Vec<(NodePool, Catalogue)>,
    /// Daemons that would run on every node.
    daemons: Vec<PodSpec>,
    replaced_at: Option<Timestamp>,
}

// === impl Editions ===

impl Editions {
    /// Extends the pools of `problem` to all that its pods may run on. Returns true if these differ from the last
    /// call's.
    pub(crate) fn turn(&mut self, problem: &mut Problem, oldest: Option<Timestamp>, now: Timestamp) -> bool {
        let before = self.all.len();
        let current = Edition::of(problem);
        let is_new = self.all.last().is_none_or(|last| *last != current);
        if is_new {
            if let Some(last) = self.all.last_mut() {
                last.replaced_at = Some(now);
            }
            self.all.push(current);
        }
        let may_run = |edition: &Edition| match (edition.replaced_at, oldest) {
            (None, _) => true,
            (Some(replaced_at), Some(oldest)) => oldest <= replaced_at,
            (Some(_), None) => false,
        };
        self.all.retain(may_run);
        self.widen(problem);
        is_new || self.all.len() != before
    }

    fn widen(&self, problem: &mut Problem) {
        problem.pools.clear();
        problem.catalogues.clear();
        for (pool, types) in self.all.iter().flat_map(|edition| &edition.pools) {
            let same = |known: &NodePool| {
                known.requirements == pool.requirements
                    && known.taints == pool.taints
                    && problem.catalogues[known.catalogue] == *types
            };
            if problem.pools.iter().any(same) {
                continue;
            }
            let catalogue = problem.catalogues.iter().position(|known| known == types).unwrap_or_else(|| {
                problem.catalogues.push(types.clone());
                problem.catalogues.len() - 1
            });
            problem.pools.push(NodePool { catalogue, ..pool.clone() });
        }
        // A daemon created later need not run on older nodes.
        let specs = &problem.specs;
        problem.daemons.retain(|daemon| self.all.iter().all(|edition| edition.daemons.contains(&specs[daemon.spec])));
    }
}

// === impl Edition ===

impl Edition {
    /// Collects the offerings of `problem` without limits and with all pools ready.
    fn of(problem: &Problem) -> Self {
        let open = |pool: &NodePool| {
            let free = NodePool {
                state: PoolState::Ready,
                limits: None,
                usage: Resources::new(),
                missing_replicas: None,
                catalogue: 0,
                ..pool.clone()
            };
            (free, problem.catalogues[pool.catalogue].clone())
        };
        Self {
            pools: problem.pools.iter().map(open).collect(),
            daemons: problem.daemons.iter().map(|daemon| problem.specs[daemon.spec].clone()).collect(),
            replaced_at: None,
        }
    }
}
