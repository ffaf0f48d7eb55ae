//! Instances that do not become nodes that take pods.

use muster_tests::ec2::Pool;
use serde_json::{Value, json};

use super::ground::{Ground, SOON, pool, requirements};
use super::machines::Joins;

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
    assert!(message.contains("is taken off by the driver of EBS volumes"), "{message}");
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
async fn an_instance_that_ends_while_it_starts_gives_ec2s_reason() {
    let ground = Ground::new("run ec2 suite").await;
    ground.machines.join(Joins::Never);
    let code = "Client.InvalidKMSKey.InvalidState";
    let rule = ground.ec2.faults().ends_at_once(Pool::any(), code, &format!("{code}: The KMS key is disabled"));
    let controller = ground.controller().await;
    ground.deploy(1, json!({})).await;
    // It is on the list of instances no more, which is asked for every two minutes.
    ground.event_within(SOON * 3, "NodeClaim", "InstanceEnded", "The KMS key is disabled").await;
    controller.counted("karpenter_nodeclaims_disrupted_total", &[("reason", "instance_ended")], 1.0).await;
    ground.ec2.faults().lift(rule);
    ground.clear().await;
}
