//! Tags of what is made in EC2.

use std::collections::BTreeMap;

use muster_api::labels;
use muster_cloud::LaunchToken;

/// Tag of an instance that has the token of its launch, so that a launch whose answer was lost is found again.
pub const LAUNCH_TOKEN: &str = "muster.dev/launch-token";
/// Tag that has the name of the cluster.
pub const CLUSTER_NAME: &str = "eks:eks-cluster-name";
const NODEPOOL: &str = labels::NODEPOOL;
const NODECLASS: &str = labels::EC2NODECLASS;

/// The tag that says whose the resource is: `kubernetes.io/cluster/<name>`, with the value `owned`.
#[must_use]
pub fn ownership(cluster: &str) -> String {
    format!("kubernetes.io/cluster/{cluster}")
}

/// Tags of everything that is made for nodes of a class: Karpenter's, over those of `spec.tags`.
///
/// Its IAM policies allow nothing to be made without them, and nothing without them to be ended.
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
    // Karpenter's policies ask for the tag with any value.
    tags.insert(NODEPOOL.to_owned(), pool.unwrap_or_default().to_owned());
    tags
}

/// Tags of one instance.
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

/// The keys of a class's own tags that nobody may set, which the API server refuses too.
#[must_use]
pub fn restricted(key: &str) -> bool {
    key == CLUSTER_NAME
        || key.starts_with("kubernetes.io/cluster")
        || key == "karpenter.sh/nodeclaim"
        || key == NODEPOOL
        || key == NODECLASS
        || key == LAUNCH_TOKEN
}
