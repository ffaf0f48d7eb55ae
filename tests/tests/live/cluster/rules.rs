//! What the API server enforces of custom resources.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use muster_tests::world::Part;
use muster_tests::{Case, Error, case, wait};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

/// Runs kubectl on a manifest and gives its words, whether it succeeded or not.
async fn kubectl(case: &Case, verb: &[&str], manifest: &Value) -> Result<String, String> {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), manifest.to_string()).unwrap();
    let arguments = [verb, &["-f", file.path().to_str().unwrap()]].concat();
    match case.cluster().kubectl(&arguments).await {
        Ok(text) => Ok(text),
        Err(Error::Command { answer, .. }) => Err(answer),
        Err(error) => panic!("{error}"),
    }
}

async fn established(case: &Case, name: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(case.cluster().client());
    let what = format!("`{name}` is established");
    let definition = wait::until(definitions, name, SOON, &what, |definition| {
        let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|it| it.type_ == "Established" && it.status == "True")
    });
    definition.await.unwrap();
}

/// Rules that a schema cannot say, defaults, and a rule that looks at the old version.
#[test]
fn rules_of_a_resource_definition_are_enforced() {
    case("rules", &[Part::Cluster], async |case| {
        let group = format!("{}.example.com", case.id());
        let name = format!("ranges.{group}");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"plural": "ranges", "singular": "range", "kind": "Range"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {
                        "type": "object",
                        "properties": {
                            "least": {"type": "integer", "default": 1},
                            "most": {"type": "integer"},
                            "zone": {"type": "string", "x-kubernetes-validations": [
                                {"rule": "self == oldSelf", "message": "zone cannot change"}]},
                        },
                        "x-kubernetes-validations": [
                            {"rule": "self.least <= self.most", "message": "least must not be above most"}],
                    }},
                }}}],
            },
        });
        kubectl(case, &["create"], &definition).await.unwrap();
        established(case, &name).await;
        let range = |spec: Value| {
            let metadata = json!({"name": "cores", "namespace": case.namespace()});
            json!({"apiVersion": format!("{group}/v1"), "kind": "Range", "metadata": metadata, "spec": spec})
        };
        let refused = kubectl(case, &["create"], &range(json!({"least": 3, "most": 2}))).await.unwrap_err();
        assert!(refused.contains("least must not be above most"), "{refused}");

        let good = range(json!({"most": 2, "zone": "a"}));
        let made = kubectl(case, &["create", "-o", "jsonpath={.spec.least}"], &good).await.unwrap();
        assert_eq!(made, "1", "the default");
        let moved = kubectl(case, &["apply"], &range(json!({"most": 2, "zone": "b"}))).await.unwrap_err();
        assert!(moved.contains("zone cannot change"), "{moved}");
        case.cluster().kubectl(&["delete", "crd", &name]).await.unwrap();
    });
}

/// The definitions that Muster brings are taken as they are, and refuse what Karpenter's would.
#[test]
fn our_own_definitions_are_taken_and_enforced() {
    case("nodepools", &[Part::Cluster], async |case| {
        let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../controller/api/crds");
        // Server-side, so that tests which need them at the same time do not meet.
        case.cluster().kubectl(&["apply", "--server-side", "--force-conflicts", "-f", definitions]).await.unwrap();
        established(case, "nodepools.karpenter.sh").await;
        let pool = |budget: Value| {
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": case.named("pool")},
                "spec": {
                    "disruption": {"consolidateAfter": "0s", "budgets": [budget]},
                    "template": {"spec": {
                        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}],
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    }},
                },
            })
        };
        let refused =
            kubectl(case, &["create"], &pool(json!({"nodes": "10%", "schedule": "@daily"}))).await.unwrap_err();
        assert!(refused.contains("`schedule` and `duration` must be set together"), "{refused}");
        kubectl(case, &["create"], &pool(json!({"nodes": "10%"}))).await.unwrap();
        case.cluster().kubectl(&["delete", "nodepool", &case.named("pool")]).await.unwrap();
    });
}
