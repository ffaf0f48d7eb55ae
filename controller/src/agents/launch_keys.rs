//! How the key that the secrets of launch templates are made by is replaced. Pure.
//!
//! ```text
//!                                     asked for, or old              what was being launched is known
//!                               K ────────────────────► L, former K ────────────────────────────────► L
//!
//!  what is launched knows       K                       L                                             L
//!  what a controller before     K                       L or K                                        L
//!  this one has launched knows
//! ```
//!
//! Each arrow is one write of the Secret. Nodes that are there lose nothing: a NodeClaim keeps the hash of the secret that its own
//! instance was told. Only of an instance that is found again after a crash it is not known which key was the present one then, so for a
//! while both are noted of it.

use jiff::{SignedDuration, Timestamp};
use muster_link::LaunchKey;

use super::rotation::Rotation;

/// The keys of launches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LaunchKeys {
    /// By which secrets are made.
    pub(super) present: LaunchKey,
    /// Since when, if that is known.
    pub(super) since: Option<Timestamp>,
    /// By which they were made before.
    pub(super) former: Option<LaunchKey>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaunchStep {
    /// Nothing yet.
    Wait,
    /// There is to be another one.
    Replace,
    /// The one before is to be forgotten.
    Forget,
}

impl LaunchKeys {
    /// One that was never another.
    pub(super) const fn of(present: LaunchKey, since: Timestamp) -> Self {
        Self { present, since: Some(since), former: None }
    }

    /// What is to be done now. `is_asked`: somebody wants another one.
    pub(super) fn step(&self, is_asked: bool, lengths: &Rotation, now: Timestamp) -> LaunchStep {
        let is_over = |length: SignedDuration| self.since.is_none_or(|since| now.duration_since(since) >= length);
        // One at a time: of a second one what was launched by the first would not be known.
        if self.former.is_some() {
            return if is_over(lengths.launch_outlived) { LaunchStep::Forget } else { LaunchStep::Wait };
        }
        let is_old = self.since.is_some() && is_over(lengths.launch_age);
        if is_asked || is_old { LaunchStep::Replace } else { LaunchStep::Wait }
    }

    /// With this one from now on.
    pub(super) fn replace(self, by: LaunchKey, now: Timestamp) -> Self {
        Self { present: by, since: Some(now), former: Some(self.present) }
    }

    /// The one before is forgotten.
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
