//! An instance that has left its capacity reservation: claim and Node say that it is billed on demand.

use muster_api::labels;
use muster_cloud::CapacityType;

use super::check;
use super::fixture::{Fixture, at};
use crate::lifecycle::Listing;

const EVENT: &str = "event CapacityReservationEnded about x: its instance is no longer in the capacity reservation `cr-1`, and is \
     billed on demand";
const EVENT_OF_NODE: &str = "event CapacityReservationEnded about node-1: its instance is no longer in the capacity reservation `cr-1`, and \
     is billed on demand";
const NODE: &str = "node node-1: -karpenter.k8s.aws/capacity-reservation-id \
                    -karpenter.k8s.aws/capacity-reservation-type karpenter.sh/capacity-type=on-demand";
const CLAIM: &str = "claim x: -karpenter.k8s.aws/capacity-reservation-id -karpenter.k8s.aws/capacity-reservation-type \
                     karpenter.sh/capacity-type=on-demand";

/// Nothing is due before the claim expires.
const EXPIRES: &str = "look again at 2595600";

/// Initialized in a reservation, and listed at that second as of this capacity type.
fn reserved(it: &mut Fixture, second: i64, capacity_type: CapacityType) {
    it.initialized();
    let own = [
        (labels::CAPACITY_TYPE, "reserved"),
        (labels::CAPACITY_RESERVATION_ID, "cr-1"),
        (labels::CAPACITY_RESERVATION_TYPE, "default"),
    ];
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    it.claim.metadata.labels.get_or_insert_default().extend(own.clone());
    it.nodes[0].metadata.labels.get_or_insert_default().extend(own);
    it.listing = Some(Listing { at: at(second), has_instance: true, capacity_type: Some(capacity_type) });
}

#[test]
fn what_runs_on_demand_is_labelled_so() {
    check(&[
        (
            "The reservation has ended.",
            |it| reserved(it, 100, CapacityType::OnDemand),
            101,
            &[EVENT, EVENT_OF_NODE, NODE, CLAIM],
        ),
        ("It has not.", |it| reserved(it, 100, CapacityType::Reserved), 101, &[EXPIRES]),
        (
            "A description of the first minute may be incomplete.",
            |it| reserved(it, 69, CapacityType::OnDemand),
            101,
            &[EXPIRES],
        ),
        (
            "The claim was written by another version, or by Karpenter, and its Node was not.",
            |it| {
                reserved(it, 100, CapacityType::OnDemand);
                it.claim.metadata.labels = None;
            },
            101,
            &[NODE],
        ),
        (
            "What was launched on demand is not promoted.",
            |it| {
                reserved(it, 100, CapacityType::Reserved);
                let on_demand = || (labels::CAPACITY_TYPE.to_owned(), "on-demand".to_owned());
                it.claim.metadata.labels.get_or_insert_default().extend([on_demand()]);
                it.nodes[0].metadata.labels.get_or_insert_default().extend([on_demand()]);
            },
            101,
            &[EXPIRES],
        ),
    ]);
}
