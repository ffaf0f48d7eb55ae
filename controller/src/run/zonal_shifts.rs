//! Zonal shifts as the leader follows them: what closes and opens zones is logged once, and decided on at once.
//!
//! ```text
//!   Provider::zonal_shifts ──► ShiftWatch ─┬─ another answer, or an end has come ──► change ─┬► log, metric
//!                                          │                                                  └► pods, nodes: decide
//!                                          └─ closed_zones ──► snapshots: why nothing is launched, which nodes stay
//!   ShiftWatch::known, NodePools, classes ──► ToldShifts ──► events: each NodePool is told once
//! ```

use std::future::pending;

use jiff::Timestamp;
use muster_cloud::{ShiftChange, ZonalShifts};
use muster_scheduling::model::ClosedZone;
use tokio::sync::watch;

use crate::provider::Provider;

/// Zonal shifts that the leader has last taken into account.
pub(super) struct ShiftWatch {
    /// `None` if they are not heeded.
    heard: Option<watch::Receiver<ZonalShifts>>,
    known: ZonalShifts,
}

// === impl ShiftWatch ===

impl ShiftWatch {
    pub(super) fn of<P: Provider>(provider: &P) -> Self {
        Self { heard: provider.zonal_shifts(), known: ZonalShifts::default() }
    }

    /// Completes when the cloud has told something else; never if nothing is heeded.
    pub(super) async fn heard(&mut self) {
        let Some(heard) = &mut self.heard else { return pending().await };
        if heard.changed().await.is_err() {
            pending().await
        }
    }

    /// Returns the first time after `now` at which a shift ends if nothing is heard.
    pub(super) fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        self.heard.as_ref()?.borrow().next_end(now)
    }

    /// Returns the zones that are shifted away now.
    pub(super) const fn known(&self) -> &ZonalShifts {
        &self.known
    }

    /// Returns what has changed since the last call; `None` if the same zones are shifted away.
    pub(super) fn turn(&mut self, now: Timestamp) -> Option<ShiftChange> {
        let current = self.heard.as_mut()?.borrow_and_update().at(now);
        let change = current.since(&self.known);
        self.known = current;
        change
    }
}

/// Returns the zones in which nothing is launched at `now`, with the reasons.
pub(super) fn closed_zones<P: Provider>(provider: &P, now: Timestamp) -> Vec<ClosedZone> {
    let Some(heard) = provider.zonal_shifts() else { return Vec::new() };
    let current = heard.borrow().at(now);
    current.iter().map(|(id, end)| ClosedZone { id: id.clone(), why: end.to_string().into() }).collect()
}

/// Logs what has changed.
pub(super) fn log(change: &ShiftChange) {
    for (zone_id, end) in change.begun.iter() {
        tracing::warn!(%zone_id, %end, "traffic is shifted away from a zone: nothing is launched there");
    }
    for zone_id in &change.ended {
        tracing::info!(%zone_id, "a zonal shift has ended: the zone is used again");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_cloud::ShiftEnd;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shifts(all: &[(&str, i64)]) -> ZonalShifts {
        all.iter().map(|(zone, until)| (Arc::from(*zone), ShiftEnd::At(at(*until)))).collect()
    }

    #[tokio::test]
    async fn an_answer_and_an_end_are_each_a_change_once() {
        let (told, heard) = watch::channel(ZonalShifts::default());
        let mut watch = ShiftWatch { heard: Some(heard), known: ZonalShifts::default() };
        assert_eq!((watch.turn(at(0)), watch.next_end(at(0))), (None, None));
        told.send(shifts(&[("az1", 100)])).unwrap();
        watch.heard().await;
        assert_eq!(watch.turn(at(10)).unwrap().begun, shifts(&[("az1", 100)]));
        assert_eq!((watch.turn(at(20)), watch.next_end(at(20))), (None, Some(at(100))));
        // It is prolonged: its end is another one, and nothing has changed.
        told.send(shifts(&[("az1", 200)])).unwrap();
        assert_eq!((watch.turn(at(100)), watch.next_end(at(100))), (None, Some(at(200))));
        // Nothing more is heard.
        let ended = watch.turn(at(200)).unwrap().ended;
        assert_eq!(ended.into_iter().collect::<Vec<_>>(), ["az1".into()]);
        assert_eq!((watch.turn(at(201)), watch.known().is_empty()), (None, true));
    }

    #[tokio::test(start_paused = true)]
    async fn where_they_are_not_heeded_nothing_is_heard() {
        let mut watch = ShiftWatch { heard: None, known: ZonalShifts::default() };
        assert_eq!((watch.turn(at(0)), watch.next_end(at(0))), (None, None));
        let waited = tokio::time::timeout(std::time::Duration::from_secs(3600), watch.heard()).await;
        assert!(waited.is_err());
    }
}
