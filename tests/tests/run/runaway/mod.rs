//! Nodes that are not what was planned are not bought again and again.

mod meddler;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, ResourceExt};
use muster_tests::wait::{self, Selection};
use serde_json::{Value, json};

use self::meddler::{Difference, FOREIGN, Meddler, WORLD};
use super::ground::{Ground, SOON, condition, of_karpenter};

/// Longer than three nodes take that come one after the other, and wait for their pods for twenty seconds each.
const THREE_NODES: Duration = Duration::from_secs(240);
/// Longer than a round of provisioning and the look after it.
const CALM: Duration = Duration::from_secs(15);

/// The end of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Launches are held, and what is said of it has this part.
    Held(&'static str),
    /// The pod runs.
    Runs,
    /// The pod waits, on nobody's account but its scheduler's.
    Waits,
}

/// Each has a pool of its own, whose nodes have four CPUs or eight, and a pod that asks for nearly two of them.
const WORLDS: [(Difference, End); 11] = [
    (Difference::Taint, End::Held(FOREIGN)),
    (Difference::EvictingTaint, End::Held(FOREIGN)),
    (Difference::TaintForAWhile, End::Runs),
    (Difference::Cordon, End::Held("node.kubernetes.io/unschedulable")),
    (Difference::LessCpu, End::Held("exceeds node resources, cpu")),
    (Difference::StaticPod, End::Held("exceeds node resources, cpu")),
    (Difference::Deletion, End::Held("is gone")),
    (Difference::Scheduler, End::Waits),
    (Difference::Overhead, End::Runs),
    (Difference::Sidecar, End::Runs),
    (Difference::Reaper, End::Held(FOREIGN)),
];

/// The same, for the second half of the test.
const MORE_WORLDS: [(Difference, End); 11] = [
    (Difference::EvictingFromTheStart, End::Held(FOREIGN)),
    (Difference::Discouraged, End::Runs),
    (Difference::CordonForAWhile, End::Runs),
    (Difference::LessMemory, End::Held("exceeds node resources, memory")),
    // It is never initialized, which has a timeout of its own.
    (Difference::NoPods, End::Waits),
    (Difference::LabelLost, End::Held(TIER)),
    (Difference::LabelAdded, End::Held(BAD)),
    (Difference::HostPort, End::Held("port")),
    (Difference::Volumes, End::Held("volumes")),
    (Difference::ClaimDeletion, End::Held("is gone")),
    (Difference::SlowScheduler, End::Runs),
];

/// Label of the nodes of a pool that its pod selects.
const TIER: &str = "example.com/tier";
/// Label of nodes that no pod of these worlds takes.
const BAD: &str = "example.com/bad";
/// Host port of a pod.
const PORT: u16 = 8080;
/// Driver of a volume.
const DRIVER: &str = "disk.example.com";
/// Time after which a slow scheduler binds: longer than a node waits for its pods.
const LATE: Duration = Duration::from_secs(40);

#[tokio::test]
async fn daemons_count_as_admission_makes_them() {
    let ground = Ground::new("run suite").await;
    ground.small_nodes(&json!({}), &json!({"consolidateAfter": "Never"})).await;
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1500m"}}]},
    });
    let labels = json!({"app": "agent"});
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "main", "image": "none"}]},
    });
    let daemons = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    });
    ground.apply(&[range, daemons]).await;
    let _replica = ground.replica("muster");
    // Two of them would share a node with 4 CPUs, if it were not for the daemon.
    ground.deploy_pairs(2).await;
    ground.running(2, SOON).await;
    let two = wait::stays(ground.claims(), Selection::all(), CALM, "two NodeClaims", |claims| claims.len() == 2);
    two.await.unwrap();
    ground.scale(0).await;
}

/// The pool of a world.
fn pool(world: Difference) -> Value {
    let requirements = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4", "8"]},
    ]);
    let reference = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let mut labels = json!({WORLD: world.name()});
    if world == Difference::LabelLost {
        labels[TIER] = json!("one");
    }
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": world.name()},
        "spec": {
            "template": {
                "metadata": {"labels": labels}, "spec": {"nodeClassRef": reference, "requirements": requirements},
            },
            "disruption": {"consolidateAfter": "Never"},
        },
    })
}

/// The Deployment of a world.
fn deployment(world: Difference) -> Value {
    let labels = json!({"app": world.name()});
    let requests = json!({"cpu": "1800m", "memory": "100Mi"});
    let mut spec = json!({
        "nodeSelector": {WORLD: world.name()},
        "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
    });
    match world {
        Difference::Scheduler | Difference::SlowScheduler => spec["schedulerName"] = json!(meddler::SCHEDULER),
        Difference::LabelLost => spec["nodeSelector"][TIER] = json!("one"),
        Difference::LabelAdded => {
            let terms = json!([{"matchExpressions": [{"key": BAD, "operator": "DoesNotExist"}]}]);
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        }
        Difference::HostPort => spec["containers"][0]["ports"] = json!([{"containerPort": PORT, "hostPort": PORT}]),
        Difference::Volumes => {
            spec["volumes"] = json!([{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}])
        }
        _ => {}
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": world.name(), "namespace": "default"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

/// Daemons of a world, which ask for little.
fn daemons(world: Difference, fields: &Value) -> Value {
    let labels = json!({"daemons": world.name()});
    let requests = json!({"cpu": "100m"});
    let mut spec = json!({
        "nodeSelector": {WORLD: world.name()},
        "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
    });
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let name = format!("daemons-{}", world.name());
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    })
}

/// A volume that is bound already, and can be attached in any zone.
fn volume() -> [Value; 2] {
    let capacity = json!({"storage": "1Gi"});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "disk"});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "capacity": capacity, "accessModes": ["ReadWriteOnce"], "csi": {"driver": DRIVER, "volumeHandle": "disk"},
            "claimRef": {"namespace": "default", "name": "disk"},
        },
    });
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk", "namespace": "default"},
        "spec": spec,
    });
    claim["spec"]["resources"] = json!({"requests": capacity});
    [volume, claim]
}

/// Daemons of which each takes three CPUs more by its RuntimeClass.
fn heavy_daemons() -> [Value; 2] {
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"}, "handler": "heavy",
        "overhead": {"podFixed": {"cpu": "3"}},
    });
    [class, daemons(Difference::Overhead, &json!({"runtimeClassName": "heavy"}))]
}

/// Daemons of which each gets a container with three CPUs when it is admitted.
fn injected_daemons() -> [Value; 3] {
    let name = "sidecar";
    let container = r#"Object.spec.containers{name: "sidecar", image: "none", resources: Object.spec.containers.resources{requests: {"cpu": "3"}}}"#;
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]);
    let selector = json!({"matchLabels": {"daemons": Difference::Sidecar.name()}});
    let expression = format!("Object{{spec: Object.spec{{containers: [{container}]}}}}");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules, "objectSelector": selector}, "reinvocationPolicy": "Never",
            "failurePolicy": "Fail",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name},
    });
    [policy, binding, daemons(Difference::Sidecar, &json!({}))]
}

/// Names of the NodeClaims that there ever were, by NodePool.
type Bought = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

async fn count(claims: Api<DynamicObject>, bought: Bought) {
    let mut seen = pin!(watcher(claims, Config::default()).applied_objects());
    while let Some(one) = seen.next().await {
        let Ok(claim) = one else { continue };
        let pool = claim.labels().get("karpenter.sh/nodepool").cloned().unwrap_or_default();
        bought.lock().unwrap().entry(pool).or_default().insert(claim.name_any());
    }
}

fn is_of(world: Difference, name: Option<&str>) -> bool {
    name.and_then(|name| name.strip_prefix(world.name())).is_some_and(|rest| rest.starts_with('-'))
}

#[tokio::test]
async fn third_node_that_is_not_what_was_planned_is_the_last() {
    let daemons: Vec<Value> = heavy_daemons().into_iter().chain(injected_daemons()).collect();
    let bought = end(&WORLDS, daemons).await;
    assert_eq!(bought[Difference::Overhead.name()].len(), 1, "daemons count with their overhead");
}

#[tokio::test]
async fn third_node_that_takes_no_pod_is_the_last() {
    end(&MORE_WORLDS, volume().into()).await;
}

/// Plays these worlds in one cluster with these objects. Returns the names of all NodeClaims that there were, by NodePool.
async fn end(worlds: &[(Difference, End)], mut objects: Vec<Value>) -> BTreeMap<String, BTreeSet<String>> {
    let ground = Ground::new("run suite").await;
    objects.extend(worlds.iter().map(|(world, _)| pool(*world)));
    objects.extend(meddler::policies());
    ground.apply(&objects).await;
    meddler::policies_hold(&ground.client()).await;
    let meddler = tokio::spawn(Meddler::new(&ground.client()).meddle());
    let bought = Bought::default();
    let counting = tokio::spawn(count(ground.claims(), Arc::clone(&bought)));
    let _replica = ground.replica("muster");
    let deployments: Vec<Value> = worlds.iter().map(|(world, _)| deployment(*world)).collect();
    ground.apply(&deployments).await;

    let events: Api<Event> = Api::namespaced(ground.client(), "default");
    for &(world, end) in worlds {
        match end {
            End::Held(difference) => {
                let is_it = |event: &Event| {
                    event.reason.as_deref() == Some("LaunchesHeld")
                        && is_of(world, event.involved_object.name.as_deref())
                        && event.message.as_deref().unwrap_or_default().contains(difference)
                };
                let what = format!("launches are held in {world:?}, for `{difference}`");
                let held =
                    wait::until_all(events.clone(), Selection::all(), THREE_NODES, &what, |all| all.iter().any(is_it));
                held.await.unwrap();
                let says = |one: &DynamicObject| {
                    one.name_any() == world.name() && condition(one, "LaunchesDeliver") == "False"
                };
                let what = format!("the NodePool of {world:?} says so");
                let pools = of_karpenter(ground.client(), "NodePool");
                wait::until_all(pools, Selection::all(), SOON, &what, |all| all.iter().any(says)).await.unwrap();
            }
            End::Runs => {
                let runs =
                    |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
                let what = format!("the pod of {world:?} runs");
                let app = Selection::labelled(&format!("app={}", world.name()));
                wait::until_all(ground.pods(), app, THREE_NODES, &what, |pods| pods.iter().any(runs)).await.unwrap();
            }
            End::Waits => {}
        }
    }
    let before: usize = bought.lock().unwrap().values().map(BTreeSet::len).sum();
    let calm = wait::stays(ground.claims(), Selection::all(), CALM, "no NodeClaim comes", |_| {
        bought.lock().unwrap().values().map(BTreeSet::len).sum::<usize>() == before
    });
    calm.await.unwrap_or_else(|error| panic!("{error}: {bought:?}"));
    for &(world, end) in worlds {
        let count = bought.lock().unwrap().get(world.name()).map_or(0, BTreeSet::len);
        let most = if end == End::Waits { 1 } else { 3 };
        assert!((1..=most).contains(&count), "{world:?}: {count} NodeClaims: {bought:?}");
    }
    meddler.abort();
    counting.abort();
    bought.lock().unwrap().clone()
}
