//! NodeClaims that are not launched yet, which take instances of capacity reservations: the cloud does not count them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::labels::CAPACITY_RESERVATION_ID;

use super::disruption::true_since;
use crate::NodeClaim;

/// Returns the number of instances that will be taken, by reservation.
pub(super) fn reserved(claims: &[NodeClaim]) -> BTreeMap<Arc<str>, u32> {
    let mut taken = BTreeMap::new();
    let is_launching = |claim: &&NodeClaim| !claim.meta.deleting && true_since(&claim.conditions, "Launched").is_none();
    for id in claims.iter().filter(is_launching).filter_map(|claim| claim.requirements.single(CAPACITY_RESERVATION_ID))
    {
        *taken.entry(Arc::from(id)).or_default() += 1;
    }
    taken
}

#[cfg(test)]
mod tests {
    #[test]
    fn claims_take_their_reservation_until_they_are_launched() {
        let claim = |name: &str, deleted: &str, conditions: &str| {
            format!(
                "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: {name}{deleted}}}\nspec:\n  nodeClassRef: \
                 {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}\n  requirements:\n  - {{key: \
                 karpenter.k8s.aws/capacity-reservation-id, operator: In, values: [cr-1]}}\nstatus: {{conditions: \
                 [{conditions}]}}\n---\n"
            )
        };
        let launched = "{type: Launched, status: \"True\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}";
        let unknown = "{type: Launched, status: Unknown, lastTransitionTime: \"2026-01-01T00:00:00Z\"}";
        let deleted = ", finalizers: [a/b], deletionTimestamp: \"2026-01-01T00:00:00Z\"";
        let text = [claim("a", "", ""), claim("b", "", unknown), claim("c", "", launched), claim("d", deleted, "")];
        let manifests = crate::read_text("input", &text.concat()).unwrap();
        let taken = super::reserved(&manifests.node_claims);
        assert_eq!(taken.into_iter().collect::<Vec<_>>(), [("cr-1".into(), 2)]);
    }
}
