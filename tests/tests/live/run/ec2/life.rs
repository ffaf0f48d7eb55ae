//! From a pod that waits to an instance that is used, and to nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{CONTROLLER, Ground, SOON, condition, paired};

/// The value of a tag of an instance, as EC2 is asked for it.
async fn tag(ground: &Ground, instance: &str, key: &str) -> Option<String> {
    let described = ground.client.describe_instances().instance_ids(instance).send().await.unwrap();
    let tags = described.reservations()[0].instances()[0].tags().to_vec();
    tags.iter().find(|tag| tag.key() == Some(key)).and_then(|tag| tag.value().map(str::to_owned))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_get_instances_and_nothing_is_left_of_them() {
    let ground = Ground::new("run ec2 suite").await;
    let controller = ground.controller().await;
    for (kind, status) in [("Ready", "True"), ("BootstrapValid", "True"), ("ValidationSucceeded", "True")] {
        ground.of_class(kind, status, kind).await;
    }
    let class = ground.classes().get("default").await.unwrap();
    assert_eq!(class.data["status"]["subnets"].as_array().unwrap().len(), ground.subnets.len());
    assert!(class.data["status"]["instanceProfile"].as_str().unwrap().starts_with("shop_"));
    assert!(class.finalizers().iter().any(|one| one == "karpenter.k8s.aws/termination"));

    ground.deploy(3, json!({})).await;
    let pods = ground.running(3, SOON).await;
    let is_ready = |one: &kube::core::DynamicObject| condition(one, "Ready").is_some_and(|it| it["status"] == "True");
    let ready = wait::until_all(ground.claims(), Selection::all(), SOON, "all claims are ready", |all| {
        !all.is_empty() && all.iter().all(is_ready)
    });
    let claims = ready.await.unwrap();
    paired(&claims, &ground.ec2);
    let nodes: Vec<Node> = ground.nodes().list(&ListParams::default()).await.unwrap().items;
    for claim in &claims {
        let id = claim.data["status"]["providerID"].as_str().unwrap();
        let instance = id.rsplit('/').next().unwrap();
        let name = claim.data["status"]["nodeName"].as_str().unwrap();
        let node = nodes.iter().find(|node| node.name_any() == name).unwrap();
        for (key, value) in [
            ("karpenter.sh/nodepool", "general"),
            ("karpenter.sh/registered", "true"),
            ("karpenter.sh/initialized", "true"),
            ("karpenter.sh/capacity-type", "on-demand"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ] {
            assert_eq!(node.labels().get(key).map(String::as_str), Some(value), "{key}");
        }
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        assert!(taints.is_empty(), "{taints:?}");
        assert!(claim.data["status"]["imageID"].as_str().unwrap().starts_with("ami-"));
        let named = wait::until_some("the instance is named after its node", SOON, || async {
            Ok(tag(&ground, instance, "Name").await.filter(|value| value == name))
        });
        named.await.unwrap();
        assert_eq!(tag(&ground, instance, "karpenter.sh/nodeclaim").await, Some(claim.name_any()));
    }
    assert!(pods.iter().all(|pod| pod.spec.as_ref().unwrap().node_name.is_some()));
    controller.counted("muster_aws_calls_total", &[("operation", "ec2:CreateFleet"), ("result", "ok")], 1.0).await;

    // A Node that is deleted takes its instance with it, and its pod gets another one.
    let first = pods[0].spec.as_ref().unwrap().node_name.clone().unwrap();
    ground.nodes().delete(&first, &DeleteParams::default()).await.unwrap();
    wait::until_gone(ground.nodes(), &first, SOON).await.unwrap();
    assert!(ground.ec2.running().iter().all(|one| one.private_dns_name != first));
    ground.running(3, SOON).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_itself_launches_and_tidies_up() {
    let ground = Ground::new("run ec2 suite").await;
    let mut replica = ground.replica(CONTROLLER, ground.cluster().kubeconfig());
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    assert_eq!(ground.ec2.running().len(), 1);

    // An instance that carries our tags and that no claim knows is ended, once it is old enough to tell.
    let launched = ground.ec2.running()[0].clone();
    let template = launched.launch_template.clone().unwrap();
    let tags = aws_sdk_ec2::types::TagSpecification::builder()
        .resource_type(aws_sdk_ec2::types::ResourceType::Instance)
        .set_tags(Some(
            launched
                .tags
                .iter()
                .filter(|(key, _)| !key.starts_with("muster.dev/"))
                .map(|(key, value)| aws_sdk_ec2::types::Tag::builder().key(key).value(value).build())
                .collect(),
        ));
    let of_template =
        aws_sdk_ec2::types::LaunchTemplateSpecification::builder().launch_template_name(&template.name).version("1");
    let run = ground.client.run_instances().min_count(1).max_count(1).launch_template(of_template.build());
    run.instance_type("m5.large".into()).tag_specifications(tags.build()).send().await.unwrap();
    assert_eq!(ground.ec2.running().len(), 2);
    let collected = ground.ec2.wait_for_calls(Duration::from_secs(300), |calls| {
        !calls.clone().by(CONTROLLER).of("TerminateInstances").is_empty()
    });
    collected.await.unwrap();
    let left = wait::until_some("the other one is ended", SOON, || async {
        let running = ground.ec2.running();
        Ok((running.len() == 1).then(|| running[0].id.clone()))
    });
    assert_eq!(left.await.unwrap(), launched.id);
    ground.clear().await;
    replica.end(Duration::from_secs(10));
}
