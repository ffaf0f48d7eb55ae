//! Rotation of the CA that agents trust, without losing nodes. Pure.
//!
//! ```text
//!                    requested, or old         each replica has read it          no node needs A only,
//!                                                                                and A's certificates have expired
//!              A ─────────────────────► A, next B ─────────────► B, former A ─────────────────────────► B
//!
//!  signs       A                        A                        B                                      B
//!  serves as   A                        A                        B, and B by A                          B
//!  trusts      A                        A, B                     A, B                                   B
//!  is pinned   A                        A, B                     B                                      B
//! ```
//!
//! Each arrow is one write of the Secret, by whichever replica comes first. A replica that is interrupted has done
//! either nothing or the whole step. A node that trusts only A, because it was away the whole time, connects by the
//! certificate of B signed by A. That certificate does not need A's key any more, so the key is deleted with the second
//! arrow.

use jiff::{SignedDuration, Timestamp};
use muster_api::{NodeClaim, annotations};
use muster_gateway::{AUTHORITY_LIFE, AuthorityFault, Material, NODE_LIFE, Pair};
use muster_link::{Fingerprint, Pins};

/// Intervals of the rotation of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Interval at which each replica reads the Secret.
    pub look: SignedDuration,
    /// Time that the next CA is known before it signs: each replica has read it by then.
    pub introduction: SignedDuration,
    /// Minimum time that the previous CA stays trusted: the certificates that it issued have expired by then.
    pub outlived: SignedDuration,
    /// Time after which nodes that may trust only the previous CA are given up. An agent that is silent for so long is
    /// lost anyway.
    pub given_up: SignedDuration,
    /// Maximum age of a CA.
    pub age: SignedDuration,
    /// Maximum age of the key from which secrets of launch templates are derived.
    pub launch_age: SignedDuration,
    /// Time that the previous launch key is known: launches in progress have ended by then.
    pub launch_outlived: SignedDuration,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            look: SignedDuration::from_secs(15),
            introduction: SignedDuration::from_mins(2),
            // One hour for a replica that could not read the Secret.
            outlived: NODE_LIFE + SignedDuration::from_hours(1),
            // Karpenter's default for the maximum age of a node.
            given_up: SignedDuration::from_hours(30 * 24),
            // Nine years of ten.
            age: AUTHORITY_LIFE - SignedDuration::from_hours(365 * 24),
            // Each rotation replaces every launch template.
            launch_age: SignedDuration::from_hours(30 * 24),
            // A launch without a Node is given up after 15 minutes.
            launch_outlived: SignedDuration::from_hours(1),
        }
    }
}

/// CAs of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authorities {
    /// CA that signs.
    pub(super) signing: Pair,
    /// Time since which it exists, if known.
    pub(super) since: Option<Timestamp>,
    pub(super) next: Option<Next>,
    pub(super) former: Option<Former>,
}

/// Next CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) pair: Pair,
    /// Its certificate signed by the current CA (PEM).
    pub(super) vouched: String,
    /// Time since which it is known.
    pub(super) since: Timestamp,
}

/// Previous CA. Its key is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Former {
    /// CA certificate (PEM).
    pub(super) certificate: String,
    /// Current CA's certificate signed by it (PEM); empty if an operator has replaced the CA by hand.
    pub(super) vouched: String,
    /// Time since which it does not sign, if known.
    pub(super) since: Option<Timestamp>,
}

/// Next step of the rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing to do yet.
    Wait,
    /// Make the next CA.
    Introduce,
    /// Sign with the next CA.
    Replace,
    /// Forget the previous CA.
    Retire,
}

/// Returns the next step. `is_asked`: an operator has requested another CA, which also ends the wait for nodes that
/// trust only the previous one. `is_needed`: a node may trust only the previous CA.
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

/// Returns the NodeClaims whose nodes may not trust the CA that signs, by what they have reported and was recorded.
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
    /// Returns a CA without a predecessor.
    pub(super) const fn of(signing: Pair, since: Option<Timestamp>) -> Self {
        Self { signing, since, next: None, former: None }
    }

    /// Adds a next CA, made now. Only this step needs random numbers.
    pub(super) fn introduce(self, now: Timestamp) -> Result<Self, AuthorityFault> {
        let pair = Pair::make(now)?;
        let vouched = self.signing.vouch(&pair, now)?;
        Ok(Self { next: Some(Next { pair, vouched, since: now }), ..self })
    }

    /// Signs with the next CA; the key of the previous one is deleted.
    pub(super) fn replace(self, now: Timestamp) -> Self {
        let Self { signing, since, next, former } = self;
        let Some(Next { pair, vouched, since: made }) = next else { return Self { signing, since, next, former } };
        let former = Former { certificate: signing.certificate, vouched, since: Some(now) };
        Self { signing: pair, since: Some(made), next: None, former: Some(former) }
    }

    /// Forgets the previous CA.
    pub(super) fn retire(self) -> Self {
        Self { former: None, ..self }
    }

    /// Returns the CAs in the form that the gateway uses.
    pub(super) fn material(&self) -> Material {
        let Self { signing, since: _, next, former } = self;
        let own = signing.certificate.as_str();
        let (next, former) = (next.as_ref(), former.as_ref());
        let of_next = next.map(|it| it.pair.certificate.as_str()).unwrap_or_default();
        let of_former = former.map(|it| it.certificate.as_str()).unwrap_or_default();
        Material {
            signing: signing.clone(),
            vouched: former.map(|it| it.vouched.clone()).unwrap_or_default(),
            trusted: joined(of_former, of_next),
            pinned: joined(own, of_next),
        }
    }
}

/// Returns two PEM texts as one. An operator's may end without a newline: readers would then skip the next certificate.
fn joined(first: &str, second: &str) -> String {
    let is_open = !first.is_empty() && !first.ends_with('\n') && !second.is_empty();
    [first, if is_open { "\n" } else { "" }, second].concat()
}

#[cfg(test)]
mod tests;
