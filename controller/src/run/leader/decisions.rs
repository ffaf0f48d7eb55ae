//! Decisions about more than one object: launches for pods, orders, disruption, nominations. Each runs as a task of its
//! own.

use std::sync::Arc;

use jiff::Timestamp;
use muster_stages::disruption::CommandStart;

use super::decision_order::Waiting;
use super::{Done, Leader};
use crate::provider::Provider;
use crate::run::metrics::{Controller, Ended};
use crate::run::{disruption, now, orders, round};

// === impl Leader ===

impl<P: Provider> Leader<P> {
    /// Returns true if disruption may be decided now: pending pods take precedence, and decided commands are begun
    /// before the next decision. `decision_order` selects among the waiting decisions.
    pub(super) const fn can_plan_disruption(&self) -> bool {
        !self.is_planning_disruption && !self.is_opening && !self.is_planning
    }

    /// Returns the decisions that could begin now. Decisions about launches run one at a time, and an order waits until
    /// the replacements of decided commands have been created.
    pub(super) fn waiting_for_a_turn(&self, now: Timestamp) -> Waiting {
        let is_due = self.window.is_due(&self.context.settings.window, now)
            || self.decide_at.is_some_and(|moment| moment <= now);
        Waiting {
            pods: is_due && !self.is_planning,
            order: self.order.is_some() && !self.is_planning && !self.is_opening,
            planner: self.can_plan_disruption() && self.pass_schedule.is_due(now),
        }
    }

    /// Starts a provisioning round.
    pub(super) fn plan(&mut self) {
        self.window.close();
        self.decide_at = None;
        self.is_planning = true;
        self.has_changed = false;
        self.was_order = false;
        self.forget_gone();
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let work = context.metrics.work(Controller::Provisioner);
            let step = round::provision(Arc::clone(&context)).await;
            work.end(if step.again.is_some() { Ended::Later } else { Ended::Success });
            Done::Decided(step)
        });
    }

    /// Starts executing the next order.
    pub(super) fn carry_out_order(&mut self) {
        let Some(order) = self.order.take() else { return };
        self.is_planning = true;
        self.was_order = true;
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            orders::carry_out(context, order).await;
            Done::Ordered
        });
    }

    /// Starts a decision about disruption.
    pub(super) fn plan_disruption(&mut self) {
        self.pass_schedule.ask(now());
        self.is_planning_disruption = true;
        let (context, planner) = (Arc::clone(&self.context), self.planner.clone());
        self.tasks.spawn(async move {
            let work = context.metrics.work(Controller::Disruption);
            let planned = disruption::plan_disruption(Arc::clone(&context), planner).await;
            work.end(Ended::Later);
            Done::PlannedDisruption(Box::new(planned))
        });
    }

    /// Starts computing nominations, if that is due. It does not wait for the next round: a node that registers
    /// meanwhile is held until its pods are nominated.
    pub(super) fn nominate(&mut self, now: Timestamp) {
        if self.is_nominating || self.nominate_at.is_none_or(|moment| moment > now) {
            return;
        }
        self.nominate_at = None;
        if self.context.settings.nominates {
            self.is_nominating = true;
            let (context, is_telling) = (Arc::clone(&self.context), self.is_telling);
            self.tasks.spawn(async move { Done::Nominated(round::nominate(&context, is_telling)) });
        }
    }

    /// Begins the decided commands.
    pub(super) fn begin(&mut self, command_starts: Vec<CommandStart>) {
        if command_starts.is_empty() {
            return;
        }
        self.is_opening = true;
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move { Done::Opened(disruption::open(context, command_starts).await) });
    }
}
