//! `muster run --dry-run`: reports what the leader would do now, and writes nothing.
//!
//! ```text
//!   ClusterCache::changed ─┬─► Window ── due ──► round: decide ──────────────┬─► Report, if it contains something new
//!                          ├─► PassSchedule ── due ──► plan_disruption ─────┘
//!                          └─► resolve: what NodeClasses select, kept in memory by the provider
//! ```
//!
//! It may run beside an active controller, Karpenter or another Muster, and reports on the cluster as that one leaves
//! it: pods for which the other controller has launched a node are not reported.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, labels};
use muster_cloud::after;
use muster_stages::disruption::{CommandStart, DisruptionPlanner, PassSchedule};
use muster_stages::provision::{Outcome, Plan, Window};
use muster_stages::state::LiveClass;
use muster_stages::step::{Event, EventType, Write};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::context::LeaderContext;
use super::zonal_shifts::ShiftWatch;
use super::{disruption, now, round, zonal_shifts};
use crate::provider::Provider;

/// Interval between decisions while a pod is unbound, the same as the leader's.
const AGAIN: Duration = Duration::from_secs(10);
/// Shortest and longest interval between looks for NodeClasses to resolve.
const RESOLVE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Longest wait between two checks of the clock.
const IDLE: Duration = Duration::from_secs(60);

/// Actions that the controller would take now.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Time of the decision.
    pub at: Timestamp,
    /// NodeClaims that would be created for pending pods.
    pub launches: Vec<Launch>,
    /// Price of all of them, in USD per hour.
    pub hourly_price: f64,
    /// Pods that could not be placed.
    pub unplaced: Vec<Unplaced>,
    /// Nodes that would be disrupted.
    pub disruptions: Vec<Disruption>,
    /// Savings by the disruptions, in USD per hour.
    pub hourly_savings: f64,
}

/// A NodeClaim that would be created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// Its NodePool.
    pub node_pool: String,
    /// Candidate instance types.
    pub instance_types: Vec<String>,
    /// Pods placed on it, as `namespace/name`.
    pub pods: Vec<String>,
}

/// A pod that could not be placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unplaced {
    /// `namespace/name`.
    pub pod: String,
    /// Reason.
    pub message: String,
}

/// Nodes that would be disrupted by one command.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Reason.
    pub cause: String,
    /// True if the node is rebooted and stays; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reboot: bool,
    /// Names of the Nodes.
    pub nodes: Vec<String>,
    /// Replacements that would be launched and initialized before the nodes are removed.
    pub replacements: Vec<Launch>,
    /// Savings in USD per hour.
    pub hourly_savings: f64,
}

/// State of the last reports.
#[derive(Default)]
struct LastReport {
    launches: Vec<Launch>,
    nodes: BTreeSet<Vec<String>>,
}

/// Reports what would be done, until it is dropped.
pub(super) async fn observe<P: Provider>(context: Arc<LeaderContext<P>>, tell: impl FnMut(&Report) + Send) {
    context.cluster_cache.synced().await;
    context.provider.catch_up().await;
    let resolved = Notify::new();
    tokio::select! {
        () = decide(Arc::clone(&context), &resolved, tell) => {}
        never = resolve(&context, &resolved) => match never {},
        never = context.provider.keep_up() => match never {},
    }
}

/// Resolves the references of all NodeClasses, at first and when they change. The provider caches what it finds.
/// `resolved` is told once they are.
async fn resolve<P: Provider>(context: &LeaderContext<P>, resolved: &Notify) -> Infallible {
    let mut revised = context.cluster_cache.revised();
    loop {
        revised.mark_unchanged();
        let classes: Vec<LiveClass> = {
            let cluster = context.cluster_cache.read();
            let ours = cluster.classes().filter(|class| class.reference.kind == P::CLASS);
            ours.filter(|class| class.meta.deletion_timestamp.is_none()).cloned().collect()
        };
        for class in &classes {
            let _status_is_not_written = context.provider.resolve(class).await;
        }
        resolved.notify_one();
        sleep(RESOLVE.0).await;
        tokio::select! {
            _ = revised.changed() => {}
            () = sleep(RESOLVE.1) => {}
        }
    }
}

async fn decide<P: Provider>(context: Arc<LeaderContext<P>>, resolved: &Notify, mut tell: impl FnMut(&Report) + Send) {
    resolved.notified().await;
    drop(context.cluster_cache.take_changed());
    let mut told = LastReport::default();
    let mut window = Window::default();
    let mut decide_at = Some(now());
    let mut pass_schedule = PassSchedule::from(now());
    let mut planner = DisruptionPlanner::at(context.settings.driver.timing);
    let mut shifts = ShiftWatch::of(&context.provider);
    loop {
        let end = shifts.next_end(now());
        let moments = [window.due(&context.settings.driver.window), decide_at, Some(pass_schedule.next()), end];
        let wait = moments
            .into_iter()
            .flatten()
            .min()
            .map_or(IDLE, |moment| Duration::try_from(moment.duration_since(now())).unwrap_or_default().min(IDLE));
        tokio::select! {
            changed = context.cluster_cache.changed() => {
                pass_schedule.stir();
                for path in &changed.waiting {
                    window.arrive(path, now());
                }
            }
            () = shifts.heard() => {}
            () = sleep(wait) => {}
        }
        let moment = now();
        if let Some(change) = shifts.turn(moment) {
            zonal_shifts::log(&change);
            window.arrive("zonal shifts", moment);
            pass_schedule.hurry();
        }
        if window.is_due(&context.settings.driver.window, moment) || decide_at.is_some_and(|at| at <= moment) {
            window.close();
            if let Some(outcome) = round::consider(Arc::clone(&context)).await {
                context.leader_state().plan.succeed(outcome.plan.clone());
                if let Some(report) = told.about_pods(&outcome, moment) {
                    tell(&report);
                }
            }
            let waits = context.cluster_cache.read().count_unbound() > 0;
            decide_at = waits.then(|| after(moment, AGAIN));
        }
        if pass_schedule.is_due(moment) {
            pass_schedule.ask(moment);
            let was_open = planner.is_open();
            let thought = disruption::plan_disruption(Arc::clone(&context), planner).await;
            planner = thought.planner;
            pass_schedule.answer(thought.again, planner.is_open(), thought.moments, now());
            // A proposal is reported once it is confirmed, an urgent decision at once.
            let is_confirmed = was_open && !planner.is_open();
            if let Some(report) = told.about_nodes(&thought.command_starts, is_confirmed, moment) {
                tell(&report);
            }
        }
    }
}

// === impl LastReport ===

impl LastReport {
    /// Reports actions for pending pods, unless they are unchanged since the last report.
    fn about_pods(&mut self, outcome: &Outcome, at: Timestamp) -> Option<Report> {
        let Outcome { step, plan, figures, buffers: _, violations: _ } = outcome;
        let created = |write: &Write| match write {
            Write::CreateClaim(claim) => Some(launch(claim, plan)),
            _ => None,
        };
        let launches: Vec<Launch> = step.writes.iter().filter_map(created).collect();
        // The plan remembers the reasons that were published, so these are new.
        let failed = |write: &Write| match write {
            Write::Event(Event { about, kind: EventType::Warning, message, .. }) => {
                let pod = format!("{}/{}", about.namespace.as_deref().unwrap_or_default(), about.name);
                Some(Unplaced { pod, message: message.clone() })
            }
            _ => None,
        };
        let unplaced: Vec<Unplaced> = step.writes.iter().filter_map(failed).collect();
        let is_news = launches != self.launches || !unplaced.is_empty();
        self.launches.clone_from(&launches);
        let hourly_price = figures.hourly_price;
        let report = Report { at, launches, hourly_price, unplaced, disruptions: Vec::new(), hourly_savings: 0.0 };
        (is_news && (!report.launches.is_empty() || !report.unplaced.is_empty())).then_some(report)
    }

    /// Reports actions for nodes, unless all of them were reported before.
    fn about_nodes(&mut self, command_starts: &[CommandStart], is_confirmed: bool, at: Timestamp) -> Option<Report> {
        let disruptions: Vec<Disruption> = command_starts.iter().map(disruption_of).collect();
        let nodes: BTreeSet<Vec<String>> = disruptions.iter().map(|one| one.nodes.clone()).collect();
        let is_news = !nodes.is_subset(&self.nodes);
        // While a proposal is to be confirmed, earlier reports are not known to be outdated.
        if is_confirmed {
            self.nodes = nodes;
        } else {
            self.nodes.extend(nodes);
        }
        let hourly_savings = disruptions.iter().map(|one| one.hourly_savings).sum();
        let report =
            Report { at, launches: Vec::new(), hourly_price: 0.0, unplaced: Vec::new(), disruptions, hourly_savings };
        is_news.then_some(report)
    }
}

fn disruption_of(command_start: &CommandStart) -> Disruption {
    let CommandStart { number: _, is_reboot, cause, savings, command_nodes, steps } = command_start;
    let names = command_nodes.iter().filter_map(|home| home.node.as_ref()?.metadata.name.clone());
    let launched = steps.iter().flat_map(|steps| &steps.begin.writes).filter_map(|write| match write {
        Write::CreateClaim(claim) => Some(launch(claim, &Plan::default())),
        _ => None,
    });
    Disruption {
        cause: cause.name().to_owned(),
        reboot: *is_reboot,
        nodes: names.collect(),
        replacements: launched.collect(),
        hourly_savings: *savings,
    }
}

fn launch(claim: &NodeClaim, plan: &Plan) -> Launch {
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned();
    let types = claim.spec.requirements.iter().find(|one| one.key == labels::INSTANCE_TYPE);
    let types = types.map(|one| one.values.clone()).or_else(|| label(labels::INSTANCE_TYPE).map(|one| vec![one]));
    Launch {
        node_pool: label(labels::NODEPOOL).unwrap_or_default(),
        instance_types: types.unwrap_or_default(),
        pods: plan.placed_on(claim.metadata.name.as_deref().unwrap_or_default()).map(str::to_owned).collect(),
    }
}
