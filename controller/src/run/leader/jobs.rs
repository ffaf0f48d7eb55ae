//! Jobs of the driver, each as a task of its own, and their ends.

use std::sync::Arc;

use muster_stages::disruption::CommandStart;
use muster_stages::driver::{Done, Item, Job, PassEnd, Verdict};
use muster_stages::step::Step;

use super::Leader;
use super::telling::{Audience, controller_of};
use crate::provider::Provider;
use crate::run::metrics::{self, Controller};
use crate::run::{buffers, disruption, garbage, orders, overlays, reconcile, round, static_capacity};

/// End of a task.
pub(super) enum Ended {
    /// A job, or writes that the driver waits for.
    Job(Done),
    /// A round: events to publish, and the time of the next round if nothing changes.
    DecidedPods(Step),
    /// A decision about disruption.
    PlannedDisruption(Box<disruption::PlannedDisruption>),
    /// Nominations to write.
    Nominated(Step),
    /// The conditions that a decision about disruption gives to claims have been written.
    ClaimsTold,
    /// Events for people have been written.
    EventsWritten,
}

/// Returns the outcome of a reconciliation for metrics. A conflict is not a failure: the object is decided again.
const fn outcome_of(verdict: Verdict) -> metrics::Ended {
    match verdict {
        Verdict::Rest(None) => metrics::Ended::Success,
        Verdict::Rest(Some(_)) | Verdict::RestUntil(_) => metrics::Ended::Later,
        Verdict::Again | Verdict::Conflicted => metrics::Ended::Again,
        Verdict::Failed => metrics::Ended::Failed,
    }
}

// === impl Leader ===

impl<P: Provider> Leader<P> {
    /// Starts the task of a job.
    pub(super) fn begin_job(&mut self, job: Job) {
        let context = Arc::clone(&self.context);
        match job {
            Job::Reconcile(item, late) => self.tasks.spawn(async move {
                let work = context.metrics.work(controller_of(&item)).taken(late);
                let verdict = match &item {
                    Item::Claim(name) => reconcile::claim(&context, name).await,
                    Item::Pool(name) => {
                        let again = static_capacity::shrink(&context, name).await;
                        reconcile::pool(&context, name).await.or_sooner(again)
                    }
                    Item::Class(_, name) => reconcile::class(&context, name).await,
                    Item::Overlays => overlays::reconcile(&context).await,
                    Item::Buffers => buffers::reconcile(&context).await,
                };
                work.end(outcome_of(verdict));
                Ended::Job(Done::Reconciled(item, verdict))
            }),
            Job::Advance(item, late) => self.tasks.spawn(async move {
                let work = context.metrics.work(Controller::Commands).taken(late);
                let verdict = disruption::reconcile(&context, &item).await;
                work.end(outcome_of(verdict));
                Ended::Job(Done::Advanced(item, verdict))
            }),
            Job::DecidePods => self.tasks.spawn(async move {
                let work = context.metrics.work(Controller::Provisioner);
                let step = round::provision(Arc::clone(&context)).await;
                work.end(if step.again.is_some() { metrics::Ended::Later } else { metrics::Ended::Success });
                Ended::DecidedPods(step)
            }),
            Job::CarryOutOrder => {
                let order = self.order.take();
                self.tasks.spawn(async move {
                    if let Some(order) = order {
                        orders::carry_out(context, order).await;
                    }
                    Ended::Job(Done::CarriedOutOrder)
                })
            }
            Job::DecideDisruption => {
                let planner = self.planner.clone();
                self.tasks.spawn(async move {
                    let work = context.metrics.work(Controller::Disruption);
                    let planned = disruption::plan_disruption(Arc::clone(&context), planner).await;
                    work.end(metrics::Ended::Later);
                    Ended::PlannedDisruption(Box::new(planned))
                })
            }
            Job::Nominate { is_writing } => {
                self.tasks.spawn(async move { Ended::Nominated(round::nominate(&context, is_writing)) })
            }
            Job::CollectGarbage => self.tasks.spawn(async move {
                let work = context.metrics.work(Controller::Garbage);
                let tidied = garbage::tidy(&context).await;
                work.end(metrics::Ended::Later);
                Ended::Job(tidied)
            }),
        };
    }

    /// Takes in the end of a task, and starts to write what it has decided.
    pub(super) fn conclude(&mut self, ended: Ended) {
        match ended {
            Ended::Job(done) => self.done(done),
            Ended::DecidedPods(step) => {
                self.done(Done::DecidedPods { again: step.again });
                self.tell(step, Audience::People);
            }
            Ended::PlannedDisruption(planned) => self.conclude_disruption(*planned),
            Ended::Nominated(step) => {
                self.done(Done::Nominated { again: step.again, writes: !step.writes.is_empty() });
                self.tell(step, Audience::Pods);
            }
            Ended::ClaimsTold => self.is_telling_claims = false,
            Ended::EventsWritten => {}
        }
    }

    fn conclude_disruption(&mut self, planned: disruption::PlannedDisruption) {
        let disruption::PlannedDisruption { planner, command_starts, deletion_costs, again, moments, notices, told } =
            planned;
        self.planner = planner;
        let end = PassEnd::of(&self.planner, again, moments, !command_starts.is_empty());
        self.done(Done::DecidedDisruption(end));
        self.begin_commands(command_starts);
        self.tell_claims(told);
        self.tell(Step::act(deletion_costs), Audience::People);
        self.tell(notices, Audience::People);
    }

    /// Begins the decided commands.
    fn begin_commands(&mut self, command_starts: Vec<CommandStart>) {
        if command_starts.is_empty() {
            return;
        }
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let is_open = disruption::open(context, command_starts).await;
            Ended::Job(Done::BegunCommands { is_open })
        });
    }
}
