//! Objects in an API server of their own, and what becomes of them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::api::{Api, Key, Kind, Path};
use super::super::objects::reference_of;
use super::super::script::Reference;
use super::{Author, Edit, delete, edit, key_of, scale};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn named(kind: &str, name: &str) -> Reference {
    reference_of(&json!({"kind": kind, "metadata": {"name": name}}))
}

fn at(api: &Api, kind: &str, name: &str, pointer: &str) -> Value {
    let object = api.json(&key_of(&named(kind, name))).unwrap_or_default();
    object.pointer(pointer).cloned().unwrap_or_default()
}

fn with(objects: impl IntoIterator<Item = Value>) -> (Author, Api) {
    let (mut author, mut api) = (Author::default(), Api::default());
    for object in objects {
        author.apply(&mut api, object, NOW).unwrap();
    }
    (author, api)
}

/// One object of each kind that is read and that a day does not make itself.
fn one_of_each() -> Vec<Value> {
    let pod = json!({"spec": {"containers": [{"name": "c"}]}});
    let class = json!({"role": "r", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [{"id": "a"}],
        "securityGroupSelectorTerms": [{"id": "a"}]});
    let pool = json!({"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"}}}});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let all = [
        ("v1", "Pod", pod["spec"].clone()),
        ("v1", "Namespace", json!({})),
        ("v1", "PersistentVolumeClaim", claim),
        ("v1", "PersistentVolume", json!({"capacity": {"storage": 1}})),
        ("v1", "LimitRange", json!({"limits": []})),
        ("v1", "Service", json!({})),
        ("apps/v1", "Deployment", json!({"template": pod})),
        ("apps/v1", "StatefulSet", json!({"template": pod})),
        ("apps/v1", "ReplicaSet", json!({"template": pod})),
        ("apps/v1", "DaemonSet", json!({"template": pod})),
        ("batch/v1", "Job", json!({"template": pod})),
        ("batch/v1", "CronJob", json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": pod}}})),
        ("policy/v1", "PodDisruptionBudget", json!({"maxUnavailable": 1})),
        ("karpenter.sh/v1", "NodePool", pool),
        ("karpenter.k8s.aws/v1", "EC2NodeClass", class),
    ];
    let object = |(api_version, kind, spec): (&str, &str, Value)| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
    all.map(object).to_vec()
}

#[test]
fn every_kind_is_made_changed_and_deleted() {
    for object in one_of_each() {
        let reference = reference_of(&object);
        let kind = reference.kind.clone();
        let (mut author, mut api) = with([object.clone()]);
        let label = |data: &mut Value| data["metadata"]["labels"]["tier"] = "front".into();
        let edited = edit(&mut api, &reference, &mut { label }).unwrap();
        assert_eq!((edited, at(&api, &kind, "a", "/metadata/labels/tier")), (Edit::Changed, "front".into()), "{kind}");
        assert_eq!(edit(&mut api, &reference, &mut { label }).unwrap(), Edit::Same, "{kind}");
        author.apply(&mut api, object, NOW).unwrap();
        assert_eq!(at(&api, &kind, "a", "/metadata/labels/tier"), "front", "{kind}: what others have said stays");
        let is_bare = reference.path.namespace.is_empty();
        assert_eq!(at(&api, &kind, "a", "/metadata/namespace").is_null(), is_bare, "{kind}");
        assert!(delete(&mut api, &reference, NOW), "{kind}");
        assert!(api.json(&key_of(&reference)).is_none(), "{kind}");
        assert!(!delete(&mut api, &reference, NOW), "{kind}");
        assert_eq!(edit(&mut api, &reference, &mut |_| ()).unwrap(), Edit::Missing, "{kind}");
    }
}

#[test]
fn no_change_panics_whatever_it_makes_of_an_object() {
    let values = [json!(null), json!([]), json!({}), json!(5), json!("x"), json!([[1]]), json!({"a": {"b": []}})];
    for object in one_of_each() {
        let reference = reference_of(&object);
        for key in ["spec", "metadata", "status", "data", "apiVersion", "kind"] {
            for value in &values {
                let (_, mut api) = with([object.clone()]);
                // What makes no sense is refused, and the object stays as it was.
                let before = api.json(&key_of(&reference)).unwrap();
                let put = edit(&mut api, &reference, &mut |data| data[key] = value.clone());
                let is_kept = api.json(&key_of(&reference)).unwrap() == before;
                assert!(put.is_ok() || is_kept, "{reference}: {key}: {value}");
                let _whatever_it_is_now = edit(&mut api, &reference, &mut |data| scale(data, 3));
            }
        }
    }
}

#[test]
fn what_a_manifest_no_longer_says_goes_and_what_others_have_written_stays() {
    let pool = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"x": "1"}}, "spec": spec});
    let template = json!({"spec": {"containers": [{"name": "c"}], "hostNetwork": true}});
    let (mut author, mut api) = with([pool(json!({"replicas": 3, "template": template}))]);
    let reference = named("Deployment", "a");
    edit(&mut api, &reference, &mut |data| {
        json_patch::merge(data, &json!({"spec": {"paused": true}, "status": {"replicas": 3}}));
    })
    .unwrap();
    author.apply(&mut api, pool(json!({"template": {"spec": {"containers": [{"name": "d"}]}}})), NOW).unwrap();
    let object = api.json(&key_of(&reference)).unwrap();
    assert_eq!(object["spec"], json!({"paused": true, "template": {"spec": {"containers": [{"name": "d"}]}}}));
    assert_eq!((&object["status"]["replicas"], &object["metadata"]["generation"]), (&json!(3), &json!(3)));
}

/// A LimitRange, a default PriorityClass, and a bare pod.
fn admitted(range: &Value) -> Api {
    let range =
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}, "spec": {"limits": [range]}});
    let class = |name: &str, value: i32| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": name}, "value": value, "globalDefault": name != "high"})
    };
    let container = json!({"name": "c", "resources": {"limits": {"cpu": "2"}}});
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let volume = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"initContainers": [{"name": "i"}], "containers": [container], "volumes": [volume]}});
    with([range, class("usual", 5), class("high", 9), class("other", 7), pod]).1
}

#[test]
fn a_bare_pod_is_admitted_like_those_of_workloads() {
    let api = admitted(&json!({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}));
    let of = |pointer: &str| at(&api, "Pod", "a", pointer);
    assert_eq!(of("/spec/priority"), 5, "the least of the defaults");
    assert_eq!(of("/spec/tolerations/1/key"), "node.kubernetes.io/unreachable");
    assert_eq!(of("/spec/containers/0/resources"), json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}));
    assert_eq!(of("/spec/initContainers/0/resources"), json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}));
    assert_eq!(at(&api, "PersistentVolumeClaim", "a-scratch", "/spec/accessModes/0"), "ReadWriteOnce");
}

#[test]
fn a_pod_of_the_input_is_taken_as_admitted() {
    let (mut author, mut api) = with([]);
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 5,
        "globalDefault": true});
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}});
    for object in [class, pod] {
        author.start(&mut api, object, NOW).unwrap();
    }
    assert!(at(&api, "Pod", "a", "/spec/priority").is_null());
    assert!(at(&api, "Pod", "a", "/spec/tolerations").is_null());
}

#[test]
fn a_limit_range_has_the_defaults_of_the_api_server() {
    let api = admitted(&json!({"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "1", "memory": "1Gi"}}));
    let resources = at(&api, "Pod", "a", "/spec/initContainers/0/resources");
    assert_eq!(resources, json!({"limits": {"cpu": "4"}, "requests": {"cpu": "4", "memory": "1Gi"}}));
}

#[test]
fn a_pod_that_is_applied_again_keeps_its_node() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}]}});
    let (mut author, mut api) = with([pod.clone()]);
    edit(&mut api, &named("Pod", "a"), &mut |data| data["spec"]["nodeName"] = "n".into()).unwrap();
    author.apply(&mut api, pod, NOW).unwrap();
    assert_eq!(at(&api, "Pod", "a", "/spec/nodeName"), "n");
    assert_eq!(at(&api, "Pod", "a", "/spec/containers/0/resources/requests/cpu"), "1", "a number is a quantity too");
}

#[test]
fn with_a_namespace_goes_what_is_in_it() {
    let inside = |name: &str| json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "a"}, "spec": {}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    let (_, mut api) = with(one_of_each().into_iter().chain([namespace, inside("x"), inside("y")]));
    assert!(delete(&mut api, &named("Namespace", "a"), NOW));
    let budgets: Vec<&Path> = api.budgets.iter().map(|(path, _)| path).collect();
    assert_eq!(budgets, [&Path::new("default", "a")]);
    assert!(api.json(&Key { kind: Kind::Other("Namespace".to_owned()), path: Path::bare("a") }).is_none());
}

#[test]
fn what_a_day_makes_itself_is_left_out() {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": "1"}]);
    let set = |owners: Value| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "a", "ownerReferences": owners}, "spec": {}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    assert_eq!(with([node, set(owner)]).1.keys(), []);
    assert_eq!(with([set(json!([]))]).1.keys().len(), 1);
}
