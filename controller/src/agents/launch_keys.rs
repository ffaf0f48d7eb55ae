//! Rotation of the key from which the secrets of launch templates are derived. Pure.
//!
//! ```text
//!                                     requested, or old              launches in progress have ended
//!                               K ────────────────────► L, former K ────────────────────────────────► L
//!
//!  launched now has key         K                       L                                             L
//!  launched earlier,            K                       L or K                                        L
//!  found after a crash
//! ```
//!
//! Each arrow is one write of the Secret. Existing nodes are not affected: a NodeClaim keeps the hash of the secret
//! that its own instance was given. Only for an instance that is found again after a crash the key at its launch is
//! unknown, so for a while the hashes by both keys are recorded for it.

use jiff::{SignedDuration, Timestamp};
use muster_link::LaunchKey;

use super::rotation::Rotation;

/// Current and previous launch key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LaunchKeys {
    /// Key from which secrets are derived.
    pub(super) present: LaunchKey,
    /// Time since which it is used, if known.
    pub(super) since: Option<Timestamp>,
    /// Previous key.
    pub(super) former: Option<LaunchKey>,
}

/// Next step of the rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaunchStep {
    /// Nothing to do yet.
    Wait,
    /// Replace the key.
    Replace,
    /// Forget the previous key.
    Forget,
}

impl LaunchKeys {
    /// Returns a key without a predecessor.
    pub(super) const fn of(present: LaunchKey, since: Timestamp) -> Self {
        Self { present, since: Some(since), former: None }
    }

    /// Returns the next step. `is_asked`: an operator has requested another key.
    pub(super) fn step(&self, is_asked: bool, lengths: &Rotation, now: Timestamp) -> LaunchStep {
        let is_over = |length: SignedDuration| self.since.is_none_or(|since| now.duration_since(since) >= length);
        // One rotation at a time: during a second one, launches by the first key would not be recognized.
        if self.former.is_some() {
            return if is_over(lengths.launch_outlived) { LaunchStep::Forget } else { LaunchStep::Wait };
        }
        let is_old = self.since.is_some() && is_over(lengths.launch_age);
        if is_asked || is_old { LaunchStep::Replace } else { LaunchStep::Wait }
    }

    /// Uses this key from now on.
    pub(super) fn replace(self, by: LaunchKey, now: Timestamp) -> Self {
        Self { present: by, since: Some(now), former: Some(self.present) }
    }

    /// Forgets the previous key.
    pub(super) fn forget(self) -> Self {
        Self { former: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn a_key_is_replaced_when_asked_or_old_and_the_one_before_soon_forgotten() {
        let (one, other) = (LaunchKey::new([1; 32]), LaunchKey::new([2; 32]));
        let (lengths, second) = (Rotation::default(), SignedDuration::from_secs(1));
        let held = LaunchKeys::of(one.clone(), START);
        let step = |held: &LaunchKeys, is_asked, after: SignedDuration| held.step(is_asked, &lengths, START + after);
        assert_eq!(step(&held, false, lengths.launch_age - second), LaunchStep::Wait);
        assert_eq!(step(&held, false, lengths.launch_age), LaunchStep::Replace);
        assert_eq!(step(&held, true, SignedDuration::ZERO), LaunchStep::Replace);
        let of_unknown_age = LaunchKeys { since: None, ..held.clone() };
        assert_eq!(of_unknown_age.step(false, &lengths, Timestamp::MAX), LaunchStep::Wait);

        let replaced = held.replace(other.clone(), START);
        assert_eq!(replaced, LaunchKeys { present: other, since: Some(START), former: Some(one) });
        assert_eq!(step(&replaced, false, lengths.launch_outlived - second), LaunchStep::Wait);
        assert_eq!(step(&replaced, false, -second), LaunchStep::Wait, "by a clock that is behind");
        assert_eq!(step(&replaced, false, lengths.launch_outlived), LaunchStep::Forget);
        assert_eq!(step(&replaced, true, second), LaunchStep::Wait, "asked again, and too soon");
        let forgotten = replaced.forget();
        assert_eq!((forgotten.former.clone(), forgotten.since), (None, Some(START)));
        assert_eq!(step(&forgotten, false, lengths.launch_outlived), LaunchStep::Wait);
    }
}
