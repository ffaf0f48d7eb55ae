//! A failing constraint, with the stage of the checks at which it fails.

use std::sync::Arc;

use crate::solution::{PoolVerdict, Reason};

/// Stages of the checks, in order; the pool that reached the latest stage is the nearest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Pool,
    Taints,
    Requirements,
    /// Closed or tainted, but otherwise selected by the pod: nearer than a pool with other labels.
    Barred,
    Volumes,
    Topology,
    Types,
    HostPorts,
    Resources,
    Offerings,
    MinValues,
    Limits,
    Together,
}

/// The first constraint that fails.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) stage: Stage,
    pub(super) reason: Reason,
    pub(super) message: String,
    pub(super) nearest: Option<String>,
    pub(super) hint: Option<String>,
}

impl Finding {
    pub(super) fn new(stage: Stage, reason: Reason, message: String) -> Self {
        Self { stage, reason, message, nearest: None, hint: None }
    }

    #[must_use]
    pub(super) fn near(mut self, nearest: impl Into<Option<String>>) -> Self {
        self.nearest = nearest.into();
        self
    }

    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(super) fn verdict(self, pool: &Arc<str>) -> PoolVerdict {
        let Self { reason, message, nearest, hint, stage: _ } = self;
        PoolVerdict { pool: Arc::clone(pool), reason, message, nearest, hint }
    }
}

/// Returns the finding of the later stage; the first of two of the same stage.
pub(super) fn further(best: Option<Finding>, next: Finding) -> Option<Finding> {
    match best {
        Some(best) if best.stage >= next.stage => Some(best),
        _ => Some(next),
    }
}
