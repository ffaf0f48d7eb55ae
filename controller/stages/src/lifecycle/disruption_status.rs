//! Karpenter's conditions Consolidatable and Drifted, for people and tools that read them. They are derived from the
//! observed state, never from their own previous value, so that an outdated condition is removed.

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_api::conditions::nodeclaim;
use muster_scheduling::disrupt::{Drift, ManagedNode};

use super::conditions::{Status, at, condition, is_true, set};
use crate::step::Write;

/// State of a node with regard to disruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisruptionStatus<'a> {
    /// True if `consolidateAfter` of its pool has passed.
    pub is_consolidatable: bool,
    /// Reason why the node has drifted from its desired state, if it has.
    pub drifted: Option<&'a Drift>,
}

// === impl DisruptionStatus ===

impl<'a> DisruptionStatus<'a> {
    /// Returns the state of a member whose pool has this `consolidateAfter`; `None` means never.
    #[must_use]
    pub fn of(managed_node: &'a ManagedNode, consolidate_after: Option<jiff::SignedDuration>, now: Timestamp) -> Self {
        let is_consolidatable = managed_node.initialized.is_some() && managed_node.has_rested(consolidate_after, now);
        Self { is_consolidatable, drifted: managed_node.drifted.as_ref() }
    }
}

/// Returns the status update of the claim, if its conditions change. As in Karpenter, a condition that does not hold is
/// absent, and a claim that is being deleted keeps its conditions.
#[must_use]
pub fn tell(claim: &NodeClaim, standing: DisruptionStatus<'_>, now: Timestamp) -> Option<Write> {
    if claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut status = claim.status.clone().unwrap_or_default();
    let is_consolidatable = standing.is_consolidatable && is_true(claim, nodeclaim::INITIALIZED);
    let drifted = standing.drifted.filter(|_| is_true(claim, nodeclaim::LAUNCHED));
    let wanted = [
        (nodeclaim::CONSOLIDATABLE, is_consolidatable.then_some((nodeclaim::CONSOLIDATABLE, ""))),
        (nodeclaim::DRIFTED, drifted.map(|drift| (&*drift.reason, &*drift.detail))),
    ];
    for (kind, holds) in wanted {
        match holds {
            None => status.conditions.retain(|one| one.type_ != kind),
            // A change of `observedGeneration` alone is not written.
            Some((reason, message)) => {
                let there = condition(claim, kind).filter(|one| one.status == Status::True.name());
                if there.is_none_or(|one| one.reason != reason || one.message != message) {
                    let generation = claim.metadata.generation;
                    set(&mut status.conditions, at(kind, Status::True, reason, message, generation, now));
                }
            }
        }
    }
    let name = claim.metadata.name.clone().unwrap_or_default();
    let is_news = claim.status.as_ref().is_some_and(|before| *before != status);
    is_news.then(|| Write::ClaimStatus { name, status: Box::new(status) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::tests::fixture::{Fixture, at as second};

    const NEITHER: DisruptionStatus<'_> = DisruptionStatus { is_consolidatable: false, drifted: None };

    fn drift(reason: &str, detail: &str) -> Drift {
        Drift { since: None, reason: reason.into(), detail: detail.into() }
    }

    /// Returns the conditions of the two kinds after the write; `None` without a write.
    fn told(claim: &NodeClaim, standing: DisruptionStatus<'_>, now: i64) -> Option<Vec<String>> {
        let Write::ClaimStatus { status, .. } = tell(claim, standing, second(now))? else { panic!("another write") };
        let ours = status.conditions.iter().filter(|one| ["Consolidatable", "Drifted"].contains(&&*one.type_));
        let words = ours.map(|one| {
            format!("{} {} {} since {}", one.type_, one.reason, one.message, one.last_transition_time.0.as_second())
        });
        Some(words.collect())
    }

    #[test]
    fn a_condition_comes_stays_and_goes_with_what_it_says() {
        let mut it = Fixture::new();
        it.initialized();
        assert_eq!(told(&it.claim, NEITHER, 100), None);
        let drift = drift("NodePoolDrifted", "the template has changed");
        let both = DisruptionStatus { is_consolidatable: true, drifted: Some(&drift) };
        let expected = [
            "Consolidatable Consolidatable  since 100".to_owned(),
            "Drifted NodePoolDrifted the template has changed since 100".to_owned(),
        ];
        assert_eq!(told(&it.claim, both, 100).unwrap(), expected);

        it.judge("Consolidatable", Status::True, "Consolidatable", "", 100);
        it.judge("Drifted", Status::True, "NodePoolDrifted", "the template has changed", 100);
        it.claim.metadata.generation = Some(2);
        assert_eq!(told(&it.claim, both, 200), None, "nothing new");
        let other = self::drift("RequirementsDrifted", "");
        let turned = told(&it.claim, DisruptionStatus { drifted: Some(&other), ..both }, 200).unwrap();
        assert_eq!(turned[1], "Drifted RequirementsDrifted  since 100", "it has drifted since then");
        assert_eq!(told(&it.claim, NEITHER, 200).unwrap(), [""; 0]);
    }

    #[test]
    fn a_claim_says_neither_before_it_can_nor_once_it_goes() {
        let mut it = Fixture::new();
        it.registered();
        let drift = drift("NodePoolDrifted", "");
        let both = DisruptionStatus { is_consolidatable: true, drifted: Some(&drift) };
        assert_eq!(told(&it.claim, both, 100).unwrap(), ["Drifted NodePoolDrifted  since 100"]);
        let mut it = Fixture::new();
        it.initialized();
        it.claim.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(second(90)));
        assert_eq!(told(&it.claim, both, 100), None);
        let mut unborn = Fixture::new();
        unborn.claim.status = Some(muster_api::nodeclaim::NodeClaimStatus::default());
        assert_eq!(told(&unborn.claim, both, 100), None);
    }
}
