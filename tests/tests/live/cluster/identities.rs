//! Who may do what: service accounts, nodes, and kubelets that are not nodes yet.

use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use muster_tests::cluster::fake_node;
use muster_tests::world::Part;
use muster_tests::{Case, Error, case, wait};
use serde_json::json;

/// What kubectl says when it is refused.
fn refusal<T: std::fmt::Debug>(result: muster_tests::Result<T>) -> String {
    match result {
        Err(Error::Command { answer, .. }) => answer,
        other => panic!("not refused: {other:?}"),
    }
}

/// Applies a manifest, given as JSON, as an administrator.
async fn apply(case: &Case, name: &str, manifest: &serde_json::Value) {
    let file = tempfile::Builder::new().prefix(name).suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), manifest.to_string()).unwrap();
    case.cluster().kubectl(&["apply", "-f", file.path().to_str().unwrap()]).await.unwrap();
}

#[test]
fn a_service_account_has_exactly_the_rights_of_its_roles() {
    case("rights", &[Part::Cluster], async |case| {
        let namespace = case.namespace();
        let account = case.cluster().service_account(namespace, "controller").await.unwrap();
        let seen = account.kubectl(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]).await.unwrap();
        assert_eq!(seen, format!("system:serviceaccount:{namespace}:controller"));
        assert!(refusal(account.kubectl(&["get", "pods", "-n", namespace]).await).contains("Forbidden"));

        apply(
            case,
            "rights",
            &json!({"apiVersion": "v1", "kind": "List", "items": [
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                 "metadata": {"name": "reads-pods", "namespace": namespace},
                 "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]},
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                 "metadata": {"name": "reads-pods", "namespace": namespace},
                 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads-pods"},
                 "subjects": [{"kind": "ServiceAccount", "name": "controller", "namespace": namespace}]},
            ]}),
        )
        .await;
        account.kubectl(&["get", "pods", "-n", namespace]).await.unwrap();
        for beyond in
            [&["get", "pods", "-n", "kube-system"][..], &["get", "nodes"], &["delete", "pod", "any", "-n", namespace]]
        {
            assert!(refusal(account.kubectl(beyond).await).contains("Forbidden"), "{beyond:?}");
        }
    });
}

#[test]
fn a_node_may_change_itself_and_no_other_and_not_its_restricted_labels() {
    case("restriction", &[Part::Cluster], async |case| {
        let (own, other) = (case.named("own"), case.named("other"));
        let nodes: Api<Node> = Api::all(case.cluster().client());
        for name in [&own, &other] {
            let node = fake_node(name, json!({"metadata": {"annotations": {"kwok.x-k8s.io/node": "not"}}})).unwrap();
            nodes.create(&Default::default(), &node).await.unwrap();
        }
        let node = case.cluster().user(&format!("system:node:{own}"), Some("system:nodes")).await.unwrap();
        node.kubectl(&["label", "node", &own, "example.com/rack=7"]).await.unwrap();
        // A patch, so that it need not be read first: that is refused to a node as well.
        let rack = r#"{"metadata":{"labels":{"example.com/rack":"7"}}}"#;
        let seen = refusal(node.kubectl(&["get", "node", &other]).await);
        assert!(seen.contains("only its own Node object"), "{seen}");
        let as_node: Api<Node> = Api::all(node.client.clone());
        let patch = Patch::Merge(serde_json::from_str::<serde_json::Value>(rack).unwrap());
        let elsewhere = as_node.patch(&other, &PatchParams::default(), &patch).await.unwrap_err().to_string();
        assert!(elsewhere.contains("is not allowed to modify node"), "{elsewhere}");
        let isolated = "node-restriction.kubernetes.io/tier=front";
        let isolated = refusal(node.kubectl(&["label", "node", &own, isolated]).await);
        assert!(isolated.contains("is not allowed to modify labels"), "{isolated}");
        for name in [&own, &other] {
            nodes.delete(name, &Default::default()).await.unwrap();
            wait::until_gone(nodes.clone(), name, Duration::from_secs(30)).await.unwrap();
        }
    });
}

#[test]
fn a_bootstrap_token_asks_for_a_kubelets_certificate_and_for_nothing_else() {
    case("bootstrap", &[Part::Cluster], async |case| {
        let token = case.cluster().bootstrap_token().unwrap();
        let token = format!("--token={token}");
        // A kubeconfig with no proof: the token on the command line is all that it has.
        let place = case.cluster().place().own.as_ref().unwrap();
        let server = format!("--server={}", place.outside);
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.crt");
        std::fs::write(&ca, case.cluster().authority().unwrap()).unwrap();
        let ca = format!("--certificate-authority={}", ca.display());
        let as_kubelet = async |arguments: &[&str]| {
            let proof = [token.as_str(), &server, &ca, "--kubeconfig=/dev/null"];
            case.cluster().kubectl(&[&proof[..], arguments].concat()).await
        };
        assert!(refusal(as_kubelet(&["get", "pods", "-n", case.namespace()]).await).contains("Forbidden"));

        let name = case.named("kubelet");
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(rcgen::DnType::CommonName, format!("system:node:{name}"));
        let request = params.serialize_request(&key).unwrap().pem().unwrap();
        let manifest = folder.path().join("request.json");
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"],
                "request": k8s_openapi::ByteString(request.into_bytes()),
            },
        });
        std::fs::write(&manifest, request.to_string()).unwrap();
        as_kubelet(&["create", "-f", manifest.to_str().unwrap()]).await.unwrap();

        let requests: Api<CertificateSigningRequest> = Api::all(case.cluster().client());
        let most = Duration::from_secs(30);
        let issued = wait::until(requests.clone(), &name, most, "the certificate is issued", |request| {
            request.status.as_ref().is_some_and(|status| status.certificate.is_some())
        });
        issued.await.unwrap();
        requests.delete(&name, &Default::default()).await.unwrap();
    });
}
