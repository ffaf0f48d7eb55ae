//! Nodes that were launched for a set of pods and received none of them, which shows that the plan was wrong.
//!
//! ```text
//!   a place is lost: its node is up, and its pod is still pending ──► unused: set of the pod, NodeClaim
//!   (not if other pods were bound there first, except before the node was open, or once the pod was nominated to it)
//!   a pod of the set is bound as planned ───────────────────────────► unused ones are forgotten
//!
//!   a pod of the set is pending, and a node launched for the set in the last ten minutes does not accept it any more,
//!   because of its taints or labels, or was deleted by another actor within three minutes ──► refusing;
//!   until that node accepts it again, or two hours after the last such node. They count if they outnumber the nodes of
//!   the last ten minutes that accept the set. Deletions count no longer once the set has had no pods: whoever scales
//!   it down and removes its nodes by hand wants neither.
//!
//!   fruitless NodeClaims of a set   none      1, 2                    3 and more
//!   launches for the set            all       one, then wait          none for 10, 20, 40 min, 1 h; then one
//! ```
//!
//! Whatever the reason (larger DaemonSets than planned, a smaller node, a taint, a scheduler with rules of its own),
//! nodes are not launched repeatedly for a set of pods. Refusing nodes count although pods were bound there before: a
//! taint that evicts them comes after they were bound. A changed NodePool or NodeClass resets the record at once, a
//! changed DaemonSet, LimitRange or RuntimeClass once in ten minutes: tenants can change those. The record is kept in
//! memory only: after a restart of the controller three more nodes are launched.

mod launches;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

use self::launches::{ENOUGH, Launches};

/// First and longest duration of a hold.
const HOLD: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(3600));
/// Maximum number of sets remembered; beyond it, the one with the oldest record is forgotten.
const MOST_SETS: usize = 10_000;
/// Time after the launch of a node for which it is checked whether it accepts its pods.
const YOUNG: Duration = Duration::from_secs(600);
/// Time after its launch within which the deletion of a node by another actor counts: an operator who deletes nodes by
/// hand takes longer.
const SOON: Duration = Duration::from_secs(180);
/// Time without pods after which a set has ended: the controller of a set replaces a pod sooner.
const ENDED: Duration = Duration::from_secs(3);
/// Time for which refusing nodes are remembered after the last of them: longer than the longest hold.
const REMEMBERED: Duration = Duration::from_secs(7200);

/// Fruitless launches, by set of pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Fruitless {
    sets: BTreeMap<Arc<str>, Launches>,
    /// NodeClaims of the last minutes, whatever their state, and the sets that they were launched for.
    young: BTreeMap<String, Young>,
    /// Times at which a pod of the set was last bound as planned, for sets of the last minutes.
    bound: BTreeMap<Arc<str>, Timestamp>,
    /// Times since which sets with deleted nodes have no pods.
    empty: BTreeMap<Arc<str>, Timestamp>,
    /// Times until which deletions do not count, by set.
    ended: BTreeMap<Arc<str>, Timestamp>,
    /// Number of times that all records were forgotten.
    resets: u64,
    /// Last time that they were forgotten for a DaemonSet or its like.
    reset_at: Option<Timestamp>,
    /// True if such an object has changed since.
    is_reset_due: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Young {
    sets: BTreeSet<Arc<str>>,
    since: Timestamp,
    /// True if it has had an instance.
    was_launched: bool,
    /// True if the controller is removing or has removed it.
    is_taken: bool,
    /// Time at which another actor was seen to have deleted it, if that was soon after its launch.
    lost: Option<Timestamp>,
}

/// Observed state of a NodeClaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// Decided, without an instance.
    Coming,
    /// With an instance, and possibly a node.
    Launched,
    /// Being removed by the controller.
    TakenAway,
    /// Deleted or being deleted.
    Gone,
}

/// Launches allowed for a set of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowed {
    /// All planned launches.
    All,
    /// One node, as a trial.
    One,
    /// No launches until this time.
    NothingUntil(Timestamp),
}

// === impl Fruitless ===

impl Fruitless {
    /// Forgets all records after a change of a DaemonSet or its like, at most once in the shortest hold: a tenant with
    /// a DaemonSet could otherwise have nodes launched without end.
    pub(super) fn note_daemons(&mut self, now: Timestamp) {
        self.is_reset_due = true;
        self.reset_if_due(now);
    }

    /// Forgets all records if such a change has waited long enough.
    pub(super) fn reset_if_due(&mut self, now: Timestamp) {
        if self.is_reset_due && self.reset_at.is_none_or(|last| now >= after(last, HOLD.0)) {
            self.reset_at = Some(now);
            self.forget_all();
        }
    }

    /// Records that a pod of `set` is still pending although the node of `claim`, launched for it, is up. Ignored if
    /// other pods of the set were bound as planned since that launch: the nodes are as planned, and the pod has only
    /// lost its turn.
    pub(super) fn note_unused(&mut self, set: &Arc<str>, claim: &str, now: Timestamp) {
        let launched = self.young.get(claim).map(|young| young.since);
        if self.bound.get(set).is_some_and(|bound| launched.is_none_or(|launched| launched <= *bound)) {
            return;
        }
        let launches = self.launches(set, now);
        if launches.unused.insert(claim.to_owned()) {
            launches.note(now);
        }
    }

    /// Records that a pod of `set` is still pending, and the node of `claim`, launched for the set, does not accept it.
    pub(super) fn note_refusing(&mut self, set: &Arc<str>, claim: &str, now: Timestamp) {
        let launches = self.launches(set, now);
        if launches.refusing.insert(claim.to_owned()) {
            launches.note(now);
        }
    }

    /// Records that a pod of `set` is still pending, and another actor deleted the node of `claim`, launched for the
    /// set, at this time.
    pub(super) fn note_lost(&mut self, set: &Arc<str>, claim: &str, lost: Timestamp, now: Timestamp) {
        let launches = self.launches(set, now);
        if launches.lost.insert(claim.to_owned(), lost).is_none() {
            launches.note(now);
        }
    }

    fn launches(&mut self, set: &Arc<str>, now: Timestamp) -> &mut Launches {
        if self.sets.len() >= MOST_SETS && !self.sets.contains_key(set) {
            let oldest = self.sets.iter().min_by_key(|(set, launches)| (launches.at, *set));
            let oldest = oldest.map(|(set, _)| Arc::clone(set));
            oldest.and_then(|set| self.sets.remove(&set));
        }
        self.sets.entry(Arc::clone(set)).or_insert_with(|| Launches::none(now))
    }

    /// Records that the node of `claim` accepts pods of `set`.
    pub(super) fn note_taking(&mut self, set: &str, claim: &str) {
        if let Some(launches) = self.sets.get_mut(set) {
            launches.refusing.remove(claim);
            launches.lost.remove(claim);
            self.drop_if_empty(set);
        }
    }

    /// Sets the number of nodes of the last minutes that accept pods of `set`.
    pub(super) fn note_takers(&mut self, set: &str, count: usize) {
        if let Some(launches) = self.sets.get_mut(set) {
            launches.taking = count;
        }
    }

    /// Records that a pod of `set` was bound as planned.
    pub(super) fn note_bound(&mut self, set: &Arc<str>, now: Timestamp) {
        self.bound.insert(Arc::clone(set), now);
        if let Some(launches) = self.sets.get_mut(&**set) {
            launches.unused.clear();
            self.drop_if_empty(set);
        }
    }

    fn drop_if_empty(&mut self, set: &str) {
        if self.sets.get(set).is_some_and(Launches::is_empty) {
            self.sets.remove(set);
        }
    }

    /// Records that the NodeClaim is being created for pods of these sets.
    pub(super) fn note_launched(&mut self, claim: &str, sets: BTreeSet<Arc<str>>, now: Timestamp) {
        self.young
            .insert(claim.to_owned(), Young { sets, since: now, was_launched: false, is_taken: false, lost: None });
    }

    /// Removes outdated records.
    pub(super) fn age(&mut self, now: Timestamp) {
        self.young.retain(|_, young| now < after(young.since, YOUNG));
        self.bound.retain(|_, bound| now < after(*bound, YOUNG));
        self.sets.retain(|_, launches| {
            if now >= after(launches.at, REMEMBERED) {
                launches.refusing.clear();
                launches.lost.clear();
            }
            !launches.is_empty()
        });
        let with_losses = self.sets_with_losses();
        self.empty.retain(|set, _| with_losses.contains(set));
        self.ended.retain(|_, until| now < after(*until, REMEMBERED));
    }

    /// Records the state of the NodeClaim, if it is one of the last minutes.
    pub(super) fn observe(&mut self, claim: &str, sight: Sight, now: Timestamp) {
        let Some(young) = self.young.get_mut(claim) else { return };
        match sight {
            Sight::Coming => {}
            Sight::Launched => young.was_launched = true,
            Sight::TakenAway => young.is_taken = true,
            Sight::Gone => {
                let is_lost = young.was_launched && !young.is_taken && now < after(young.since, SOON);
                young.lost = young.lost.or(is_lost.then_some(now));
            }
        }
    }

    /// Returns the sets with nodes that another actor deleted.
    pub(super) fn sets_with_losses(&self) -> BTreeSet<Arc<str>> {
        let young = self.young.values().filter(|young| young.lost.is_some()).flat_map(|young| &young.sets);
        let known = self.sets.iter().filter(|(_, launches)| !launches.lost.is_empty()).map(|(set, _)| set);
        young.chain(known).cloned().collect()
    }

    /// Records which of the sets with losses have pods. Losses of a set do not count if it had no pods when they were
    /// seen, or has had none for a while since.
    pub(super) fn note_live(&mut self, live: &BTreeSet<Arc<str>>, now: Timestamp) {
        for set in self.sets_with_losses() {
            let is_live = live.contains(&set);
            let since =
                if is_live { self.empty.remove(&set) } else { Some(*self.empty.entry(set.clone()).or_insert(now)) };
            let Some(since) = since else { continue };
            let was_lost_empty = || {
                let of_set = self.young.values().filter(|young| young.sets.contains(&set));
                of_set.filter_map(|young| young.lost).any(|lost| lost >= since)
            };
            if now >= after(since, ENDED) || was_lost_empty() {
                self.end(&set, now);
            }
        }
    }

    /// Forgets the losses of `set` until now.
    fn end(&mut self, set: &Arc<str>, now: Timestamp) {
        self.ended.insert(Arc::clone(set), now);
        if let Some(launches) = self.sets.get_mut(set) {
            launches.lost.retain(|_, lost| *lost > now);
            self.drop_if_empty(set);
        }
    }

    /// Returns the names of the NodeClaims of the last minutes.
    pub(super) fn young(&self) -> Vec<String> {
        self.young.keys().cloned().collect()
    }

    /// Adds the observations of `other`, from which this record was copied earlier. If `other` was reset since, so is
    /// this one: its evidence is older than the change.
    pub(super) fn add_observed(&mut self, other: &Self) {
        if self.resets != other.resets {
            self.clone_from(other);
            return;
        }
        self.is_reset_due |= other.is_reset_due;
        for (claim, young) in &mut self.young {
            if let Some(known) = other.young.get(claim) {
                young.was_launched |= known.was_launched;
                young.is_taken |= known.is_taken;
                young.lost = young.lost.or(known.lost);
            }
        }
        self.empty.clone_from(&other.empty);
        for (set, until) in &other.ended {
            if self.ended.get(set).is_none_or(|known| known < until) {
                self.end(set, *until);
            }
        }
    }

    /// Returns the NodeClaims of the last minutes, and those known to refuse, each with a set that it was launched for;
    /// for those deleted by another actor while the set had pods, the time of it.
    pub(super) fn suspects(&self) -> BTreeMap<(Arc<str>, String), Option<Timestamp>> {
        let of = |set: &Arc<str>, claim: &String, lost| ((Arc::clone(set), claim.clone()), lost);
        let known = self.sets.iter();
        let known = known.flat_map(|(set, all)| all.refusing.iter().map(move |claim| of(set, claim, None)));
        let counts = |set: &str, lost: &Timestamp| self.ended.get(set).is_none_or(|until| lost > until);
        let young = self.young.iter().flat_map(|(claim, young)| {
            young.sets.iter().map(move |set| of(set, claim, young.lost.filter(|lost| counts(set, lost))))
        });
        known.chain(young).collect()
    }

    /// Forgets all records, after a change that may make launches succeed.
    pub(super) fn forget_all(&mut self) {
        *self = Self { resets: self.resets.wrapping_add(1), reset_at: self.reset_at, ..Self::default() };
    }

    /// Returns the launches allowed for `set` now.
    pub(super) fn allowed(&self, set: &str, now: Timestamp) -> Allowed {
        let Some(launches) = self.sets.get(set) else { return Allowed::All };
        match launches.count() {
            0 => return Allowed::All,
            count if count < ENOUGH => return Allowed::One,
            _ => {}
        }
        let factor = 1 << launches.holds.saturating_sub(1).min(10);
        let until = after(launches.at, HOLD.0.saturating_mul(factor).min(HOLD.1));
        if now < until { Allowed::NothingUntil(until) } else { Allowed::One }
    }

    /// Returns the number of fruitless launches for `set`, and the last of their NodeClaims by name.
    pub(super) fn of(&self, set: &str) -> Option<(usize, &str)> {
        let launches = self.sets.get(set)?;
        Some((launches.count(), launches.claims().max()?))
    }

    /// Returns the names of the fruitless NodeClaims of `set` without their suffix, which has no hyphens.
    pub(super) fn prefixes_of(&self, set: &str) -> BTreeSet<&str> {
        let names = self.sets.get(set).into_iter().flat_map(Launches::claims);
        names.filter_map(|claim| Some(claim.rsplit_once('-')?.0)).collect()
    }

    /// Returns the number of sets for which launches are held now.
    pub(super) fn held(&self, now: Timestamp) -> usize {
        self.sets.keys().filter(|set| matches!(self.allowed(set, now), Allowed::NothingUntil(_))).count()
    }
}
