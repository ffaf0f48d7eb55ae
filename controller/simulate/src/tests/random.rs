//! Days drawn by lot.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_api::nodepool::DisruptionReason;
use muster_api::{annotations, labels};
use muster_cloud::{CapacityType, after};
use serde_json::{Value, json};

use super::super::api::Path;
use super::super::dice::Dice;
use super::super::script::{Deed, Reference, Script};
use super::super::trace::Event;
use super::super::world::{Meant, ReportedFault};
use super::super::{Outcome, Policy};
use super::{day_with, larger_cluster, settings_of_all};

const MINUTE: u64 = 60;
/// What happens on a day happens within so many minutes; then everything is deleted, and has so long to go.
const BUSY: u64 = 150;
const REST: u64 = 60;
/// After so long without a change the controller is at rest: nodes are an hour old before they go for consolidation, budgets open
/// and close, `consolidateAfter` passes, and each of these may allow a command that allows another one.
const CALMED: Duration = Duration::from_secs(4 * 3600);
/// For so long it has to stay there.
const CALM: Duration = Duration::from_secs(3 * 3600);

fn span(minutes: u64) -> Duration {
    Duration::from_secs(minutes * MINUTE)
}

fn deployment(name: &str) -> Reference {
    Reference { kind: "Deployment".to_owned(), path: Path::new("shop", name) }
}

/// The deed with that name.
fn deed(dice: Dice, name: &str) -> Deed {
    let below = |what: &str, sides: u64| dice.below(&format!("{name} {what}"), sides);
    let pick = |what: &str, all: &[&'static str]| all[below(what, all.len() as u64) as usize];
    let minutes = |what: &str, most: u64| span(1 + below(what, most));
    let count = |what: &str, most: u64| u32::try_from(1 + below(what, most)).unwrap();
    match below("kind", 24) {
        0..6 => {
            let replicas = u32::try_from(below("replicas", 13)).unwrap();
            Deed::Scale(deployment(pick("workload", &["web", "batch", "cache"])), replicas)
        }
        6 => Deed::RunOut(
            Meant {
                instance_type: (below("all", 2) == 0).then(|| pick("type", &["a.*", "b.*", "a.large"]).to_owned()),
                zone: (below("zones", 2) == 0).then(|| pick("zone", &["z1", "z2"]).to_owned()),
                capacity_type: Some(if below("spot", 2) == 0 { CapacityType::Spot } else { CapacityType::OnDemand }),
            },
            minutes("for", 40),
        ),
        7 => Deed::Refuse(count("launches", 3), minutes("for", 40)),
        8 => Deed::Misregister(1, pick("code", &["KA07", "NW01", "AU01"])),
        9 => Deed::Interrupt(Meant { capacity_type: Some(CapacityType::Spot), ..Meant::default() }, count("nodes", 2)),
        10 => {
            let class = Reference { kind: "EC2NodeClass".to_owned(), path: Path::bare("default") };
            Deed::Patch(class, json!({"spec": {"tags": {"edition": name}}}))
        }
        11 => {
            let pool = Reference { kind: "NodePool".to_owned(), path: Path::bare("general") };
            let wait = pick("wait", &["30s", "2m", "15m"]);
            Deed::Patch(pool, json!({"spec": {"disruption": {"consolidateAfter": wait}}}))
        }
        12 | 13 => {
            let set = json!({"spec": {"disruption": {"budgets": budgets(dice, name)}}});
            Deed::Patch(pool(pick("pool", &["general", "steady"])), set)
        }
        14 => {
            let what = match pick("pause", &["launches", "disruption", "all", "nothing"]) {
                "nothing" => Value::Null,
                what => what.into(),
            };
            let set = json!({"metadata": {"annotations": {annotations::PAUSE: what}}});
            Deed::Patch(pool(pick("pool", &["general", "steady"])), set)
        }
        15 => {
            let kinds = pick("offers", &["spot", "on-demand"]);
            let requirement = json!({"key": labels::CAPACITY_TYPE, "operator": "In", "values": [kinds]});
            Deed::Patch(pool("general"), json!({"spec": {"template": {"spec": {"requirements": [requirement]}}}}))
        }
        16 => Deed::ReportFault(
            Meant::default(),
            count("nodes", 2),
            ReportedFault {
                kind: "AcceleratedHardwareReady".to_owned(),
                status: "False".to_owned(),
                reason: pick("fault", &["NvidiaXID48Error", "NvidiaXID79Error", "NvidiaDoubleBitError"]).to_owned(),
            },
        ),
        17 => {
            let replicas = below("replicas", 5);
            Deed::Patch(pool("fixed"), json!({"spec": {"replicas": replicas}}))
        }
        18 => Deed::Publish,
        19 | 20 => {
            let buffer = Reference { kind: "CapacityBuffer".to_owned(), path: Path::new("shop", "spare") };
            Deed::Patch(buffer, json!({"spec": {"replicas": below("replicas", 6)}}))
        }
        _ => Deed::Stop(below("writes", 30), minutes("away", 3)),
    }
}

fn pool(name: &str) -> Reference {
    Reference { kind: "NodePool".to_owned(), path: Path::bare(name) }
}

/// Up to three budgets: numbers and shares, none at all among them, for all reasons or some, always or at times.
fn budgets(dice: Dice, name: &str) -> Vec<Value> {
    let one = |number: u64| {
        let below = |what: &str, sides: u64| dice.below(&format!("{name} budget {number} {what}"), sides);
        let nodes = ["0", "1", "2", "10%", "50%", "100%"][below("nodes", 6) as usize];
        let mut budget = json!({"nodes": nodes});
        let reasons = [
            DisruptionReason::Empty,
            DisruptionReason::Underutilized,
            DisruptionReason::Drifted,
            DisruptionReason::Unhealthy,
        ];
        let named: Vec<_> = reasons.into_iter().filter(|reason| below(&format!("{reason:?}"), 3) == 0).collect();
        if !named.is_empty() {
            budget["reasons"] = json!(named);
        }
        if below("schedule", 3) == 0 {
            // Days begin at 06:00 and are busy for two hours and a half.
            let minute = below("minute", 60);
            budget["schedule"] = format!("{minute} {}-8 * * *", 5 + below("hour", 3)).into();
            budget["duration"] = format!("{}m", 5 + below("duration", 90)).into();
        }
        budget
    };
    (0..=dice.below(&format!("{name} budgets"), 3)).map(one).collect()
}

/// A day drawn by lot, at whose end everything is deleted.
fn random_day(seed: u64) -> Script {
    let dice = Dice::new(seed);
    let start = "2026-01-05T06:00:00Z".parse().unwrap();
    let mut script = Script::quiet(start, span(BUSY + REST));
    for number in 0..4 + dice.below("deeds", 16) {
        let name = format!("deed {number}");
        let at = Duration::from_secs(dice.below(&format!("{name} at"), BUSY * MINUTE));
        script.deeds.push((at, deed(dice, &name)));
    }
    script.deeds.push((span(BUSY), Deed::DeleteAll));
    script.deeds.sort_by_key(|(at, _)| *at);
    script
}

/// The same deeds, after which nothing happens any more for the hours of a long day.
fn calm_lot(seed: u64) -> Script {
    let busy = random_day(seed);
    let mut script = Script::quiet(busy.start, span(BUSY) + CALMED + CALM);
    script.deeds = busy.deeds.into_iter().filter(|(_, deed)| *deed != Deed::DeleteAll).collect();
    script
}

/// Commands and launches after nothing had happened for so long that the controller had to be at rest.
fn restless(outcome: &Outcome) -> Vec<String> {
    let at_rest = after(outcome.start, span(BUSY) + CALMED);
    let late = outcome.trace.iter().filter(|entry| entry.at > at_rest);
    let deeds = late.filter_map(|entry| match &entry.event {
        Event::Disrupting { .. } | Event::Rebooting { .. } | Event::ClaimAndNode { .. } => {
            Some(format!("{}: {:?}", entry.at, entry.event))
        }
        _ => None,
    });
    deeds.collect()
}

/// The rules that a day has broken.
fn broken(outcome: &Outcome) -> Vec<String> {
    let mut broken: Vec<String> = outcome.broken().map(str::to_owned).collect();
    if outcome.bound > outcome.paid + 1e-9 {
        broken.push(format!("${} were paid, and nobody could have paid less than ${}", outcome.paid, outcome.bound));
    }
    broken
}

/// Days of one kind.
struct Days {
    cluster: String,
    /// The day of a seed.
    draw: fn(u64) -> Script,
    /// The faults of a day that was played.
    wrong: fn(&Outcome) -> Vec<String>,
}

// === impl Days ===

impl Days {
    /// Days on which everything must hold that must.
    fn of_rules() -> Self {
        Self { cluster: larger_cluster(), draw: random_day, wrong: broken }
    }

    /// Days after which nothing may happen any more: nodes do not expire.
    fn of_rest() -> Self {
        Self {
            cluster: larger_cluster().replace("expireAfter: 2h", "expireAfter: Never"),
            draw: calm_lot,
            wrong: restless,
        }
    }

    fn wrong(&self, script: &Script, seed: u64) -> Vec<String> {
        (self.wrong)(&day_with(&self.cluster, script.clone(), seed, Policy::Muster, settings_of_all()))
    }

    /// The fewest deeds with which something is still wrong: each is left out once, for as long as that helps.
    fn shrink(&self, mut script: Script, seed: u64) -> Script {
        let mut at = 0;
        while at < script.deeds.len() {
            let mut fewer = script.clone();
            let (_, left_out) = fewer.deeds.remove(at);
            if left_out != Deed::DeleteAll && !self.wrong(&fewer, seed).is_empty() {
                script = fewer;
            } else {
                at += 1;
            }
        }
        script
    }

    /// Plays the days of these seeds on all cores; each core's first with which something is wrong fails the test, as small as it can
    /// be made.
    fn play_all(&self, seeds: Range<u64>) {
        let next = AtomicU64::new(seeds.start);
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if !seeds.contains(&seed) {
                            break;
                        }
                        if seed.is_multiple_of(100) {
                            println!("day {seed}");
                        }
                        self.play(seed);
                    }
                });
            }
        });
    }

    fn play(&self, seed: u64) {
        let script = (self.draw)(seed);
        if self.wrong(&script, seed).is_empty() {
            return;
        }
        let small = self.shrink(script, seed);
        let text = serde_saphyr::to_string(&small.document()).unwrap();
        let folder = std::env::temp_dir().join("muster-simulation");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{seed}.yaml")), &text).unwrap();
        std::fs::write(folder.join("cluster.yaml"), &self.cluster).unwrap();
        std::fs::write(folder.join("catalogue.yaml"), super::CATALOGUE).unwrap();
        panic!(
            "seed {seed} breaks:\n{}\n\nPlay it again: muster simulate -f {folder}/cluster.yaml --catalog \
             {folder}/catalogue.yaml --script {folder}/{seed}.yaml --seed {seed} --feature-gates NodeRepair=true \
             --aws-feature-gates RebootForRepair=true\n\n{text}",
            self.wrong(&small, seed).join("\n"),
            folder = folder.display()
        );
    }
}

fn first_seed() -> u64 {
    std::env::var("MUSTER_FIRST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[test]
fn fifty_days_break_no_rule() {
    Days::of_rules().play_all(0..50);
}

#[test]
fn ten_days_come_to_rest() {
    Days::of_rest().play_all(0..10);
}

/// Days on which pods of a command took the room of a CapacityBuffer, for which a node was bought again each hour.
#[test]
fn days_with_a_buffer_come_to_rest() {
    for seed in [160, 664] {
        Days::of_rest().play_all(seed..seed + 1);
    }
}

/// Days on which pods with volumes came back last, and found their room taken: each command bought a node beside its
/// replacements.
#[test]
fn days_with_volumes_that_come_late_come_to_rest() {
    for seed in [350, 767] {
        Days::of_rest().play_all(seed..seed + 1);
    }
}

#[test]
#[ignore = "scale: minutes, in an optimised build"]
fn two_thousand_days_break_no_rule() {
    let first = first_seed();
    Days::of_rules().play_all(first..first + 2000);
}

#[test]
#[ignore = "scale: minutes, in an optimised build"]
fn two_thousand_days_come_to_rest() {
    let first = first_seed();
    Days::of_rest().play_all(first..first + 2000);
}
