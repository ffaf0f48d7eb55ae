//! Broken scripts, and broken manifests under sound ones: whatever the bytes are, the answer is a day or a message.

use std::time::Duration;

use muster_manifest::snapshot::Settings;
use muster_manifest::{self as manifest, Intake, Source};
use muster_stages::provision;
use serde_json::{Value, json};

use self::mutate::{Dice, change, damage};
use super::super::objects::check;
use super::super::{Misdeed, Policy, Script, Setting, play, read_script, rehearse};
use super::{CLUSTER, catalogue, objects};

#[path = "../../../tests/mutations/mutate.rs"]
mod mutate;

/// Beyond this many pods a case only tests how long a day takes.
const MOST_PODS: u64 = 60;
/// A day long enough for nodes to come up and be lost again; what comes later is moved into it.
const LENGTH: Duration = Duration::from_secs(5 * 60);

/// Every event there is, on objects that there are.
fn sound() -> Value {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "shop", "labels": {"app": "one"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "report"}, "spec": {"parallelism": 2, "completions": 3,
        "template": {"metadata": {"labels": {"app": "report"}}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}}}});
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "often"}, "spec": {"schedule": "*/2 * * * *",
        "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}}});
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "more"}, "spec": {"limits": {"cpu": "20"},
        "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "1", "schedule": "0 9 * * *", "duration": "1h"}]},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "expireAfter": "Never", "taints": [{"key": "a", "effect": "NoSchedule"}],
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}}}});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "one", "namespace": "shop"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "one"}}}});
    let deployment = |set: Value| json!({"kind": "Deployment", "namespace": "shop", "name": "web", "set": set});
    json!({"apiVersion": "muster.dev/v1", "kind": "Simulation", "spec": {
        "start": "2026-01-05T06:00:00Z",
        "length": "12m",
        "latencies": {"boot": "4s", "join": "3s", "ready": "1s", "startupTaint": "1s", "podStart": "1s", "podEnd": "1s", "detach": "1s", "end": "5s", "job": "1m"},
        "runs": {"default/report": "20s", "often": "10s"},
        "events": [
            {"at": "10s", "apply": pod.clone()},
            {"at": "20s", "apply": job},
            {"at": "21s", "apply": cron},
            {"at": "30s", "apply": pool},
            {"at": "31s", "apply": budget},
            {"at": "40s", "scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 8}},
            {"at": "50s", "refuse": {"launches": 1, "for": "1m"}},
            {"at": "51s", "misregister": {"launches": 1, "code": "KA07"}},
            {"at": "60s", "patch": deployment(json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}}}}))},
            {"at": "61s", "patch": deployment(json!({"spec": {"replicas": 4}, "metadata": {"annotations": {"a": null}}}))},
            {"at": "90s", "patch": {"kind": "StatefulSet", "namespace": "shop", "name": "db", "set": {"spec": {"replicas": 3, "ordinals": {"start": 1}}}}},
            {"at": "100s", "patch": {"kind": "NodePool", "name": "general", "set": {"spec": {"disruption": {"consolidateAfter": "10s"}}}}},
            {"at": "110s", "patch": {"kind": "EC2NodeClass", "name": "default", "set": {"spec": {"tags": {"a": "b"}}}}},
            {"at": "120s", "patch": {"kind": "PodDisruptionBudget", "namespace": "shop", "name": "web", "set": {"spec": {"maxUnavailable": "20%"}}}},
            {"at": "130s", "patch": {"kind": "Pod", "namespace": "shop", "name": "one", "set": {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}}},
            {"at": "131s", "patch": {"kind": "Pod", "namespace": "shop", "name": "web-0", "set": {"metadata": {"labels": {"app": "none"}}}}},
            {"at": "132s", "patch": {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data-db-1", "set": {"metadata": {"labels": {"a": "b"}}}}},
            {"at": "140s", "apply": pod},
            {"at": "150s", "runOut": {"instanceType": "a.*", "zone": "z1", "capacityType": "spot", "for": "1m"}},
            {"at": "160s", "interrupt": {"nodes": 1, "zone": "z2", "instanceType": "*"}},
            {"at": "170s", "stop": {"afterWrites": 3, "for": "5s"}},
            {"at": "200s", "delete": {"kind": "Pod", "namespace": "shop", "name": "one"}},
            {"at": "201s", "delete": {"kind": "Job", "name": "report"}},
            {"at": "300s", "delete": {"kind": "Namespace", "name": "shop"}},
            {"at": "400s", "deleteAll": true},
        ],
    }})
}

/// How far the cases came.
#[derive(Debug, Default)]
struct Tally {
    unreadable: usize,
    refused: usize,
    sound: usize,
    played: usize,
    /// Days on which a rule was broken: not the business of this test, which plays what nobody would.
    broken: usize,
}

/// Shows the case if what is done with it panics.
struct WriteObserver<'i>(u64, usize, &'i str);

impl Drop for WriteObserver<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, case {}:\n{}", self.0, self.1, self.2);
        }
    }
}

fn is_well_formed(message: &str) -> bool {
    // Several errors of one object are one message.
    message.split("\n\nerror: ").all(|one| one.matches("\n\nhint: ").count() == 1)
        && !message.chars().any(|letter| letter.is_control() && letter != '\n')
}

fn written(document: &Value, dice: &mut Dice) -> String {
    let yaml = (dice.roll(2) == 0).then(|| serde_saphyr::to_string(document).ok()).flatten();
    let mut bytes = yaml.unwrap_or_else(|| document.to_string()).into_bytes();
    if dice.roll(6) == 0 {
        damage(&mut bytes, dice);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One case: a script that was changed in places, or a manifest of the cluster that was.
fn try_one(dice: &mut Dice, tally: &mut Tally, seed: u64, number: usize, plays_each: usize) {
    let mut script = sound();
    let mut cluster = objects(CLUSTER);
    let is_of_cluster = dice.roll(4) == 0;
    for _ in 0..=dice.roll(3) {
        if is_of_cluster {
            let which = dice.roll(cluster.len());
            change(&mut cluster[which], dice);
        } else {
            let events = script["spec"]["events"].as_array().map_or(0, Vec::len);
            // Most changes go into an event: the head has few places.
            match dice.roll(8) {
                0 => change(&mut script, dice),
                _ => {
                    let which = dice.roll(events);
                    if let Some(event) = script.pointer_mut(&format!("/spec/events/{which}")) {
                        change(event, dice);
                    }
                }
            }
        }
    }
    let (script, cluster) = if is_of_cluster {
        (script.to_string(), written(&json!({"apiVersion": "v1", "kind": "List", "items": cluster}), dice))
    } else {
        (written(&script, dice), CLUSTER.to_owned())
    };
    let case = format!("{script}\n--- cluster\n{cluster}");
    let _witness = WriteObserver(seed, number, &case);
    see_through(script, &cluster, number.is_multiple_of(plays_each), tally);
}

fn see_through(script: String, cluster: &str, is_played: bool, tally: &mut Tally) {
    let source = |name: &str, text: &str| Source { name: name.to_owned(), text: text.to_owned(), only_json: false };
    let mut intake = Intake::default();
    if let Err(error) = intake.text("cluster.yaml", cluster.to_owned()) {
        tally.unreadable += 1;
        assert!(is_well_formed(&error.to_string()), "{error}");
        return;
    }
    let objects = manifest::raw_of(&source("cluster.yaml", cluster)).unwrap();
    if let Some(fault) = objects.iter().find_map(|object| check(object).err()) {
        tally.refused += 1;
        assert!(!fault.problem.is_empty() && !fault.hint.is_empty(), "{fault:?}");
        return;
    }
    let written = match read_script(source("day.yaml", &script)) {
        Ok(written) => written,
        Err(error) => {
            tally.unreadable += 1;
            assert!(is_well_formed(&error.to_string()), "{error}");
            return;
        }
    };
    match rehearse(&written.script, &objects) {
        Ok(_) => {}
        Err(Misdeed::Crowd(_)) => return,
        Err(Misdeed::Event { number, fault }) => {
            tally.refused += 1;
            let error = written.refuse(number, *fault).to_string();
            assert!(is_well_formed(&error) && error.contains("spec.events["), "{error}");
            return;
        }
    }
    let mut script = written.script;
    tally.sound += 1;
    if is_played && most_pods(&script, &objects) <= MOST_PODS {
        script.length = LENGTH;
        for (at, _) in &mut script.deeds {
            *at = (*at).min(LENGTH);
        }
        let manifests = intake.finish();
        let types = catalogue();
        let setting = Setting {
            objects,
            types: &|_| types.clone(),
            classes: &manifests.node_classes,
            snapshot: Settings::default(),
            provision: provision::Settings::default(),
            disruption: muster_scheduling::disrupt::Settings::default(),
            policy: Policy::Muster,
            script,
            seed: 0,
        };
        let outcome = play(setting, &mut |_, _| {}).unwrap_or_else(|error| panic!("{error}"));
        tally.played += 1;
        tally.broken += usize::from(outcome.broken().next().is_some());
    }
}

/// No more than this many pods are asked for anywhere.
fn most_pods(script: &Script, objects: &[Value]) -> u64 {
    fn numbers(value: &Value, most: &mut u64) {
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    let counts = matches!(key.as_str(), "replicas" | "parallelism");
                    *most = (*most).max(field.as_u64().filter(|_| counts).unwrap_or(0));
                    numbers(field, most);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| numbers(item, most)),
            _ => {}
        }
    }
    let mut most = 0;
    numbers(&script.document(), &mut most);
    objects.iter().for_each(|object| numbers(object, &mut most));
    most
}

/// Sees `count` cases through; of those that are sound, each so-manieth is played.
fn run(first_seed: u64, count: usize, plays_each: usize) {
    const PARTS: usize = 8;
    /// As large as the program's own.
    const STACK: usize = 8 << 20;
    let work = |seed: u64| {
        move || {
            let (mut dice, mut tally) = (Dice::new(seed), Tally::default());
            (0..count / PARTS).for_each(|number| try_one(&mut dice, &mut tally, seed, number, plays_each));
            tally
        }
    };
    let parts: Vec<_> = (first_seed..)
        .take(PARTS)
        .map(|seed| std::thread::Builder::new().stack_size(STACK).spawn(work(seed)).unwrap())
        .collect();
    let mut all = Tally::default();
    for part in parts {
        let Tally { unreadable, refused, sound, played, broken } = part.join().unwrap();
        all.unreadable += unreadable;
        all.refused += refused;
        all.sound += sound;
        all.played += played;
        all.broken += broken;
    }
    // Breaking all or nothing would prove little.
    assert!(all.unreadable > count / 20 && all.refused > count / 20 && all.sound > count / 20, "{all:?}");
    assert!(all.played > count / 40 / plays_each, "{all:?}");
}

#[test]
fn the_script_is_sound_before_it_is_broken() {
    let mut tally = Tally::default();
    see_through(sound().to_string(), CLUSTER, true, &mut tally);
    assert_eq!((tally.played, tally.broken), (1, 0), "{tally:?}");
}

#[test]
fn no_broken_script_panics() {
    // A day takes a second without optimisation, its script a millisecond.
    run(0x6761_7262, 2_000, 16);
}

/// `cargo test --release -p muster-simulate --lib garbage -- --ignored`
#[test]
#[ignore = "scale: minutes, in an optimised build"]
fn no_broken_script_of_fifty_thousand_panics() {
    let first = std::env::var("MUSTER_FIRST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    run(first, 50_000, 1);
}
