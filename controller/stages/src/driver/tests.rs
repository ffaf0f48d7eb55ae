use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::NodeClaim;
use muster_api::nodeclaim::NodeClaimStatus;
use muster_cloud::after;
use muster_manifest::snapshot::ResolvedBuffer;
use muster_scheduling::disrupt::Moments;
use serde_json::{Value, json};

use super::claim::launch_outcome;
use super::{Done, Driver, Item, Job, LeaderState, PassEnd, Settings, Verdict};
use crate::disruption::Timing;
use crate::lifecycle::{Status, judged};
use crate::provision::{BufferOutcome, BufferPlaces, Lengths};
use crate::state::{Cluster, Kind};
use crate::step::{DeletionCause, Step, Write};

pub(super) fn settings() -> Settings {
    Settings {
        class_kind: None,
        namespace: "karpenter".into(),
        timing: Timing::default(),
        window: Lengths { idle: Duration::from_secs(1), max: Duration::from_secs(10) },
        nominates: true,
        repairs: None,
        keeps_buffers: true,
        overlays: true,
        keeps_replicas: true,
    }
}

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap()
}

fn pod(name: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "main"}]},
    })
    .to_string()
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, "uid": name},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        },
    })
}

/// A driver with the cluster that it drives.
struct Driven {
    driver: Driver,
    cluster: Cluster,
    state: LeaderState,
}

impl Driven {
    fn start(objects: &[(Kind, String)], now: Timestamp) -> Self {
        let (mut cluster, mut state) = (Cluster::default(), LeaderState::default());
        for (kind, text) in objects {
            cluster.apply(*kind, text);
        }
        let driver = Driver::start(settings(), &cluster, &mut state, now);
        Self { driver, cluster, state }
    }

    fn apply(&mut self, kind: Kind, text: &str, now: Timestamp) {
        let changed = self.cluster.apply(kind, text);
        self.driver.on(&changed, &self.cluster, &mut self.state, now);
    }

    /// Returns all jobs that are due.
    fn jobs(&mut self, now: Timestamp) -> Vec<Job> {
        let jobs: Vec<Job> = std::iter::from_fn(|| self.driver.next_job(now)).collect();
        assert!(self.driver.next().is_none_or(|next| next > now), "a job is due, and is not returned");
        jobs
    }

    fn done(&mut self, done: Done, now: Timestamp) {
        self.driver.done(done, &self.cluster, &mut self.state, now);
    }

    /// Ends jobs without a result.
    fn end(&mut self, jobs: Vec<Job>, now: Timestamp) {
        for job in jobs {
            let done = match job {
                Job::Reconcile(item, _) => Done::Reconciled(item, Verdict::Rest(None)),
                Job::Advance(item, _) => Done::Advanced(item, Verdict::Rest(None)),
                Job::DecidePods => Done::DecidedPods { again: None },
                Job::CarryOutOrder => Done::CarriedOutOrder,
                Job::DecideDisruption => Done::DecidedDisruption(pass_end(false, now)),
                Job::Nominate { .. } => Done::Nominated { again: None, writes: false },
                Job::CollectGarbage => Done::CollectedGarbage {
                    concerned: Vec::new(),
                    is_news: false,
                    again: after(now, Duration::from_secs(120)),
                },
            };
            self.done(done, now);
        }
    }

    /// Does everything that is due until `until`, and returns the jobs with their times.
    fn run(&mut self, until: Timestamp) -> Vec<(i64, Job)> {
        let mut all = Vec::new();
        while let Some(next) = self.driver.next().filter(|next| *next <= until) {
            let jobs = self.jobs(next);
            all.extend(jobs.iter().map(|job| (next.as_millisecond(), job.clone())));
            self.end(jobs, next);
        }
        all
    }
}

fn pass_end(begins: bool, now: Timestamp) -> PassEnd {
    let again = after(now, Duration::from_secs(10));
    PassEnd { again, moments: Moments::default(), is_open: false, rests: BTreeMap::new(), begins }
}

fn counts(jobs: &[(i64, Job)], is_it: impl Fn(&Job) -> bool) -> usize {
    jobs.iter().filter(|(_, job)| is_it(job)).count()
}

#[test]
fn a_new_leader_reconciles_everything_once_and_rests() {
    let objects = [(Kind::NodeClaim, claim("a").to_string()), (Kind::Pod, pod("web"))];
    let mut driven = Driven::start(&objects, at(0));
    let jobs = driven.jobs(at(0));
    let claims = jobs.iter().filter(|job| matches!(job, Job::Reconcile(Item::Claim(name), _) if name == "a"));
    assert_eq!(claims.count(), 1, "{jobs:?}");
    assert!(jobs.contains(&Job::CollectGarbage) && jobs.contains(&Job::Nominate { is_writing: false }), "{jobs:?}");
    driven.end(jobs, at(0));
    // The pod is decided a second after it has been seen, disruption after ten.
    let jobs = driven.run(at(9_999));
    assert_eq!(jobs.iter().find(|(_, job)| *job == Job::DecidePods).map(|(moment, _)| *moment), Some(1000));
    assert_eq!(counts(&jobs, |job| *job == Job::DecideDisruption), 0);
    let jobs = driven.run(at(10_000));
    assert_eq!(counts(&jobs, |job| *job == Job::DecideDisruption), 1);
}

#[test]
fn a_pod_without_a_node_is_decided_every_ten_seconds_and_gone_with_its_pod() {
    let mut driven = Driven::start(&[], at(0));
    driven.run(at(5000));
    driven.apply(Kind::Pod, &pod("web"), at(5000));
    let jobs = driven.run(at(36_500));
    assert_eq!(rounds(&jobs), [6000, 16_000, 26_000, 36_000]);
    let changed = driven.cluster.remove(Kind::Pod, "shop/web");
    driven.driver.on(&changed, &driven.cluster, &mut driven.state, at(36_500));
    driven.run(at(60_000));
    assert_eq!(counts(&driven.run(at(110_000)), |job| *job == Job::DecidePods), 0);
}

#[test]
fn launches_are_decided_one_at_a_time_and_disruption_waits_for_them() {
    let mut driven = Driven::start(&[(Kind::Pod, pod("web"))], at(0));
    let jobs = driven.jobs(at(0));
    driven.end(jobs, at(0));
    driven.driver.on_order();
    let now = at(20_000);
    let jobs = driven.jobs(now);
    let decisions: Vec<&Job> =
        jobs.iter().filter(|job| !matches!(job, Job::Reconcile(..) | Job::Nominate { .. })).collect();
    assert_eq!(decisions, [&Job::DecideDisruption, &Job::CarryOutOrder], "the pods have the next turn");
    // What has been decided is being begun: neither another order nor another decision comes before that.
    driven.done(Done::DecidedDisruption(pass_end(true, now)), now);
    driven.done(Done::CarriedOutOrder, now);
    driven.driver.on_order();
    driven.driver.stir_disruption();
    assert_eq!(driven.jobs(at(40_000)), [Job::DecidePods]);
    driven.done(Done::DecidedPods { again: None }, at(40_000));
    let jobs = driven.jobs(at(40_000));
    assert!(!jobs.contains(&Job::CarryOutOrder) && !jobs.contains(&Job::DecideDisruption), "{jobs:?}");
    driven.done(Done::BegunCommands { is_open: false }, at(40_000));
    let jobs = driven.jobs(at(40_000));
    assert!(jobs.contains(&Job::CarryOutOrder) && jobs.contains(&Job::DecideDisruption), "{jobs:?}");
}

#[test]
fn nominations_that_are_being_written_are_not_written_twice() {
    let mut driven = Driven::start(&[], at(0));
    assert!(driven.jobs(at(0)).contains(&Job::Nominate { is_writing: false }));
    driven.done(Done::Nominated { again: Some(at(50)), writes: true }, at(10));
    assert_eq!(driven.jobs(at(50)), [Job::Nominate { is_writing: true }]);
    driven.done(Done::Nominated { again: None, writes: false }, at(60));
    driven.done(Done::WroteNominations, at(70));
    assert_eq!(driven.jobs(at(70)), [Job::Nominate { is_writing: false }]);
}

fn buffer() -> String {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"namespace": "shop", "name": "spare"},
        "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 2},
    })
    .to_string()
}

fn rounds(jobs: &[(i64, Job)]) -> Vec<i64> {
    jobs.iter().filter(|(_, job)| *job == Job::DecidePods).map(|(moment, _)| *moment).collect()
}

#[test]
fn a_round_follows_a_change_while_there_are_buffers() {
    let mut driven = Driven::start(&[(Kind::CapacityBuffer, buffer())], at(0));
    assert_eq!(driven.cluster.buffers().len(), 1);
    assert_eq!(rounds(&driven.run(at(100_000))), [1000], "nothing has changed");
    driven.apply(Kind::NodeClaim, &claim("a").to_string(), at(100_000));
    assert!(rounds(&driven.run(at(105_000))).is_empty());
    // Another change comes while it is decided.
    assert!(driven.jobs(at(110_000)).contains(&Job::DecidePods));
    driven.apply(Kind::NodeClaim, &claim("b").to_string(), at(111_000));
    driven.done(Done::DecidedPods { again: None }, at(115_000));
    assert_eq!(rounds(&driven.run(at(300_000))), [125_000]);
}

#[test]
fn a_buffer_that_lacks_room_is_tried_again_after_a_minute() {
    let mut driven = Driven::start(&[(Kind::CapacityBuffer, buffer())], at(0));
    let places = BufferPlaces { failed: 1, ..BufferPlaces::default() };
    let buffer = ResolvedBuffer { path: "shop/spare".into(), generation: None, pods: Ok(1) };
    driven.state.buffers = vec![BufferOutcome { buffer, places }];
    assert_eq!(rounds(&driven.run(at(125_000))), [1000, 61_000, 121_000]);
}

#[test]
fn a_time_that_has_come_already_does_not_keep_the_loop_busy() {
    let mut driven = Driven::start(&[(Kind::Pod, pod("web"))], at(0));
    let jobs = driven.jobs(at(1000));
    assert!(jobs.contains(&Job::DecidePods), "{jobs:?}");
    driven.done(Done::DecidedPods { again: Some(at(500)) }, at(1000));
    assert!(!driven.jobs(at(1000)).contains(&Job::DecidePods));
    assert!(driven.jobs(at(1010)).contains(&Job::DecidePods));
}

#[test]
fn not_more_than_so_many_objects_are_reconciled_at_once() {
    let objects: Vec<(Kind, String)> =
        (0..super::AT_ONCE + 5).map(|number| (Kind::NodeClaim, claim(&format!("c{number}")).to_string())).collect();
    let mut driven = Driven::start(&objects, at(0));
    let is_claim = |job: &&Job| matches!(job, Job::Reconcile(..));
    let jobs = driven.jobs_while_busy(at(0));
    assert_eq!(jobs.iter().filter(is_claim).count(), super::AT_ONCE);
    driven.done(Done::Reconciled(Item::Claim("c0".to_owned()), Verdict::Rest(None)), at(0));
    assert_eq!(driven.jobs_while_busy(at(0)).iter().filter(is_claim).count(), 1);
}

impl Driven {
    fn jobs_while_busy(&mut self, now: Timestamp) -> Vec<Job> {
        std::iter::from_fn(|| self.driver.next_job(now)).collect()
    }
}

#[test]
fn a_launch_fails_if_its_node_never_registers_and_not_by_what_comes_later() {
    let claim: NodeClaim = serde_json::from_value(claim("a")).unwrap();
    let outcome = |claim: &NodeClaim, cause: DeletionCause| {
        let delete = Write::DeleteClaim { name: "a".to_owned(), uid: "a".to_owned(), cause };
        launch_outcome(&Step::act([delete]), claim)
    };
    for cause in [DeletionCause::LaunchTimeout, DeletionCause::RegistrationTimeout, DeletionCause::NodeVerdict] {
        assert_eq!(outcome(&claim, cause), Some(false), "{cause}");
    }
    for cause in [DeletionCause::InsufficientCapacity, DeletionCause::Drifted, DeletionCause::InstanceEnded] {
        assert_eq!(outcome(&claim, cause), None, "{cause}");
    }
    let mut registered = claim.clone();
    let status = NodeClaimStatus {
        conditions: vec![judged("Registered", Status::True, "Registered", "", None, at(0))],
        ..NodeClaimStatus::default()
    };
    let told = Write::ClaimStatus { name: "a".to_owned(), status: Box::new(status.clone()) };
    assert_eq!(launch_outcome(&Step::act([told.clone()]), &registered), Some(true));
    registered.status = Some(status);
    assert_eq!(launch_outcome(&Step::act([told]), &registered), None, "it was told before");
    assert_eq!(outcome(&registered, DeletionCause::NodeVerdict), None);
}
