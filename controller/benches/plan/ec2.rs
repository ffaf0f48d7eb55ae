//! Workloads on the types of EC2: sizes as they are found in clusters, a few large and many small.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::dice::Dice;
use super::manifests::{List, Size, ZONE, apart, pod, pod_spec, requirement, spread};

const ARCH: &str = "kubernetes.io/arch";
const GPU: &str = "nvidia.com/gpu";
const BATCH: &str = "team.example.com/batch";
/// Sizes without a hypervisor, which take minutes to start.
const METAL: [&str; 7] = ["metal", "metal-12xl", "metal-16xl", "metal-24xl", "metal-32xl", "metal-48xl", "metal-96xl"];

/// A pool of types for general purposes.
pub(crate) fn general_purpose() -> Value {
    general("general", &["amd64"], None, &[])
}

/// A pool of every type.
pub(crate) fn open() -> Value {
    pool("general", &[], None, &[])
}

/// Single pods.
pub(crate) fn lognormal(list: &mut List<impl Write>, dice: &mut Dice, pods: usize, pool: &Value) -> io::Result<()> {
    list.push(pool)?;
    (0..pods).try_for_each(|number| {
        let size = size(dice, 16.0);
        list.push(&pod(&format!("pod-{number}"), size, &json!({}), &json!({}), &json!({})))
    })
}

/// Pods in deployments; `constrained`: half of these spread over zones, 15 % have no two pods on a node.
pub(crate) fn deployments(
    list: &mut List<impl Write>,
    dice: &mut Dice,
    pods: usize,
    pool: &Value,
    constrained: bool,
) -> io::Result<()> {
    list.push(pool)?;
    each_deployment(dice, pods, (2.6, 1.2), |dice, name, replicas| {
        let (size, draw, labels) = (size(dice, 8.0), dice.fraction(), json!({"app": name}));
        let spec = if constrained && draw < 0.5 {
            json!({"topologySpreadConstraints": spread(ZONE, &labels, "DoNotSchedule")})
        } else if constrained && draw < 0.65 && replicas <= 60 {
            json!({"affinity": apart(&labels)})
        } else {
            json!({})
        };
        stamp(list, &Deployment { name, replicas, size, labels: &labels, extended: &json!({}), spec: &spec })?;
        Ok(replicas)
    })
}

/// A company's cluster.
pub(crate) fn fleet(list: &mut List<impl Write>, dice: &mut Dice, pods: usize) -> io::Result<()> {
    let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
    list.push(&general("general", &["amd64", "arm64"], None, &[]))?;
    list.push(&general("batch", &["amd64"], Some(10), &[taint(BATCH)]))?;
    let gpus = [
        requirement("karpenter.k8s.aws/instance-category", "In", &["g"]),
        requirement("karpenter.k8s.aws/instance-size", "NotIn", &METAL),
        requirement(ARCH, "In", &["amd64"]),
    ];
    list.push(&pool("gpu", &gpus, None, &[taint(GPU)]))?;
    for (name, millicores, mebibytes) in [("network", 50, 64), ("logs", 100, 256), ("metrics", 150, 180)] {
        list.push(&daemon_set(name, Size { millicores, mebibytes }))?;
    }
    each_deployment(dice, pods, (2.3, 1.3), |dice, name, mut replicas| {
        let (size, draw, labels) = (size(dice, 8.0), dice.fraction(), json!({"app": name}));
        let tolerates = |key: &str| json!([{"key": key, "operator": "Exists"}]);
        let (mut spec, mut extended) = (json!({}), json!({}));
        if draw < 0.01 {
            replicas = replicas.min(8);
            extended = json!({GPU: "1"});
            spec["tolerations"] = tolerates(GPU);
        } else if draw < 0.21 {
            spec["tolerations"] = tolerates(BATCH);
        } else if draw < 0.66 {
            spec["nodeSelector"] = json!({ARCH: "amd64"});
        }
        if dice.fraction() < 0.4 {
            let policy = dice.one_of(&["DoNotSchedule", "ScheduleAnyway"]);
            spec["topologySpreadConstraints"] = spread(ZONE, &labels, policy);
        }
        if dice.fraction() < 0.1 && replicas <= 40 {
            spec["affinity"] = apart(&labels);
        }
        stamp(list, &Deployment { name, replicas, size, labels: &labels, extended: &extended, spec: &spec })?;
        Ok(replicas)
    })
}

/// Calls `make` with names and numbers of replicas (log-normal) until there are `pods`; `make` says how many it made.
fn each_deployment(
    dice: &mut Dice,
    pods: usize,
    (mean, deviation): (f64, f64),
    mut make: impl FnMut(&mut Dice, &str, usize) -> io::Result<usize>,
) -> io::Result<()> {
    let (mut made, mut number) = (0, 0);
    while made < pods {
        let drawn = dice.lognormal(mean, deviation).round().max(1.0) as usize;
        made += make(dice, &format!("app-{number}"), drawn.min(pods - made))?;
        number += 1;
    }
    Ok(())
}

/// Pods that differ in their names only.
struct Deployment<'a> {
    name: &'a str,
    replicas: usize,
    size: Size,
    labels: &'a Value,
    /// Requests of extended resources.
    extended: &'a Value,
    spec: &'a Value,
}

fn stamp(list: &mut List<impl Write>, deployment: &Deployment<'_>) -> io::Result<()> {
    let Deployment { name, replicas, size, labels, extended, spec } = *deployment;
    (0..replicas).try_for_each(|replica| list.push(&pod(&format!("{name}-{replica}"), size, labels, extended, spec)))
}

/// A median of 0.4 cores and 1 GiB, at most `cores` cores and 64 GiB; memory in steps of 64 MiB.
fn size(dice: &mut Dice, cores: f64) -> Size {
    let cores = ((dice.lognormal(-0.9, 1.0) * 100.0).round() / 100.0).clamp(0.05, cores);
    let mebibytes = ((dice.lognormal(6.9, 1.0) / 64.0).round() * 64.0).clamp(64.0, 65_536.0);
    Size { millicores: (cores * 1_000.0).round() as u32, mebibytes: mebibytes as u32 }
}

fn general(name: &str, architectures: &[&str], weight: Option<u32>, taints: &[Value]) -> Value {
    let requirements = [
        requirement("karpenter.k8s.aws/instance-category", "In", &["c", "m", "r"]),
        requirement("karpenter.k8s.aws/instance-generation", "Gt", &["2"]),
        requirement("karpenter.k8s.aws/instance-size", "NotIn", &METAL),
        requirement(ARCH, "In", architectures),
        requirement("karpenter.sh/capacity-type", "In", &["on-demand"]),
    ];
    pool(name, &requirements, weight, taints)
}

pub(crate) fn pool(name: &str, requirements: &[Value], weight: Option<u32>, taints: &[Value]) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "requirements": requirements,
                "expireAfter": "Never",
                "taints": taints,
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }},
            "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
        },
    });
    if let Some(weight) = weight {
        pool["spec"]["weight"] = weight.into();
    }
    pool
}

fn daemon_set(name: &str, size: Size) -> Value {
    let (labels, everywhere) = (json!({"app": name}), json!({"tolerations": [{"operator": "Exists"}]}));
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(size, &json!({}), &everywhere)},
        },
    })
}
