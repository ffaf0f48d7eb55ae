//! Nodes that are not what was planned are not bought again and again.

mod admission;
mod difference;
mod means;
mod meddler;
mod workloads;

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

use self::difference::Difference;
use self::meddler::{FOREIGN, Meddler};
use self::workloads::{ARCHITECTURE, BAD, DEVICE, HUGE_PAGES, RACK, TIER, ZONE};
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
    /// The pod runs on the node that was bought as this one.
    RunsOn(usize),
    /// The pod waits, on nobody's account but its scheduler's.
    Waits,
    /// The pod waits, and nothing is bought for it.
    Nothing,
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

/// The same, of types with devices and huge pages.
const OTHER_WORLDS: [(Difference, End); 10] = [
    (Difference::FewPods, End::Held("exceeds node resources, pods")),
    (Difference::FewDevices, End::Held(DEVICE)),
    // As with a node that takes no pods.
    (Difference::NoDevices, End::Waits),
    (Difference::HugePages, End::Held(HUGE_PAGES)),
    (Difference::Zone, End::Held(ZONE)),
    (Difference::Architecture, End::Held(ARCHITECTURE)),
    (Difference::RackLost, End::Held(RACK)),
    (Difference::Neighbour, End::Held("anti-affinity")),
    // Not ready at first, and unreachable soon after.
    (Difference::NotReady, End::Held("node.kubernetes.io/")),
    (Difference::Taker, End::Held("exceeds node resources, cpu")),
];

/// The same, in which namespaces, DaemonSets and defaults change as well: what is known of fruitless nodes is forgotten
/// then.
const ROUGH_WORLDS: [(Difference, End); 12] = [
    (Difference::Gated, End::Nothing),
    (Difference::Quota, End::RunsOn(1)),
    (Difference::NoVolume, End::Waits),
    (Difference::BindingRefused, End::Waits),
    (Difference::PodSidecar, End::RunsOn(1)),
    (Difference::PodOverhead, End::RunsOn(1)),
    (Difference::LateDaemons, End::RunsOn(2)),
    (Difference::LateDefaults, End::RunsOn(2)),
    (Difference::Preempted, End::RunsOn(2)),
    (Difference::Terminating, End::Waits),
    (Difference::Grown, End::RunsOn(2)),
    (Difference::Rejected, End::RunsOn(1)),
];

/// Longer than a node waits for its pods, and a round after that.
const SETTLED: Duration = Duration::from_secs(45);
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
    let bought = end(&WORLDS, workloads::of_worlds(), false).await;
    assert_eq!(bought[Difference::Overhead.name()].len(), 1, "daemons count with their overhead");
}

#[tokio::test]
async fn third_node_that_takes_no_pod_is_the_last() {
    end(&MORE_WORLDS, workloads::of_more_worlds(), false).await;
}

#[tokio::test]
async fn third_node_with_less_than_its_type_has_is_the_last() {
    end(&OTHER_WORLDS, workloads::of_other_worlds(), true).await;
}

#[tokio::test]
#[ignore = "scale: a minute for worlds that end by themselves"]
async fn worlds_that_change_after_a_launch_come_to_rest() {
    end(&ROUGH_WORLDS, workloads::of_rough_worlds(), true).await;
}

/// Plays these worlds in one cluster with these objects, with types that have devices or KWOK's own. Returns the names
/// of all NodeClaims that there were, by NodePool.
async fn end(
    worlds: &[(Difference, End)],
    mut objects: Vec<Value>,
    has_devices: bool,
) -> BTreeMap<String, BTreeSet<String>> {
    let ground = Ground::new("run suite").await;
    objects.extend(worlds.iter().map(|(world, _)| workloads::pool(*world)));
    objects.extend(admission::policies());
    ground.apply(&objects).await;
    admission::policies_hold(&ground.client()).await;
    let meddler = tokio::spawn(Meddler::new(&ground.client()).meddle());
    let bought = Bought::default();
    let counting = tokio::spawn(count(ground.claims(), Arc::clone(&bought)));
    let types = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(types.path(), workloads::types().to_string()).unwrap();
    let arguments = ["--instance-types-file-path", types.path().to_str().unwrap()];
    let arguments = if has_devices { &arguments[..] } else { &[] };
    let _replica = ground.replica_as("muster", ground.cluster().kubeconfig(), arguments);
    let deployments: Vec<Value> = worlds.iter().map(|(world, _)| workloads::deployment(*world)).collect();
    ground.apply(&deployments).await;
    for &(world, end) in worlds {
        has_ended(&ground, world, end, &bought).await;
    }
    let before: usize = bought.lock().unwrap().values().map(BTreeSet::len).sum();
    // Where nothing is held, nothing has taken long so far.
    let is_any_held = worlds.iter().any(|(_, end)| matches!(end, End::Held(_)));
    let span = if is_any_held { CALM } else { SETTLED };
    let calm = wait::stays(ground.claims(), Selection::all(), span, "no NodeClaim comes", |_| {
        bought.lock().unwrap().values().map(BTreeSet::len).sum::<usize>() == before
    });
    calm.await.unwrap_or_else(|error| panic!("{error}: {bought:?}"));
    for &(world, end) in worlds {
        let expected = match end {
            End::Held(_) | End::Runs => 1..=3,
            End::RunsOn(count) => count..=count,
            End::Waits => 1..=1,
            End::Nothing => 0..=0,
        };
        let count = number_of(world, &bought);
        assert!(expected.contains(&count), "{world:?}: {count} NodeClaims: {bought:?}");
    }
    meddler.abort();
    counting.abort();
    bought.lock().unwrap().clone()
}

/// The number of NodeClaims that there were of a world.
fn number_of(world: Difference, bought: &Bought) -> usize {
    bought.lock().unwrap().get(world.name()).map_or(0, BTreeSet::len)
}

/// Waits for the end of a world.
async fn has_ended(ground: &Ground, world: Difference, end: End, bought: &Bought) {
    let count = match end {
        End::Held(difference) => {
            let is_it = |event: &Event| {
                event.reason.as_deref() == Some("LaunchesHeld")
                    && is_of(world, event.involved_object.name.as_deref())
                    && event.message.as_deref().unwrap_or_default().contains(difference)
            };
            let what = format!("launches are held in {world:?}, for `{difference}`");
            let events: Api<Event> = Api::namespaced(ground.client(), "default");
            let held = wait::until_all(events, Selection::all(), THREE_NODES, &what, |all| all.iter().any(is_it));
            held.await.unwrap();
            let says =
                |one: &DynamicObject| one.name_any() == world.name() && condition(one, "LaunchesDeliver") == "False";
            let what = format!("the NodePool of {world:?} says so");
            let pools = of_karpenter(ground.client(), "NodePool");
            wait::until_all(pools, Selection::all(), SOON, &what, |all| all.iter().any(says)).await.unwrap();
            return;
        }
        End::Runs => 1,
        End::RunsOn(count) => count,
        End::Waits | End::Nothing => return,
    };
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let what = format!("the pod of {world:?} runs");
    let app = Selection::labelled(&format!("app={}", world.name()));
    let found = wait::until_all(Api::all(ground.client()), app, THREE_NODES, &what, |pods: &[Pod]| {
        pods.iter().any(runs) && number_of(world, bought) >= count
    });
    found.await.unwrap();
}
