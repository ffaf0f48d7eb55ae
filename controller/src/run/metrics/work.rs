//! Reconciliations: how many, how long, how late.

use std::time::Duration;

use tokio::time::Instant;

use super::catalogue as names;
use super::series::Series;

/// Results of reconciliations, as controller-runtime names them.
const SUCCESS: &str = "success";
const REQUEUE: &str = "requeue";
const REQUEUE_AFTER: &str = "requeue_after";
const ERROR: &str = "error";

/// A loop of the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Controller {
    Claims,
    Pools,
    Classes,
    Provisioner,
    Disruption,
    Commands,
    Garbage,
    Overlays,
    Buffers,
}

/// Outcome of a reconciliation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum Ended {
    Success,
    /// It is to be repeated at once.
    Again,
    /// It is to be repeated later.
    Later,
    Failed,
}

/// A reconciliation in progress; one that is dropped before its end is not counted.
#[derive(Debug)]
pub(in crate::run) struct Work {
    series: Series,
    controller: Controller,
    begun: Instant,
}

// === impl Controller ===

impl Controller {
    /// Its name: that of Karpenter's controller that does the same.
    pub(in crate::run) const fn name(self) -> &'static str {
        match self {
            Self::Claims => "nodeclaim.lifecycle",
            Self::Pools => "nodepool.readiness",
            Self::Classes => "nodeclass",
            Self::Provisioner => names::PROVISIONER,
            Self::Disruption => "disruption",
            Self::Commands => "disruption.queue",
            Self::Garbage => "nodeclaim.garbagecollection",
            Self::Overlays => "nodeoverlay",
            Self::Buffers => "capacitybuffer",
        }
    }
}

// === impl Work ===

impl Work {
    pub(super) fn new(series: Series, controller: Controller) -> Self {
        series.add(&names::ACTIVE_WORKERS, &[controller.name()], 1.0);
        Self { series, controller, begun: Instant::now() }
    }

    /// Records how late an object was taken from the queue.
    pub(in crate::run) fn taken(self, late: Duration) -> Self {
        let name = self.controller.name();
        self.series.count(&names::QUEUE_ADDS, &[name, name]);
        self.series.observe(&names::QUEUE_DURATION, &[name, name], late);
        self
    }

    /// Records the end.
    pub(in crate::run) fn end(self, ended: Ended) {
        let name = self.controller.name();
        let took = self.begun.elapsed();
        self.series.observe(&names::RECONCILE_TIME, &[name], took);
        self.series.observe(&names::QUEUE_WORK_DURATION, &[name, name], took);
        let result = match ended {
            Ended::Success => SUCCESS,
            Ended::Again => REQUEUE,
            Ended::Later => REQUEUE_AFTER,
            Ended::Failed => ERROR,
        };
        self.series.count(&names::RECONCILE_TOTAL, &[name, result]);
        if ended == Ended::Failed {
            self.series.count(&names::RECONCILE_ERRORS, &[name]);
            self.series.count(&names::QUEUE_RETRIES, &[name, name]);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.series.add(&names::ACTIVE_WORKERS, &[self.controller.name()], -1.0);
    }
}

/// Begins the counters of a controller with 0, as Karpenter does: dashboards choose among the controllers that have
/// series, and a rate begins with the second value.
pub(super) fn announce(series: &Series, controller: Controller) {
    let name = controller.name();
    series.add(&names::RECONCILE_ERRORS, &[name], 0.0);
    for result in [SUCCESS, REQUEUE, REQUEUE_AFTER, ERROR] {
        series.add(&names::RECONCILE_TOTAL, &[name, result], 0.0);
    }
}

/// Records the number of objects that are due.
pub(super) fn queue(series: &Series, controller: Controller, depth: usize) {
    let name = controller.name();
    series.set(&names::QUEUE_DEPTH, &[name, name], depth as f64);
}
