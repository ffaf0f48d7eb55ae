//! Specs whose rules take more work than the share of their namespace.

use std::sync::Arc;

use crate::model::{NodePool, Problem, SpecId};
use crate::solution::{PoolVerdict, Reason, Unschedulable};

/// Spec whose pods are, or may be, reported as [`Reason::TooComplex`], with its most expensive label.
#[derive(Debug, Clone)]
pub(crate) struct Costly {
    pub(crate) spec: SpecId,
    pub(crate) key: Arc<str>,
    pub(crate) values: usize,
}

impl Costly {
    /// Returns a message and a hint for the user.
    pub(crate) fn words(&self) -> (String, String) {
        let Self { key, values, .. } = self;
        let message = format!(
            "rules between pods about {key}, which has {values} values, take more work than the share of the namespace"
        );
        (message, "use zones or hostnames as the topologyKey, fewer replicas, or fewer terms".to_owned())
    }

    /// Returns the verdict for `pod`, which was not planned with every type or not at all.
    pub(crate) fn told(&self, problem: &Problem, pod: usize) -> Unschedulable {
        let (message, hint) = self.words();
        let verdict = |pool: &NodePool| PoolVerdict {
            pool: Arc::clone(&pool.name),
            reason: Reason::TooComplex,
            message: message.clone(),
            nearest: None,
            hint: Some(hint.clone()),
        };
        let pools = problem.pools.iter().map(verdict).collect();
        Unschedulable { pod, reason: Reason::TooComplex, message, pools }
    }
}
