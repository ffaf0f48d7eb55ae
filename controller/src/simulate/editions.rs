//! What could be bought at some time of the day, for as long as something that was bought then may run.
//!
//! What runs now need not be what could be bought now: a NodePool was changed or deleted, and its nodes are still there. So
//! the least for what runs is the least over all that could be bought since the oldest claim was made.

use jiff::Timestamp;
use muster_scheduling::model::{Catalogue, NodePool, PodSpec, PoolState, Problem, Resources};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Editions {
    /// In the order of time; the last one is current.
    all: Vec<Edition>,
}

/// What could be bought until then.
#[derive(Debug, PartialEq)]
struct Edition {
    pools: Vec<(NodePool, Catalogue)>,
    /// What every node would carry beside its pods.
    daemons: Vec<PodSpec>,
    replaced_at: Option<Timestamp>,
}

// === impl Editions ===

impl Editions {
    /// Widens what `problem` can be placed on to all that its pods may run on. Whether that is another supply than the last.
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
        // A daemon that came later need not be on a node that was there before.
        let specs = &problem.specs;
        problem.daemons.retain(|daemon| self.all.iter().all(|edition| edition.daemons.contains(&specs[daemon.spec])));
    }
}

// === impl Edition ===

impl Edition {
    /// What can be bought of `problem`, were there no limits, and were every pool open.
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
