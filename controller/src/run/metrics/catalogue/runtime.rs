//! Reconciliations, and the process.

use super::{Chapter, Kind, Metric, Presence, counter, gauge, histogram, metric};

const CONTROLLER: &[&str] = &["controller"];
const QUEUE: &[&str] = &["name", "controller"];

pub(in crate::run) static RECONCILE_TOTAL: Metric = counter(
    "controller_runtime_reconcile_total",
    &["controller", "result"],
    "Reconciliations, by result: success, requeue, requeue_after, error",
)
.presence(Presence::Leading);
pub(in crate::run) static RECONCILE_ERRORS: Metric =
    counter("controller_runtime_reconcile_errors_total", CONTROLLER, "Reconciliations that failed")
        .presence(Presence::Leading);
pub(in crate::run) static RECONCILE_TIME: Metric =
    histogram("controller_runtime_reconcile_time_seconds", CONTROLLER, "Time of reconciliations");
pub(in crate::run) static ACTIVE_WORKERS: Metric =
    gauge("controller_runtime_active_workers", CONTROLLER, "Reconciliations in progress").presence(Presence::Once);
pub(in crate::run) static MOST_WORKERS: Metric = gauge(
    "controller_runtime_max_concurrent_reconciles",
    CONTROLLER,
    "Reconciliations that may be in progress at once",
);
pub(in crate::run) static QUEUE_DEPTH: Metric =
    gauge("workqueue_depth", QUEUE, "Objects that are due to be reconciled, at most a second ago");
pub(in crate::run) static QUEUE_ADDS: Metric =
    counter("workqueue_adds_total", QUEUE, "Objects taken from the queue; several requests for one are one");
pub(in crate::run) static QUEUE_DURATION: Metric = histogram(
    "workqueue_queue_duration_seconds",
    QUEUE,
    "Time from when an object is due until its reconciliation begins",
);
pub(in crate::run) static QUEUE_WORK_DURATION: Metric =
    histogram("workqueue_work_duration_seconds", QUEUE, "Time of reconciliations");
pub(in crate::run) static QUEUE_RETRIES: Metric =
    counter("workqueue_retries_total", QUEUE, "Reconciliations after one that failed");

pub(super) const RUNTIME: Chapter = Chapter {
    title: "Controller runtime and workqueue",
    bound: "one series for each controller, and result",
    metrics: &[
        &RECONCILE_TOTAL,
        &RECONCILE_ERRORS,
        &RECONCILE_TIME,
        &ACTIVE_WORKERS,
        &MOST_WORKERS,
        &QUEUE_DEPTH,
        &QUEUE_ADDS,
        &QUEUE_DURATION,
        &QUEUE_WORK_DURATION,
        &QUEUE_RETRIES,
    ],
};

const fn always(name: &'static str, kind: Kind, help: &'static str) -> Metric {
    metric(name, kind, &[], help, Presence::Always)
}

pub(in crate::run) static BUILD_INFO: Metric = metric(
    "karpenter_build_info",
    Kind::Gauge,
    &["version", "goversion", "goarch", "commit"],
    "1, with the version of this program and the architecture that it was built for; `goversion` and `commit` are empty",
    Presence::Always,
);
pub(in crate::run) static PROCESS_CPU: Metric = always("process_cpu_seconds_total", Kind::Counter, "CPU time");
pub(in crate::run) static PROCESS_RESIDENT: Metric = always("process_resident_memory_bytes", Kind::Gauge, "Memory");
pub(in crate::run) static PROCESS_VIRTUAL: Metric =
    always("process_virtual_memory_bytes", Kind::Gauge, "Address space");
pub(in crate::run) static PROCESS_FILES: Metric = always("process_open_fds", Kind::Gauge, "Open files");
pub(in crate::run) static PROCESS_START: Metric =
    always("process_start_time_seconds", Kind::Gauge, "Time of the start of this process, in seconds since 1970");

pub(super) const PROCESS: Chapter = Chapter {
    title: "Process",
    bound: "one series",
    metrics: &[&BUILD_INFO, &PROCESS_CPU, &PROCESS_RESIDENT, &PROCESS_VIRTUAL, &PROCESS_FILES, &PROCESS_START],
};
