//! Operators ask the controller, with tokens of the real API server.

use k8s_openapi::api::core::v1::Secret;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_proto::muster::diagnosis_client::DiagnosisClient;
use muster_proto::muster::{ExplainNodeRequest, ExplainPodRequest, VerdictsRequest, WhatIfRemovedRequest};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tonic::{Code, Request};

use super::ground::Ground;
use super::stolen::connect;

pub(crate) fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {}", token.trim()).parse().unwrap());
    request
}

pub(crate) fn text<'d>(document: &'d Struct, field: &str) -> &'d str {
    match document.fields.get(field) {
        Some(Value { kind: Some(Kind::StringValue(text)) }) => text,
        other => panic!("{field}: {other:?} in {:?}", document.fields.keys()),
    }
}

/// Whoever has a token for the controller and the right on the RPC is answered, and nobody else; of the broken node with what is kept
/// of its logs.
pub(crate) async fn whoever_may_is_answered(
    ground: &Ground<'_>,
    (broken, logs): (&DynamicObject, &str),
    good: &DynamicObject,
) {
    let cluster = ground.cluster();
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "kube-system");
    let authority = secrets.get("muster-agents").await.unwrap().data.unwrap()["ca.crt"].0.clone();
    let authority = String::from_utf8(authority).unwrap();
    cluster.kubectl(&["create", "serviceaccount", "asks", "-n", "default"]).await.unwrap();
    let rule = ["--verb=get", "--non-resource-url=/muster.v1.Diagnosis/*"];
    cluster.kubectl(&[&["create", "clusterrole", "diagnosis"][..], &rule].concat()).await.unwrap();
    let ours = async |audience: &str| {
        let audience = format!("--audience={audience}");
        cluster.kubectl(&["create", "token", "asks", "-n", "default", &audience]).await.unwrap()
    };
    let (token, of_server) = (ours("muster.dev").await, ours("https://kubernetes.default.svc").await);

    let mut client = DiagnosisClient::new(connect(ground, None, &authority).await);
    let all = || VerdictsRequest { name: String::new() };
    let none = client.verdicts(all()).await.unwrap_err();
    assert_eq!(none.code(), Code::Unauthenticated, "{none}");
    for other in ["made.up.token", &of_server] {
        let refused = client.verdicts(with(other, all())).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        assert!(!refused.message().contains(other.trim()), "{refused}");
    }
    let denied = client.verdicts(with(&token, all())).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied, "{denied}");
    let binding = ["create", "clusterrolebinding", "asks", "--clusterrole=diagnosis", "--serviceaccount=default:asks"];
    cluster.kubectl(&binding).await.unwrap();
    // RBAC sees the binding by its own watch.
    let allowed = muster_tests::wait::until_some("the operator may ask", super::MOST, || {
        let (mut client, request) = (client.clone(), with(&token, all()));
        async move { Ok(client.verdicts(request).await.ok()) }
    });
    let document = allowed.await.unwrap().into_inner().document.unwrap();
    assert_eq!(text(&document, "kind"), "Verdicts");

    // Who has no certificate is shown out after a while.
    let mut client = DiagnosisClient::new(connect(ground, None, &authority).await);
    let one = VerdictsRequest { name: broken.name_any() };
    let one = client.verdicts(with(&token, one)).await.unwrap().into_inner().document.unwrap();
    assert_eq!((text(&one, "code"), text(&one, "nodeClaim")), ("KA17", broken.name_any().as_str()));
    let bundle = if logs.is_empty() { "" } else { text(&one, "bundle") };
    assert_eq!(bundle, logs);

    let name = good.data["status"]["nodeName"].as_str().unwrap().to_owned();
    let node = ExplainNodeRequest { node: name.clone() };
    let node = client.explain_node(with(&token, node)).await.unwrap().into_inner().document.unwrap();
    assert_eq!((text(&node, "node"), text(&node, "phase")), (name.as_str(), "Ready"));
    assert_eq!(text(&node, "instanceType"), "m5.large");
    let removal = WhatIfRemovedRequest { node: name };
    let removal = client.what_if_removed(with(&token, removal)).await.unwrap().into_inner().document.unwrap();
    assert!(removal.fields.contains_key("ifRemoved"), "{:?}", removal.fields.keys());
    let nobody = ExplainPodRequest { namespace: String::new(), pod: "nobody".to_owned() };
    let nobody = client.explain_pod(with(&token, nobody)).await.unwrap_err();
    assert_eq!(nobody.code(), Code::NotFound, "{nobody}");
}
