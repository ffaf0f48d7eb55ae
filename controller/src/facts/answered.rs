//! NodeClaims as the API server returned them for this replica's writes. A connecting node causes about three writes
//! within moments, and the cache of the cluster shows each some milliseconds late. Writes based on the cache alone
//! would conflict and need another read each time. Pure.

use std::collections::{HashMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use muster_api::NodeClaim;

/// Time that an answer is kept. A cache that lags for longer costs a conflict and a read.
const KEPT: SignedDuration = SignedDuration::from_secs(10);

/// Last answer by UID of the NodeClaim.
#[derive(Debug, Default)]
pub(super) struct Answered {
    by_claim: HashMap<String, (NodeClaim, Timestamp)>,
    /// In order of arrival.
    order: VecDeque<(Timestamp, String)>,
}

impl Answered {
    /// Records the API server's answer to a write.
    pub(super) fn note(&mut self, mut claim: NodeClaim, now: Timestamp) {
        self.forget(now);
        let Some(uid) = claim.metadata.uid.clone() else { return };
        claim.metadata.managed_fields = None;
        self.by_claim.insert(uid.clone(), (claim, now));
        self.order.push_back((now, uid));
    }

    /// Forgets old answers; an empty map frees its memory.
    pub(super) fn forget(&mut self, now: Timestamp) {
        while let Some((_, old)) = self.order.pop_front_if(|(at, _)| now.duration_since(*at) >= KEPT) {
            // An answer to a later write is kept for its own time.
            if self.by_claim.get(&old).is_some_and(|(_, at)| now.duration_since(*at) >= KEPT) {
                self.by_claim.remove(&old);
            }
        }
        if self.order.is_empty() {
            *self = Self::default();
        }
    }

    /// Returns the later version of a NodeClaim: the one in the cache, or the last answer.
    pub(super) fn latest<'c>(&'c self, shown: &'c NodeClaim) -> &'c NodeClaim {
        let answered = shown.metadata.uid.as_ref().and_then(|uid| self.by_claim.get(uid));
        match answered {
            Some((answered, _)) if version(answered) > version(shown) => answered,
            _ => shown,
        }
    }
}

/// Returns the resource version: they are increasing numbers within a resource (KEP-5504).
fn version(claim: &NodeClaim) -> Option<u64> {
    claim.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn of(uid: &str, version: &str) -> NodeClaim {
        let mut claim = NodeClaim::default();
        (claim.metadata.uid, claim.metadata.resource_version) = (Some(uid.to_owned()), Some(version.to_owned()));
        claim
    }

    #[test]
    fn the_later_counts() {
        let mut answered = Answered::default();
        answered.note(of("a", "10"), at(0));
        let (before, same, later, other) = (of("a", "9"), of("a", "10"), of("a", "11"), of("b", "9"));
        assert_eq!(version(answered.latest(&before)), Some(10));
        assert_eq!(version(answered.latest(&later)), Some(11), "somebody else has written since");
        assert!(std::ptr::eq(answered.latest(&same), &same), "the cache shows it");
        assert_eq!(version(answered.latest(&other)), Some(9), "the next claim of that name is another");
    }

    #[test]
    fn nothing_is_kept_for_long() {
        let mut answered = Answered::default();
        answered.note(of("a", "1"), at(0));
        answered.note(of("b", "2"), at(5));
        answered.note(of("a", "3"), at(9));
        answered.note(of("c", "4"), at(12));
        assert_eq!(version(answered.latest(&of("a", "1"))), Some(3), "the later of two");
        answered.note(of("d", "5"), at(60));
        assert_eq!((answered.by_claim.len(), answered.order.len()), (1, 1));
        answered.forget(at(70));
        assert_eq!((answered.by_claim.capacity(), answered.order.capacity()), (0, 0));
    }
}
