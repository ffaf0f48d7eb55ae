//! Two replicas, of which the one that leads no longer reaches the API server, while it reaches EC2.
//!
//! ```text
//!            first ══╳══ API server ═══ second        the leader is cut off for a minute
//!                ╲                     ╱
//!                 ╲───── test EC2 ────╱               whose record says who wrote what, and when
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;
use muster_tests::cluster::Options;
use muster_tests::ec2::{Calls, Record};
use muster_tests::process::Signal;
use muster_tests::wait;
use muster_tests::world::PlaneLease;
use serde_json::{Value, json};

use super::controller::LEASE;
use super::ground::{Ground, SOON, paired, writes};
use crate::run::ground::define;

/// How long the wire is cut.
const MINUTE: Duration = Duration::from_secs(60);

/// From when on somebody leads.
struct Term {
    holder: String,
    begins: Timestamp,
}

impl Ground {
    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.kube(), "kube-system")
    }

    /// Waits until somebody leads who is not `other`.
    async fn leader(&self, other: &str) -> Term {
        let holder = |lease: &Lease| lease.spec.as_ref()?.holder_identity.clone().filter(|name| !name.is_empty());
        let is_new = |lease: &Lease| holder(lease).is_some_and(|name| name != other);
        let lease = wait::until(self.leases(), LEASE, SOON, "somebody else leads", is_new).await.unwrap();
        let begins = lease.spec.as_ref().unwrap().acquire_time.as_ref().unwrap().0;
        Term { holder: holder(&lease).unwrap(), begins }
    }

    /// Every change of an object that the API server has made, in order: when it was asked for, by whom, and of what.
    fn audited(&self) -> Vec<(Timestamp, String, String)> {
        let text = std::fs::read_to_string(self.lease.log("audit")).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_write = |event: &Value| {
            let verb = event["verb"].as_str().unwrap_or_default();
            let done = event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
            done && ["create", "update", "patch", "delete"].contains(&verb)
        };
        let told = |event: Value| {
            let at = event["requestReceivedTimestamp"].as_str().unwrap().parse().unwrap();
            let object = &event["objectRef"];
            let what = format!("{} {}/{}", event["verb"], object["resource"], object["name"]);
            (at, event["user"]["username"].as_str().unwrap().to_owned(), what)
        };
        events.filter(is_write).filter(|event| decides(&event["objectRef"])).map(told).collect()
    }
}

/// Whether a change of that object is a decision: not the lease itself, a question about one's rights, or a message.
fn decides(object: &Value) -> bool {
    let resource = object["resource"].as_str().unwrap_or_default();
    !["leases", "events", "selfsubjectaccessreviews"].contains(&resource)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_writes_nothing_once_another_one_leads() {
    let options = Options { audit: true, ..Options::default() };
    let ground = Ground::on("run ec2 suite", PlaneLease::alone(options, define).await.unwrap()).await;
    ground.furnish().await;
    let wire = ground.cluster().wire().await.unwrap();
    let as_admin = async |name: &str| ground.cluster().user(name, Some("system:masters")).await.unwrap();
    let one = as_admin("first").await.through(&wire).await.unwrap();
    let other = as_admin("second").await;
    let first = ground.replica("first", &one.kubeconfig);
    let mut terms = vec![ground.leader("").await];
    let mut second = ground.replica("second", &other.kubeconfig);
    let started = wait::until_some("the second replica follows", SOON, || async {
        Ok(second.said().contains("started").then_some(()))
    });
    started.await.unwrap();
    ground.of_class("Ready", "True", "Ready").await;

    // It is launching when it is cut off, and goes on trying for as long as it may.
    let from = ground.ec2.clock().now();
    let busy = ground.ec2.faults().throttled(Calls::of("CreateFleet").by("first"));
    ground.deploy(2, json!({})).await;
    let fleets = |calls: &Record| calls.clone().by("first").of("CreateFleet").since(from);
    ground.ec2.wait_for_calls(SOON, |calls| !fleets(calls).is_empty()).await.unwrap();
    wire.cut();
    let cut = ground.ec2.clock().now();
    terms.push(ground.leader(&terms[0].holder).await);
    ground.running(2, SOON).await;
    ground.deploy(3, json!({})).await;
    ground.running(3, SOON).await;
    let renewed = wait::until(ground.leases(), LEASE, SOON, "the minute is over", |lease| {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        renewed.is_some_and(|time| time.0.duration_since(cut) >= MINUTE.try_into().unwrap())
    });
    renewed.await.unwrap();

    // What it had on its way arrives now. It stands by, and leads again when it has to.
    wire.mend();
    ground.ec2.faults().lift(busy);
    ground.deploy(4, json!({})).await;
    ground.running(4, SOON).await;
    assert!(second.signal(Signal::SIGKILL));
    terms.push(ground.leader(&terms[1].holder).await);
    assert_eq!(terms[2].holder, terms[0].holder, "{}", first.said());
    ground.deploy(5, json!({})).await;
    ground.running(5, SOON).await;
    let claims = ground.claims().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(claims.len(), 5, "nothing was bought twice");
    paired(&claims, &ground.ec2);
    ground.clear().await;
    second.kill();

    let leader = |at: Timestamp| match terms.iter().rposition(|term| term.begins <= at) {
        Some(1) => "second",
        _ => "first",
    };
    let calls = writes(ground.ec2.calls()).only(|call| ["first", "second"].contains(&call.identity.as_str()));
    for call in &calls {
        assert_eq!(call.identity, leader(call.at), "{} at {}:\n{}", call.action, call.at, calls.lines());
    }
    let after_the_cut = calls.clone().by("first").since(cut).only(|call| call.at < terms[1].begins);
    assert!(!after_the_cut.is_empty(), "the one that was cut off writes for as long as it may");
    let mut changes: BTreeMap<String, usize> = BTreeMap::new();
    for (at, user, what) in ground.audited() {
        if user == "first" || user == "second" {
            assert_eq!(user, leader(at), "{what} at {at}");
            *changes.entry(user).or_default() += 1;
        }
    }
    assert!(changes["first"] > 0 && changes["second"] > 0, "{changes:?}");
}
