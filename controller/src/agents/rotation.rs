//! How the authority that agents believe is replaced while they live. Pure.
//!
//! ```text
//!                    asked for, or old         each replica has looked           nobody needs the one before,
//!                                                                                and what it has certified is over
//!              A ─────────────────────► A, next B ─────────────► B, former A ─────────────────────────► B
//!
//!  signs       A                        A                        B                                      B
//!  serves as   A                        A                        B, and B by A                          B
//!  counts      A                        A, B                     A, B                                   B
//!  is pinned   A                        A, B                     B                                      B
//! ```
//!
//! Each arrow is one write of the Secret, by whichever replica comes first; whoever is interrupted before has done nothing, whoever
//! is interrupted after has done it all. A node that knows A alone, because it was away the whole time, finds its way by the
//! certificate of B by A, for which nobody needs A's key any more: it goes with the second arrow.

use jiff::{SignedDuration, Timestamp};
use muster_api::{NodeClaim, annotations};
use muster_gateway::{AUTHORITY_LIFE, AuthorityFault, Material, NODE_LIFE, Pair};
use muster_link::{Fingerprint, Pins};

/// How the authority is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// How often each replica looks at the Secret.
    pub look: SignedDuration,
    /// How long the next one is known before it signs: each replica has looked by then.
    pub introduction: SignedDuration,
    /// How long the one before counts at least: what it has certified has run out by then.
    pub outlived: SignedDuration,
    /// When nobody is waited for any more who knows the one before alone. An agent that has said nothing for so long is silent anyhow.
    pub given_up: SignedDuration,
    /// How old one gets.
    pub age: SignedDuration,
    /// How old the key gets that the secrets of launch templates are made by.
    pub launch_age: SignedDuration,
    /// How long the one before it is known: what was being launched then has come to something.
    pub launch_outlived: SignedDuration,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            look: SignedDuration::from_secs(15),
            introduction: SignedDuration::from_mins(2),
            // An hour for a replica that could not look.
            outlived: NODE_LIFE + SignedDuration::from_hours(1),
            // As old as Karpenter lets a node get, if nobody says otherwise.
            given_up: SignedDuration::from_hours(30 * 24),
            // Of ten years nine.
            age: AUTHORITY_LIFE - SignedDuration::from_hours(365 * 24),
            // Each change makes every launch template anew.
            launch_age: SignedDuration::from_hours(30 * 24),
            // A launch that no node has come of is given up after 15 minutes.
            launch_outlived: SignedDuration::from_hours(1),
        }
    }
}

/// The authorities of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authorities {
    /// The one that signs.
    pub(super) signing: Pair,
    /// Since when there is one, if that is known.
    pub(super) since: Option<Timestamp>,
    pub(super) next: Option<Next>,
    pub(super) former: Option<Former>,
}

/// The authority that comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) pair: Pair,
    /// Its certificate by the present one (PEM).
    pub(super) vouched: String,
    /// Since when it is known.
    pub(super) since: Timestamp,
}

/// The authority before the present one. Its key is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Former {
    /// PEM.
    pub(super) certificate: String,
    /// The present one's certificate by it (PEM); empty if somebody has replaced it by hand.
    pub(super) vouched: String,
    /// Since when it does not sign any more, if that is known.
    pub(super) since: Option<Timestamp>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing yet.
    Wait,
    /// There is to be another one.
    Introduce,
    /// The next one signs from now on.
    Replace,
    /// The one before is to be forgotten.
    Retire,
}

/// What is to be done now. `is_asked`: somebody wants another one; if the one before is still waited for, that gives up waiting.
/// `is_needed`: a node may know the one before alone.
pub(super) fn step(held: &Authorities, is_asked: bool, is_needed: bool, lengths: &Rotation, now: Timestamp) -> Step {
    let is_over = |since: Timestamp, length: SignedDuration| now.duration_since(since) >= length;
    match (&held.next, &held.former) {
        (Some(next), _) if is_over(next.since, lengths.introduction) => Step::Replace,
        (Some(_), _) => Step::Wait,
        (None, Some(Former { since, .. })) => {
            let is_outlived = since.is_none_or(|since| is_over(since, lengths.outlived));
            let is_given_up = is_asked || since.is_some_and(|since| is_over(since, lengths.given_up));
            if is_outlived && (!is_needed || is_given_up) { Step::Retire } else { Step::Wait }
        }
        (None, None) if is_asked || held.since.is_some_and(|since| is_over(since, lengths.age)) => Step::Introduce,
        (None, None) => Step::Wait,
    }
}

/// The claims whose nodes may not know the authority that signs: as far as anybody has said or written, they were told of others.
pub(super) fn in_need<'c>(
    claims: impl Iterator<Item = &'c NodeClaim>,
    signing: &Fingerprint,
) -> impl Iterator<Item = &'c NodeClaim> {
    claims.filter(move |claim| {
        let annotation = |key: &str| claim.metadata.annotations.as_ref()?.get(key);
        let is_told = claim.metadata.deletion_timestamp.is_none() && annotation(annotations::AGENT_SECRET).is_some();
        is_told && !annotation(annotations::AGENT_PINS).is_some_and(|pins| Pins::parse(pins).holds(signing))
    })
}

impl Authorities {
    /// One that was never another.
    pub(super) const fn of(signing: Pair, since: Option<Timestamp>) -> Self {
        Self { signing, since, next: None, former: None }
    }

    /// With one that comes next, made now. The only step that needs random numbers.
    pub(super) fn introduce(self, now: Timestamp) -> Result<Self, AuthorityFault> {
        let pair = Pair::make(now)?;
        let vouched = self.signing.vouch(&pair, now)?;
        Ok(Self { next: Some(Next { pair, vouched, since: now }), ..self })
    }

    /// The next one signs; the key of the one before is gone.
    pub(super) fn replace(self, now: Timestamp) -> Self {
        let Self { signing, since, next, former } = self;
        let Some(Next { pair, vouched, since: made }) = next else { return Self { signing, since, next, former } };
        let former = Former { certificate: signing.certificate, vouched, since: Some(now) };
        Self { signing: pair, since: Some(made), next: None, former: Some(former) }
    }

    /// The one before is forgotten.
    pub(super) fn retire(self) -> Self {
        Self { former: None, ..self }
    }

    /// As the gateway takes them.
    pub(super) fn material(&self) -> Material {
        let Self { signing, since: _, next, former } = self;
        let own = signing.certificate.as_str();
        let (next, former) = (next.as_ref(), former.as_ref());
        let of_next = next.map(|it| it.pair.certificate.as_str()).unwrap_or_default();
        let of_former = former.map(|it| it.certificate.as_str()).unwrap_or_default();
        Material {
            signing: signing.clone(),
            vouched: former.map(|it| it.vouched.clone()).unwrap_or_default(),
            trusted: [of_former, of_next].concat(),
            pinned: [own, of_next].concat(),
        }
    }
}

#[cfg(test)]
mod tests;
