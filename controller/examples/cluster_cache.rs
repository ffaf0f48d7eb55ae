//! Cost of the cache of a cluster: bytes for each pod, Node and NodeClaim, and time for each thing that happens to a
//! pod.
//!
//! ```sh
//! cargo run --release -p muster-controller --example cluster_cache -- 20000
//! ```
//!
//! The pods are made here, as an API server writes those of a Deployment: with `managedFields`, volumes and statuses.
//! Memory is what the process has more of; time is CPU time. Both from `/proc`, so on Linux only.

use std::process::ExitCode;

use muster_stages::state::{Cluster, Kind};
use serde_json::json;

/// The life of a pod as a watch tells it.
const CHAPTERS: [Chapter; 4] = [Chapter::Created, Chapter::Marked, Chapter::Bound, Chapter::Running];

#[derive(Clone, Copy)]
enum Chapter {
    Created,
    Marked,
    Bound,
    Running,
}

/// As many as fit on the largest node of a usual pool.
const PODS_A_NODE: usize = 17;

fn main() -> ExitCode {
    let count = std::env::args().nth(1).map_or(Ok(20_000), |text| text.parse());
    let Ok(count) = count else {
        report("error: the argument must be a number of pods\n\nhint: `… --example cluster_cache -- 20000`");
        return ExitCode::from(2);
    };
    let mut cluster = Cluster::default();
    // Once, so that what is made once is not counted.
    cluster.apply(Kind::Pod, &pod(count, Chapter::Created));
    let before = resident();
    // The texts are made before the clock starts, a hundred pods at a time.
    let mut spent = 0.0;
    for from in (0..count).step_by(100) {
        for chapter in CHAPTERS {
            let texts: Vec<String> = (from..(from + 100).min(count)).map(|number| pod(number, chapter)).collect();
            let start = cpu();
            for text in &texts {
                cluster.apply(Kind::Pod, text);
            }
            spent += cpu() - start;
        }
    }
    let held = resident().saturating_sub(before);
    let (events, bytes) = (count * CHAPTERS.len(), pod(0, Chapter::Running).len());
    let copies = 20;
    let start = cpu();
    for _ in 0..copies {
        drop(cluster.manifests());
    }
    let copy = (cpu() - start) / f64::from(copies);
    let before = resident();
    let nodes = count.div_ceil(PODS_A_NODE);
    for number in 0..nodes {
        cluster.apply(Kind::Node, &node(number));
        cluster.apply(Kind::NodeClaim, &claim(number));
    }
    let of_nodes = resident().saturating_sub(before);
    report(&format!(
        "{count} pods of {bytes} bytes of text\n\
         {} bytes of memory for each\n\
         {:.1} us for each of {events} events\n\
         {:.1} ms for all of them as manifests\n\
         {} bytes of memory for each of {nodes} Nodes with its NodeClaim",
        held / count.max(1),
        spent * 1e6 / (events.max(1) as f64),
        copy * 1e3,
        of_nodes / nodes.max(1),
    ));
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, reason = "what an example has to say")]
fn report(text: &str) {
    println!("{text}");
}

/// Bytes of memory that the process has.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes =
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<usize>().ok());
    kibibytes.unwrap_or_default() * 1024
}

/// Seconds of CPU time that the process has taken.
fn cpu() -> f64 {
    // Nanoseconds on a CPU come first.
    let schedule = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = schedule.split_whitespace().next().and_then(|number| number.parse::<f64>().ok());
    nanoseconds.unwrap_or_default() / 1e9
}

/// A pod of a Deployment of ten thousand, as the API server writes it.
fn pod(number: usize, chapter: Chapter) -> String {
    let stage = chapter as usize;
    let fields = json!({"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}},
        "f:ownerReferences": {".": {}, "k:{\"uid\":\"6fb8d6a2-1c51-4f0f-8d9c-0c2a4e3f6b11\"}": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
        "f:resources": {".": {}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}}, "f:terminationMessagePath": {},
        "f:terminationMessagePolicy": {}}}, "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {},
        "f:schedulerName": {}, "f:securityContext": {}, "f:terminationGracePeriodSeconds": {}}});
    let mut conditions = vec![json!({"type": "PodScheduled", "status": if stage < 2 { "False" } else { "True" },
        "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:01Z", "observedGeneration": 1,
        "reason": if stage == 1 { "Unschedulable" } else { "" },
        "message": if stage == 1 { "0/298 nodes are available: 298 Insufficient cpu. preemption: not eligible" } else { "" }})];
    if stage == 3 {
        conditions.extend(["Initialized", "Ready", "ContainersReady"].map(|kind| {
            json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:09Z"})
        }));
    }
    let tolerations = ["not-ready", "unreachable"].map(|key| {
        let key = format!("node.kubernetes.io/{key}");
        json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    });
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{}-5d8f7c9b6d-{number:05}", number / 10_000), "namespace": "production",
            "generateName": "web-5d8f7c9b6d-", "generation": 1,
            "uid": format!("0a6b2f9c-7d1e-4c55-9e0a-{number:012x}"), "resourceVersion": (1000 + 4 * number + stage).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "5d8f7c9b6d"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f7c9b6d", "controller": true,
                                 "blockOwnerDeletion": true, "uid": "6fb8d6a2-1c51-4f0f-8d9c-0c2a4e3f6b11"}],
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                 "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields},
                {"manager": "kube-scheduler", "operation": "Update", "apiVersion": "v1", "subresource": "status",
                 "time": "2026-01-01T00:00:01Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:conditions": {}}}},
            ],
        },
        "spec": {
            "containers": [{
                "name": "web", "image": "registry.example/web:1.2.3", "imagePullPolicy": "IfNotPresent",
                "env": [{"name": "MODE", "value": "production"}],
                "resources": {"requests": {"cpu": "900m", "memory": "3100Mi"}},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "volumeMounts": [{"name": "kube-api-access-x2x7q", "readOnly": true,
                                  "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            }],
            "volumes": [{"name": "kube-api-access-x2x7q", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace",
                                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
            ]}}],
            "tolerations": tolerations,
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "priority": 0,
            "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "securityContext": {},
            "serviceAccount": "default", "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
        },
        "status": {"phase": if stage == 3 { "Running" } else { "Pending" }, "qosClass": "Burstable", "conditions": conditions},
    });
    if stage >= 2 {
        pod["spec"]["nodeName"] = node_name(number / PODS_A_NODE).into();
    }
    if stage == 3 {
        pod["status"]["startTime"] = "2026-01-01T00:00:05Z".into();
        pod["status"]["podIP"] = "10.0.1.2".into();
        pod["status"]["containerStatuses"] = json!([{
            "name": "web", "ready": true, "started": true, "restartCount": 0, "image": "registry.example/web:1.2.3",
            "imageID": "registry.example/web@sha256:7a1d", "containerID": "containerd://c0ffee", "lastState": {},
            "state": {"running": {"startedAt": "2026-01-01T00:00:08Z"}},
            "allocatedResources": {"cpu": "900m", "memory": "3100Mi"},
            "resources": {"requests": {"cpu": "900m", "memory": "3100Mi"}},
        }]);
    }
    pod.to_string()
}

fn node_name(number: usize) -> String {
    format!("ip-10-0-{}-{}.eu-west-1.compute.internal", number / 200, number % 200)
}

fn provider_id(number: usize) -> String {
    format!("aws:///eu-west-1a/i-{number:017x}")
}

/// Labels that a node of EKS has when it is registered.
fn labels(number: usize) -> serde_json::Value {
    json!({
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/instance-type": "m7i.4xlarge",
        "beta.kubernetes.io/os": "linux", "failure-domain.beta.kubernetes.io/region": "eu-west-1",
        "failure-domain.beta.kubernetes.io/zone": "eu-west-1a", "k8s.io/cloud-provider-aws": "0123456789abcdef",
        "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.k8s.aws/instance-category": "m",
        "karpenter.k8s.aws/instance-cpu": "16", "karpenter.k8s.aws/instance-cpu-manufacturer": "intel",
        "karpenter.k8s.aws/instance-ebs-bandwidth": "10000", "karpenter.k8s.aws/instance-family": "m7i",
        "karpenter.k8s.aws/instance-generation": "7", "karpenter.k8s.aws/instance-hypervisor": "nitro",
        "karpenter.k8s.aws/instance-memory": "65536", "karpenter.k8s.aws/instance-network-bandwidth": "6250",
        "karpenter.k8s.aws/instance-size": "4xlarge", "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/initialized": "true", "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true",
        "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": node_name(number), "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m7i.4xlarge", "topology.k8s.aws/zone-id": "euw1-az1",
        "topology.kubernetes.io/region": "eu-west-1", "topology.kubernetes.io/zone": "eu-west-1a",
    })
}

fn node(number: usize) -> String {
    let room = json!({"cpu": "16", "memory": "64458Mi", "pods": "234", "ephemeral-storage": "83873772Ki",
                      "hugepages-1Gi": "0", "hugepages-2Mi": "0"});
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(|kind| {
        json!({"type": kind, "status": if kind == "Ready" { "True" } else { "False" }, "reason": format!("KubeletHas{kind}"),
               "message": "kubelet has what it needs", "lastHeartbeatTime": "2026-01-01T00:05:00Z",
               "lastTransitionTime": "2026-01-01T00:00:20Z"})
    });
    let images: Vec<_> =
        (0..50).map(|image| json!({"names": [format!("registry.example/{image}")], "sizeBytes": 1})).collect();
    let addresses =
        json!([{"type": "InternalIP", "address": "10.0.1.2"}, {"type": "Hostname", "address": node_name(number)}]);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": node_name(number), "uid": format!("0a6b2f9c-7d1e-4c55-9e0b-{number:012x}"), "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels(number),
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": "{}"},
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {"providerID": provider_id(number), "podCIDR": "10.1.0.0/24"},
        "status": {"capacity": room, "allocatable": room, "conditions": conditions, "images": images, "addresses": addresses,
                   "nodeInfo": {"architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "containerd://2.1.4",
                                "kernelVersion": "6.12.40", "kubeProxyVersion": "", "kubeletVersion": "v1.34.1",
                                "machineID": "m", "operatingSystem": "linux", "osImage": "Amazon Linux 2023", "systemUUID": "s"}},
    });
    node.to_string()
}

fn claim(number: usize) -> String {
    let types: Vec<String> = (0..60).map(|kind| format!("m7i-{kind}.4xlarge")).collect();
    let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(|kind| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:20Z"})
    });
    let room = json!({"cpu": "16", "memory": "64458Mi", "pods": "234", "ephemeral-storage": "83873772Ki"});
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": format!("default-{number:05x}"), "uid": format!("0a6b2f9c-7d1e-4c55-9e0c-{number:012x}"),
            "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels(number),
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "expireAfter": "720h", "resources": {"requests": {"cpu": "15300m", "memory": "52700Mi", "pods": "17"}},
        },
        "status": {"nodeName": node_name(number), "providerID": provider_id(number), "capacity": room, "allocatable": room,
                   "conditions": conditions},
    });
    claim.to_string()
}
