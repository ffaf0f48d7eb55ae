//! What a class says of itself, and what that means for launches.

use kube::ResourceExt;
use kube::api::ListParams;
use muster_aws::AwsFeatureGates;
use muster_controller::ec2;
use muster_tests::ec2::Calls;
use serde_json::json;

use super::ground::{CLUSTER, CONTROLLER, Ground, SOON, pool, requirements};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_missing_is_named_before_anything_is_launched() {
    let ground = Ground::bare("run ec2 suite").await;
    let rule = ground.ec2.faults().unauthorized(Calls::of("RunInstances").by(CONTROLLER));
    let controller = ground.controller().await;
    ground.apply(&[ground.class(json!({})), pool(&json!({}))]).await;
    ground.deploy(1, json!({})).await;
    let message = ground.of_class("ValidationSucceeded", "False", "RunInstancesAuthCheckFailed").await;
    assert!(message.contains("not authorized to perform ec2:RunInstances"), "{message}");
    controller
        .counted(
            "muster_aws_calls_total",
            &[("operation", "ec2:RunInstances"), ("result", "UnauthorizedOperation")],
            1.0,
        )
        .await;
    ground.event("Pod", "FailedScheduling", "general").await;
    assert!(ground.ec2.running().is_empty());

    // The policy is mended, and the class touched.
    ground.ec2.faults().lift(rule);
    ground.cluster().kubectl(&["annotate", "ec2nodeclass", "default", "policy=mended"]).await.unwrap();
    ground.running(1, SOON).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_missing_at_the_launch_is_named_on_the_claim_and_stops_the_class() {
    let ground = Ground::new("run ec2 suite").await;
    let rule = ground.ec2.faults().unauthorized(Calls::of("RunInstances").by(CONTROLLER));
    let options = ec2::Options { tries_launches: false, ..ec2::Options::of(CLUSTER) };
    let controller = ground.controller_with(options, None).await;
    // Three claims, each on a node of its own.
    ground.deploy(3, json!({})).await;
    let message = ground.of_claim("Launched", "Unknown", "Unauthorized").await;
    assert!(message.contains("ec2:RunInstances"), "{message}");
    ground.event("NodeClaim", "LaunchFailed", "ec2:RunInstances").await;
    let stopped = ground.of_class("LaunchesSucceed", "False", "Unauthorized").await;
    assert!(stopped.contains("muster.dev/reset-breaker"), "{stopped}");
    ground.event("EC2NodeClass", "LaunchesStopped", "ec2:RunInstances").await;
    controller.counted("muster_writes_total", &[("write", "launch")], 3.0).await;
    assert!(ground.ec2.running().is_empty());

    ground.ec2.faults().lift(rule);
    ground.cluster().kubectl(&["annotate", "ec2nodeclass", "default", "muster.dev/reset-breaker=true"]).await.unwrap();
    ground.running(3, SOON).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_of_another_architecture_launches_nothing() {
    let ground = Ground::bare("run ec2 suite").await;
    let images = ground.client.describe_images().owners("amazon").send().await.unwrap();
    let is_arm = |image: &&aws_sdk_ec2::types::Image| image.architecture().is_some_and(|one| one.as_str() == "arm64");
    let image = images.images().iter().find(is_arm).unwrap().image_id().unwrap().to_owned();
    let _controller = ground.controller().await;
    let class = json!({"amiSelectorTerms": [{"id": image}], "amiFamily": "AL2023"});
    ground.apply(&[ground.class(class), pool(&json!({}))]).await;
    ground.pool_is_ready().await;
    ground.deploy(1, json!({})).await;
    let refused =
        "incompatible with nodepool \"general\", nodepool requirements filtered out all available instance types";
    ground.event("Pod", "FailedScheduling", refused).await;
    assert!(ground.claims().list(&ListParams::default()).await.unwrap().items.is_empty());
    // Types that it suits are launched with it.
    let arm = json!({"requirements": requirements(&["m6g.large"], &["us-east-1a"], &["on-demand"])});
    ground.apply(&[pool(&arm)]).await;
    ground.running(1, SOON).await;
    assert_eq!((ground.ec2.running().len(), ground.ec2.running()[0].image.as_str()), (1, image.as_str()));
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_selector_selects_nothing_and_is_named() {
    let ground = Ground::bare("run ec2 suite").await;
    let controller = ground.controller().await;
    // Everything in the account would match, if an empty selector were a query without a filter.
    let empty = json!({
        "subnetSelectorTerms": [{"tags": {}}],
        "securityGroupSelectorTerms": [{"name": ""}, {"tags": {}}],
        "amiSelectorTerms": [{"name": "", "owner": "amazon"}],
        "amiFamily": "AL2023",
    });
    ground.apply(&[ground.class(empty), pool(&json!({}))]).await;
    for (kind, reason, fields) in [
        ("SubnetsReady", "SubnetsNotFound", vec!["spec.subnetSelectorTerms[0].tags"]),
        (
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
            vec!["spec.securityGroupSelectorTerms[0].name", "spec.securityGroupSelectorTerms[1].tags"],
        ),
        ("AMIsReady", "AMINotFound", vec!["spec.amiSelectorTerms[0].name"]),
    ] {
        let message = ground.of_class(kind, "False", reason).await;
        for field in fields {
            assert!(message.contains(&format!("`{field}` is empty")), "{message}");
        }
    }
    ground.of_class("Ready", "False", "UnhealthyDependents").await;
    ground.deploy(1, json!({})).await;
    ground.event("Pod", "FailedScheduling", "general").await;
    assert!(ground.claims().list(&ListParams::default()).await.unwrap().items.is_empty());
    for call in ["DescribeSubnets", "DescribeSecurityGroups", "DescribeImages"] {
        assert_eq!(ground.ec2.calls().of(call).by(CONTROLLER).lines(), "", "no query without a filter");
    }

    // Beside a term that selects something, the empty one adds nothing.
    let subnet = ground.subnets.values().next().unwrap();
    let mended = json!({
        "subnetSelectorTerms": [{"tags": {}}, {"id": subnet}],
        "securityGroupSelectorTerms": [{"name": ""}, {"name": "default"}],
    });
    ground.apply(&[ground.class(mended)]).await;
    let message = ground.of_class("SubnetsReady", "True", "SubnetsReady").await;
    assert!(message.contains("`spec.subnetSelectorTerms[0].tags` is empty"), "{message}");
    let class = ground.classes().get("default").await.unwrap();
    let subnets = class.data["status"]["subnets"].as_array().unwrap();
    assert_eq!((subnets.len(), subnets[0]["id"].as_str()), (1, Some(subnet.as_str())));
    ground.running(1, SOON).await;
    ground.clear().await;
    drop(controller);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_data_that_makes_no_node_launches_nothing() {
    let ground = Ground::bare("run ec2 suite").await;
    let _controller = ground.controller().await;
    let broken = "MIME-Version: 1.0\nContent-Type: text/plain\n\n#!/bin/sh\n";
    ground.apply(&[ground.class(json!({"userData": broken})), pool(&json!({}))]).await;
    ground.of_class("Ready", "True", "Ready").await;
    let class = ground.classes().get("default").await.unwrap();
    let conditions = class.data["status"]["conditions"].as_array().unwrap();
    let valid = conditions.iter().find(|one| one["type"] == "BootstrapValid").unwrap();
    assert_eq!(valid["status"], "False", "{valid}");
    // Or the pod hears first that its pool is not ready, and of the next reason only after a while.
    ground.pool_is_ready().await;
    ground.deploy(1, json!({})).await;
    ground.event("Pod", "FailedScheduling", valid["reason"].as_str().unwrap()).await;
    assert!(ground.claims().list(&ListParams::default()).await.unwrap().items.is_empty());
    // Mended.
    ground.apply(&[ground.class(json!({"userData": "#!/bin/sh\necho hello\n"}))]).await;
    ground.running(1, SOON).await;
    assert!(!class.name_any().is_empty());
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelet_settings_are_judged_by_their_family_and_computed_for_each_type() {
    let ground = Ground::bare("run ec2 suite").await;
    let gates = AwsFeatureGates { node_class_cel: true, ..AwsFeatureGates::NONE };
    let options = ec2::Options { gates, ..ec2::Options::of(CLUSTER) };
    let _controller = ground.controller_with(options, None).await;
    let bottlerocket = json!([{"alias": "bottlerocket@latest"}]);
    for (fields, reason, part) in [
        (json!({"kubelet": {"maxpods": 8}}), "InvalidKubeletConfiguration", "did you mean `maxPods`?"),
        (
            json!({"amiSelectorTerms": bottlerocket, "kubelet": {"cpuManagerPolicy": "static"}}),
            "UnsupportedKubeletConfiguration",
            "Bottlerocket does not hand `cpuManagerPolicy`",
        ),
        (json!({"kubelet": {"maxPods": "max_pods +"}}), "KubeletExpressionInvalid", "spec.kubelet.maxPods"),
        (json!({"kubelet": {"maxPods": "100 / (vcpus - 2)"}}), "KubeletExpressionEvaluationFailed", "instance type"),
    ] {
        ground.apply(&[ground.class(fields)]).await;
        let message = ground.of_class("ValidationSucceeded", "False", reason).await;
        assert!(message.contains(part), "{message}");
        ground.of_class("Ready", "False", "UnhealthyDependents").await;
    }
    // The API server keeps fields that only the kubelet knows.
    let kubelet = json!({
        "maxPods": "min(20, max_pods)", "kubeReserved": {"memory": "vcpus * 100"}, "containerLogMaxFiles": 7,
    });
    ground.apply(&[ground.class(json!({"kubelet": kubelet})), pool(&json!({}))]).await;
    ground.of_class("ValidationSucceeded", "True", "ValidationSucceeded").await;
    let class = ground.classes().get("default").await.unwrap();
    assert_eq!(class.data["spec"]["kubelet"], kubelet);
    ground.deploy(1, json!({})).await;
    ground.running(1, SOON).await;
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(claims[0].data["status"]["capacity"]["pods"], "20");
    ground.clear().await;
}
