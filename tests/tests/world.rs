//! The whole: EC2, metadata, a cluster, machines. What the AWS command line launches joins, and is gone when it says so.
//!
//! Needs of the world: root, for namespaces; the programs of `tests/setup`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Node as KubeNode;
use kube::Api;
use muster_tests::ec2::{Ec2, Moto, REGION};
use muster_tests::instances::user_data::{self, NodeConfig};
use muster_tests::instances::{Becomes, Bridge, Site};
use muster_tests::machine::Image;
use muster_tests::{programs, wait};
use serde_json::{Value, json};
use tokio::process::Command;

/// How long anything here may take. Seconds on an idle machine; this is for one that builds on all cores.
const MOST: Duration = Duration::from_secs(60);

/// The AWS command line, against our EC2.
async fn aws(ec2: &Ec2, words: &[&str]) -> Value {
    let mut command = Command::new(programs::path("aws").unwrap());
    command.args(["--endpoint-url", &ec2.endpoint(), "--region", REGION, "--output", "json"]).args(words).env_clear();
    command.env("PATH", "/usr/bin:/bin").envs(ec2.credentials("controller").environment());
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_joins_and_what_is_terminated_is_gone() {
    let site = Arc::new(Site::with_cluster("world").await.unwrap());
    let moto = Arc::new(Moto::start(site.world().spawner()).await.unwrap());
    let ec2 = Arc::new(Ec2::start(&moto).await.unwrap());
    let bridge = Bridge::start(&site, &ec2, |instance| {
        if instance.tags.get("becomes").is_some_and(|what| what == "nothing") {
            Becomes::Nothing
        } else {
            Becomes::Machine(Image::Al2023)
        }
    });
    let subnets = aws(&ec2, &["ec2", "describe-subnets"]).await;
    let subnet = subnets["Subnets"][0]["SubnetId"].as_str().unwrap().to_owned();
    let path = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let image = aws(&ec2, &["ssm", "get-parameter", "--name", path]).await;
    let user_data = user_data::al2023(site.cluster().unwrap(), &NodeConfig::default()).unwrap();
    let template = json!({
        "ImageId": image["Parameter"]["Value"],
        "UserData": STANDARD.encode(user_data),
        "IamInstanceProfile": {"Name": "muster-node"},
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
    });
    aws(&ec2, &["iam", "create-instance-profile", "--instance-profile-name", "muster-node"]).await;
    let data = template.to_string();
    let create = ["ec2", "create-launch-template", "--launch-template-name", "nodes", "--launch-template-data", &data];
    aws(&ec2, &create).await;
    let configs = json!([{
        "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
        "Overrides": [{"InstanceType": "m5.xlarge", "SubnetId": subnet}],
    }]);
    let nodes: Api<KubeNode> = Api::all(site.cluster().unwrap().client());

    let start = Instant::now();
    let fleet = [
        "ec2",
        "create-fleet",
        "--type",
        "instant",
        "--launch-template-configs",
        &configs.to_string(),
        "--target-capacity-specification",
        "TotalTargetCapacity=1,DefaultTargetCapacityType=on-demand",
    ];
    let made = aws(&ec2, &fleet).await;
    let asked = start.elapsed();
    let id = made["Instances"][0]["InstanceIds"][0].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    let node = bridge.node(&id, MOST).await.unwrap();
    let name = node.served.instance.host_name.clone();
    let ready = wait::until(nodes.clone(), &name, MOST, "the node is Ready", |node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    let found = ready.await.unwrap_or_else(|error| panic!("{error}\n{}", node.machine.journal().tail(40)));
    println!("Ready {:?} after CreateFleet ({asked:?} of it the command line)", start.elapsed());
    let zone = &node.served.instance.zone;
    assert_eq!(found.spec.unwrap().provider_id.unwrap(), format!("aws:///{zone}/{id}"));
    assert_eq!(found.status.unwrap().capacity.unwrap()["cpu"].0, "4", "of an m5.xlarge");
    drop(node);

    aws(&ec2, &["ec2", "terminate-instances", "--instance-ids", &id]).await;
    let start = Instant::now();
    bridge.gone(&id, MOST).await.unwrap();
    println!("gone {:?} after TerminateInstances was answered", start.elapsed());
    wait::until_gone(nodes, &name, MOST).await.unwrap();
}
