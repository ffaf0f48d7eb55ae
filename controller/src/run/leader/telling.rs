//! Events, nominations, conditions and queue metrics of the leader.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_stages::lifecycle::Answers;
use muster_stages::step::Step;

use super::{Done, Item, Leader};
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
    /// Has NodePools say whose consolidation rests, or rests no more.
    pub(super) fn note_rests(&mut self, now: Timestamp) {
        let rests = self.planner.delivered().filter_map(|one| Some((one.pool.to_string(), one.rest?))).collect();
        let before = std::mem::replace(&mut self.context.leader_state().rests, rests);
        for (pool, rest) in &self.context.leader_state().rests {
            if before.get(pool) != Some(rest) {
                self.work_queue.want(Item::Pool(pool.clone()), now);
            }
        }
    }

    /// Has NodePools say that their launches are held, or are held no more.
    pub(super) fn note_holds(&mut self, now: Timestamp) {
        let holds = self.context.leader_state().plan.holds().clone();
        let before = std::mem::replace(&mut self.holds, holds);
        let is_news = |pool: &&String| before.get(*pool) != self.holds.get(*pool);
        let changed: BTreeSet<&String> = before.keys().chain(self.holds.keys()).filter(is_news).collect();
        for pool in changed {
            self.work_queue.want(Item::Pool(pool.clone()), now);
        }
    }

    /// Writes conditions of claims beside the commands of the same decision. While those of an earlier one are being
    /// written, the next decision finds these again.
    pub(super) fn tell_claims(&mut self, told: Vec<disruption::StatusWrite>) {
        if told.is_empty() {
            return;
        }
        if self.is_telling_claims {
            self.pass_schedule.stir();
            return;
        }
        self.is_telling_claims = true;
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            disruption::tell(&context, told).await;
            Done::ClaimsTold
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
            Done::EventsWritten(audience)
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
        for item in self.work_queue.due(now) {
            let controller = controller_of(item);
            due.iter_mut().filter(|(one, _)| *one == controller).for_each(|(_, count)| *count += 1);
        }
        for (controller, depth) in due.into_iter().chain([(Controller::Commands, self.commands.due(now).count())]) {
            self.context.metrics.queue(controller, depth);
        }
    }
}

pub(super) const fn controller_of(item: &Item) -> Controller {
    match item {
        Item::Claim(_) => Controller::Claims,
        Item::Pool(_) => Controller::Pools,
        Item::Class(_) => Controller::Classes,
        Item::Overlays => Controller::Overlays,
        Item::Buffers => Controller::Buffers,
    }
}
