//! A live installation of Karpenter on EC2 is taken over, and taken back: no node is replaced, and nothing in AWS is
//! changed, until there is something to do. A dry run before it tells what is then saved.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_tests::ec2::{Calls, CapacityType, Record};
use muster_tests::meter;
use muster_tests::replica::Replica;
use muster_tests::wait::{self, Selection};
use serde_json::Value;

use super::controller::LEASE;
use super::ground::{Ground, SOON, condition, reads};
use super::karpenter::{FULL, Installation, PROFILE, Release, WASTEFUL, differences};
use super::queue::QUEUE;
use crate::run::rights::{lines, reader};

/// The identity that Muster's calls are recorded under.
const MUSTER: &str = "muster";
/// As the chart of Karpenter has set them; and, for nodes that are a minute old here, an end of the time in which
/// consolidation leaves new nodes alone.
const SETTINGS: [&str; 6] =
    ["--interruption-queue", QUEUE, "--feature-gates", "StaticCapacity=true", "--consolidation-payback", "1s"];
/// Two passes over nodes, and the time between a choice and its confirmation.
const STILL: Duration = Duration::from_secs(45);

fn take_over(ground: &Ground) -> Replica {
    ground.replica_with(MUSTER, ground.cluster().kubeconfig(), &SETTINGS)
}

/// The calls of Muster that change something in AWS. A message of the queue is received, not changed.
fn changes(ground: &Ground) -> Record {
    ground.ec2.calls().by(MUSTER).only(|call| !reads(&call.action) && call.action != "ReceiveMessage")
}

/// Sums the series of a counter that have the label.
async fn counted(replica: &Replica, metric: &str, label: &str) -> u64 {
    let series = meter::counted(replica, metric).await.unwrap_or_default();
    series.into_iter().filter(|(labels, _)| labels.contains(label)).map(|(_, count)| count).sum()
}

/// Waits until Muster has looked at everything: it leads, has reconciled every claim, has asked AWS for all that it
/// asks for, and has decided which nodes go. It decides again within ten seconds of each change, and callers watch for
/// longer.
async fn has_looked(ground: &Ground, replica: &Replica, claims: usize) {
    let is_stamped = |claim: &DynamicObject| {
        let version = claim.annotations().get("karpenter.k8s.aws/ec2nodeclass-hash-version");
        version.is_some_and(|version| version.starts_with("muster"))
    };
    let stamped = wait::until_all(ground.claims(), Selection::all(), SOON, "all claims are stamped", |all| {
        all.len() == claims && all.iter().all(is_stamped)
    });
    stamped.await.unwrap();
    // Launch templates are listed by a new leader, and once more to remove unused ones.
    let asked = [
        ("DescribeInstances", 1),
        ("DescribeInstanceStatus", 1),
        ("DescribeInstanceTypes", 1),
        ("DescribeSpotPriceHistory", 1),
        ("DescribeCapacityReservations", 1),
        ("DescribeLaunchTemplates", 2),
        ("GetInstanceProfile", 1),
        ("GetProducts", 1),
        ("ReceiveMessage", 1),
    ];
    for (action, count) in asked {
        let enough = |calls: &Record| calls.clone().by(MUSTER).of(action).len() >= count;
        let found = ground.ec2.wait_for_calls(SOON, enough).await;
        found.unwrap_or_else(|calls| panic!("{action} was not called {count} times:\n{calls}"));
    }
    let reconciled = "controller_runtime_reconcile_total";
    let done = wait::until_some("it has decided about nodes", SOON, || async {
        let of_claims = counted(replica, reconciled, "controller=\"nodeclaim.lifecycle\"").await;
        let passes = counted(replica, reconciled, "controller=\"disruption\"").await;
        Ok((of_claims >= claims as u64 && passes >= 1).then_some(()))
    });
    done.await.unwrap();
}

async fn pods(ground: &Ground, count: usize) -> BTreeSet<String> {
    ground.running(count, SOON).await.iter().filter_map(ResourceExt::uid).collect()
}

/// Muster runs on what Karpenter has left for `span` after it has looked at everything. It replaces nothing, and changes
/// nothing in AWS.
async fn changes_nothing(ground: &Ground, release: Release, span: Duration) -> (Installation, Replica) {
    let installation = Installation::leave(ground, release, &FULL).await;
    let before = Installation::objects(ground).await;
    let ran = pods(ground, 30).await;
    let instances = ground.ec2.running();
    assert_eq!(instances.len(), 30);

    let replica = take_over(ground);
    has_looked(ground, &replica, 30).await;
    let ours: BTreeSet<_> = instances.iter().map(|one| format!("aws:///{}/{}", one.zone, one.id)).collect();
    let stands = |claims: &[DynamicObject]| {
        let ids = claims.iter().filter_map(|claim| claim.data["status"]["providerID"].as_str());
        ids.map(str::to_owned).collect::<BTreeSet<_>>() == ours
            && claims.iter().all(|claim| claim.metadata.deletion_timestamp.is_none())
    };
    let stays = wait::stays(ground.claims(), Selection::all(), span, "no node is replaced", stands);
    stays.await.unwrap();
    let changed = changes(ground);
    assert!(changed.is_empty(), "{}", changed.lines());
    assert_eq!(ground.ec2.running(), instances);
    assert_eq!(pods(ground, 30).await, ran, "no pod has moved");
    let ready = |claim: &DynamicObject| condition(claim, "Ready").is_some_and(|it| it["status"] == "True");
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    assert!(claims.iter().all(ready) && claims.iter().all(|claim| condition(claim, "Drifted").is_none()));
    let differences = differences(release, &before, &Installation::objects(ground).await);
    assert_eq!(differences, [""; 0]);
    (installation, replica)
}

/// Returns labels, annotations, finalizers and tags that Karpenter's claim has and Muster's in the same pool lacks.
async fn lacks(ground: &Ground, own: &DynamicObject, other: &DynamicObject) -> Vec<String> {
    let keys = |map: &std::collections::BTreeMap<String, String>| map.keys().cloned().collect::<BTreeSet<_>>();
    let mut lacks: Vec<String> = keys(other.labels()).difference(&keys(own.labels())).cloned().collect();
    // Muster writes it only where minimums were relaxed; Karpenter reads its absence as `false`.
    let means_nothing = |key: &&String| *key == "karpenter.sh/nodeclaim-min-values-relaxed";
    let (others, own_keys) = (keys(other.annotations()), keys(own.annotations()));
    lacks.extend(others.difference(&own_keys).filter(|key| !means_nothing(key)).cloned());
    lacks.extend(other.finalizers().iter().filter(|one| !own.finalizers().contains(one)).cloned());
    let tags = async |claim: &DynamicObject| {
        let id = claim.data["status"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let found = ground.client.describe_instances().instance_ids(id).send().await.unwrap();
        let tags = found.reservations()[0].instances()[0].tags().iter();
        tags.filter_map(|tag| tag.key().map(str::to_owned)).collect::<BTreeSet<_>>()
    };
    lacks.extend(tags(other).await.difference(&tags(own).await).cloned());
    lacks
}

/// Muster adds a node, and ends; Karpenter finds what it has left, and a node like its own.
async fn goes_back(release: Release) {
    let ground = Ground::bare("run ec2 suite").await;
    let (installation, mut replica) = changes_nothing(&ground, release, STILL / 4).await;
    let before = Installation::objects(&ground).await;
    let general = installation.groups[0];
    installation.deploy(&ground, &general, general.pods + 1).await;
    ground.running(31, SOON).await;
    let is_tagged = |claim: &DynamicObject| {
        claim.annotations().get("karpenter.k8s.aws/tagged").is_some_and(|value| value == "true")
            && condition(claim, "Initialized").is_some_and(|it| it["status"] == "True")
    };
    let all = wait::until_all(ground.claims(), Selection::all(), SOON, "a node is added", |claims| {
        claims.len() == 31 && claims.iter().all(is_tagged)
    });
    let all = all.await.unwrap();
    let known = |claim: &DynamicObject| before.contains_key(&("NodeClaim", claim.name_any()));
    let (old, new): (Vec<_>, Vec<_>) = all.iter().partition(|claim| known(claim));
    let of_pool = |claim: &&&DynamicObject| claim.labels()["karpenter.sh/nodepool"] == general.pool;
    let other = old.iter().find(of_pool).unwrap();
    assert_eq!(lacks(&ground, new[0], other).await, [""; 0]);
    assert_eq!(new[0].annotations()["karpenter.sh/nodepool-hash"], other.annotations()["karpenter.sh/nodepool-hash"]);
    assert_eq!(new[0].annotations()["karpenter.k8s.aws/instance-profile-name"], PROFILE);

    replica.end(SOON);
    let leases: Api<Lease> = Api::namespaced(ground.kube(), "kube-system");
    let is_free = |lease: &Lease| {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        holder.is_none_or(str::is_empty)
    };
    wait::until(leases, LEASE, SOON, "the lease is free", is_free).await.unwrap();
    let differences = differences(release, &before, &Installation::objects(&ground).await);
    assert_eq!(differences, [""; 0]);
    let removed = changes(&ground)
        .only(|call| ["Terminate", "Delete", "Remove"].iter().any(|verb| call.action.starts_with(verb)));
    assert!(removed.is_empty(), "{}", removed.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_installation_of_1_14_is_taken_over_and_back() {
    goes_back(Release::V1_14).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_installation_of_1_15_is_taken_over_and_back() {
    goes_back(Release::V1_15).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scale: ten minutes of watching"]
async fn nothing_is_changed_in_ten_minutes() {
    let ground = Ground::bare("run ec2 suite").await;
    changes_nothing(&ground, Release::V1_15, Duration::from_secs(600)).await;
}

/// Price of what is bought on demand, in USD per hour.
fn bill(ground: &Ground) -> f64 {
    let price = |instance_type: &str| if instance_type == "m5.large" { 0.096 } else { 0.192 };
    let running = ground.ec2.running();
    let bought = running.iter().filter(|one| one.capacity_type == CapacityType::OnDemand && one.reservation.is_none());
    bought.map(|one| price(&one.instance_type)).sum()
}

/// Returns the sets of nodes that a dry run has told of so far, with the savings of each in USD per hour.
fn told(observer: &Replica) -> Vec<(BTreeSet<String>, f64)> {
    let reports = lines(observer);
    let all = reports.iter().filter_map(|line| line["disruptions"].as_array()).flatten();
    let nodes = |one: &Value| -> BTreeSet<String> {
        one["nodes"].as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let mut told: Vec<(BTreeSet<String>, f64)> =
        all.map(|one| (nodes(one), one["hourlySavings"].as_f64().unwrap())).collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    told.dedup_by(|a, b| a.0 == b.0);
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_that_may_only_read_tells_what_is_then_saved() {
    let ground = Ground::bare("run ec2 suite").await;
    Installation::leave(&ground, Release::V1_15, &WASTEFUL).await;
    let instances = ground.ec2.running();
    for verb in ["Add", "Create", "Delete", "Modify", "Reboot", "Receive", "Remove", "Run", "Terminate"] {
        ground.ec2.faults().unauthorized(Calls::of(&format!("{verb}*")).by("observer"));
    }
    let kubeconfig = reader(ground.cluster()).await;
    let arguments = [&SETTINGS[..], &["--dry-run", "-o", "json"]].concat();
    let observer = ground.replica_with("observer", &kubeconfig, &arguments);
    let whole = wait::until_some("empty and underutilized nodes are told", SOON, || async {
        let nodes: BTreeSet<String> = told(&observer).into_iter().flat_map(|(nodes, _)| nodes).collect();
        Ok((nodes.len() >= 5).then_some(nodes))
    });
    let whole = whole.await.unwrap();
    let told: f64 = told(&observer).iter().map(|(_, savings)| savings).sum();
    let written = ground.ec2.calls().by("observer").only(|call| !reads(&call.action));
    assert!(written.is_empty(), "{}", written.lines());
    assert_eq!(ground.ec2.running(), instances);
    drop(observer);

    let before = bill(&ground);
    let _replica = take_over(&ground);
    let left = instances.len() - whole.len();
    let fewer = wait::until_all(ground.claims(), Selection::all(), SOON * 2, "the nodes are gone", |claims| {
        claims.len() <= left
    });
    fewer.await.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(MUSTER).lines()));
    let stands = |claims: &[DynamicObject]| claims.iter().all(|claim| claim.metadata.deletion_timestamp.is_none());
    wait::stays(ground.claims(), Selection::all(), STILL, "no other node goes", stands).await.unwrap();
    let saved = before - bill(&ground);
    println!("told {told:.3} USD/h, saved {saved:.3} USD/h, by {} nodes", whole.len());
    assert!((told - saved).abs() <= 0.05 * saved, "told {told}, saved {saved}");
}
