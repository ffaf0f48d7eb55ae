//! A recorded run of the live loop, replayed: from what the loop was told, the driver and the stages decide the same jobs
//! and the same writes again.
//!
//! ```text
//!   live: API server ──► loop ──► jobs, writes                       what it was told ─┐
//!                         └─────► record: in the order of its locks ──► jobs, writes ──┼─ equal
//!   replay: the record ──► Driver, stages ──► jobs, writes ────────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use muster_controller::kwok::{Kwok, instance_types};
use muster_controller::run::{CloudOptions, Observers, Options, run_with};
use muster_manifest::snapshot::{self, Snapshot};
use muster_manifest::{Manifests, NodeClass, ObservedCloud};
use muster_scheduling::disrupt::{DisruptionInput, Repair};
use muster_scheduling::model::{self, Catalogue};
use muster_stages::disruption::{CommandStarts, DisruptionPlanner, Launches, Timing, Turn};
use muster_stages::driver::claim::{self, ClaimStart, PreparedClaim};
use muster_stages::driver::recording::{Entry, LoopRecorder, Occurrence};
use muster_stages::driver::{
    CloudView, Done, Driver, DueRepairs, LeaderState, cluster_wide, command, tell_due_repairs,
};
use muster_stages::lifecycle::pause::Pause;
use muster_stages::provision::{self, Lengths, Outcome, Round, Stop, provision};
use muster_stages::state::Cluster;
use muster_stages::step::{Step, Write};
use muster_tests::wait::{self, Selection};
use serde_json::json;

use super::ground::{Ground, SOON};

#[derive(Default)]
struct Tape(Mutex<Vec<Entry>>);

impl LoopRecorder for Tape {
    fn record(&self, entry: Entry) {
        self.0.lock().unwrap().push(entry);
    }
}

fn options() -> Options {
    Options {
        window: Lengths { idle: Duration::from_millis(200), max: Duration::from_secs(2) },
        timing: Timing {
            every: Duration::from_secs(1),
            validation: Duration::from_secs(1),
            settled: Duration::from_secs(3),
        },
        ..Options::of(CloudOptions::Kwok { types: None })
    }
}

/// A decision about disruption in progress.
struct Pass {
    planner: DisruptionPlanner,
    due_repairs: DueRepairs,
    decided: Option<Decided>,
}

struct Decided {
    turn: Turn,
    input: DisruptionInput,
    pause: Pause,
    stops: BTreeMap<String, Stop>,
}

/// The loop again, without anything but the record.
struct Replay {
    cloud: Kwok,
    options: Options,
    settings: muster_stages::driver::Settings,
    provision: provision::Settings,
    driver: Option<Driver>,
    state: LeaderState,
    planner: DisruptionPlanner,
    pass: Option<Pass>,
    outcome: Option<Outcome>,
    prepared: BTreeMap<String, Box<PreparedClaim>>,
    /// Names of the writes that were decided again.
    writes: BTreeMap<&'static str, usize>,
    differences: Vec<String>,
}

impl Replay {
    fn new(client: Client) -> Self {
        let options = options();
        let settings = muster_stages::driver::Settings {
            class_kind: Some("KWOKNodeClass"),
            namespace: options.namespace.as_str().into(),
            timing: options.timing,
            window: options.window,
            nominates: true,
            repairs: (options.disruption.repair != Repair::Off).then(|| options.snapshot.repair_policy()),
            keeps_buffers: options.snapshot.gates.capacity_buffer,
            overlays: options.snapshot.gates.node_overlay,
            keeps_replicas: options.snapshot.gates.static_capacity,
        };
        let provision = provision::Settings {
            packing: model::Options { tells_nodes: true, ..options.packing },
            wait_for_unschedulable_mark: options.wait_for_unschedulable_mark,
            caps: options.caps,
        };
        Self {
            cloud: Kwok::new(client, Catalogue::new(instance_types())),
            planner: DisruptionPlanner::at(options.timing),
            options,
            settings,
            provision,
            driver: None,
            state: LeaderState::default(),
            pass: None,
            outcome: None,
            prepared: BTreeMap::new(),
            writes: BTreeMap::new(),
            differences: Vec::new(),
        }
    }

    fn pause(&self, cluster: &Cluster) -> Pause {
        cluster.pause(&self.options.namespace)
    }

    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, live: &T, again: &T) {
        if live != again {
            self.differences.push(format!("{what}\nlive:  {live:?}\nagain: {again:?}"));
        }
    }

    fn compare_steps(&mut self, what: &str, live: &Step, again: &Step) {
        self.count(&again.writes);
        self.compare(what, live, again);
    }

    fn count(&mut self, writes: &[Write]) {
        for write in writes {
            *self.writes.entry(write.name()).or_default() += 1;
        }
    }

    fn snapshot(&self, manifests: &Manifests, now: Timestamp) -> Snapshot {
        let refused = self.state.refusals.current(now);
        let types = |class: Option<&NodeClass>| {
            let mut types = self.cloud.types(class);
            types.refuse(&refused);
            types
        };
        let mut snapshot = snapshot::assemble(manifests, &self.options.snapshot, &types).unwrap();
        for pool in &mut snapshot.problem.pools {
            pool.missing_replicas.iter_mut().for_each(|count| *count = 0);
        }
        snapshot
    }

    fn play(&mut self, entry: &Entry) {
        let Entry { at, cluster, occurrence } = entry;
        let nothing = Cluster::default();
        let (at, cluster) = (*at, cluster.as_deref().unwrap_or(&nothing));
        match occurrence {
            Occurrence::Started => {
                self.driver = Some(Driver::start(self.settings.clone(), cluster, &mut self.state, at));
            }
            Occurrence::Changed(changed) => {
                self.driver.as_mut().unwrap().on(changed, cluster, &mut self.state, at);
            }
            Occurrence::Began(job) => {
                let again = self.driver.as_mut().unwrap().next_job(at);
                self.compare("job", &Some(job.clone()), &again);
            }
            Occurrence::Ended(done) => {
                if matches!(done, Done::DecidedDisruption(_)) {
                    self.planner = self.pass.take().unwrap().planner;
                }
                self.driver.as_mut().unwrap().done(done.clone(), cluster, &mut self.state, at);
            }
            Occurrence::Wrote { versions, conflict } => {
                let versions = versions.iter().map(|(kind, name, version)| (*kind, name.as_str(), version.as_str()));
                let conflict = conflict.as_ref().map(|(kind, name, version)| (*kind, name.as_str(), version.as_str()));
                self.state.note_written(versions, conflict, at);
            }
            Occurrence::Listed(instances) => {
                cluster_wide::note_listing(cluster, &mut self.state, instances, at);
            }
            Occurrence::Pool(name, live) => {
                let again = cluster_wide::pool(&self.cloud, &self.settings, cluster, &mut self.state, name, at);
                self.compare_steps(name, live, &again.unwrap_or_else(Step::rest));
            }
            Occurrence::Advanced(item, live) => {
                let (again, _) = command::advance(&self.settings, cluster, &self.state, item, at);
                self.compare_steps(&format!("{item:?}"), live, &again);
            }
            Occurrence::Nominated(is_writing, live) => {
                let again = cluster_wide::nominate(cluster, &mut self.state, *is_writing, at);
                self.compare_steps("nominations", live, &again);
            }
            Occurrence::DecidingPods | Occurrence::DecidedPods(_) | Occurrence::TookPlan => {
                self.play_round(occurrence, cluster, at);
            }
            Occurrence::DisruptionBegan | Occurrence::DecidingDisruption | Occurrence::DecidedDisruption(_) => {
                self.play_pass(occurrence, cluster, at);
            }
            _ => self.play_claim(occurrence, cluster, at),
        }
    }

    fn play_claim(&mut self, occurrence: &Occurrence, cluster: &Cluster, at: Timestamp) {
        match occurrence {
            Occurrence::PodEvent(name, live) => {
                let again = claim::pod_event(&self.settings, cluster, &mut self.state, name, at);
                self.compare(name, live, &again);
            }
            Occurrence::WrotePodEvent(name, event_at) => claim::wrote_pod_event(&mut self.state, name, *event_at),
            Occurrence::Prepared(name, live) => {
                let start = claim::prepare(&self.cloud, &self.settings, cluster, &mut self.state, name, at);
                self.compare(name, live, &matches!(start, ClaimStart::Write(_)));
                if let ClaimStart::Write(prepared) = start {
                    self.prepared.insert(name.clone(), prepared);
                }
            }
            Occurrence::Decided(name, answers, live) => {
                let around = cluster.around(name).unwrap();
                let again = self.prepared[name].decide(&around, self.pause(cluster), (**answers).clone(), at);
                self.compare_steps(name, live, &again);
            }
            Occurrence::Outcome(name, became_a_node) => {
                claim::note_outcome(&self.cloud, cluster, &mut self.state, name, *became_a_node);
            }
            Occurrence::Launched(answer) => claim::note_launch(&mut self.state, answer, at),
            Occurrence::Instance(name, answers) => self.prepared[name].note_instance(&mut self.state, answers, at),
            other => panic!("{other:?}"),
        }
    }

    fn play_round(&mut self, occurrence: &Occurrence, cluster: &Cluster, at: Timestamp) {
        match occurrence {
            Occurrence::DecidingPods => {
                let snapshot = self.snapshot(&cluster.without_void_nominations(), at);
                let moment = cluster.moment();
                let pools = cluster.pools().map(|pool| (pool.metadata.name.as_deref().unwrap(), pool)).collect();
                let stops = cluster_wide::stops(&self.cloud, &self.settings, cluster, at);
                let round = Round {
                    problem: &snapshot.problem,
                    buffers: &snapshot.buffers,
                    view: moment.view(),
                    pools: &pools,
                    pause: self.pause(cluster),
                    stops: &stops,
                    settings: &self.provision,
                    plan: &self.state.plan,
                };
                self.outcome = Some(provision(&round, at));
            }
            Occurrence::DecidedPods(live) => {
                let again = self.outcome.as_ref().unwrap().step.writes.clone();
                self.count(&again);
                self.compare("pods", live, &again);
            }
            _ => {
                let Outcome { plan, buffers, .. } = self.outcome.take().unwrap();
                self.state.plan.succeed(plan);
                self.state.buffers = buffers;
            }
        }
    }

    fn play_pass(&mut self, occurrence: &Occurrence, cluster: &Cluster, at: Timestamp) {
        match occurrence {
            Occurrence::DisruptionBegan => {
                let mut planner = self.planner.clone();
                planner.note_left(&std::mem::take(&mut self.state.left));
                self.pass = Some(Pass { planner, due_repairs: self.state.unhealthy.take(), decided: None });
            }
            Occurrence::DecidingDisruption => {
                let mut manifests = cluster.without_void_nominations();
                self.state.tell_moves(&mut manifests);
                let instances = Arc::clone(&self.state.instances);
                manifests.observed =
                    ObservedCloud { at: Some(at), instances, has_all_types: true, closed_zones: Vec::new() };
                let pass = self.pass.as_mut().unwrap();
                tell_due_repairs(&mut manifests, std::mem::take(&mut pass.due_repairs));
                let Snapshot { problem, managed_nodes, .. } = self.snapshot(&manifests, at);
                let mut input = managed_nodes.into_disruption_input(problem);
                let (pause, stops) =
                    (self.pause(cluster), cluster_wide::stops(&self.cloud, &self.settings, cluster, at));
                let pass = self.pass.as_mut().unwrap();
                let turn = pass.planner.turn(&mut input, at, &self.options.disruption);
                pass.decided = Some(Decided { turn, input, pause, stops });
            }
            Occurrence::DecidedDisruption(live) => {
                let pass = self.pass.as_mut().unwrap();
                let Decided { turn, input, pause, stops } = pass.decided.take().unwrap();
                let launches = Launches { pause, stops: &stops, caps: self.provision.caps };
                let starts = CommandStarts::new(&turn.decision, &input, launches).all(cluster, &self.state.plan, at);
                pass.planner.note_begun(&input, &turn.decision, &starts, at);
                let again: Vec<_> = starts.into_iter().flat_map(|one| one.steps).collect();
                for steps in &again {
                    self.count(&steps.begin.writes);
                    self.count(&steps.keep_away.writes);
                }
                self.compare("disruption", live, &again);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_run_decides_the_same_again() {
    let ground = Ground::new("run suite").await;
    let policy = json!({"consolidateAfter": "1s", "budgets": [{"nodes": "100%"}]});
    ground.small_nodes(&json!({}), &policy).await;
    let tape = Arc::new(Tape::default());
    let (client, recorder) = (ground.client(), Arc::clone(&tape) as Arc<dyn LoopRecorder>);
    let run = tokio::spawn(async move {
        let observers = Observers { writes: None, recorder: Some(recorder) };
        run_with(client, options(), observers, std::future::pending()).await
    });
    // Six pods on three nodes, of which two go with four of the pods, and the last one with the rest.
    ground.deploy_pairs(6).await;
    ground.running(6, SOON).await;
    ground.scale(2).await;
    let one_left =
        wait::until_all(ground.claims(), Selection::all(), SOON, "one claim is left", |claims| claims.len() == 1);
    one_left.await.unwrap();
    ground.scale(0).await;
    ground.clear(SOON).await;
    run.abort();
    let _ = run.await;

    let entries = std::mem::take(&mut *tape.0.lock().unwrap());
    let mut replay = Replay::new(ground.client());
    for entry in &entries {
        replay.play(entry);
    }
    let Replay { writes, differences, .. } = replay;
    println!("{} entries, decided again: {writes:?}", entries.len());
    let first: Vec<&String> = differences.iter().take(3).collect();
    assert!(differences.is_empty(), "{} decisions differ: {}", differences.len(), first[0]);
    for (name, least) in [("create_claim", 3), ("claim_status", 9), ("nominate", 6), ("delete_claim", 2), ("node", 6)] {
        assert!(writes.get(name).is_some_and(|count| *count >= least), "{name}: {writes:?}");
    }
}
