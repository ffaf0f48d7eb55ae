//! What CapacityBuffers refer to is kept, trimmed, and given to the engine only where a buffer names it.

use serde_json::{Value, json};

use super::super::{Cluster, Kind};

fn workload(kind: Kind, name: &str, replicas: u32, owner: Option<&str>) -> Value {
    let owner = owner.map(
        |name| json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": "u", "controller": true}]),
    );
    let containers = json!([{"name": "main", "image": "none", "env": [{"name": "SECRET", "value": "hidden"}],
        "resources": {"requests": {"cpu": "1"}}}]);
    json!({"apiVersion": "apps/v1", "kind": kind.name(),
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": owner, "annotations": {"large": "hidden"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}},
        "status": {"replicas": replicas}})
}

fn buffer(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "shop"}, "spec": spec})
}

#[test]
fn only_what_a_buffer_names_is_given_on_and_no_pod_is_made_of_it() {
    let mut cluster = Cluster::default();
    for (kind, name, replicas, owner) in [
        (Kind::Deployment, "web", 4, None),
        (Kind::Deployment, "other", 9, None),
        (Kind::StatefulSet, "web", 2, None),
        (Kind::ReplicaSet, "web-new", 4, Some("web")),
        (Kind::ReplicaSet, "web-old", 0, Some("web")),
        (Kind::ReplicaSet, "idle", 0, None),
    ] {
        assert!(
            cluster.apply_object(kind, &workload(kind, name, replicas, owner)).kinds.contains(kind)
                == (name != "web-old")
        );
    }
    assert_eq!(cluster.paths(Kind::ReplicaSet).len(), 2, "old revisions are left out");
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate",
        "metadata": {"name": "chunk", "namespace": "shop", "generation": 3},
        "template": {"spec": {"containers": [{"name": "main"}]}}});
    cluster.apply_object(Kind::PodTemplate, &template);
    assert_eq!(cluster.generation_of_template("shop/chunk"), Some(3));
    let manifests = cluster.manifests();
    assert_eq!((manifests.scaled.len(), manifests.pod_templates.len()), (0, 0));

    let scalable = json!({"kind": "Deployment", "name": "web"});
    cluster.apply_object(Kind::CapacityBuffer, &buffer("a", &json!({"scalableRef": scalable, "percentage": 50})));
    cluster
        .apply_object(Kind::CapacityBuffer, &buffer("b", &json!({"podTemplateRef": {"name": "chunk"}, "replicas": 1})));
    let manifests = cluster.manifests();
    let scaled: Vec<_> = manifests.scaled.iter().map(|one| (one.kind, &*one.meta.name, one.replicas)).collect();
    assert_eq!(scaled, [("Deployment", "web", 4)]);
    assert_eq!((manifests.pod_templates.len(), manifests.workloads.len()), (1, 0));
    assert!(!format!("{cluster:?}").contains("hidden"), "what is not needed is not kept");

    // A status that changes is no news; replicas are.
    let mut web = workload(Kind::Deployment, "web", 4, None);
    web["status"]["replicas"] = 3.into();
    assert!(cluster.apply_object(Kind::Deployment, &web).is_empty());
    web["spec"]["replicas"] = 6.into();
    assert!(!cluster.apply_object(Kind::Deployment, &web).is_empty());
    assert!(!cluster.remove(Kind::Deployment, "shop/web").is_empty());
    assert!(cluster.manifests().scaled.is_empty());
    // A revision that is given up is forgotten.
    cluster.apply_object(Kind::ReplicaSet, &workload(Kind::ReplicaSet, "web-new", 0, Some("web")));
    assert_eq!(cluster.paths(Kind::ReplicaSet).len(), 1);
}
