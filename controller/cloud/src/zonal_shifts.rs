//! Zones away from which traffic is shifted: nothing is launched there until the shift ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Maximum number of zones. No region has more than seven, so an answer that names more is not believed in full.
const MOST: usize = 32;

/// End of a shift of traffic away from a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShiftEnd {
    /// At this time, unless the shift is cancelled before.
    At(Timestamp),
    /// When the cloud ends it. Until this time that is believed if nothing more is heard.
    Open(Timestamp),
}

/// Shifts by ID of the zone (`use1-az1`). Names of zones differ from account to account, their IDs do not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ZonalShifts(BTreeMap<Arc<str>, ShiftEnd>);

/// Difference between two sets of shifts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShiftChange {
    /// Zones that are shifted away now, and were not before.
    pub begun: ZonalShifts,
    /// IDs of the zones that were, and are not any more.
    pub ended: BTreeSet<Arc<str>>,
}

// === impl ShiftEnd ===

impl ShiftEnd {
    /// Returns the time from which the shift does not count any more.
    #[must_use]
    pub const fn until(self) -> Timestamp {
        match self {
            Self::At(until) | Self::Open(until) => until,
        }
    }
}

impl fmt::Display for ShiftEnd {
    /// Writes the end of a sentence about the zone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(until) => write!(f, "is shifted away until {until}"),
            Self::Open(_) => f.write_str("is shifted away by an autoshift"),
        }
    }
}

// === impl ZonalShifts ===

impl ZonalShifts {
    /// Returns the shifts that count at `now`.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Self {
        let current = self.0.iter().filter(|(_, end)| now < end.until());
        Self(current.map(|(zone, end)| (Arc::clone(zone), *end)).collect())
    }

    /// Returns the IDs of the zones.
    #[must_use]
    pub fn zones(&self) -> BTreeSet<Arc<str>> {
        self.0.keys().cloned().collect()
    }

    /// Returns the shift away from the zone with this ID.
    #[must_use]
    pub fn get(&self, zone: &str) -> Option<ShiftEnd> {
        self.0.get(zone).copied()
    }

    /// Returns all shifts, by ID of the zone.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, ShiftEnd)> {
        self.0.iter().map(|(zone, end)| (zone, *end))
    }

    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first time after `now` at which a shift ends if nothing is heard.
    #[must_use]
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        self.0.values().map(|end| end.until()).filter(|until| now < *until).min()
    }

    /// Returns what has changed since `before`; `None` if the same zones are shifted away. A shift that was prolonged
    /// is the same one.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<ShiftChange> {
        let begun = self.0.iter().filter(|(zone, _)| !before.0.contains_key(*zone));
        let ended = before.0.keys().filter(|zone| !self.0.contains_key(*zone));
        let change = ShiftChange {
            begun: Self(begun.map(|(zone, end)| (Arc::clone(zone), *end)).collect()),
            ended: ended.cloned().collect(),
        };
        (change != ShiftChange::default()).then_some(change)
    }
}

impl FromIterator<(Arc<str>, ShiftEnd)> for ZonalShifts {
    /// Collects shifts; of several away from one zone the last to end counts.
    fn from_iter<T: IntoIterator<Item = (Arc<str>, ShiftEnd)>>(shifts: T) -> Self {
        let mut all: BTreeMap<Arc<str>, ShiftEnd> = BTreeMap::new();
        for (zone, end) in shifts {
            let is_room = all.len() < MOST;
            match all.get_mut(&zone) {
                Some(known) if known.until() < end.until() => *known = end,
                None if is_room => drop(all.insert(zone, end)),
                Some(_) | None => {}
            }
        }
        Self(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shifts(all: &[(&str, i64)]) -> ZonalShifts {
        all.iter().map(|(zone, until)| (Arc::from(*zone), ShiftEnd::At(at(*until)))).collect()
    }

    #[test]
    fn a_shift_counts_until_its_end_and_the_last_of_a_zone_counts() {
        let known = shifts(&[("az1", 100), ("az2", 50), ("az1", 70)]);
        assert_eq!(known.at(at(49)), shifts(&[("az1", 100), ("az2", 50)]));
        assert_eq!(known.at(at(50)), shifts(&[("az1", 100)]), "at its end it is over");
        assert_eq!(known.at(at(100)), ZonalShifts::default());
        assert_eq!((known.next_end(at(0)), known.next_end(at(50))), (Some(at(50)), Some(at(100))));
        assert_eq!(known.next_end(at(100)), None);
    }

    #[test]
    fn only_zones_that_begin_or_end_are_a_change() {
        let before = shifts(&[("az1", 100), ("az2", 100)]);
        assert_eq!(shifts(&[("az1", 900), ("az2", 100)]).since(&before), None, "it was prolonged");
        let change = shifts(&[("az2", 100), ("az3", 200)]).since(&before).unwrap();
        assert_eq!(change.begun, shifts(&[("az3", 200)]));
        assert_eq!(change.ended, BTreeSet::from(["az1".into()]));
    }

    #[test]
    fn an_answer_without_end_is_cut_off() {
        let many: ZonalShifts = (0..1000).map(|number| (format!("az{number}").into(), ShiftEnd::At(at(1)))).collect();
        assert_eq!(many.zones().len(), MOST);
    }

    #[test]
    fn each_end_is_told() {
        assert_eq!(ShiftEnd::At(at(0)).to_string(), "is shifted away until 1970-01-01T00:00:00Z");
        assert_eq!(ShiftEnd::Open(at(0)).to_string(), "is shifted away by an autoshift");
    }
}
