//! Tags of EC2 resources.

use std::collections::BTreeMap;

use muster_api::labels;
use muster_cloud::LaunchToken;

/// Tag of an instance with its launch token, by which a launch whose response was lost is found again.
pub const LAUNCH_TOKEN: &str = "muster.dev/launch-token";
/// Tag with the name of the cluster.
pub const CLUSTER_NAME: &str = "eks:eks-cluster-name";
const NODEPOOL: &str = labels::NODEPOOL;
const NODECLASS: &str = labels::EC2NODECLASS;

/// Returns the key of the ownership tag: `kubernetes.io/cluster/<name>`, with the value `owned`.
#[must_use]
pub fn ownership(cluster: &str) -> String {
    format!("kubernetes.io/cluster/{cluster}")
}

/// Returns the tags of everything that is created for nodes of a class: Karpenter's override those of `spec.tags`.
///
/// Karpenter's IAM policies allow creating and deleting only resources with these tags.
pub(crate) fn of_class(
    cluster: &str,
    class: &str,
    pool: Option<&str>,
    own: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut tags = own.clone();
    tags.insert(ownership(cluster), "owned".to_owned());
    tags.insert(CLUSTER_NAME.to_owned(), cluster.to_owned());
    tags.insert(NODECLASS.to_owned(), class.to_owned());
    // Karpenter's policies require the tag with any value.
    tags.insert(NODEPOOL.to_owned(), pool.unwrap_or_default().to_owned());
    tags
}

/// Returns the tags of an instance.
pub(super) fn of_instance(
    of_class: &BTreeMap<String, String>,
    of_launch: &BTreeMap<String, String>,
    token: &LaunchToken,
) -> BTreeMap<String, String> {
    let mut tags = of_class.clone();
    tags.extend(of_launch.clone());
    tags.insert(LAUNCH_TOKEN.to_owned(), token.to_string());
    tags
}

/// Returns true for keys that `spec.tags` of a class may not contain, which the API server rejects too.
#[must_use]
pub fn restricted(key: &str) -> bool {
    key == CLUSTER_NAME
        || key.starts_with("kubernetes.io/cluster")
        || key == "karpenter.sh/nodeclaim"
        || key == NODEPOOL
        || key == NODECLASS
        || key == LAUNCH_TOKEN
}
