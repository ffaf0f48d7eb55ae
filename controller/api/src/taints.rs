//! Every taint that we put on nodes or wait for.

use k8s_openapi::api::core::v1::Taint;

/// No new pods.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// No new pods, if they fit elsewhere.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// No new pods, and those that run are evicted.
pub const NO_EXECUTE: &str = "NoExecute";

/// Key of [`disrupted`].
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Key of [`unregistered`].
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";

/// The node's kubelet is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The node's kubelet is out of reach.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The cloud's controller has not seen the node yet.
pub const CLOUD_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Taints that a node has while it starts and loses by itself.
pub const EPHEMERAL: [&str; 4] = [NOT_READY, UNREACHABLE, CLOUD_UNINITIALIZED, UNREGISTERED];

/// Prefix of taints that a readiness gate removes by itself.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// On a node that is about to be taken away.
#[must_use]
pub fn disrupted() -> Taint {
    Taint { key: DISRUPTED.to_owned(), effect: NO_SCHEDULE.to_owned(), value: None, time_added: None }
}

/// On a node until it has registered, so that nothing runs there before its labels and taints are right.
#[must_use]
pub fn unregistered() -> Taint {
    Taint { key: UNREGISTERED.to_owned(), effect: NO_EXECUTE.to_owned(), value: None, time_added: None }
}

/// Whether a node loses the taint by itself while it starts.
#[must_use]
pub fn is_ephemeral(key: &str) -> bool {
    EPHEMERAL.contains(&key) || key.starts_with(READINESS_PREFIX)
}

/// Who takes the taint off once the node is up, where that is known.
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
