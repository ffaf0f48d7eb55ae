//! A zone that takes back all its spot instances within seconds, while the others have little room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use muster_tests::ec2::{Call, CapacityType, Pool};
use muster_tests::meter;
use muster_tests::wait::{self, Selection};
use serde_json::json;
use tokio::task::JoinSet;

use super::ground::{CLUSTER, CONTROLLER, Ground, SOON, paired, pool, requirements};
use super::queue::Queue;
use crate::run::ground::number;

/// Longest wait on a machine that does other things.
const LONG: Duration = Duration::from_secs(1800);
/// Between the notice and the end of an instance.
const NOTICE: Duration = Duration::from_secs(120);
/// Time for which the third zone has no room.
const WITHOUT_ROOM: Duration = Duration::from_secs(45);
/// Time in which what was asked of EC2 before a notice or a refusal is answered.
const SETTLED: SignedDuration = SignedDuration::from_secs(5);
/// Time for which an offering that EC2 refused is left out.
const BACK_OFF: SignedDuration = SignedDuration::from_mins(3);

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
const TYPES: [&str; 3] = ["m5.large", "m5a.large", "m6i.large"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "scale: ten minutes"]
async fn two_hundred_spot_nodes_taken_back_in_ten_seconds_are_replaced() {
    let count = number("MUSTER_SPOT_NODES", 200);
    let ground = Ground::bare("run ec2 figures").await;
    let pool_of = |zones| pool(&json!({"requirements": requirements(&TYPES, zones, &["spot"])}));
    ground.apply(&[ground.class(json!({})), pool_of(&ZONES[..1])]).await;
    let queue = Queue::deploy(&ground).await;
    // A process of its own, which the servers of this one do not slow down.
    let queue_name = format!("--interruption-queue={CLUSTER}");
    let controller = ground.replica_with(CONTROLLER, ground.cluster().kubeconfig(), &[&queue_name]);
    ground.deploy(count, json!({})).await;
    ground.running(count, LONG).await;
    // Or the controller is still at work for the new nodes.
    let is_tagged = |claim: &DynamicObject| claim.annotations().contains_key("karpenter.k8s.aws/tagged");
    let tagged = wait::until_all(ground.claims(), Selection::all(), LONG, "all instances are tagged", |claims| {
        claims.iter().all(is_tagged)
    });
    tagged.await.unwrap();
    let there = ground.ec2.running();
    assert!(there.iter().all(|one| one.zone == ZONES[0]));
    // From now on all zones may be used.
    ground.apply(&[pool_of(&ZONES)]).await;
    let lost: BTreeSet<String> = there.iter().map(|one| one.id.clone()).collect();
    let of_lost: BTreeSet<String> = there.iter().map(|one| one.private_dns_name.clone()).collect();
    let budget = Budget::of(&ground, count).await;

    // The first zone has nothing more, the second one has room for some, the third one gets it late.
    let faults = ground.ec2.faults();
    faults.insufficient_capacity(Pool::any().zone(ZONES[0]));
    for instance_type in TYPES {
        faults.capacity(Pool::of(instance_type).zone(ZONES[1]), u32::try_from(count / 6).unwrap());
    }
    let late = faults.insufficient_capacity(Pool::any().zone(ZONES[2]));
    let (from, begun) = (ground.ec2.clock().now(), Instant::now());
    // By pool, when EC2 said that it takes back the first of its instances.
    let mut noticed = Moments::new();
    for some in there.chunks(10) {
        let at = ground.ec2.clock().now();
        for one in some {
            noticed.entry((one.instance_type.clone(), one.zone.clone())).or_insert(at);
        }
        let ids: Vec<&str> = some.iter().map(|one| &*one.id).collect();
        ground.ec2.warn_of_interruptions(&ids).await.unwrap();
    }
    println!("{} notices sent in {:.1} s", lost.len(), begun.elapsed().as_secs_f64());
    assert!(begun.elapsed() < Duration::from_secs(10), "too slow for what is to be shown");

    let is_ask = |call: &Call| call.action == "CreateFleet" && call.identity == CONTROLLER && call.at >= from;
    let first = ground.ec2.wait_for_calls(SOON, |calls| calls.0.iter().any(is_ask)).await.unwrap();
    let first = first.0.iter().find(|call| is_ask(call)).unwrap().at;
    println!("a replacement asked for {:#} after the first notice", first.duration_since(from));
    tokio::time::sleep_until((begun + WITHOUT_ROOM).into()).await;
    faults.lift(late);
    println!("{}", Asked::of(&ground, from));
    let has_room = ground.ec2.clock().now();
    tokio::time::sleep_until((begun + NOTICE).into()).await;
    let lowest = budget.lowest();
    let left: Vec<String> =
        ground.ec2.running().iter().map(|one| one.id.clone()).filter(|id| lost.contains(id)).collect();
    println!("{} instances are left after two minutes, and EC2 ends them", left.len());
    ground.machines.die();
    for id in &left {
        ground.ec2.interrupt(id).await.unwrap();
    }
    let is_left = |nodes: &[Node]| nodes.iter().any(|node| of_lost.contains(&node.name_any()));
    let gone = wait::until_all(ground.nodes(), Selection::all(), SOON * 2, "their Nodes are gone", |all| !is_left(all));
    gone.await.unwrap();
    println!("their Nodes are gone {:.0} s after the first notice", begun.elapsed().as_secs_f64());

    run_elsewhere(&ground, count, &of_lost).await;
    println!("all pods run elsewhere {:.0} s after the first notice", begun.elapsed().as_secs_f64());
    println!("{lowest} of {count} pods were up at least, before EC2 ended instances");
    assert!(lowest >= count - count / 10, "an eviction broke the budget: {lowest} of {count}");
    queue.empty(&ground).await;
    let gone = wait::until_all(ground.claims(), Selection::all(), SOON * 2, "what was lost is gone", |claims| {
        claims.len() == count
    });
    let claims = gone.await.unwrap();
    paired(&claims, &ground.ec2);
    assert!(ground.ec2.running().iter().all(|one| !lost.contains(&one.id)));
    let heard = wait::until_some("all notices are counted", SOON, || async {
        let counted = meter::counted(&controller, "muster_nodeclaims_interrupted_total").await?;
        Ok((counted.values().sum::<u64>() >= lost.len() as u64).then_some(()))
    });
    heard.await.unwrap();

    let asked = Asked::of(&ground, from);
    println!("{asked}");
    asked.respects(&noticed, &ground.ec2.refused(), from);
    println!("room was there {:#} after the first notice", has_room.duration_since(from));
    ground.clear().await;
}

/// Waits until so many pods run, and none on these Nodes.
async fn run_elsewhere(ground: &Ground, count: usize, lost: &BTreeSet<String>) {
    let is_placed = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        phase == Some("Running") && node.is_some_and(|node| !lost.contains(node))
    };
    let all = Selection::labelled("app=web");
    let placed = wait::until_all(ground.pods(), all, LONG, "all pods run elsewhere", |pods| {
        pods.len() == count && pods.iter().all(is_placed)
    });
    placed.await.unwrap();
}

/// A budget over the pods, a tenth of which may be away; and how few were up.
struct Budget {
    lowest: Arc<Mutex<usize>>,
    _watches: JoinSet<()>,
}

impl Budget {
    async fn of(ground: &Ground, count: usize) -> Self {
        ground
            .apply(&[json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"maxUnavailable": count / 10, "selector": {"matchLabels": {"app": "web"}}},
            })])
            .await;
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(ground.kube(), "default");
        let up = |budget: &PodDisruptionBudget| budget.status.as_ref().and_then(|it| it.current_healthy).unwrap_or(0);
        let is_whole = |budget: &PodDisruptionBudget| usize::try_from(up(budget)) == Ok(count);
        wait::until(budgets.clone(), "web", SOON, "all pods are healthy", is_whole).await.unwrap();
        let lowest = Arc::new(Mutex::new(count));
        let kept = Arc::clone(&lowest);
        let mut watches = JoinSet::new();
        watches.spawn(async move {
            let mut seen = watcher(budgets, watcher::Config::default()).applied_objects().boxed();
            while let Some(budget) = seen.next().await {
                let Ok(budget) = budget else { continue };
                let mut lowest = kept.lock().unwrap();
                *lowest = (*lowest).min(usize::try_from(up(&budget)).unwrap());
            }
        });
        Self { lowest, _watches: watches }
    }

    fn lowest(&self) -> usize {
        *self.lowest.lock().unwrap()
    }
}

/// Moments by pool: instance type and zone.
type Moments = BTreeMap<(String, String), Timestamp>;

/// When each spot pool was named in a launch.
struct Asked {
    by_pool: BTreeMap<(String, String), Vec<Timestamp>>,
    /// By action, in their order: time since the first notice, and until the answer, in seconds.
    calls: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Asked {
    fn of(ground: &Ground, from: Timestamp) -> Self {
        let mut asked = Self { by_pool: BTreeMap::new(), calls: BTreeMap::new() };
        for call in ground.ec2.calls().by(CONTROLLER).since(from).0 {
            let times = (call.at.duration_since(from).as_secs_f64(), Duration::from_millis(call.took_ms).as_secs_f64());
            asked.calls.entry(format!("{}:{}", call.service, call.action)).or_default().push(times);
            if call.action != "CreateFleet" {
                continue;
            }
            for (name, instance_type) in call.parameters.as_object().into_iter().flatten() {
                let Some(override_) = name.strip_suffix(".InstanceType") else { continue };
                let subnet = call.parameter(&format!("{override_}.SubnetId")).unwrap();
                let (zone, _) = ground.subnets.iter().find(|(_, id)| *id == subnet).unwrap();
                let pool = (instance_type.as_str().unwrap().to_owned(), zone.clone());
                asked.by_pool.entry(pool).or_default().push(call.at);
            }
        }
        asked
    }

    /// Checks that nobody asks for a pool from its notice or first refusal on until the back-off ends. Calls that were
    /// on their way then are answered.
    fn respects(&self, noticed: &Moments, refused: &Moments, from: Timestamp) {
        let early = |pool, since: Timestamp| {
            let times = self.by_pool.get(pool).into_iter().flatten();
            times.filter(|&&at| at > since + SETTLED && at < since + BACK_OFF).count()
        };
        for (pool, at) in noticed {
            assert_eq!(early(pool, *at), 0, "{pool:?} is asked for although EC2 takes it back\n{self}");
        }
        let refused: Vec<_> = refused.iter().filter(|(_, at)| **at >= from).collect();
        assert!(refused.iter().any(|((_, zone), _)| zone == ZONES[2]), "the third zone was asked\n{self}");
        for (pool, at) in refused {
            assert_eq!(early(pool, *at), 0, "{pool:?} is asked for before its time\n{self}");
        }
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (call, times) in &self.calls {
            let after = |share: usize| times[(times.len() - 1) * share / 100].0;
            let (first, half, last) = (after(0), after(50), after(100));
            let took = times.iter().map(|(_, took)| took).sum::<f64>() / times.len() as f64;
            let count = times.len();
            writeln!(f, "{count:6} {call}: after {first:.1}, {half:.1} and {last:.1} s, answered in {took:.2} s")?;
        }
        let paid = CapacityType::Spot.name();
        for ((instance_type, zone), times) in &self.by_pool {
            let last = times[times.len() - 1].duration_since(times[0]);
            writeln!(f, "{:6} {instance_type} {zone} {paid}, the last {last:#} after the first", times.len())?;
        }
        Ok(())
    }
}
