//! Cost of moving a pod, in Karpenter's unit: 1 for an ordinary pod.

use muster_api::annotations::{DISRUPTION_COST, POD_DELETION_COST};
use muster_scheduling::model::Labels;

use super::FeatureGates;

/// Returns the cost of evicting a pod with these annotations and this priority, from −10 to 10.
///
/// It depends on the pod's own `karpenter.sh/disruption-cost`. Without one, the deletion cost counts, unless it is the
/// controller that writes it ([`FeatureGates::pod_deletion_cost_management`]): its ranks are no wish of the pod's
/// owner.
#[must_use]
pub fn eviction_cost(annotations: &Labels, priority: i32, gates: FeatureGates) -> f64 {
    let deletion_cost = || {
        let counts = !gates.pod_deletion_cost_management;
        counts.then(|| annotations.get(POD_DELETION_COST)).flatten()
    };
    let said = annotations.get(DISRUPTION_COST).or_else(deletion_cost);
    // As in Karpenter, a cost that cannot be read counts as none.
    let cost = said.and_then(|cost| cost.parse::<i32>().ok()).unwrap_or(0);
    // Karpenter's weights: the ranges of the annotation and the priority map to about ±16 and ±64.
    let cost = 1.0 + f64::from(cost) / f64::from(1_u32 << 27) + f64::from(priority) / f64::from(1_u32 << 25);
    cost.clamp(-10.0, 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_karpenters() {
        let managed = FeatureGates { pod_deletion_cost_management: true, ..FeatureGates::default() };
        let weight = |number: i32| 1.0 + f64::from(number) / f64::from(1_u32 << 27);
        for (annotations, gates, expected) in [
            (&[][..], FeatureGates::default(), 1.0),
            (&[(POD_DELETION_COST, "1000")][..], FeatureGates::default(), weight(1000)),
            (&[(POD_DELETION_COST, "1000")][..], managed, 1.0),
            (&[(POD_DELETION_COST, "1000"), (DISRUPTION_COST, "7")][..], managed, weight(7)),
            (&[(POD_DELETION_COST, "1000"), (DISRUPTION_COST, "a lot")][..], FeatureGates::default(), 1.0),
            (&[(DISRUPTION_COST, "2147483647")][..], FeatureGates::default(), 10.0),
        ] {
            let annotations: Labels = annotations.iter().map(|(key, value)| (*key, *value)).collect();
            let cost = eviction_cost(&annotations, 0, gates);
            assert!((cost - expected).abs() < 1e-9, "{cost} is not {expected}");
        }
    }
}
