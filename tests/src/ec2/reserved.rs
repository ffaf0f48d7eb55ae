//! Capacity reservations as their owner and EC2 change them: blocks that are bought, capacity that others use, ends.

use std::time::Duration;

use jiff::Timestamp;

use super::instances::StateReason;
use super::request::Request;
use super::services::{BlockOrder, Market};
use super::shared::Shared;
use super::{REGION, Refused, notices, refused};

/// Changes capacity reservations behind the back of who launches into them.
#[derive(Debug)]
pub struct CapacityReservations<'a>(pub(super) &'a Shared);

impl CapacityReservations<'_> {
    /// Buys a capacity block that has begun and ends then; its id.
    pub fn buy_block(&self, instance_type: &str, zone: &str, count: u32, ends: Timestamp) -> String {
        let order = BlockOrder { region: REGION, instance_type, zone, count, ends };
        let (mut state, now) = (self.0.state(), self.0.clock.now());
        let id = state.id("cr-");
        state.reservations.add_block(&id, &order, now);
        id
    }

    /// Has the owner of a reservation lend it until further notice: instances in it can be taken back.
    pub fn make_interruptible(&self, id: &str) {
        self.0.state().reservations.change(id, |it| it.market = Market::Interruptible);
    }

    /// Others of the account run so many instances in it.
    pub fn fill(&self, id: &str, count: u32) {
        self.0.state().reservations.change(id, |it| it.others = count);
    }

    /// It ends then: not now, or sooner or later than it was to end.
    pub fn end_at(&self, id: &str, ends: Timestamp) {
        self.0.state().reservations.change(id, |it| it.ends = Some(ends));
    }

    /// An instance that has ended is counted for so long.
    pub fn count_ended_for(&self, time: Duration) {
        self.0.state().reservations.counts_ended_for = time;
    }

    /// The owner takes an interruptible reservation back: nothing is launched into it any more, and EventBridge has the two minutes'
    /// notice of each instance.
    ///
    /// # Errors
    /// If EventBridge does not take it.
    pub async fn take_back(&self, id: &str) -> Result<(), Refused> {
        self.0.state().reservations.change(id, |it| it.is_taken_back = true);
        let running = self.0.state().instances.running_shared();
        for instance in running {
            if instance.reservation.as_deref() == Some(id) {
                let told = notices::reservation_interruption(self.0, &instance).await;
                told.map_err(|error| refused("PutEvents", error))?;
            }
        }
        Ok(())
    }

    /// EC2 terminates what is left in a reservation; the ids of these instances.
    ///
    /// # Errors
    /// If EC2 does not terminate them.
    pub async fn terminate_left(&self, id: &str) -> Result<Vec<String>, Refused> {
        let running = self.0.state().instances.running_shared();
        let mut left = Vec::new();
        for instance in running.into_iter().filter(|one| one.reservation.as_deref() == Some(id)) {
            let like = Request::unsigned("ec2", &instance.region, None, &[], Vec::new());
            let ended = self.0.end(&like, &instance.id, StateReason::reservation_end()).await;
            ended.map_err(|error| refused("TerminateInstances", error))?;
            left.push(instance.id.clone());
        }
        Ok(left)
    }
}
