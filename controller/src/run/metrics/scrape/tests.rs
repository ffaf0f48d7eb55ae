use muster_stages::state::Kind;
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_800_000_000;

fn node(number: usize) -> String {
    let labels = json!({
        "karpenter.sh/nodepool": "general", "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m7i.xlarge", "topology.kubernetes.io/zone": "a",
        "topology.kubernetes.io/region": "r", "karpenter.k8s.aws/instance-cpu": "4", "example.com/other": "x",
    });
    let amounts = |cpu: &str| json!({"cpu": cpu, "memory": "16Gi", "pods": "58", "ephemeral-storage": "20Gi"});
    let conditions: Vec<Value> = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .into_iter()
        .map(
            |kind| json!({"type": kind, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}),
        )
        .collect();
    json!({
        "metadata": {"name": format!("node-{number:04}"), "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"providerID": format!("kwok://node-{number:04}")},
        "status": {"capacity": amounts("4"), "allocatable": amounts("3900m"), "conditions": conditions},
    })
    .to_string()
}

fn claim(number: usize) -> String {
    let kinds = ["Launched", "Registered", "Initialized", "Ready", "Consolidatable"];
    let conditions: Vec<Value> = kinds
        .into_iter()
        .map(|kind| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}))
        .collect();
    json!({
        "metadata": {"name": format!("general-{number:04}"), "labels": {"karpenter.sh/nodepool": "general"}},
        "spec": {"nodeClassRef": {"group": "g", "kind": "KWOKNodeClass", "name": "default"}, "requirements": []},
        "status": {"providerID": format!("kwok://node-{number:04}"), "conditions": conditions},
    })
    .to_string()
}

fn pod(namespace: &str, number: usize, node: Option<usize>, owner: &str) -> String {
    let resources = json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}});
    json!({
        "metadata": {
            "name": format!("pod-{number:05}"), "namespace": namespace, "uid": format!("{namespace}-{number}"),
            "ownerReferences": [{"kind": owner, "name": "web", "controller": true, "apiVersion": "apps/v1", "uid": "1"}],
        },
        "spec": {
            "nodeName": node.map(|node| format!("node-{node:04}")),
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
        "status": {"phase": if node.is_some() { "Running" } else { "Pending" }},
    })
    .to_string()
}

fn text(cluster: &Cluster) -> (String, LeftOut) {
    let (times, offers) = (BTreeMap::new(), BTreeMap::new());
    let now = Timestamp::from_second(NOW).unwrap();
    let mut page = Page::default();
    let left_out = Scrape { cluster, times: &times, offers: &offers, now }.write(&mut page);
    (page.text(), left_out)
}

#[test]
fn a_node_has_its_resources_and_those_of_its_pods() {
    let mut cluster = Cluster::default();
    cluster.apply(Kind::Node, &node(1));
    cluster.apply(Kind::NodeClaim, &claim(1));
    cluster.apply(Kind::Pod, &pod("x", 1, Some(1), "ReplicaSet"));
    cluster.apply(Kind::Pod, &pod("x", 2, Some(1), "DaemonSet"));
    cluster.apply(Kind::Pod, &pod("x", 3, None, "ReplicaSet"));
    let (text, left_out) = text(&cluster);
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    insta::assert_snapshot!(samples.join("\n"));
    assert!(left_out.is_empty());
}

#[test]
fn the_labels_of_samples_are_those_that_are_documented() {
    let mut cluster = Cluster::default();
    cluster.apply(Kind::Node, &node(1));
    cluster.apply(Kind::Pod, &pod("x", 1, Some(1), "ReplicaSet"));
    let (text, _) = text(&cluster);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('{').unwrap();
        let known = crate::run::metrics::catalogue::CHAPTERS.iter().flat_map(|chapter| chapter.metrics);
        let metric = known.into_iter().find(|metric| metric.name == name).unwrap();
        for label in
            rest.split("=\"").filter_map(|part| part.rsplit([',', '{']).next()).filter(|name| !name.contains('"'))
        {
            assert!(metric.labels.contains(&label), "{name}: `{label}`");
        }
    }
}

#[test]
fn where_there_are_too_many_pods_each_namespace_has_its_share() {
    let mut cluster = Cluster::default();
    for number in 0..26_000 {
        cluster.apply(Kind::Pod, &pod("crowd", number, None, "ReplicaSet"));
    }
    for number in 0..10 {
        cluster.apply(Kind::Pod, &pod("other", number, None, "ReplicaSet"));
    }
    let (text, left_out) = text(&cluster);
    let states = |namespace: &str| {
        let label = format!("namespace=\"{namespace}\"");
        text.lines().filter(|line| line.starts_with("karpenter_pods_state{") && line.contains(&label)).count()
    };
    assert_eq!((states("crowd"), states("other")), (24_990, 10));
    assert_eq!(left_out[names::PODS_STATE.name], 1010);
}

#[test]
fn two_thousand_nodes_and_twenty_thousand_pods_are_written_in_bounded_size() {
    let mut cluster = Cluster::default();
    for number in 0..2000 {
        cluster.apply(Kind::Node, &node(number));
        cluster.apply(Kind::NodeClaim, &claim(number));
    }
    for number in 0..20_000 {
        cluster.apply(Kind::Pod, &pod("x", number, Some(number % 2000), "ReplicaSet"));
    }
    let (text, left_out) = text(&cluster);
    let lines = text.lines().count();
    assert!(left_out.is_empty());
    assert!((80_000..130_000).contains(&lines), "{lines}");
    assert!(text.len() < 40_000_000, "{}", text.len());
}

/// A node with the labels of an instance of EC2, and its page sizes.
fn ec2_node(number: usize) -> String {
    let mut node: Value = serde_json::from_str(&node(number)).unwrap();
    node["metadata"]["name"] = json!(format!("ip-10-0-{}-{}.ec2.internal", number / 256, number % 256));
    let labels = [
        ("capability-flex", "false"),
        ("category", "m"),
        ("cpu", "8"),
        ("cpu-manufacturer", "intel"),
        ("cpu-sustained-clock-speed-mhz", "3200"),
        ("ebs-bandwidth", "10000"),
        ("encryption-in-transit-supported", "true"),
        ("family", "m7i"),
        ("generation", "7"),
        ("hypervisor", "nitro"),
        ("memory", "32768"),
        ("network-bandwidth", "3125"),
        ("size", "2xlarge"),
        ("tenancy", "default"),
    ];
    for (name, value) in labels {
        node["metadata"]["labels"][format!("karpenter.k8s.aws/instance-{name}")] = json!(value);
    }
    node["metadata"]["labels"]["topology.k8s.aws/zone-id"] = json!("use1-az1");
    for pages in ["hugepages-1Gi", "hugepages-2Mi"] {
        node["status"]["capacity"][pages] = json!("0");
        node["status"]["allocatable"][pages] = json!("0");
    }
    node.to_string()
}

/// CPU time of this thread.
fn cpu() -> std::time::Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    std::time::Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
#[ignore = "scale: its figures are those of an optimised program"]
fn scrape_of_two_thousand_nodes_and_twenty_thousand_pods_is_cheap() {
    let mut cluster = Cluster::default();
    for number in 0..2000 {
        cluster.apply(Kind::Node, &ec2_node(number));
        cluster.apply(Kind::NodeClaim, &claim(number));
    }
    for number in 0..20_000 {
        let mut pod: Value = serde_json::from_str(&pod("x", number, None, "ReplicaSet")).unwrap();
        let node = number % 2000;
        pod["spec"]["nodeName"] = json!(format!("ip-10-0-{}-{}.ec2.internal", node / 256, node % 256));
        cluster.apply(Kind::Pod, &pod.to_string());
    }
    let mut best = None;
    for _ in 0..5 {
        let begun = cpu();
        let (text, left_out) = text(&cluster);
        let written = cpu() - begun;
        let compressed = crate::run::serve::compress(text.as_bytes()).unwrap();
        let whole = cpu() - begun;
        println!(
            "{} series, {:.1} MB in {written:?}; with gzip {:.2} MB in {whole:?}",
            text.lines().filter(|line| !line.starts_with('#')).count(),
            text.len() as f64 / 1e6,
            compressed.len() as f64 / 1e6,
        );
        assert!(left_out.is_empty() && compressed.len() <= 20_000_000);
        best = best.min(Some(whole)).or(Some(whole));
    }
    assert!(best.unwrap() <= std::time::Duration::from_millis(100), "{best:?}");
}
