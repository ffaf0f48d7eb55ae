//! Counts of capacity reservations, kept up to date by lookups, our own instances, and questions about doubtful ones.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join_all;
use jiff::Timestamp;
use muster_cloud::{CloudError, Instance, InstanceState, Refusal, Refused, after};
use tokio::sync::watch;
use tokio::time::sleep;

use super::cloud::{Ec2Cloud, Inner, VISIBLE, lock};
use super::instances::instance_id;
use super::lookup;
use crate::class::ClassSettings;
use crate::discovery::selectors::Query;
use crate::reservation_counts::ASK_AGAIN;

impl Ec2Cloud {
    /// Sets the numbers of available instances by reservation, as EC2 said when it was asked at `asked_at`.
    pub(super) fn learn_reservations(&self, counts: &BTreeMap<String, u32>, asked_at: Timestamp) {
        let counts = counts.iter().map(|(id, count)| (id.as_str(), *count));
        self.0.change_counts(|known| known.tell(counts, asked_at));
    }

    /// Returns a counter that grows whenever the number of available instances changes of a reservation that the class
    /// selects.
    #[must_use]
    pub fn reservations_edition(&self, class: &str) -> u64 {
        let known = self.0.class(class).ok();
        let settings = known.as_ref().and_then(|known| known.settings.as_ref().ok());
        if settings.is_some_and(|settings| !settings.reservations.is_empty()) {
            lock(&self.0.reservations).edition()
        } else {
            0
        }
    }

    /// Returns a counter that grows whenever more instances of some reservation become available.
    #[must_use]
    pub fn freed_reservations(&self) -> watch::Receiver<u64> {
        self.0.freed.subscribe()
    }

    /// Waits until some count is doubtful, and asks EC2 for it.
    ///
    /// # Errors
    /// If the call fails.
    pub async fn refresh_doubtful_reservations(&self) -> Result<(), CloudError> {
        let mut doubts = self.0.doubts.subscribe();
        loop {
            let now = self.0.caller.now();
            let (doubtful, is_any_later) = {
                let counts = lock(&self.0.reservations);
                (counts.doubtful(now), !counts.doubtful(after(now, ASK_AGAIN)).is_empty())
            };
            if !doubtful.is_empty() {
                return self.ask_for_counts(doubtful).await;
            }
            if is_any_later {
                sleep(ASK_AGAIN).await;
            } else if doubts.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    async fn ask_for_counts(&self, ids: BTreeSet<String>) -> Result<(), CloudError> {
        let asked_at = self.0.caller.now();
        // One by one: a call with an ID that does not exist any more fails as a whole.
        let asked = ids.into_iter().map(|id| async move {
            let query = Query { ids: vec![id.clone()], ..Query::default() };
            let found = lookup::reservations(&self.0.aws, &self.0.caller, vec![query]).await?;
            Ok::<_, CloudError>((id, found.first().map_or(0, |one| one.free)))
        });
        let counts: BTreeMap<String, u32> = try_join_all(asked).await?.into_iter().collect();
        self.learn_reservations(&counts, asked_at);
        Ok(())
    }

    /// Returns the settings with the numbers of available instances.
    pub(super) fn with_counts<'s>(&self, settings: &'s ClassSettings) -> Cow<'s, ClassSettings> {
        if settings.reservations.is_empty() {
            return Cow::Borrowed(settings);
        }
        let mut counted = settings.clone();
        let counts = lock(&self.0.reservations);
        for one in &mut counted.reservations {
            one.available_instances = counts.available(&one.id);
        }
        Cow::Owned(counted)
    }
}

impl Inner {
    /// Records the refusals of reservations that are used up.
    pub(super) fn note_refused(&self, refused: &[Refused]) {
        let used_up = refused.iter().filter(|one| one.refusal == Refusal::Reservation);
        let ids: BTreeSet<&str> = used_up.filter_map(|one| one.offering.reservation.as_deref()).collect();
        if !ids.is_empty() {
            let now = self.caller.now();
            self.change_counts(|counts| ids.into_iter().for_each(|id| counts.refused(id, now)));
        }
    }

    /// Records the launch of an instance, if it is in a reservation.
    pub(super) fn note_launched(&self, instance: &str, reservation: Option<&str>) {
        if let Some(reservation) = reservation {
            let now = self.caller.now();
            self.change_counts(|counts| counts.launched(instance, reservation, now));
        }
    }

    /// Records that the termination of an instance is requested.
    pub(super) fn note_ending(&self, instance: &str) {
        let now = self.caller.now();
        lock(&self.reservations).ending(instance, now);
    }

    /// Records that an instance has ended.
    pub(super) fn note_ended(&self, instance: &str) {
        let now = self.caller.now();
        self.change_counts(|counts| counts.ended(instance, now));
    }

    /// Records an instance as EC2 describes it.
    pub(super) fn note_described(&self, instance: &Instance) {
        let Some(id) = instance_id(&instance.provider_id) else { return };
        match &instance.offering.reservation {
            Some(reservation) if instance.state != InstanceState::Terminated => {
                lock(&self.reservations).seen(id, reservation);
            }
            // It has ended, or its reservation has.
            _ => self.note_ended(id),
        }
    }

    /// Records all instances of the cluster. Those that EC2 does not list have ended, unless they were launched moments
    /// ago.
    pub(super) fn note_listed(&self, instances: &[Instance]) {
        instances.iter().for_each(|instance| self.note_described(instance));
        let listed: BTreeSet<&str> = instances.iter().filter_map(|one| instance_id(&one.provider_id)).collect();
        let now = self.caller.now();
        let gone: Vec<String> = {
            let (counts, recent) = (lock(&self.reservations), lock(&self.recent));
            let is_recent = |id: &str| recent.get(id).is_some_and(|one| now < after(one.launched_at, VISIBLE));
            counts.instances().filter(|id| !listed.contains(id) && !is_recent(id)).map(str::to_owned).collect()
        };
        gone.iter().for_each(|id| self.note_ended(id));
    }

    /// Changes the counts, and tells of doubts and of instances that have become available.
    fn change_counts(&self, change: impl FnOnce(&mut crate::reservation_counts::ReservationCounts)) {
        let (has_doubts, is_more) = {
            let mut counts = lock(&self.reservations);
            let before = counts.freed();
            change(&mut counts);
            (counts.has_doubts(), counts.freed() > before)
        };
        if has_doubts {
            self.doubts.send_modify(|count| *count += 1);
        }
        if is_more {
            self.freed.send_modify(|count| *count += 1);
        }
    }
}
