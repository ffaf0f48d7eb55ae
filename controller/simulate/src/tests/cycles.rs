//! Load that goes up and down at random, cycle after cycle.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_manifest as manifest;
use muster_manifest::snapshot::Settings;
use muster_stages::provision;
use serde_json::{Value, json};

use super::super::api::Path;
use super::super::dice::Dice;
use super::super::script::{Deed, Reference, Script};
use super::super::trace::Event;
use super::super::{Glance, Setting, play};
use super::{CLUSTER, catalogue, objects};
use crate::Policy;

const DEPLOYMENTS: usize = 30;
const REPLICAS: u32 = 5;
/// Long enough for a command to be confirmed and carried out, and for what follows from it.
const CYCLE: Duration = Duration::from_secs(15 * 60);
/// The most that a pod is moved in a cycle, as the mean of a Deployment's pods, as docs/design/disruption.md states it.
const MOST_MOVES: f64 = 0.5;
/// Deployments whose pods have some thirty sizes.
struct Cycles {
    count: u32,
    dice: Dice,
}

/// Result of the cycles.
struct Done {
    /// USD per hour and pod at the end of each cycle.
    prices: Vec<f64>,
    /// Times that a pod of a Deployment was moved, per pod and cycle.
    moves: BTreeMap<String, f64>,
    broken: Vec<String>,
}

// === impl Cycles ===

impl Cycles {
    fn name(number: usize) -> String {
        format!("web-{number}")
    }

    /// The number of pods of a Deployment in a cycle: within a fifth of what it has at first.
    fn replicas(&self, number: usize, cycle: u32) -> u32 {
        if cycle == 0 {
            return REPLICAS;
        }
        let most = u64::from(REPLICAS / 5);
        let change = self.dice.below(&format!("{} in {cycle}", Self::name(number)), 2 * most + 1);
        REPLICAS - REPLICAS / 5 + u32::try_from(change).unwrap()
    }

    fn objects() -> Vec<Value> {
        let mut all: Vec<Value> = objects(CLUSTER);
        all.retain(|object| matches!(object["kind"].as_str(), Some("Namespace" | "EC2NodeClass" | "DaemonSet")));
        let requirement = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]});
        let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        let spec = json!({"nodeClassRef": reference, "expireAfter": "Never", "requirements": [requirement]});
        all.push(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
            "spec": {
                "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}, "template": {"spec": spec},
            },
        }));
        all.extend((0..DEPLOYMENTS).map(|number| {
            let labels = json!({"app": Self::name(number)});
            let requests = json!({
                "cpu": format!("{}m", 100 + 150 * (number % 7)), "memory": format!("{}Mi", 256 + 512 * (number % 4)),
            });
            let containers = json!([{"name": "c", "image": "web", "resources": {"requests": requests}}]);
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": Self::name(number), "namespace": "shop"},
                "spec": {
                    "replicas": REPLICAS, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
                },
            })
        }));
        all
    }

    fn script(&self) -> Script {
        let start = "2026-01-05T06:00:00Z".parse().unwrap();
        let mut script = Script::quiet(start, CYCLE * (self.count + 1));
        for cycle in 1..=self.count {
            for number in 0..DEPLOYMENTS {
                let path = Path::new("shop", Self::name(number));
                let reference = Reference { kind: "Deployment".to_owned(), path };
                script.deeds.push((CYCLE * cycle, Deed::Scale(reference, self.replicas(number, cycle))));
            }
        }
        script
    }

    /// Weight of the pods of that cycle: the sum of their requests.
    fn weight(&self, cycle: u32) -> f64 {
        let of = |number: usize| {
            let (cpu, gibibytes) = (0.1 + 0.15 * (number % 7) as f64, 0.25 + 0.5 * (number % 4) as f64);
            f64::from(self.replicas(number, cycle)) * (cpu + gibibytes / 2.0)
        };
        (0..DEPLOYMENTS).map(of).sum()
    }

    fn play(&self) -> Done {
        let manifests = manifest::read_text("cluster.yaml", CLUSTER).unwrap();
        let types = catalogue();
        let script = self.script();
        let start = script.start;
        let setting = Setting {
            objects: Self::objects(),
            types: &|_| types.clone(),
            classes: &manifests.node_classes,
            snapshot: Settings::default(),
            provision: provision::Settings::default(),
            disruption: muster_scheduling::disrupt::Settings::default(),
            policy: Policy::Muster,
            script,
            seed: 0,
        };
        // The last that was seen of each cycle.
        let mut ends: BTreeMap<u32, Glance> = BTreeMap::new();
        let outcome = play(setting, &mut |entry, glance| {
            ends.insert(cycle_at(start, entry.at), *glance);
        })
        .unwrap();
        ends.insert(self.count, outcome.glance);
        let unplaced = ends.iter().filter(|(_, glance)| glance.waiting > 0);
        let mut broken: Vec<String> = outcome.broken().map(str::to_owned).collect();
        broken.extend(unplaced.map(|(cycle, glance)| format!("{} pods wait in cycle {cycle}", glance.waiting)));
        let mut came: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in &outcome.trace {
            if let Event::PodsCame { workload, pods } = &entry.event {
                *came.entry(workload).or_default() += pods;
            }
        }
        let moves = (0..DEPLOYMENTS).map(|number| {
            let path = format!("shop/{}", Self::name(number));
            let counts: Vec<u32> = (0..=self.count).map(|cycle| self.replicas(number, cycle)).collect();
            let grown: u32 = counts.array_windows().map(|[before, after]| after.saturating_sub(*before)).sum();
            let came = came.get(&*path).copied().unwrap_or_default() as f64;
            let moved = came - f64::from(counts[0] + grown);
            let pods: u32 = counts[1..].iter().sum();
            (path, moved / f64::from(pods))
        });
        let prices = (0..=self.count).filter_map(|cycle| Some(ends.get(&cycle)?.price / self.weight(cycle)));
        Done { prices: prices.collect(), moves: moves.collect(), broken }
    }
}

/// The number of the cycle at a moment. What is seen when the next one begins is of that one.
fn cycle_at(start: Timestamp, moment: Timestamp) -> u32 {
    (0..).take_while(|cycle| after(start, CYCLE * (cycle + 1)) <= moment).last().map_or(0, |cycle| cycle + 1)
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

/// The price per pod does not rise from the first half to the second by more than this factor, and each pod is moved at
/// most as often as is stated.
fn hold(count: u32, most_rise: f64) {
    let done = Cycles { count, dice: Dice::new(1) }.play();
    assert_eq!(done.broken, [""; 0]);
    assert_eq!(done.prices.len(), count as usize + 1, "some cycle was not seen");
    // Before the first cycle there is what was bought at once for everything.
    let (first, second) = done.prices[1..].split_at(count as usize / 2);
    let all = mean(&done.moves.values().copied().collect::<Vec<f64>>());
    println!("{count} cycles: price {:.4} and {:.4}, {all:.3} moves of a pod in a cycle", mean(first), mean(second));
    assert!(mean(second) <= mean(first) * most_rise, "{:?}", done.prices);
    let most = done.moves.iter().max_by(|one, other| one.1.total_cmp(other.1)).unwrap();
    assert!(*most.1 <= MOST_MOVES, "pods of {} were moved {:.3} times in each cycle", most.0, most.1);
}

/// The mix of few cycles is not that of others, and what was bought at once for everything serves the first of them.
#[test]
fn ten_cycles_of_load_do_not_raise_the_price_and_move_few_pods() {
    hold(10, 1.05);
}

#[test]
#[ignore = "scale: minutes, in an optimised build"]
fn a_hundred_cycles_of_load_do_not_raise_the_price_and_move_few_pods() {
    hold(100, 1.02);
}
