//! Recently refused offerings, which are avoided for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_scheduling::model;

use crate::error::LaunchError;
use crate::instance::Offering;
use crate::launch::{Alternative, Launched, Refusal, Refused};
use crate::moment::after;

/// Time for which an offering is avoided after its first refusal, as in Karpenter.
const FIRST: Duration = Duration::from_secs(3 * 60);
/// Maximum time for which an offering is avoided after consecutive refusals.
const LONGEST: Duration = Duration::from_secs(48 * 60);
/// The same for a reservation that is used up: EC2 says how many instances are left, and may count one that has just
/// ended.
const FIRST_RESERVED: Duration = Duration::from_secs(10);
/// The same as [`LONGEST`].
const LONGEST_RESERVED: Duration = FIRST;

/// Refused offerings. Losing them (on a restart) costs extra calls, nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refusals(BTreeMap<Offering, Memory>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Memory {
    /// Number of refusals since the last launch.
    in_a_row: u32,
    until: Timestamp,
}

// === impl Refusals ===

impl Refusals {
    /// Records the result of a launch: the refused offerings, and the launched one.
    pub fn heed(&mut self, answer: &Result<Launched, LaunchError>, now: Timestamp) {
        let refused = match answer {
            Ok(launched) => launched.refused.as_slice(),
            Err(failed) => failed.error.refused(),
        };
        refused.iter().for_each(|one| self.record(one, now));
        if let Ok(launched) = answer {
            self.forget(&launched.instance.offering);
        }
    }

    /// Records a refusal. The time doubles with each refusal after the previous time has elapsed. A refusal before that
    /// belongs to a request already in flight and is ignored. So is an offering that was not asked for because of a
    /// zonal shift: it is known how long that lasts.
    pub fn record(&mut self, refused: &Refused, now: Timestamp) {
        if refused.refusal == Refusal::ZonalShift {
            return;
        }
        let memory = self.0.entry(refused.offering.clone()).or_insert(Memory { in_a_row: 0, until: now });
        if memory.in_a_row > 0 && now < memory.until {
            return;
        }
        let (first, longest) = match refused.refusal {
            Refusal::Reservation => (FIRST_RESERVED, LONGEST_RESERVED),
            _ => (FIRST, LONGEST),
        };
        let wait = first.saturating_mul(1 << memory.in_a_row.min(16)).min(longest);
        *memory = Memory { in_a_row: memory.in_a_row.saturating_add(1), until: after(now, wait) };
    }

    /// Records that the offering was launched, which clears its refusals.
    pub fn forget(&mut self, offering: &Offering) {
        self.0.remove(offering);
    }

    /// Returns the time until which the offering is avoided, or `None` if it is not.
    #[must_use]
    pub fn until(&self, offering: &Offering, now: Timestamp) -> Option<Timestamp> {
        self.0.get(offering).map(|memory| memory.until).filter(|until| now < *until)
    }

    /// Returns the offerings that are avoided at `now`, in order, as types of the scheduling model.
    #[must_use]
    pub fn current(&self, now: Timestamp) -> Vec<model::Refused> {
        let current = self.0.iter().filter(|(_, memory)| now < memory.until).map(|(offering, _)| offering);
        current
            .map(|Offering { instance_type, zone, capacity_type, reservation }| model::Refused {
                instance_type: instance_type.as_str().into(),
                zone: Some(zone.as_str().into()),
                capacity_type: Some(capacity_type.name().into()),
                reservation: reservation.as_deref().map(Into::into),
            })
            .collect()
    }

    /// Removes the alternatives whose offering is avoided at `now`.
    pub fn sieve(&self, alternatives: &mut Vec<Alternative>, now: Timestamp) {
        alternatives.retain(|one| self.until(&one.offering, now).is_none());
    }
}

#[cfg(test)]
mod tests {
    use muster_api::labels::{CAPACITY_TYPE, ZONE};
    use muster_scheduling::model::{self, Catalogue, InstanceType, Operator, Requirement, Requirements, Resources};

    use super::*;
    use crate::CapacityType;

    #[test]
    fn the_time_doubles_from_three_minutes_to_forty_eight() {
        let offering = Offering {
            instance_type: "m7g.large".to_owned(),
            zone: "a".to_owned(),
            capacity_type: CapacityType::Spot,
            reservation: None,
        };
        let refused = Refused { offering: offering.clone(), refusal: Refusal::Capacity };
        let mut refusals = Refusals::default();
        let mut now = Timestamp::UNIX_EPOCH;
        for minutes in [3, 6, 12, 24, 48, 48] {
            refusals.record(&refused, now);
            refusals.record(&refused, now);
            let until = refusals.until(&offering, now).unwrap();
            assert_eq!(until.duration_since(now).as_mins(), minutes);
            assert_eq!(refusals.until(&offering, until), None, "then it may be tried again");
            assert_eq!((refusals.current(now).len(), refusals.current(until).len()), (1, 0));
            now = until;
        }
        refusals.forget(&offering);
        refusals.record(&Refused { refusal: Refusal::ZonalShift, ..refused.clone() }, now);
        assert_eq!(refusals.until(&offering, now), None, "its zone says itself when it can be used again");
        refusals.record(&refused, now);
        assert_eq!(refusals.until(&offering, now), Some(after(now, FIRST)), "a launch in between starts anew");
    }

    #[test]
    fn a_used_up_reservation_is_asked_for_again_soon() {
        let offering = Offering {
            instance_type: "m7g.large".to_owned(),
            zone: "a".to_owned(),
            capacity_type: CapacityType::Reserved,
            reservation: Some("cr-1".to_owned()),
        };
        let refused = Refused { offering: offering.clone(), refusal: Refusal::Reservation };
        let mut refusals = Refusals::default();
        let mut now = Timestamp::UNIX_EPOCH;
        for seconds in [10, 20, 40, 80, 160, 180, 180] {
            refusals.record(&refused, now);
            let until = refusals.until(&offering, now).unwrap();
            assert_eq!(until.duration_since(now).as_secs(), seconds);
            now = until;
        }
    }

    #[test]
    fn nothing_is_planned_with_what_is_left_alone() {
        let label = |key: &str, value: &str| (key.to_owned(), Requirement::new(Operator::In, [value]));
        let offering = |zone: &str| model::Offering {
            requirements: [label(ZONE, zone), label(CAPACITY_TYPE, "spot")].into_iter().collect(),
            price: Some(0.1),
            available: true,
            reservation_capacity: 0,
        };
        let one = InstanceType {
            name: "m7g.large".into(),
            requirements: Requirements::new(),
            capacity: Resources::new(),
            overhead: Resources::new(),
            offerings: vec![offering("a"), offering("b")],
        };
        let whole = Catalogue::new(vec![one]);
        let refused = Offering {
            instance_type: "m7g.large".to_owned(),
            zone: "a".to_owned(),
            capacity_type: CapacityType::Spot,
            reservation: None,
        };
        let now = Timestamp::UNIX_EPOCH;
        let mut refusals = Refusals::default();
        refusals.record(&Refused { offering: refused, refusal: Refusal::Capacity }, now);
        let available = |at: Timestamp| {
            let mut catalogue = whole.clone();
            catalogue.refuse(&refusals.current(at));
            let all: Vec<bool> = catalogue.types()[0].offerings.iter().map(|one| one.available).collect();
            all
        };
        assert_eq!((available(now), available(after(now, FIRST))), (vec![false, true], vec![true, true]));
    }
}
