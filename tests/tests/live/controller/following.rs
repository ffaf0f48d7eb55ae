//! The cache of a cluster that is followed, against a list of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use muster_controller::watch::{ClusterCache, Extras, WatchState, follow};
use muster_manifest::Manifests;
use muster_stages::state::{Cluster, Kind};
use muster_tests::cluster::Options;
use muster_tests::wait;
use muster_tests::world::World;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::meddler::Meddler;

const SOON: Duration = Duration::from_secs(60);

/// What is compared, and where a list of it is.
const COMPARED: [(Kind, &str); 7] = [
    (Kind::Namespace, "/api/v1/namespaces"),
    (Kind::Node, "/api/v1/nodes"),
    (Kind::Pod, "/api/v1/pods?fieldSelector=status.phase!%3DSucceeded,status.phase!%3DFailed"),
    (Kind::PriorityClass, "/apis/scheduling.k8s.io/v1/priorityclasses"),
    (Kind::LimitRange, "/api/v1/limitranges"),
    (Kind::NodePool, "/apis/karpenter.sh/v1/nodepools"),
    (Kind::Ec2NodeClass, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"),
];

/// The cluster as a list shows it now.
async fn listed(client: &Client) -> Manifests {
    let mut cluster = Cluster::default();
    for (kind, path) in COMPARED {
        let text = client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        for item in list["items"].as_array().unwrap() {
            cluster.apply(kind, &item.to_string());
        }
    }
    only_compared(&cluster)
}

fn only_compared(cluster: &Cluster) -> Manifests {
    let Manifests { namespaces, nodes, pods, priority_classes, node_pools, node_classes, .. } = cluster.manifests();
    Manifests { namespaces, nodes, pods, priority_classes, node_pools, node_classes, ..Manifests::default() }
}

/// Waits until the cache is what a list says.
async fn agrees(cluster_cache: &ClusterCache, client: &Client, when: &str) {
    let agree = async {
        while listed(client).await != only_compared(&cluster_cache.read()) {
            cluster_cache.changed().await;
        }
    };
    if timeout(SOON, agree).await.is_err() {
        let (listed, shown) = (listed(client).await, only_compared(&cluster_cache.read()));
        panic!("{when}, the picture is not what a list says:\n{listed:#?}\n{shown:#?}\n{:?}", cluster_cache.health());
    }
}

/// Waits until the cache shows something.
async fn shows(cluster_cache: &ClusterCache, what: &str, holds: impl Fn(&Cluster) -> bool) {
    let seen = async {
        while !holds(&cluster_cache.read()) {
            cluster_cache.changed().await;
        }
    };
    timeout(SOON, seen).await.unwrap_or_else(|_| panic!("{what} is not seen: {:?}", cluster_cache.health()));
}

fn standing(cluster_cache: &ClusterCache, kind: Kind) -> WatchState {
    cluster_cache.health().into_iter().find(|health| health.kind == kind).unwrap().standing
}

fn pod(name: &str) -> Pod {
    let spec = json!({"nodeName": "nowhere", "containers": [{"name": "c", "image": "none"}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

async fn create_pods(pods: &Api<Pod>, names: impl Iterator<Item = String>) {
    for name in names {
        pods.create(&PostParams::default(), &pod(&name)).await.unwrap();
    }
}

fn at_once() -> DeleteParams {
    DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_followed_is_what_a_list_says_however_often_the_line_is_cut() {
    let world = World::open("following suite").unwrap();
    let plane = world.control_plane(&Options::named("following")).await.unwrap();
    let cluster = plane.cluster();
    cluster.can_create_pods("default").await.unwrap();
    let real = cluster.client();
    let (client, meddler) = Meddler::new(&real);
    let (cluster_cache, _following) = follow(&client, Extras::default());
    timeout(SOON, cluster_cache.synced()).await.unwrap();
    assert_eq!(standing(&cluster_cache, Kind::NodePool), WatchState::Unknown, "there is no such definition yet");
    assert_eq!(standing(&cluster_cache, Kind::Pod), WatchState::Following);

    // A kind that comes later is followed from then on.
    let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../controller/api/crds");
    cluster.kubectl(&["apply", "--server-side", "-f", definitions]).await.unwrap();
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "class"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "nodes",
            "subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}],
            "securityGroupSelectorTerms": [{"id": "sg-0123456789abcdef0"}],
        },
    });
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "class"});
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": reference}}},
    });
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), json!({"apiVersion": "v1", "kind": "List", "items": [class, pool]}).to_string())
        .unwrap();
    let apply = wait::until_some("the definitions are established", SOON, || async {
        Ok(cluster.kubectl(&["apply", "-f", file.path().to_str().unwrap()]).await.ok())
    });
    apply.await.unwrap();
    shows(&cluster_cache, "the NodePool", |cluster| cluster.pool("pool").is_some()).await;
    agrees(&cluster_cache, &real, "with definitions").await;

    let pods: Api<Pod> = Api::default_namespaced(real.clone());
    let nodes: Api<Node> = Api::all(real.clone());
    for round in 0..5 {
        create_pods(&pods, (0..20).map(|number| format!("pod-{round}-{number}"))).await;
        let node: Node = serde_json::from_value(json!({"metadata": {"name": format!("node-{round}")}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        meddler.cut();
        if round == 3 {
            meddler.expire(true);
            meddler.cut();
        }
        let change = Patch::Merge(json!({"metadata": {"labels": {"round": round.to_string()}}}));
        for number in 0..5 {
            pods.patch(&format!("pod-{round}-{number}"), &PatchParams::default(), &change).await.unwrap();
            pods.delete(&format!("pod-{round}-{}", number + 5), &at_once()).await.unwrap();
        }
        if round > 0 {
            nodes.delete(&format!("node-{}", round - 1), &DeleteParams::default()).await.unwrap();
        }
        meddler.cut();
        agrees(&cluster_cache, &real, &format!("after round {round}")).await;
        meddler.expire(false);
    }
    // A pod that has ended is nobody's business.
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("pod-0-0", &PatchParams::default(), &ended).await.unwrap();
    shows(&cluster_cache, "the end of a pod", |cluster| cluster.pod("default/pod-0-0").is_none()).await;
    agrees(&cluster_cache, &real, "after all").await;
    assert_eq!(cluster_cache.read().notes().count(), 0);
    let well = wait::until_some("the trouble is over", SOON, || {
        let is_well = cluster_cache.health().iter().all(|health| health.trouble.is_none());
        async move { Ok(is_well.then_some(())) }
    });
    well.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_is_away_takes_nothing_with_it() {
    let world = World::open("following suite").unwrap();
    let plane = world.control_plane(&Options::named("away")).await.unwrap();
    plane.cluster().can_create_pods("default").await.unwrap();
    let real = plane.cluster().client();
    let (client, meddler) = Meddler::new(&real);
    let (cluster_cache, _following) = follow(&client, Extras { selecting: true, templates: false, devices: false });
    let pods: Api<Pod> = Api::default_namespaced(real.clone());
    create_pods(&pods, ["goes", "stays"].map(str::to_owned).into_iter()).await;
    timeout(SOON, cluster_cache.synced()).await.unwrap();
    shows(&cluster_cache, "the pods", |cluster| cluster.pods().len() == 2).await;

    meddler.away(true);
    pods.delete("goes", &at_once()).await.unwrap();
    create_pods(&pods, std::iter::once("comes".to_owned())).await;
    let of_pods = || cluster_cache.health().into_iter().find(|health| health.kind == Kind::Pod).unwrap();
    let noticed = wait::until_some("it is noticed that nobody answers", SOON, || {
        let health = of_pods();
        let is_noticed = health.trouble.is_some() && health.silence > Some(Duration::from_secs(1));
        async move { Ok(is_noticed.then_some(health)) }
    });
    let noticed = noticed.await.unwrap();
    assert_eq!((noticed.standing, noticed.trouble.as_deref()), (WatchState::Following, Some("nobody answers")));
    assert!(cluster_cache.is_synced());
    let there: Vec<String> = cluster_cache.read().pods().map(|pod| pod.pod.name.to_string()).collect();
    assert_eq!(there, ["goes", "stays"], "what was known is still known");

    meddler.away(false);
    shows(&cluster_cache, "what happened meanwhile", |cluster| {
        cluster.pods().map(|pod| &*pod.pod.name).eq(["comes", "stays"])
    })
    .await;
    assert_eq!(of_pods().trouble, None);
}
