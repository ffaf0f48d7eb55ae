//! What Nodes say of their machines counts for the next ones, if it can be true.
//!
//! An m5.large has 8 GiB. Of those 6,903 MiB are for pods by what is computed, and 7,300 by what its Nodes say here; so a pod of
//! 7,000 MiB gets an m5.xlarge as long as nobody has seen an m5.large.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{Ground, SOON, condition, pool, requirements};
use super::machines::Memory;

const SEEN: Memory = Memory { capacity: "7800Mi", allocatable: "7300Mi" };
const TWICE: Memory = Memory { capacity: "16Gi", allocatable: "15Gi" };
const A_TENTH: Memory = Memory { capacity: "800Mi", allocatable: "700Mi" };

impl Ground {
    /// With a pool of two sizes.
    async fn of_two_sizes() -> Self {
        let ground = Self::bare("run ec2 suite").await;
        let sizes = requirements(&["m5.large", "m5.xlarge"], &["us-east-1a", "us-east-1b"], &["on-demand"]);
        ground.apply(&[ground.class(json!({})), pool(&json!({"requirements": sizes}))]).await;
        ground
    }

    /// A pod that has a node for itself, as there are no processors for another one. Gives the type of the node that it runs on.
    async fn places(&self, name: &str, memory: &str) -> String {
        let requests = json!({"cpu": "1500m", "memory": memory});
        let containers = json!([{"name": "main", "image": "none", "resources": {"requests": requests}}]);
        self.apply(&[json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"containers": containers},
        })])
        .await;
        let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        let pod = wait::until(self.pods(), name, SOON, "it runs", runs).await.unwrap();
        let node = self.nodes().get(pod.spec.unwrap().node_name.as_deref().unwrap()).await.unwrap();
        node.labels()["node.kubernetes.io/instance-type"].clone()
    }

    /// Type and `status.allocatable.memory` of each claim, sorted.
    async fn promised(&self) -> Vec<(String, String)> {
        let claims = self.claims().list(&ListParams::default()).await.unwrap().items;
        let promised = claims.iter().map(|claim| {
            let memory = claim.data["status"]["allocatable"]["memory"].as_str().unwrap().to_owned();
            (claim.labels()["node.kubernetes.io/instance-type"].clone(), memory)
        });
        let mut promised: Vec<_> = promised.collect();
        promised.sort_unstable();
        promised
    }

    async fn clear_pods(&self) {
        self.cluster().kubectl(&["delete", "pods", "--selector", "app=web"]).await.unwrap();
        wait::until_all(self.pods(), Selection::labelled("app=web"), SOON, "no pod is left", <[_]>::is_empty)
            .await
            .unwrap();
        self.clear().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_fits_only_by_what_nodes_have_said_gets_the_smaller_type() {
    let ground = Ground::of_two_sizes().await;
    ground.machines.say(Some(SEEN));
    let controller = ground.controller().await;
    assert_eq!(ground.places("first", "1Gi").await, "m5.large");
    controller.counted("muster_instance_types_learned", &[], 1.0).await;
    assert_eq!(ground.places("second", "7000Mi").await, "m5.large");

    // Nothing of it is stored: the next controller hears the Nodes before it decides anything.
    drop(controller);
    let _controller = ground.controller().await;
    assert_eq!(ground.places("third", "7000Mi").await, "m5.large");
    let promised = ground.promised().await;
    let large = |memory: &str| ("m5.large".to_owned(), memory.to_owned());
    assert_eq!(promised, [large("6903Mi"), large("7300Mi"), large("7300Mi")]);
    // What was promised to the first one is no reason to take it away.
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    assert!(claims.iter().all(|claim| condition(claim, "Drifted").is_none()));
    ground.clear_pods().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lies_changes_nothing() {
    let ground = Ground::of_two_sizes().await;
    let controller = ground.controller().await;
    for (name, memory, reason) in [("twice", TWICE, "too_much"), ("tenth", A_TENTH, "too_little")] {
        ground.machines.say(Some(memory));
        assert_eq!(ground.places(name, "256Mi").await, "m5.large");
        let doubt = [("resource", "memory"), ("reason", reason)];
        controller.counted("muster_instance_type_doubts_total", &doubt, 1.0).await;
    }
    // Nobody has told the truth so far.
    ground.machines.say(Some(TWICE));
    assert_eq!(ground.places("small", "6Gi").await, "m5.large", "it does not fit one of a tenth");
    ground.machines.say(None);
    assert_eq!(ground.places("large", "7000Mi").await, "m5.xlarge", "it fits one of twice the memory");
    let promised = ground.promised().await;
    let of_large = promised.iter().filter(|(name, _)| name == "m5.large").map(|(_, memory)| memory.as_str());
    assert_eq!(of_large.collect::<Vec<_>>(), ["6903Mi"; 3]);
    ground.clear_pods().await;
}
