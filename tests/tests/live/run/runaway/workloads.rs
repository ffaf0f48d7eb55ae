//! What the worlds consist of: a NodePool and a Deployment for each, and what some need besides.

use serde_json::{Value, json};

use super::difference::Difference;
use super::meddler::{SCHEDULER, WORLD};

/// Label of the nodes of a pool that its pod selects.
pub(super) const TIER: &str = "example.com/tier";
/// Label of nodes that no pod of these worlds takes.
pub(super) const BAD: &str = "example.com/bad";
/// Label of the nodes of a pool that its pods are spread over.
pub(super) const RACK: &str = "example.com/rack";
/// Label of pods that others avoid.
pub(super) const NOISY: &str = "example.com/noisy";
/// An extended resource, of which each node of [`types`] has two.
pub(super) const DEVICE: &str = "example.com/device";
/// Huge pages, of which each node of [`types`] has 64 MiB.
pub(super) const HUGE_PAGES: &str = "hugepages-2Mi";
/// Label of the zone of a node.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of the architecture of a node.
pub(super) const ARCHITECTURE: &str = "kubernetes.io/arch";
/// Host port of a pod.
pub(super) const PORT: u16 = 8080;
/// Driver of a volume.
pub(super) const DRIVER: &str = "disk.example.com";
/// Finalizer that keeps a pod.
const KEPT: &str = "example.com/kept";
/// Class of pods with a higher priority.
pub(super) const URGENT: &str = "urgent";
/// RuntimeClass with an overhead of three CPUs.
const HEAVY: &str = "heavy";
/// StorageClass whose volumes are never made.
const NEVER: &str = "never";
/// DaemonSets and the LimitRange for them, which are in a namespace of their own.
pub(super) const AGENTS: &str = "agents";

/// The pool of a world.
pub(super) fn pool(world: Difference) -> Value {
    let requirements = json!([
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4", "8"]},
    ]);
    let reference = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let mut labels = json!({WORLD: world.name()});
    match world {
        Difference::LabelLost => labels[TIER] = json!("one"),
        Difference::RackLost => labels[RACK] = json!("one"),
        _ => {}
    }
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": world.name()},
        "spec": {
            "template": {
                "metadata": {"labels": labels}, "spec": {"nodeClassRef": reference, "requirements": requirements},
            },
            "disruption": {"consolidateAfter": "Never"},
        },
    })
}

/// The Deployment of a world.
pub(super) fn deployment(world: Difference) -> Value {
    let labels = json!({"app": world.name()});
    let replicas = if world == Difference::Quota { 5 } else { 1 };
    let mut metadata = json!({"labels": labels});
    if world == Difference::Terminating {
        metadata["finalizers"] = json!([KEPT]);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": world.name(), "namespace": world.namespace()},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": pod(world)},
        },
    })
}

/// The pods of a world, which ask for nearly two CPUs.
fn pod(world: Difference) -> Value {
    let requests = json!({"cpu": "1800m", "memory": "100Mi"});
    let mut spec = json!({
        "nodeSelector": {WORLD: world.name()},
        "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
    });
    let disk = |claim: &str| json!([{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}]);
    let mut asks_for = |resource: &str, amount: &str| {
        let resources = &mut spec["containers"][0]["resources"];
        resources["requests"][resource] = json!(amount);
        resources["limits"][resource] = json!(amount);
    };
    match world {
        Difference::FewDevices | Difference::NoDevices => asks_for(DEVICE, "2"),
        Difference::HugePages => asks_for(HUGE_PAGES, "64Mi"),
        Difference::Scheduler | Difference::SlowScheduler => spec["schedulerName"] = json!(SCHEDULER),
        Difference::LabelLost => spec["nodeSelector"][TIER] = json!("one"),
        Difference::Architecture => spec["nodeSelector"][ARCHITECTURE] = json!("amd64"),
        Difference::LabelAdded => {
            let terms = json!([{"matchExpressions": [{"key": BAD, "operator": "DoesNotExist"}]}]);
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        }
        Difference::Neighbour => {
            let term =
                json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {NOISY: "true"}}});
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        Difference::RackLost => {
            let selector = json!({"matchLabels": {"app": world.name()}});
            spec["topologySpreadConstraints"] = json!([
                {"topologyKey": RACK, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector},
            ]);
        }
        Difference::HostPort => spec["containers"][0]["ports"] = json!([{"containerPort": PORT, "hostPort": PORT}]),
        Difference::Volumes => spec["volumes"] = disk("disk"),
        Difference::Zone => spec["volumes"] = disk("zonal"),
        Difference::NoVolume => spec["volumes"] = disk(NEVER),
        Difference::Gated => spec["schedulingGates"] = json!([{"name": "example.com/gate"}]),
        Difference::PodOverhead => spec["runtimeClassName"] = json!(HEAVY),
        _ => {}
    }
    spec
}

/// Daemons of a world, with these fields of their pods.
fn daemons(world: Difference, namespace: &str, fields: &Value) -> Value {
    let labels = json!({"daemons": world.name()});
    let mut spec = json!({"nodeSelector": {WORLD: world.name()}, "containers": [{"name": "main", "image": "none"}]});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let name = format!("daemons-{}", world.name());
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    })
}

fn container(cpu: &str) -> Value {
    json!([{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}])
}

/// A volume that is bound already, and can be attached in that zone only or in any.
fn volume(name: &str, zone: Option<&str>) -> [Value; 2] {
    let capacity = json!({"storage": "1Gi"});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name});
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": capacity, "accessModes": ["ReadWriteOnce"], "csi": {"driver": DRIVER, "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": name},
        },
    });
    if let Some(zone) = zone {
        let term = json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]});
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [term]}});
    }
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    });
    claim["spec"]["resources"] = json!({"requests": capacity});
    [volume, claim]
}

fn heavy_class() -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": HEAVY}, "handler": HEAVY,
        "overhead": {"podFixed": {"cpu": "3"}},
    })
}

/// A volume that can be attached anywhere.
pub(super) fn of_more_worlds() -> Vec<Value> {
    volume("disk", None).into()
}

/// Daemons that ask for little, and get three CPUs more: by their RuntimeClass, or a container when they are admitted.
pub(super) fn of_worlds() -> Vec<Value> {
    let (overhead, sidecar) = (Difference::Overhead, Difference::Sidecar);
    let fields = json!({"runtimeClassName": HEAVY, "containers": container("100m")});
    let mut all = vec![heavy_class(), daemons(overhead, "default", &fields)];
    all.extend(super::admission::sidecar("daemons", sidecar));
    all.push(daemons(sidecar, "default", &json!({"containers": container("100m")})));
    all
}

/// A volume of the first zone.
pub(super) fn of_other_worlds() -> Vec<Value> {
    volume("zonal", Some("test-zone-a")).into()
}

/// What the rough worlds need, of which some is changed when the first node is there.
pub(super) fn of_rough_worlds() -> Vec<Value> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let quota = Difference::Quota.namespace();
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": NEVER},
        "provisioner": "never.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": NEVER, "resources": {"requests": {"storage": "1Gi"}},
    });
    let mut all = vec![
        namespace(quota),
        namespace(Difference::Terminating.namespace()),
        namespace(AGENTS),
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods", "namespace": quota},
            "spec": {"hard": {"pods": "1"}},
        }),
        class,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": NEVER, "namespace": "default"},
            "spec": spec,
        }),
        heavy_class(),
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": URGENT}, "value": 1000,
        }),
        limit_range("100m"),
        // It comes once the node is initialized, long after the LimitRange has changed.
        daemons(
            Difference::LateDefaults,
            AGENTS,
            &json!({
                "tolerations": [{"operator": "Exists"}],
                "nodeSelector": {WORLD: Difference::LateDefaults.name(), "karpenter.sh/initialized": "true"},
            }),
        ),
    ];
    all.extend(super::admission::sidecar("app", Difference::PodSidecar));
    all.extend(super::admission::no_binding(Difference::BindingRefused));
    all
}

/// The LimitRange from which daemons have their requests.
pub(super) fn limit_range(cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults", "namespace": AGENTS},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": cpu}}]},
    })
}

/// Daemons that nobody knew of.
pub(super) fn late_daemons() -> Value {
    let fields = json!({"tolerations": [{"operator": "Exists"}], "containers": container("3")});
    daemons(Difference::LateDaemons, AGENTS, &fields)
}

/// The file of instance types: two sizes with devices and huge pages.
pub(super) fn types() -> Value {
    let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let one = |cpus: u32| {
        let offering = |zone: &str| {
            let requirements = [requirement("karpenter.sh/capacity-type", "on-demand"), requirement(ZONE, zone)];
            json!({"Price": 0.05 * f64::from(cpus), "Available": true, "Requirements": requirements})
        };
        let resources = json!({
            "cpu": cpus.to_string(), "memory": format!("{}Gi", 2 * cpus), "ephemeral-storage": "20Gi", "pods": "110",
            DEVICE: "2", HUGE_PAGES: "64Mi",
        });
        json!({
            "name": format!("c-{cpus}x-amd64-linux"), "architecture": "amd64", "operatingSystems": ["linux"],
            "offerings": [offering("test-zone-a"), offering("test-zone-b")], "resources": resources,
        })
    };
    json!([one(4), one(8)])
}
