//! Events, nominations, conditions and queue metrics of the leader.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_stages::driver::{Done, Item};
use muster_stages::lifecycle::Answers;
use muster_stages::step::Step;

use super::Leader;
use super::jobs::Ended;
use crate::edge::ObservedVersions;
use crate::provider::Provider;
use crate::run::disruption;
use crate::run::metrics::Controller;

/// Interval between two counts of the objects that are due.
const TELL: Duration = Duration::from_secs(1);

/// Kind of writes: events for people, or nominations of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    People,
    Pods,
}

// === impl Leader ===

impl<P: Provider> Leader<P> {
    /// Writes conditions of claims beside the commands of the same decision. While those of an earlier one are being
    /// written, the next decision finds these again.
    pub(super) fn tell_claims(&mut self, told: Vec<disruption::StatusWrite>) {
        if told.is_empty() {
            return;
        }
        if self.is_telling_claims {
            self.driver.stir_disruption();
            return;
        }
        self.is_telling_claims = true;
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            disruption::tell(&context, told).await;
            Ended::ClaimsTold
        });
    }

    /// Executes writes in a task of its own, since thousands of pods or events may take seconds.
    pub(super) fn tell(&mut self, step: Step, audience: Audience) {
        if step.writes.is_empty() {
            return;
        }
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            // The next decision retries failures.
            let _ = context.edge.carry_out(&step, &mut ObservedVersions::default(), &mut Answers::default()).await;
            match audience {
                Audience::People => Ended::EventsWritten,
                Audience::Pods => Ended::Job(Done::WroteNominations),
            }
        });
    }

    /// Tells the metrics how many objects are due, once a second: there may be ten thousand, which are counted then.
    pub(super) fn tell_queues(&mut self, now: Timestamp) {
        if self.told_at.is_some_and(|told| now < after(told, TELL) && told <= now) {
            return;
        }
        self.told_at = Some(now);
        let queues =
            [Controller::Claims, Controller::Pools, Controller::Classes, Controller::Overlays, Controller::Buffers];
        let mut due = queues.map(|controller| (controller, 0));
        for item in self.driver.due(now) {
            let controller = controller_of(item);
            due.iter_mut().filter(|(one, _)| *one == controller).for_each(|(_, count)| *count += 1);
        }
        for (controller, depth) in due.into_iter().chain([(Controller::Commands, self.driver.count_due_commands(now))])
        {
            self.context.metrics.queue(controller, depth);
        }
    }
}

pub(super) const fn controller_of(item: &Item) -> Controller {
    match item {
        Item::Claim(_) => Controller::Claims,
        Item::Pool(_) => Controller::Pools,
        Item::Class(..) => Controller::Classes,
        Item::Overlays => Controller::Overlays,
        Item::Buffers => Controller::Buffers,
    }
}
