//! Courses of nodes, told as observations with their times.

use muster_bootstrap::agent_config::Mode;
use serde_json::json;

use super::*;
use crate::patience::{PATIENCE_WITH_DRIVERS, PATIENCE_WITH_PODS};
use crate::phase::Progress;
use crate::preflight::tests::{examined, examined_with};
use crate::report::{Report, Weight};
use crate::watch::journal::Written;

struct Fixture {
    boot_state: BootState,
    now: Timestamp,
    /// When the Node was made, once it is there.
    created: Option<Timestamp>,
}

impl Fixture {
    fn new() -> Self {
        let now = "2026-11-21T20:00:00Z".parse().unwrap();
        let mut boot_state = BootState::new(Mode::Delegate, false, "boot".to_owned(), now).on(Platform::Linux);
        boot_state.identify(Some("i-1".to_owned()), Mode::Delegate, false);
        // Its port is asked at once.
        boot_state.observe(Observation::Health(Health::Silent), now);
        Self { boot_state, now, created: None }
    }

    /// An agent that starts now, after another one in the same boot, and has not looked at anything yet.
    fn restarted(before: &mut Self) -> Self {
        let (report, now) = (before.report(), before.now);
        let mut boot_state = BootState::new(Mode::Delegate, false, "boot".to_owned(), now).on(Platform::Linux);
        boot_state.resume(Some(&report));
        boot_state.identify(Some("i-1".to_owned()), Mode::Delegate, false);
        Self { boot_state, now, created: before.created }
    }

    /// What a unit had said so many seconds ago.
    fn said(&mut self, ago: i64, unit: &str, text: &str) -> &mut Self {
        let at = self.now.checked_sub(SignedDuration::from_secs(ago)).unwrap();
        let written = Some(Written { at, uptime: self.uptime(at) });
        self.on_observation(Observation::Line(Line { written, ..Line::new(unit, text) }))
    }

    /// The machine was booted a thousand seconds before the first of the stories begins.
    fn uptime(&self, at: Timestamp) -> Duration {
        let booted: Timestamp = "2026-11-21T19:43:20Z".parse().unwrap();
        at.duration_since(booted).unsigned_abs()
    }

    /// The kubelet's unit was started anew, by a person, so many seconds ago.
    fn started_anew(&mut self, ago: i64) -> &mut Self {
        let began = self.uptime(self.now.checked_sub(SignedDuration::from_secs(ago)).unwrap());
        let unit = Unit { active: "active".to_owned(), began: Some(began), ..Unit::default() };
        self.on_observation(Observation::Units(vec![Unit {
            name: "kubelet".to_owned(),
            exists: true,
            was_started: true,
            ..unit
        }]))
    }

    fn after(&mut self, seconds: i64) -> &mut Self {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        // The service reports every second; times depend on when a stage was seen first.
        let _seen = self.boot_state.report(self.now);
        self
    }

    fn on_observation(&mut self, observation: Observation) -> &mut Self {
        self.boot_state.observe(observation, self.now);
        let _seen = self.boot_state.report(self.now);
        self
    }

    fn kubelet(&mut self, active: &str, sub: &str, restarts: u32) -> &mut Self {
        let unit = |name: &str, active: &str, sub: &str, restarts| Unit {
            name: name.to_owned(),
            exists: true,
            active: active.to_owned(),
            sub: sub.to_owned(),
            result: String::new(),
            restarts,
            status: 0,
            was_started: true,
            began: None,
        };
        self.on_observation(Observation::Units(vec![
            unit("kubelet", active, sub, restarts),
            unit("containerd", "active", "running", 0),
        ]))
    }

    fn says(&mut self, unit: &str, text: &str) -> &mut Self {
        self.on_observation(Observation::Line(Line::new(unit, text)))
    }

    fn node(&mut self, ready: &str, taints: &[&str], gpus: u64) -> &mut Self {
        let taints: Vec<_> = taints
            .iter()
            .map(|it| it.parse::<Taint>().unwrap())
            .map(|it| json!({"key": it.key, "value": it.value, "effect": it.effect}))
            .collect();
        let created = *self.created.get_or_insert(self.now);
        let node = json!({
            "metadata": {"name": "ip-10-0-0-1.ec2.internal", "creationTimestamp": created.to_string()},
            "spec": {"providerID": "aws:///us-east-1a/i-1", "taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"bootID": "boot"},
                       "capacity": {"nvidia.com/gpu": gpus.to_string()}, "allocatable": {"nvidia.com/gpu": gpus.to_string()}},
        });
        self.on_observation(Observation::Node(NodeObject::read(&node).map(Box::new)))
    }

    fn devices(&mut self, healthy: u64) -> &mut Self {
        let sightings = Sightings {
            functions: Vec::new(),
            files: vec!["nvidia0".to_owned()],
            registry: Some(true),
            healthy: Some(BTreeMap::from([("nvidia.com/gpu".to_owned(), healthy)])),
            ..Sightings::default()
        };
        self.on_observation(Observation::Devices(Box::new(sightings)))
    }

    fn report(&mut self) -> Report {
        self.boot_state.report(self.now)
    }

    fn verdict(&mut self) -> Option<(String, Weight)> {
        self.report().verdict.map(|it| (it.code, it.severity))
    }

    /// A node that takes pods.
    fn joined() -> Self {
        let mut told = Self::new();
        told.on_observation(Observation::Preflight(Box::new(examined(|_| {}))));
        told.after(1).kubelet("active", "running", 0).after(1).on_observation(Observation::Health(Health::Well));
        told.node("False", &["karpenter.sh/unregistered:NoExecute"], 0).after(2).devices(1).node("True", &[], 1);
        told
    }
}

fn states(report: &Report) -> Vec<Progress> {
    report.phases.iter().map(|it| it.state).collect()
}

fn is(code: &str, weight: Weight) -> Option<(String, Weight)> {
    Some((code.to_owned(), weight))
}

#[test]
fn an_api_server_that_is_lost_is_named_and_forgiven() {
    let mut told = Fixture::joined();
    let silent = || Way::Silent { to: "10.0.0.1:443".to_owned(), after: Duration::from_secs(2) };
    told.on_observation(Observation::Lost(Some(Box::new(silent()))));
    assert_eq!(told.verdict(), None, "a replica that ends is no fault");
    told.after(3).on_observation(Observation::Lost(Some(Box::new(silent()))));
    assert_eq!(told.verdict(), is("NW02", Weight::Error));
    assert_eq!(states(&told.report())[3], Progress::Failed);
    told.on_observation(Observation::Lost(None));
    assert_eq!(told.verdict(), None);
}

#[test]
fn a_healthy_node_goes_through_all_stages_and_hears_nothing() {
    let mut told = Fixture::joined();
    let report = told.report();
    assert_eq!(states(&report), [Progress::Done; 6]);
    assert_eq!(report.verdict, None);
    insta::assert_json_snapshot!(report);
}

#[test]
fn stages_wait_for_those_before_them() {
    let mut told = Fixture::new();
    assert_eq!(states(&told.report())[..2], [Progress::Running, Progress::Pending]);
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {}))));
    assert_eq!(states(&told.report())[..3], [Progress::Done, Progress::Running, Progress::Pending]);
}

#[test]
fn a_fault_before_the_start_holds_the_kubelet_back_until_it_is_mended() {
    let mut told = Fixture::new();
    let swap = |facts: &mut Facts| facts.machine.swaps.push_str("/swapfile file 1 0 -2\n");
    told.on_observation(Observation::Preflight(Box::new(examined(swap)))).on_observation(Observation::Held(true));
    assert_eq!(told.verdict(), is("KA17", Weight::Error));
    assert_eq!(states(&told.report())[0], Progress::Failed);
    assert!(told.report().held);
    told.after(2)
        .on_observation(Observation::Preflight(Box::new(examined(|_| {}))))
        .on_observation(Observation::Held(false));
    assert_eq!(told.verdict(), None);
    assert_eq!(states(&told.report())[0], Progress::Done);
}

#[test]
fn a_kubelet_that_keeps_ending_is_explained_by_its_journal_or_at_least_named() {
    let mut told = Fixture::new();
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {}))));
    told.kubelet("activating", "auto-restart", 0).after(5).kubelet("active", "running", 1);
    assert_eq!(told.verdict(), None, "one exit may heal");
    told.after(5).kubelet("activating", "auto-restart", 2);
    assert_eq!(told.verdict(), is("KA37", Weight::Error));
    told.after(1).says("kubelet", UNKNOWN_FLAG);
    assert_eq!(told.verdict(), is("KA01", Weight::Error));
    assert_eq!(told.report().findings.len(), 1, "the consequence is not told beside its cause");
    told.after(300).kubelet("active", "running", 60).on_observation(Observation::Health(Health::Well));
    assert_eq!(told.verdict(), None, "it runs: what it said before is past");
}

#[test]
fn a_kubelet_that_ends_once_is_given_the_time_to_start_again() {
    let ended = || {
        let mut told = Fixture::new();
        told.on_observation(Observation::Preflight(Box::new(examined(|_| {}))));
        told.kubelet("activating", "auto-restart", 0);
        told
    };
    // As on Windows, before containerd's pipe exists.
    let mut told = ended();
    told.after(5).kubelet("active", "running", 1).after(2);
    assert_eq!((told.verdict(), states(&told.report())[2]), (None, Progress::Running));
    told.on_observation(Observation::Health(Health::Well)).after(60);
    assert_eq!(told.verdict(), None);

    let mut told = ended();
    told.after(KUBELET_STARTS_IN.as_secs() - 1);
    assert_eq!(told.verdict(), None);
    told.after(1);
    assert_eq!(told.verdict(), is("KA37", Weight::Error), "nothing starts it");

    let mut told = ended();
    told.says("kubelet", UNKNOWN_FLAG);
    assert_eq!(told.verdict(), is("KA01", Weight::Error), "the reason is known at once");
}

#[test]
fn what_a_healthy_boot_says_once_is_no_fault_and_what_it_repeats_is() {
    let line = "dial tcp 10.0.0.1:443: connect: connection refused";
    let mut told = Fixture::new();
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {})))).kubelet("active", "running", 0);
    told.says("kubelet", line);
    assert_eq!(told.verdict(), None);
    told.after(1).says("kubelet", line);
    assert_eq!(told.verdict(), None);
    told.after(2).says("kubelet", line);
    assert_eq!(told.verdict(), is("NW03", Weight::Error));
    told.on_observation(Observation::Health(Health::Well))
        .node("False", &["karpenter.sh/unregistered:NoExecute"], 1)
        .devices(1);
    assert_eq!(told.verdict(), None);
}

#[test]
fn a_startup_taint_is_waited_for_and_then_a_fault() {
    let mut told = Fixture::joined();
    told.node("True", &["node.cilium.io/agent-not-ready:NoExecute"], 1);
    assert_eq!(told.verdict(), is("CN11", Weight::Info));
    assert!(told.report().waiting_for.unwrap().contains("Cilium"));
    told.after(PATIENCE_WITH_PODS.as_secs());
    assert_eq!(told.verdict(), is("CN11", Weight::Warning));
    told.node("True", &[], 1);
    assert_eq!(told.verdict(), None);
}

#[test]
fn a_device_plugin_that_loses_its_devices_is_named() {
    let mut told = Fixture::joined();
    told.after(500).devices(0).node("True", &[], 0);
    assert_eq!(told.verdict(), is("GP12", Weight::Info), "as after each restart of the kubelet or of its pod");
    assert_eq!(states(&told.report())[4], Progress::Running);
    told.after(PATIENCE_WITH_PODS.as_secs() - 1);
    assert_eq!(told.verdict(), is("GP12", Weight::Info));
    told.after(1);
    assert_eq!(told.verdict(), is("GP12", Weight::Error));
    let report = told.report();
    assert_eq!(report.devices[0].broken.as_deref(), Some("healthy"));
    assert_eq!(states(&report)[4], Progress::Failed);
    told.devices(1).node("True", &[], 1);
    assert_eq!(told.verdict(), None);
    told.devices(0).node("True", &[], 0);
    assert_eq!(told.verdict(), is("GP12", Weight::Info), "and each time anew");
}

#[test]
fn a_driver_that_comes_after_the_kubelet_is_waited_for() {
    let undriven = |facts: &mut Facts| {
        facts.devices.files.clear();
        facts.devices.functions[0].driver = None;
    };
    let mut facts = crate::preflight::tests::facts();
    undriven(&mut facts);
    let bare = Sightings { registry: Some(true), healthy: Some(BTreeMap::new()), ..facts.devices };
    let mut told = Fixture::new();
    told.on_observation(Observation::Preflight(Box::new(examined(undriven))));
    assert_eq!(told.verdict(), is("GP01", Weight::Warning));
    assert!(told.boot_state.fatal().is_none(), "a kubelet registers without it");
    told.after(200).kubelet("active", "running", 0).on_observation(Observation::Health(Health::Well));
    told.on_observation(Observation::Devices(Box::new(bare)));
    told.node("False", &["karpenter.sh/unregistered:NoExecute"], 0).after(2).node("True", &[], 0);
    assert_eq!(told.verdict(), is("GP01", Weight::Info));
    told.after(PATIENCE_WITH_PODS.as_secs());
    assert_eq!(told.verdict(), is("GP01", Weight::Info), "it may be compiled");
    told.after(PATIENCE_WITH_DRIVERS.as_secs());
    assert_eq!(told.verdict(), is("GP01", Weight::Error), "the warning of the preflight does not stand for it");
    told.devices(1).node("True", &[], 1);
    assert_eq!(told.verdict(), None);
}

#[test]
fn a_taint_that_was_lost_is_seen_on_the_first_node_object() {
    let mut told = Fixture::new();
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {})))).kubelet("active", "running", 0);
    told.on_observation(Observation::Health(Health::Well)).devices(1).node("True", &[], 1);
    assert_eq!(told.verdict(), is("KA07", Weight::Error));
}

#[test]
fn a_taint_that_was_lost_is_seen_late_on_a_slow_machine() {
    let mut told = Fixture::new();
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {})))).kubelet("active", "running", 0);
    told.created = Some(told.now);
    told.after(7).on_observation(Observation::Health(Health::Well)).devices(1).node("True", &[], 1);
    assert_eq!(told.verdict(), is("KA07", Weight::Error));
}

#[test]
fn a_node_of_another_instance_or_boot_is_not_this_one() {
    let mut told = Fixture::new();
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {})))).kubelet("active", "running", 0);
    told.on_observation(Observation::Health(Health::Well));
    for (id, boot) in [("i-2", "boot"), ("i-1", "earlier")] {
        let node = json!({"metadata": {"name": "n"}, "spec": {"providerID": format!("aws:///z/{id}")},
                          "status": {"nodeInfo": {"bootID": boot}}});
        told.on_observation(Observation::Node(NodeObject::read(&node).map(Box::new)));
        assert_eq!(told.report().phase, Phase::Registered);
    }
}

#[test]
fn containerd_that_is_down_is_named() {
    let mut told = Fixture::joined();
    let down = Unit { name: "containerd".to_owned(), exists: true, active: "inactive".to_owned(), ..Unit::default() };
    told.on_observation(Observation::Units(vec![down]));
    assert_eq!(told.verdict(), is("CR02", Weight::Error));
}

#[test]
fn a_notice_of_ec2_is_passed_on() {
    let mut told = Fixture::joined();
    told.on_observation(Observation::Notice(Notice::Interruption("terminate".to_owned())));
    assert_eq!(told.verdict(), is("EX03", Weight::Warning));
}

#[test]
fn native_mode_waits_for_its_own_files() {
    let mut told = Fixture::new();
    told.boot_state.identify(None, Mode::Native, false);
    let preflight = examined_with(None);
    told.on_observation(Observation::Preflight(Box::new(preflight)));
    assert_eq!(told.report().phase, Phase::Bootstrap);
    told.on_observation(Observation::Native(Ok(())));
    assert_eq!(told.report().phase, Phase::Kubelet);
}

#[test]
fn people_are_told() {
    let mut failing = Fixture::joined();
    failing.devices(0).node("True", &["node.cilium.io/agent-not-ready:NoExecute"], 0);
    failing.after(PATIENCE_WITH_PODS.as_secs());
    let texts = [
        crate::cli::shown(&Fixture::joined().report(), false),
        crate::cli::shown(&failing.report(), true),
        crate::cli::shown(&Fixture::new().report(), false),
    ];
    insta::assert_snapshot!(texts.join("\n----\n"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_console_and_health_checks_are_told() {
    use crate::publish::{console, health};
    let mut told = Fixture::joined();
    told.devices(0).node("True", &[], 0).after(PATIENCE_WITH_PODS.as_secs());
    let report = told.report();
    let line = console::line(&report, report.verdict.as_ref().unwrap());
    let names = |report: &Report| {
        let all = health::statuses(report).into_iter();
        all.map(|(name, status)| format!("{name:?} {}", status.as_str_name())).collect::<Vec<_>>().join("\n")
    };
    let new = Fixture::new().report();
    insta::assert_snapshot!(format!("{line}\n\n{}\n\n{}", names(&report), names(&new)));
}

#[test]
fn a_node_that_has_joined_is_not_held_back_by_the_network() {
    let silent = |facts: &mut Facts| {
        facts.standing = None;
        facts.way = Some(Way::Silent { to: "10.0.0.1:443".to_owned(), after: Duration::from_secs(2) });
    };
    let swap = |facts: &mut Facts| facts.machine.swaps = "Filename\n/swapfile file 1 0 -2\n".to_owned();
    let code = |told: &Fixture| told.boot_state.fatal().map(|it| it.verdict.code);
    let mut fresh = Fixture::new();
    fresh.on_observation(Observation::Preflight(Box::new(examined(silent))));
    assert_eq!(code(&fresh), Some("NW02"));
    let mut joined = Fixture::joined();
    joined.on_observation(Observation::Preflight(Box::new(examined(silent))));
    assert_eq!(code(&joined), None);
    joined.on_observation(Observation::Preflight(Box::new(examined(swap))));
    assert_eq!(code(&joined), Some("KA17"), "what the kubelet itself would end with still counts");
    // The next agent remembers.
    let before = joined.report();
    let mut resumed = Fixture::new();
    resumed.boot_state.resume(Some(&before));
    resumed.on_observation(Observation::Preflight(Box::new(examined(silent))));
    assert_eq!(code(&resumed), None);
}

#[test]
fn what_a_kubelet_said_before_it_was_well_is_not_said_again() {
    let mut told = Fixture::new();
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {})))).kubelet("activating", "auto-restart", 1);
    told.says("kubelet", "failed to run Kubelet: running with swap on is not supported, please disable swap!");
    assert_eq!(told.verdict(), is("KA17", Weight::Error));
    told.kubelet("active", "running", 1).on_observation(Observation::Health(Health::Well));
    told.node("True", &["karpenter.sh/unregistered:NoExecute"], 1).devices(1).node("True", &[], 1);
    assert_eq!(told.verdict(), None);
    told.kubelet("activating", "auto-restart", 2).on_observation(Observation::Health(Health::Silent));
    assert_eq!(told.verdict(), None, "the old line is not why, and one exit may heal");
    told.after(KUBELET_STARTS_IN.as_secs());
    assert_eq!(told.verdict(), is("KA37", Weight::Error), "the old line is not why");
}

#[test]
fn a_script_of_windows_that_makes_no_kubelet_is_named() {
    let mut told = Fixture::new();
    told.boot_state = BootState::new(Mode::Delegate, false, "7".to_owned(), told.now).on(Platform::Windows);
    let unit = |name: &str, exists| Unit { name: name.to_owned(), exists, ..Unit::default() };
    let look = |script| Observation::Units(vec![unit("kubelet", false), unit("eks-bootstrap", script)]);
    told.on_observation(Observation::Health(Health::Silent));
    told.on_observation(Observation::Preflight(Box::new(examined_with(None)))).on_observation(look(false)).after(300);
    assert_eq!(told.verdict(), None, "the first start of an image takes minutes");
    told.after(61);
    assert_eq!(told.verdict(), is("WN09", Weight::Error));
    told.on_observation(look(true)).after(1);
    assert_eq!(told.verdict(), is("WN08", Weight::Error));
    told.says("eks-bootstrap", "PS>TerminatingError(Get-EKSCluster): not authorized").after(1);
    let report = told.report();
    let evidence = report.verdict.unwrap().evidence.unwrap();
    assert_eq!(evidence.source, "event log of eks-bootstrap");
    assert!(report.not_on_this_platform.contains(&"swap rules".to_owned()));
}

const SWAP: &str = "failed to run Kubelet: running with swap on is not supported, please disable swap!";
const UNKNOWN_FLAG: &str = "E run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --x\"";
const STRANGER: &str = "tls: failed to verify certificate: x509: certificate signed by unknown authority";

#[test]
fn a_new_agent_says_nothing_of_what_is_over() {
    // The agent before it had seen the kubelet well after that.
    let mut before = Fixture::joined();
    let mut told = Fixture::restarted(before.after(100));
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {}))));
    told.said(200, "kubelet", SWAP).said(200, "kubelet", STRANGER);
    assert_eq!(told.verdict(), None, "nobody has looked yet");
    told.kubelet("activating", "start", 0).on_observation(Observation::Health(Health::Silent)).after(10);
    assert_eq!(told.verdict(), None, "it was cleared, and the kubelet starts for another reason");

    // The agent before it had not, but somebody has started the unit since.
    let mut told = Fixture::restarted(Fixture::new().after(100));
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {}))));
    told.on_observation(Observation::Health(Health::Silent)).started_anew(5).said(60, "kubelet", SWAP);
    assert_eq!(told.verdict(), None);
    let stopped = Unit { name: "kubelet".to_owned(), exists: true, active: "inactive".to_owned(), ..Unit::default() };
    told.on_observation(Observation::Units(vec![stopped]));
    assert_eq!(told.verdict(), None, "nobody tries");
    told.after(1).said(0, "kubelet", SWAP);
    assert_eq!(told.verdict(), is("KA17", Weight::Error), "it has come again since");
}

#[test]
fn a_new_agent_says_what_is_still_true() {
    let mut told = Fixture::restarted(Fixture::new().after(100));
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {}))));
    told.said(30, "kubelet", SWAP);
    assert_eq!(told.verdict(), None, "nobody has looked yet");
    told.on_observation(Observation::Health(Health::Silent)).kubelet("activating", "auto-restart", 3);
    assert_eq!(told.verdict(), is("KA17", Weight::Error));

    // Whether there is a Node shows by itself, or not at all: then it is as it was.
    let mut told = Fixture::restarted(Fixture::new().after(100));
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {}))));
    told.on_observation(Observation::Health(Health::Well))
        .kubelet("active", "running", 0)
        .said(30, "kubelet", STRANGER);
    assert_eq!(told.verdict(), None);
    told.after(LOOKS_IN.as_secs());
    assert_eq!(told.verdict(), is("NW04", Weight::Error));
}

#[test]
fn a_new_agent_goes_on_where_the_one_before_it_was() {
    let mut before = Fixture::joined();
    let first = before.report();
    let mut told = Fixture::restarted(before.after(500));
    // Restarts that were long before it are no fault.
    told.on_observation(Observation::Preflight(Box::new(examined(|_| {})))).kubelet("active", "running", 4);
    assert_eq!(told.verdict(), None);
    told.on_observation(Observation::Health(Health::Well)).devices(1).node("True", &[], 1);
    let report = told.report();
    assert_eq!((report.verdict, report.phases), (None, first.phases), "stages keep their times");
}

#[test]
fn who_has_joined_is_known_in_one_place() {
    let mut own = crate::preflight::tests::facts();
    let mut told = Fixture::new();
    assert!(!told.boot_state.has_joined(&own));
    crate::preflight::tests::register(&mut own);
    assert!(told.boot_state.has_joined(&own), "as after a reboot: the preflight is the first to see the Node");
    let unknown = Facts { standing: None, ..own };
    assert!(told.boot_state.has_joined(&unknown), "and that is remembered when the API server does not answer");
}
