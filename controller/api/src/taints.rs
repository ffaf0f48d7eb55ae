//! Taints that the controller sets on nodes or waits for.

use k8s_openapi::api::core::v1::Taint;

/// Effect: new pods are not scheduled.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Effect: new pods are scheduled elsewhere if possible.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Effect: new pods are not scheduled, and running pods are evicted.
pub const NO_EXECUTE: &str = "NoExecute";

/// Key of [`disrupted`].
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Key of [`rebooting`].
pub const REBOOTING: &str = "karpenter.sh/rebooting";
/// Key of [`unregistered`].
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// Taint of a node whose kubelet is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint of a node whose kubelet is unreachable.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Taint of a node that the cloud controller manager has not initialized yet.
pub const CLOUD_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Taints that a starting node has and that are removed automatically.
pub const EPHEMERAL: [&str; 4] = [NOT_READY, UNREACHABLE, CLOUD_UNINITIALIZED, UNREGISTERED];

/// Prefix of taints that a node readiness gate removes.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// Returns the taint of a node that is being disrupted.
#[must_use]
pub fn disrupted() -> Taint {
    Taint { key: DISRUPTED.to_owned(), effect: NO_SCHEDULE.to_owned(), value: None, time_added: None }
}

/// Returns the taint of a node that is being rebooted.
#[must_use]
pub fn rebooting() -> Taint {
    Taint { key: REBOOTING.to_owned(), effect: NO_SCHEDULE.to_owned(), value: None, time_added: None }
}

/// Returns the taint of an unregistered node, which repels pods until labels and taints are synced.
#[must_use]
pub fn unregistered() -> Taint {
    Taint { key: UNREGISTERED.to_owned(), effect: NO_EXECUTE.to_owned(), value: None, time_added: None }
}

/// Returns true if the taint of a starting node is removed automatically.
#[must_use]
pub fn is_ephemeral(key: &str) -> bool {
    EPHEMERAL.contains(&key) || key.starts_with(READINESS_PREFIX)
}

/// Returns the component that removes the taint once the node is up, if it is known.
#[must_use]
pub fn owner(key: &str) -> Option<&'static str> {
    crate::table::find(include_str!("../data/startup-taints.tsv"), key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ephemeral_taints() {
        assert!(is_ephemeral(NOT_READY));
        assert!(is_ephemeral("readiness.k8s.io/storage"));
        assert!(is_ephemeral(&unregistered().key));
        assert!(!is_ephemeral(&disrupted().key));
    }

    #[test]
    fn owners_are_known_by_key_and_by_prefix() {
        assert_eq!(owner("ebs.csi.aws.com/agent-not-ready"), Some("the driver of EBS volumes"));
        assert_eq!(owner("readiness.k8s.io/storage"), Some("the node readiness controller"));
        assert_eq!(owner("example.com/x"), None);
    }
}
