//! Two replicas, and the end of the one that leads.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use muster_tests::process::Signal;
use muster_tests::replica::Replica;
use muster_tests::wait;

use super::ground::{Ground, SOON};

const LEASE: &str = "karpenter-leader-election";
/// Time for which a lease is valid without renewal.
const VALID: Duration = Duration::from_secs(15);
/// It is renewed every 2 s, so that one that was not released is free 13 s later at the earliest.
const RELEASED: Duration = Duration::from_secs(12);

fn holder(lease: &Lease) -> String {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default()
}

/// Waits until somebody holds the lease who is not `other`.
async fn leader(ground: &Ground, other: &str) -> String {
    let leases: Api<Lease> = Api::namespaced(ground.client(), "kube-system");
    let held = wait::until(leases, LEASE, SOON, "somebody else leads", |lease| {
        let holder = holder(lease);
        !holder.is_empty() && holder != other
    });
    holder(&held.await.unwrap())
}

/// Starts a replica, which leads, and then another one.
async fn two(ground: &Ground) -> (Replica, String, Replica) {
    let first = ground.replica("first");
    let leads = leader(ground, "").await;
    (first, leads, ground.replica("second"))
}

#[tokio::test]
async fn a_leader_that_is_told_to_stop_hands_over_before_its_lease_expires() {
    let ground = Ground::new("run suite").await;
    let (first, leads, second) = two(&ground).await;
    // The second one follows the cluster before it can take over at once.
    let log = second.log().to_owned();
    let started = wait::until_some("the second replica has started", SOON, || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        async move { Ok(text.contains("started").then_some(())) }
    });
    started.await.unwrap();
    let asked = Instant::now();
    assert!(first.signal(Signal::SIGTERM));
    let next = leader(&ground, &leads).await;
    let took = asked.elapsed();
    assert_ne!(next, leads);
    assert!(took < RELEASED, "{took:?}");
    ground.deploy(3).await;
    ground.running(3, SOON).await;
    ground.scale(0).await;
    ground.clear(SOON).await;
    drop((first, second));
}

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_when_its_lease_expires() {
    let ground = Ground::new("run suite").await;
    let (first, leads, second) = two(&ground).await;
    let killed = Instant::now();
    assert!(first.signal(Signal::SIGKILL));
    ground.deploy(3).await;
    leader(&ground, &leads).await;
    let took = killed.elapsed();
    assert!(took < VALID * 2, "{took:?}");
    ground.running(3, SOON).await;
    ground.scale(0).await;
    ground.clear(SOON).await;
    drop((first, second));
}

#[tokio::test]
async fn a_leader_that_was_starved_stands_for_election_again() {
    let ground = Ground::new("run suite").await;
    let (mut first, leads, second) = two(&ground).await;
    assert!(first.signal(Signal::SIGSTOP));
    let next = leader(&ground, &leads).await;
    // Its lease is somebody else's by now: what it was about to write is not written, and it does not end as Karpenter does.
    assert!(first.signal(Signal::SIGCONT));
    let log = first.log().to_owned();
    let stands_back = wait::until_some("it does not lead any more", SOON, || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        async move { Ok(text.contains("not leading any more").then_some(())) }
    });
    stands_back.await.unwrap();
    ground.deploy(3).await;
    ground.running(3, SOON).await;
    first.check().unwrap();
    let leases: Api<Lease> = Api::namespaced(ground.client(), "kube-system");
    assert_eq!(holder(&leases.get(LEASE).await.unwrap()), next, "one leads");

    assert!(second.signal(Signal::SIGKILL));
    assert_eq!(leader(&ground, &next).await, leads, "it is elected again");
    ground.scale(0).await;
    ground.clear(SOON).await;
    drop((first, second));
}
