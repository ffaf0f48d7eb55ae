//! Consequences of the cloud's notices: offerings that are avoided, decisions that cannot wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, labels};
use muster_cloud::{CapacityType, NoticeKind, Offering, Refusal, Refusals, Refused};

use crate::lifecycle::{condition, interruption};
use crate::state::{Changed, Cluster};

/// Claims whose notice is remembered in the refusals: UID and kind by name.
#[derive(Debug, Default)]
pub struct Interrupted(BTreeMap<Arc<str>, (String, NoticeKind)>);

// === impl Interrupted ===

impl Interrupted {
    /// Remembers new notices among the changes. Returns true if there is one.
    pub(super) fn remember(&mut self, changed: &Changed, cluster: &Cluster, refusals: &mut Refusals) -> bool {
        let mut is_news = false;
        for name in &changed.claims {
            is_news |= self.remember_one(name, cluster.claim(name), refusals);
        }
        is_news
    }

    /// Remembers the notices of all claims, so that a new leader knows what the last one knew.
    pub(super) fn remember_all(&mut self, cluster: &Cluster, refusals: &mut Refusals) {
        // Claims have gone while another replica led.
        self.0.retain(|name, _| cluster.claim(name).is_some());
        for claim in cluster.claims() {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            self.remember_one(&name.into(), Some(claim), refusals);
        }
    }

    fn remember_one(&mut self, name: &Arc<str>, claim: Option<&NodeClaim>, refusals: &mut Refusals) -> bool {
        let noted = claim.and_then(|claim| Some((claim, interruption::recorded(claim)?)));
        let Some((claim, kind)) = noted else {
            self.0.remove(name);
            return false;
        };
        let known = (claim.metadata.uid.clone().unwrap_or_default(), kind);
        if self.0.get(name) == Some(&known) {
            return false;
        }
        self.0.insert(Arc::clone(name), known);
        if let Some((refused, at)) = reclaimed(claim, kind) {
            refusals.record(&refused, at);
        }
        true
    }
}

/// Returns the offering that the cloud takes back, which it has no capacity of for a while, and the time of the notice.
fn reclaimed(claim: &NodeClaim, kind: NoticeKind) -> Option<(Refused, Timestamp)> {
    let label = |key: &str| claim.metadata.labels.as_ref()?.get(key).cloned();
    let capacity_type: CapacityType = label(labels::CAPACITY_TYPE)?.parse().ok()?;
    match (kind, capacity_type) {
        (NoticeKind::SpotInterrupted, CapacityType::Spot)
        | (NoticeKind::CapacityReservationInterrupted, CapacityType::Reserved) => {}
        _ => return None,
    }
    let offering = Offering {
        instance_type: label(labels::INSTANCE_TYPE)?,
        zone: label(labels::ZONE)?,
        capacity_type,
        reservation: label(labels::CAPACITY_RESERVATION_ID).filter(|_| capacity_type == CapacityType::Reserved),
    };
    let at = condition(claim, nodeclaim::INTERRUPTED)?.last_transition_time.0;
    Some((Refused { offering, refusal: Refusal::Capacity }, at))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(capacity_type: &str, reason: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "a", "labels": {
                labels::CAPACITY_TYPE: capacity_type, labels::INSTANCE_TYPE: "m5.large", labels::ZONE: "us-east-1a",
                labels::CAPACITY_RESERVATION_ID: "cr-1",
            }},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}, "requirements": [],
            },
            "status": {"conditions": [{
                "type": "Interrupted", "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": "2026-03-10T08:16:02Z",
            }]},
        }))
        .unwrap()
    }

    #[test]
    fn what_the_cloud_takes_back_is_avoided_and_nothing_else() {
        let reclaimed = |capacity_type: &str, reason: &str| {
            let claim = claim(capacity_type, reason);
            reclaimed(&claim, interruption::recorded(&claim).unwrap())
        };
        let (spot, at) = reclaimed("spot", "SpotInterrupted").unwrap();
        assert_eq!((spot.refusal, at), (Refusal::Capacity, "2026-03-10T08:16:02Z".parse().unwrap()));
        assert_eq!((spot.offering.instance_type.as_str(), spot.offering.zone.as_str()), ("m5.large", "us-east-1a"));
        assert_eq!(spot.offering.reservation, None);
        let (reserved, _) = reclaimed("reserved", "CapacityReservationInstanceInterrupted").unwrap();
        assert_eq!(reserved.offering.reservation.as_deref(), Some("cr-1"));
        assert_eq!(reclaimed("on-demand", "SpotInterrupted"), None);
        assert_eq!(reclaimed("spot", "InstanceTerminating"), None, "its owner may have terminated it");
    }
}
