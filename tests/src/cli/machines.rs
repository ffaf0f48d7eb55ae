//! Machines for a person: a fleet, as a controller would launch it, of instances that boot and join.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use serde_json::json;

use super::cloud;
use crate::cluster::Cluster;
use crate::ec2::{Credentials, Ec2};
use crate::error::Result;
use crate::instances::user_data::{self, NodeConfig};
use crate::instances::{Bridge, Node};
use crate::snapshot::is_ready;
use crate::wait;

/// The name of the launch template and of the instance profile.
pub(super) const NAME: &str = "machines";

/// How long a machine may take to join, when it starts alone. Seconds on an idle machine.
const JOIN: Duration = Duration::from_secs(60);

/// Launches `count` and waits until all are Ready.
pub(super) async fn launch(
    ec2: &Ec2,
    who: &Credentials,
    cluster: &Cluster,
    bridge: &Bridge,
    count: u32,
) -> Result<Vec<Node>> {
    let image = cloud::image(ec2, who).await?;
    ec2.aws(who, &["iam", "create-instance-profile", "--instance-profile-name", NAME]).await?;
    let data = json!({
        "ImageId": image,
        "UserData": STANDARD.encode(user_data::al2023(cluster, &NodeConfig::default())?),
        "IamInstanceProfile": {"Name": NAME},
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
    });
    cloud::make_template(ec2, who, NAME, &data).await?;
    let made = cloud::create_fleet(ec2, who, NAME, "[{InstanceType=m5.large}]", count).await?;
    let most = JOIN * count.clamp(1, 10);
    let nodes: Api<KubeNode> = Api::all(cluster.client());
    let mut launched = Vec::new();
    for id in made.iter().flat_map(|set| &set.ids) {
        let node = bridge.node(id, most).await?;
        wait::until(nodes.clone(), &node.served.instance.host_name, most, "the node is Ready", is_ready).await?;
        launched.push(node);
    }
    Ok(launched)
}
