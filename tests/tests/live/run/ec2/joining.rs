//! Instances that do not become nodes that take pods.

use std::time::Duration;

use muster_tests::ec2::Pool;
use serde_json::{Value, json};

use super::ground::{Ground, SOON, pool, requirements};
use super::machines::Joins;

/// Before that no list of instances tells of one that has just been launched.
const LISTS: Duration = Duration::from_secs(60);

/// The pool, whose nodes have so long from their registration until they take pods.
fn impatient(fields: &Value, timeout: &str) -> Value {
    let mut pool = pool(fields);
    pool["metadata"]["annotations"] = json!({"muster.dev/initialization-timeout": timeout});
    pool
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_startup_taint_that_stays_is_named_with_its_owner() {
    let ground = Ground::bare("run ec2 suite").await;
    let taint = json!({"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"});
    ground.apply(&[ground.class(json!({})), impatient(&json!({"startupTaints": [taint]}), "8s")]).await;
    let controller = ground.controller().await;
    ground.deploy(1, json!({})).await;
    let message = ground.of_claim("Initialized", "Unknown", "StartupTaintsExist").await;
    assert!(message.contains("ebs.csi.aws.com/agent-not-ready:NoExecute"), "{message}");
    assert!(message.contains("is removed by the driver of EBS volumes"), "{message}");
    ground.event("NodeClaim", "InitializationTimeout", "ebs.csi.aws.com/agent-not-ready").await;
    controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", "initialization_timeout")], 1.0).await;
    // Three of them, and the class is left alone.
    ground.of_class("LaunchesSucceed", "False", "StartupTaintsExist").await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gpu_that_never_comes_is_named() {
    let ground = Ground::bare("run ec2 suite").await;
    let gpu = requirements(&["g4dn.xlarge"], &["us-east-1a", "us-east-1b"], &["on-demand"]);
    ground.apply(&[ground.class(json!({})), impatient(&json!({"requirements": gpu}), "8s")]).await;
    let controller = ground.controller().await;
    let amounts = json!({"cpu": "1", "nvidia.com/gpu": "1"});
    let resources = json!({"requests": amounts, "limits": {"nvidia.com/gpu": "1"}});
    let containers = json!([{"name": "main", "image": "none", "resources": resources}]);
    ground.deploy(1, json!({"containers": containers})).await;
    let message = ground.of_claim("Initialized", "Unknown", "ResourceNotRegistered").await;
    assert!(message.contains("`nvidia.com/gpu`") && message.contains("device plugin"), "{message}");
    ground.event("NodeClaim", "InitializationTimeout", "nvidia.com/gpu").await;
    controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", "initialization_timeout")], 1.0).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branch_interfaces_that_never_come_are_named() {
    let ground = Ground::bare("run ec2 suite").await;
    ground.apply(&[ground.class(json!({})), impatient(&json!({}), "8s")]).await;
    let controller = ground.controller().await;
    let amounts = json!({"cpu": "1", "vpc.amazonaws.com/pod-eni": "1"});
    let resources = json!({"requests": amounts, "limits": {"vpc.amazonaws.com/pod-eni": "1"}});
    let containers = json!([{"name": "main", "image": "none", "resources": resources}]);
    ground.deploy(1, json!({"containers": containers})).await;
    let message = ground.of_claim("Initialized", "Unknown", "ResourceNotRegistered").await;
    assert!(message.contains("`vpc.amazonaws.com/pod-eni`") && message.contains("ENABLE_POD_ENI"), "{message}");
    ground.event("NodeClaim", "InitializationTimeout", "vpc.amazonaws.com/pod-eni").await;
    controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", "initialization_timeout")], 1.0).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_become_ready_says_why() {
    let ground = Ground::bare("run ec2 suite").await;
    ground.machines.join(Joins::NotReady);
    ground.apply(&[ground.class(json!({})), impatient(&json!({}), "8s")]).await;
    let controller = ground.controller().await;
    ground.deploy(1, json!({})).await;
    let message = ground.of_claim("Initialized", "Unknown", "NodeNotReady").await;
    assert!(message.contains("KubeletNotReady") && message.contains("cni plugin not initialized"), "{message}");
    ground.event("NodeClaim", "InitializationTimeout", "cni plugin not initialized").await;
    controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", "initialization_timeout")], 1.0).await;
    ground.of_class("LaunchesSucceed", "False", "NodeNotReady").await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_data_of_another_cluster_launches_nothing() {
    let ground = Ground::bare("run ec2 suite").await;
    let _controller = ground.controller().await;
    let image = ground.client.describe_images().owners("amazon").send().await.unwrap();
    let is_x86 = |image: &&aws_sdk_ec2::types::Image| image.architecture().is_some_and(|it| it.as_str() == "x86_64");
    let image = image.images().iter().find(is_x86).unwrap().image_id().unwrap().to_owned();
    let of = |cluster: &str| {
        json!({
            "amiFamily": "Custom", "amiSelectorTerms": [{"id": image}],
            "userData": format!("#!/bin/bash\n/etc/eks/bootstrap.sh {cluster} \\\n  --kubelet-extra-args \
                                 '--register-with-taints=karpenter.sh/unregistered:NoExecute'\n"),
        })
    };
    ground.apply(&[ground.class(of("shpo")), pool(&json!({}))]).await;
    let message = ground.of_class("BootstrapValid", "False", "NW07").await;
    assert!(message.contains("`shpo`") && message.contains("`shop`"), "{message}");
    ground.pool_is_ready().await;
    ground.deploy(1, json!({})).await;
    ground.event("Pod", "FailedScheduling", "NW07").await;
    assert!(ground.ec2.running().is_empty());
    // Mended.
    ground.apply(&[ground.class(of("shop"))]).await;
    ground.of_class("BootstrapValid", "True", "BootstrapValid").await;
    ground.of_claim("Launched", "True", "Launched").await;
    ground.clear().await;
}

/// What a console ends with whose kubelet asks a cluster that does not know its instance.
const UNKNOWN_THERE: &str = "kubelet[1612]: Unable to register node with API server: Unauthorized";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_never_becomes_a_node_is_told_of_with_what_was_seen_of_it() {
    let ground = Ground::new("run ec2 suite").await;
    ground.machines.join(Joins::Never);
    let controller = ground.controller().await;
    ground.deploy(1, json!({})).await;
    ground.of_claim("Launched", "True", "Launched").await;
    let instance = ground.ec2.running()[0].id.clone();
    let console = format!("nodeadm[1502]: cluster `shpo`\ntoken=hush\n{UNKNOWN_THERE}\n");
    ground.ec2.write_console(&instance, &console).unwrap();
    ground.launched_ago(16).await;
    let message = ground.event("NodeClaim", "RegistrationTimeout", &instance).await;
    assert!(message.contains("is running") && message.contains(UNKNOWN_THERE), "{message}");
    assert!(message.contains("cluster `shpo`") && !message.contains("hush"), "{message}");
    controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", "registration_timeout")], 1.0).await;
    let ended = ground.ec2.wait_for_calls(SOON, |calls| {
        let ended = calls.clone().of("TerminateInstances").succeeded();
        ended.0.iter().any(|call| call.parameters.to_string().contains(&instance))
    });
    ended.await.unwrap();
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_taint_that_keeps_pods_away_is_told_of() {
    let ground = Ground::new("run ec2 suite").await;
    ground.machines.join(Joins::WithoutTaints);
    let controller = ground.controller().await;
    ground.deploy(1, json!({})).await;
    ground.event("NodeClaim", "UnregisteredTaintMissing", "karpenter.sh/unregistered:NoExecute").await;
    ground.of_claim("Registered", "True", "Registered").await;
    ground.running(1, SOON).await;
    controller.counted("muster_writes_total", &[("write", "node"), ("fate", "done")], 1.0).await;
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_volume_whose_key_may_not_be_used_is_told_of_within_seconds() {
    let ground = Ground::bare("run ec2 suite").await;
    ground.machines.join(Joins::Never);
    let (code, text) = ("Client.InternalError", "Client error on launch");
    let rule = ground.ec2.faults().ends_at_once(Pool::any(), code, &format!("{code}: {text}"));
    let key = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555";
    let volume = json!({"volumeSize": "20Gi", "volumeType": "gp3", "encrypted": true, "kmsKeyID": key});
    let devices = json!([{"deviceName": "/dev/xvda", "rootVolume": true, "ebs": volume}]);
    ground.apply(&[ground.class(json!({"blockDeviceMappings": devices})), pool(&json!({}))]).await;
    let controller = ground.controller().await;
    ground.deploy(1, json!({})).await;
    let message = ground.of_claim("Registered", "False", "InstanceEnded").await;
    assert!(message.contains("Client.InternalError: Client error on launch; most often the KMS key"), "{message}");
    let launched = ground.ec2.calls().of("CreateFleet").succeeded().0[0].at;
    let told = ground.ec2.clock().now();
    // Lists of instances tell of it two minutes later, and Karpenter after fifteen.
    assert!(told.duration_since(launched) < LISTS.try_into().unwrap(), "{launched}, {told}");
    ground.event("NodeClaim", "InstanceEnded", "Client error on launch").await;
    controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", "instance_ended")], 1.0).await;
    // Three of them, and the class is left alone until the key can be used.
    ground.of_class("LaunchesSucceed", "False", "InstanceEnded").await;
    ground.ec2.faults().lift(rule);
    ground.clear().await;
}
