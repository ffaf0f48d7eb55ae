//! Policies of admission: which nodes have a taint or are cordoned when they are created, which pods get a container,
//! and which are not bound.

use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::{Api, Client};
use muster_tests::wait;
use serde_json::{Value, json};

use super::difference::Difference::{self, *};
use super::meddler::{FOREIGN, WORLD, taints};
use super::workloads::BAD;
use crate::run::ground::SOON;

/// Worlds whose nodes have a taint until the meddler has changed what it changes.
const UNTIL_CHANGED: [Difference; 23] = [
    Taint,
    Reaper,
    LessCpu,
    LessMemory,
    NoPods,
    StaticPod,
    HostPort,
    LabelLost,
    Volumes,
    FewPods,
    FewDevices,
    NoDevices,
    HugePages,
    Zone,
    Architecture,
    RackLost,
    Neighbour,
    NotReady,
    Taker,
    LateDaemons,
    LateDefaults,
    Terminating,
    Grown,
];

/// A policy that changes objects of a resource when they are created, if they have one of these values of a label.
fn mutating(name: &str, resource: &str, label: &str, values: &[&str], mutation: &Value) -> [Value; 2] {
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]);
    let selector = json!({"matchExpressions": [{"key": label, "operator": "In", "values": values}]});
    let version = "admissionregistration.k8s.io/v1";
    [
        json!({
            "apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": rules, "objectSelector": selector},
                "reinvocationPolicy": "Never", "failurePolicy": "Fail", "mutations": [mutation],
            },
        }),
        json!({
            "apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name},
        }),
    ]
}

fn set(fields: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": fields}})
}

/// Where room is to be taken, the taint goes when it is.
pub(super) fn policies() -> Vec<Value> {
    let of_nodes = |name: &str, worlds: &[Difference], mutation: &Value| {
        let worlds: Vec<&str> = worlds.iter().map(|world| world.name()).collect();
        mutating(name, "nodes", WORLD, &worlds, mutation)
    };
    let tainted = |effect: &str| {
        let expression = format!(
            r#"[JSONPatch{{op: "add", path: "/spec/taints/-", value: Object.spec.taints{{key: "{FOREIGN}", effect: "{effect}"}}}}]"#
        );
        json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
    };
    let label = format!(r#"Object{{metadata: Object.metadata{{labels: {{"{BAD}": "true"}}}}}}"#);
    let cordon = "Object{spec: Object.spec{unschedulable: true}}";
    let all = [
        of_nodes("taint", &UNTIL_CHANGED, &tainted("NoSchedule")),
        of_nodes("evict", &[EvictingFromTheStart], &tainted("NoExecute")),
        of_nodes("discourage", &[Discouraged], &tainted("PreferNoSchedule")),
        of_nodes("cordon", &[Cordon, CordonForAWhile], &set(cordon)),
        of_nodes("label", &[LabelAdded], &set(&label)),
    ];
    all.into_iter().flatten().collect()
}

/// Pods with that label of the world get a container with three CPUs when they are admitted.
pub(super) fn sidecar(label: &str, world: Difference) -> [Value; 2] {
    let container = r#"Object.spec.containers{name: "sidecar", image: "none", resources: Object.spec.containers.resources{requests: {"cpu": "3"}}}"#;
    let fields = format!("Object{{spec: Object.spec{{containers: [{container}]}}}}");
    mutating("sidecar", "pods", label, &[world.name()], &set(&fields))
}

/// Pods of the world are not bound.
pub(super) fn no_binding(world: Difference) -> [Value; 2] {
    let name = "binding";
    let rules = json!([
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]},
    ]);
    let expression = format!(r#"!object.metadata.name.startsWith("{}-")"#, world.name());
    let version = "admissionregistration.k8s.io/v1";
    [
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": rules}, "failurePolicy": "Fail",
                "validations": [{"expression": expression, "message": "its image is not signed"}],
            },
        }),
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

/// Waits until admission does what the policies say.
pub(super) async fn policies_hold(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let of = |world: Difference| {
        let taints = json!([{"key": "example.com/other", "effect": "NoSchedule"}]);
        let metadata = json!({"name": "probe", "labels": {WORLD: world.name()}});
        serde_json::from_value::<Node>(json!({"metadata": metadata, "spec": {"taints": taints}})).unwrap()
    };
    let hold = wait::until_some("admission changes nodes", SOON, || async {
        let (tainted, cordoned) =
            (nodes.create(&dry_run, &of(Taint)).await?, nodes.create(&dry_run, &of(Cordon)).await?);
        let is_cordoned = cordoned.spec.and_then(|spec| spec.unschedulable) == Some(true);
        Ok((is_cordoned && taints(&tainted).iter().any(|taint| taint.key == FOREIGN)).then_some(()))
    });
    hold.await.unwrap();
}
