//! The workloads of Karpenter's own scheduling benchmark, and its made-up instance types.
//!
//! Proportions, sizes and labels are those of `scheduling_benchmark_test.go` in sigs.k8s.io/karpenter v1.14.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::dice::Dice;
use super::manifests::{HOSTNAME, List, Size, ZONE, apart, pod, pod_term, requirement, spread};

const TYPES: u32 = 400;
const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];
/// Label of every pod and every node.
const CLUSTER: (&str, &str) = ("testing/cluster", "unspecified");

const MILLICORES: [u32; 5] = [100, 250, 500, 1_000, 1_500];
const MEBIBYTES: [u32; 6] = [100, 256, 512, 1_024, 2_048, 4_096];
const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// A fifth each: plain, spread by zone, spread by hostname, together in a zone, apart by hostname.
pub(crate) fn diverse(list: &mut List<impl Write>, dice: &mut Dice, pods: usize) -> io::Result<()> {
    list.push(&pool())?;
    let fifth = pods.div_ceil(5).max(1);
    for number in 0..pods {
        let size = Size { millicores: dice.one_of(&MILLICORES), mebibytes: dice.one_of(&MEBIBYTES) };
        let own = labelled("my-label", dice.one_of(&LETTERS));
        let other = json!({"my-label": dice.one_of(&LETTERS)});
        let (labels, spec) = match number / fifth {
            0 => (own, json!({})),
            1 => (own, json!({"topologySpreadConstraints": spread(ZONE, &other, "DoNotSchedule")})),
            2 => (own, json!({"topologySpreadConstraints": spread(HOSTNAME, &other, "DoNotSchedule")})),
            3 => {
                // The key is spelt like this where it comes from.
                let letter = dice.one_of(&LETTERS);
                let term = pod_term(ZONE, &json!({"my-affininity": letter}));
                let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
                (labelled("my-affininity", letter), json!({"affinity": affinity}))
            }
            _ => (labelled("app", "nginx"), json!({"affinity": apart(&json!({"app": "nginx"}))})),
        };
        list.push(&pod(&format!("pod-{number}"), size, &labels, &json!({}), &spec))?;
    }
    Ok(())
}

/// Pods that would like a zone, other zones than their siblings (which cannot be), and other nodes (which can).
pub(crate) fn preference(list: &mut List<impl Write>, pods: usize) -> io::Result<()> {
    list.push(&pool())?;
    let siblings = json!({"app": "nginx"});
    let zone = json!({"matchExpressions": [requirement(ZONE, "In", &ZONES[..1])]});
    let affinity = json!({
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": zone}]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "podAffinityTerm": pod_term(ZONE, &siblings)},
            {"weight": 1, "podAffinityTerm": pod_term(HOSTNAME, &siblings)},
        ]},
    });
    let (labels, spec) = (labelled("app", "nginx"), json!({"affinity": affinity}));
    let size = Size { millicores: 100, mebibytes: 4_096 };
    (0..pods).try_for_each(|number| list.push(&pod(&format!("pod-{number}"), size, &labels, &json!({}), &spec)))
}

fn labelled(key: &str, value: &str) -> Value {
    json!({key: value, CLUSTER.0: CLUSTER.1})
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "metadata": {"labels": {CLUSTER.0: CLUSTER.1}},
                "spec": {
                    "requirements": [],
                    "expireAfter": "Never",
                    "nodeClassRef": {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"},
                },
            },
            "disruption": {"consolidateAfter": "Never"},
            "limits": {"cpu": "10M", "memory": "10000000Gi"},
        },
    })
}

/// Type n has n cores, 2n GiB and room for 10n pods; price is 0.1 USD per core and per GB (10⁹), in all zones alike.
pub(crate) fn catalogue() -> Value {
    json!({
        "apiVersion": "muster.dev/v1",
        "kind": "InstanceCatalog",
        "instanceTypes": (1..=TYPES).map(instance_type).collect::<Vec<_>>(),
    })
}

fn instance_type(cores: u32) -> Value {
    let bytes = u64::from(cores) << 31;
    let price = 0.1 * f64::from(cores) + 0.1 * (bytes as f64 / 1e9);
    let (capacity_type, name) = ("karpenter.sh/capacity-type", format!("fake-it-{}", cores - 1));
    // Spot is not sold in the third zone.
    let spot = ZONES[..2].iter().map(|zone| (zone, "spot"));
    let offered = spot.chain(ZONES.iter().map(|zone| (zone, "on-demand")));
    let offerings = offered.map(|(zone, kind)| {
        let requirements = [requirement(ZONE, "In", &[zone]), requirement(capacity_type, "In", &[kind])];
        json!({"requirements": requirements, "price": price, "available": true})
    });
    let is_large = cores > 4;
    let special = if is_large {
        requirement("special", "In", &["optional"])
    } else {
        json!({"key": "special", "operator": "DoesNotExist"})
    };
    json!({
        "name": name,
        "requirements": [
            requirement("integer", "In", &[&cores.to_string()]),
            requirement(capacity_type, "In", &["on-demand", "spot"]),
            requirement("kubernetes.io/arch", "In", &["amd64"]),
            requirement("kubernetes.io/os", "In", &["darwin", "linux", "windows"]),
            requirement("node.kubernetes.io/instance-type", "In", &[&name]),
            requirement("size", "In", &[if is_large { "large" } else { "small" }]),
            special,
            requirement(ZONE, "In", &ZONES),
        ],
        "capacity": {"cpu": cores.to_string(), "memory": bytes.to_string(), "pods": (10 * cores).to_string()},
        "overhead": {"cpu": "100m", "memory": "10Mi"},
        "offerings": offerings.collect::<Vec<_>>(),
    })
}
