//! `--cluster`: a plan for what a live cluster holds, and what is said when it cannot be read.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use muster_tests::world::Part;
use muster_tests::{Case, case, wait};
use serde_json::{Value, json};

use super::muster;

const SOON: Duration = Duration::from_secs(60);

/// The definitions, a pool of this case's own, and a Deployment of three that only this pool takes.
async fn supply(case: &Case, replicas: u32) {
    let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../controller/api/crds");
    // Server-side, so that tests which need them at the same time do not meet.
    case.cluster().kubectl(&["apply", "--server-side", "--force-conflicts", "-f", definitions]).await.unwrap();
    for name in ["nodepools.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"] {
        let all: Api<CustomResourceDefinition> = Api::all(case.cluster().client());
        let established = wait::until(all, name, SOON, "it is established", |definition| {
            let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
            conditions.into_iter().flatten().any(|it| it.type_ == "Established" && it.status == "True")
        });
        established.await.unwrap();
    }
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": case.named("class")},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "nodes",
            "subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}],
            "securityGroupSelectorTerms": [{"id": "sg-0123456789abcdef0"}],
            "kubelet": {"maxPods": 20},
        },
    });
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": case.named("class")});
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": case.named("pool")},
        "spec": {"template": {
            "metadata": {"labels": {"case": case.id()}},
            "spec": {
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7g.large"]}],
                "nodeClassRef": reference,
            },
        }},
    });
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1500m"}}}]);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": case.namespace()},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeSelector": {"case": case.id()}, "containers": containers},
            },
        },
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [class, pool, deployment]});
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), list.to_string()).unwrap();
    case.cluster().kubectl(&["apply", "-f", file.path().to_str().unwrap()]).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(case.cluster().client(), case.namespace());
    let count = usize::try_from(replicas).unwrap();
    let all = wait::Selection::labelled("app=web");
    wait::until_all(pods, all, SOON, "the pods are there", |pods| pods.len() == count).await.unwrap();
}

async fn clear(case: &Case) {
    case.cluster().kubectl(&["delete", "nodepool", &case.named("pool")]).await.unwrap();
    case.cluster().kubectl(&["delete", "ec2nodeclass", &case.named("class")]).await.unwrap();
}

/// The new nodes of a plan that are of this case's pool; other tests have pods in the same cluster.
fn own_nodes<'p>(case: &Case, plan: &'p Value) -> Vec<&'p Value> {
    plan["newNodes"].as_array().unwrap().iter().filter(|node| node["nodePool"] == case.named("pool").as_str()).collect()
}

#[test]
fn a_plan_for_a_live_cluster_is_for_the_pods_that_wait_in_it() {
    case("reading", &[Part::Cluster], async |case| {
        supply(case, 3).await;
        let kubeconfig = case.cluster().kubeconfig();
        let plan = muster(kubeconfig, &["plan", "--cluster", "-o", "json"]).await;
        assert_eq!(plan.code, 0, "{plan:?}");
        let document: Value = serde_json::from_str(&plan.stdout).unwrap();
        let nodes = own_nodes(case, &document);
        assert_eq!(nodes.len(), 3, "{document:#}");
        let prefix = format!("{}/web-", case.namespace());
        let placed = nodes.iter().flat_map(|node| node["pods"].as_array().unwrap()).filter_map(Value::as_str);
        assert_eq!(placed.filter(|pod| pod.starts_with(&prefix)).count(), 3, "{document:#}");

        // The class of the cluster decides on the room for pods; it is the only one that the name fits.
        let class = case.named("class");
        let types = ["types", "--cluster", "--node-class", &class, "--name", "m7g.large", "-o", "json"];
        let types = muster(kubeconfig, &types).await;
        assert_eq!(types.code, 0, "{types:?}");
        let catalogue: Value = serde_json::from_str(&types.stdout).unwrap();
        assert_eq!(catalogue["instanceTypes"][0]["capacity"]["pods"], "20", "{catalogue:#}");

        // And more from a file, on top of it.
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        let containers = json!([{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1500m"}}}]);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "more", "namespace": case.namespace()},
            "spec": {"nodeSelector": {"case": case.id()}, "containers": containers},
        });
        std::fs::write(file.path(), pod.to_string()).unwrap();
        let name = format!("{}/more", case.namespace());
        let file = file.path().to_str().unwrap();
        let explained = muster(kubeconfig, &["explain", "pod", &name, "--cluster", "-f", file, "-o", "json"]).await;
        assert_eq!(explained.code, 0, "{explained:?}");
        assert!(explained.stdout.contains(&case.named("pool")), "{explained:?}");
        clear(case).await;
    });
}

#[test]
fn more_objects_than_a_page_holds_are_all_read() {
    case("pages", &[Part::Cluster], async |case| {
        supply(case, 501).await;
        let plan = muster(case.cluster().kubeconfig(), &["plan", "--cluster", "-o", "json"]).await;
        assert_eq!(plan.code, 0, "{plan:?}");
        assert_eq!(own_nodes(case, &serde_json::from_str(&plan.stdout).unwrap()).len(), 501);
        clear(case).await;
    });
}

#[test]
fn who_may_not_read_is_told_what_is_missing() {
    case("refused", &[Part::Cluster], async |case| {
        let nobody = case.cluster().service_account(case.namespace(), "nobody").await.unwrap();
        let refused = muster(&nobody.kubeconfig, &["plan", "--cluster"]).await;
        assert_eq!((refused.code, refused.stdout.as_str()), (3, ""), "{refused:?}");
        let own = refused.stderr.replace(case.namespace(), "NAMESPACE");
        insta::assert_snapshot!(own, @r#"
        error: cannot list `namespaces`: namespaces is forbidden: User "system:serviceaccount:NAMESPACE:nobody" cannot list resource "namespaces" in API group "" at the cluster scope

        hint: grant the user `list` on `namespaces` in all namespaces
        "#);
    });
}

#[test]
fn a_context_that_is_not_there_is_bad_usage() {
    case("context", &[Part::Cluster], async |case| {
        let wrong = muster(case.cluster().kubeconfig(), &["plan", "--cluster", "--context", "prod"]).await;
        assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""), "{wrong:?}");
        assert!(wrong.stderr.starts_with("error: the kubeconfig has no context `prod`\n\nhint: it has `"), "{wrong:?}");
    });
}

/// Nobody listens there.
const NOWHERE: &str = "
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: a, user: {}}]
";

#[tokio::test]
async fn a_server_that_does_not_answer_and_a_kubeconfig_that_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, NOWHERE).unwrap();
    let silent = muster(&file, &["plan", "--cluster"]).await;
    assert_eq!(silent.code, 3, "{silent:?}");
    insta::assert_snapshot!(silent.stderr, @r"
    error: cannot list `namespaces`: Connection refused (os error 111)

    hint: check the network to the API server with `kubectl version`
    ");

    std::fs::write(&file, "contexts: 3").unwrap();
    let broken = muster(&file, &["plan", "--cluster"]).await;
    assert_eq!(broken.code, 2, "{broken:?}");
    let missing = muster(Path::new("/nonexistent/kubeconfig"), &["plan", "--cluster"]).await;
    assert_eq!(missing.code, 2, "{missing:?}");
}
