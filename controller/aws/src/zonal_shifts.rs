//! Shifts of traffic away from zones, as the Application Recovery Controller (ARC) describes those of a cluster.
//!
//! A shift that an operator has started has an end. An autoshift, which AWS starts and ends itself, has none: it counts
//! for an hour after the last answer that had it. Karpenter does not look at autoshifts.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::{ShiftEnd, ZonalShifts, after};

/// Time for which an autoshift is believed if ARC is not heard of any more.
const BELIEVED: Duration = Duration::from_secs(60 * 60);

/// A shift away from a zone. Of several that are in progress, ARC applies one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedShift {
    /// ID of the zone (`use1-az1`).
    pub zone: String,
    /// True if it is in effect.
    pub is_applied: bool,
    /// End; `None` for an autoshift.
    pub expires: Option<Timestamp>,
}

/// Returns the shifts that are in effect at `now`.
#[must_use]
pub fn in_effect(reported: &[ReportedShift], now: Timestamp) -> ZonalShifts {
    let applied = reported.iter().filter(|one| one.is_applied && !one.zone.is_empty());
    let all: ZonalShifts = applied
        .map(|one| {
            let end = one.expires.map_or_else(|| ShiftEnd::Open(after(now, BELIEVED)), ShiftEnd::At);
            (Arc::from(one.zone.as_str()), end)
        })
        .collect();
    all.at(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    fn shift(zone: &str, is_applied: bool, expires: Option<i64>) -> ReportedShift {
        ReportedShift { zone: zone.to_owned(), is_applied, expires: expires.map(at) }
    }

    #[test]
    fn a_shift_counts_if_it_is_applied_and_not_over() {
        let reported = [
            shift("use1-az1", true, Some(30)),
            shift("use1-az2", false, Some(30)),
            shift("use1-az3", true, Some(10)),
            shift("", true, Some(30)),
        ];
        let found = in_effect(&reported, at(10));
        assert_eq!(found.zones().into_iter().collect::<Vec<_>>(), ["use1-az1".into()]);
        assert_eq!(found.get("use1-az1"), Some(ShiftEnd::At(at(30))));
        assert!(found.at(at(30)).is_empty());
    }

    #[test]
    fn an_autoshift_counts_for_an_hour_after_it_was_last_heard_of() {
        let found = in_effect(&[shift("use1-az1", true, None)], at(10));
        assert_eq!(found.get("use1-az1"), Some(ShiftEnd::Open(at(70))));
        assert!(in_effect(&[shift("use1-az1", false, None)], at(10)).is_empty(), "another shift takes precedence");
    }
}
