//! Time of the last pod event of a node, recorded on its claim: `consolidateAfter` starts then.
//!
//! ```text
//!   observed pods ──► Changed::moved: names of Nodes ──► touch ──► status.lastPodEventTime
//! ```
//!
//! The events are those of Karpenter: a pod is bound, finishes, or begins to terminate. Events that were not observed
//! do not count: the first observation of a pod is not an event.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::NodeClaim;
use muster_cloud::after;

use super::conditions::whole_seconds;
use crate::step::{Step, Write};

/// Interval in which events are merged: Karpenter's value.
const DEDUPLICATED: Duration = Duration::from_secs(10);

/// Records that a pod event has happened on the node of `claim`.
#[must_use]
pub fn touch(claim: &NodeClaim, now: Timestamp) -> Step {
    let Some(status) = &claim.status else { return Step::rest() };
    let is_noted = status.last_pod_event_time.as_ref().is_some_and(|last| now < after(last.0, DEDUPLICATED));
    if is_noted || claim.metadata.deletion_timestamp.is_some() {
        return Step::rest();
    }
    let mut status = status.clone();
    status.last_pod_event_time = Some(Time(whole_seconds(now)));
    let name = claim.metadata.name.clone().unwrap_or_default();
    Step::act([Write::ClaimStatus { name, status: Box::new(status) }])
}

#[cfg(test)]
mod tests {
    use muster_api::nodeclaim::NodeClaimStatus;

    use super::*;

    #[test]
    fn events_that_are_close_together_are_one() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut claim = NodeClaim { status: Some(NodeClaimStatus::default()), ..NodeClaim::default() };
        let step = touch(&claim, at(100));
        let [Write::ClaimStatus { status, .. }] = step.writes.as_slice() else { panic!("{step:?}") };
        claim.status = Some((**status).clone());
        assert_eq!(touch(&claim, at(109)), Step::rest());
        assert_eq!(touch(&claim, at(110)).writes.len(), 1);
    }
}
