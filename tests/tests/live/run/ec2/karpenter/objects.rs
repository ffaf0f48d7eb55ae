//! Objects that Karpenter has written into the cluster.

use kube::ResourceExt;
use kube::core::DynamicObject;
use muster_tests::ec2::Instance;
use serde_json::{Value, json};

use super::super::ground::{Ground, requirements};
use super::{CLASS_HASH, Group, Installation, PROFILE, Release, SINCE};

/// Fields of the class beside those that every test has.
pub(super) fn class_spec(own: &Installation) -> Value {
    let mut spec = json!({"capacityReservationSelectorTerms": [{ "id": own.reservation }]});
    if own.release == Release::V1_15 {
        // A field that 1.14 does not know.
        spec["kubelet"] = json!({"singleProcessOOMKill": true});
    }
    spec
}

pub(super) fn class_annotations(release: Release) -> Value {
    json!({
        "karpenter.k8s.aws/ec2nodeclass-hash": CLASS_HASH,
        "karpenter.k8s.aws/ec2nodeclass-hash-version": release.class_hash_version(),
    })
}

pub(super) fn class_status(own: &Installation, ground: &Ground, generation: Option<i64>) -> Value {
    let subnet = |(zone, id): (&String, &String)| json!({"id": id, "zone": zone, "zoneID": ground.zone_ids[zone]});
    let kinds = [
        "AMIsReady",
        "CapacityReservationsReady",
        "InstanceProfileReady",
        "PlacementGroupReady",
        "SecurityGroupsReady",
        "SubnetsReady",
        "ValidationSucceeded",
        "Ready",
    ];
    json!({
        "subnets": ground.subnets.iter().map(subnet).collect::<Vec<_>>(),
        "securityGroups": [{"id": own.security_group, "name": "default"}],
        "amis": own.images.status,
        "instanceProfile": PROFILE,
        "capacityReservations": [{
            "id": own.reservation, "availabilityZone": "us-east-1a", "instanceMatchCriteria": "targeted",
            "instanceType": "m5.large", "ownerID": ground.ec2.account(), "reservationType": "default",
            "interruptible": false, "state": "active",
        }],
        "conditions": conditions(&kinds, generation),
    })
}

/// All of them are true.
fn conditions(kinds: &[&str], generation: Option<i64>) -> Vec<Value> {
    let told = |kind: &&str| {
        json!({
            "type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": SINCE,
            "observedGeneration": generation,
        })
    };
    kinds.iter().map(told).collect()
}

fn capacity_types(group: &Group) -> Vec<&'static str> {
    match group.paid {
        // Where the reservation is full, on demand is bought.
        "reserved" => vec!["on-demand", "reserved"],
        paid => vec![paid],
    }
}

pub(super) fn pool(release: Release, group: &Group) -> Value {
    let types: &[&str] = if group.instance_type == "m5.large" { &["m5.large"] } else { &["m5.large", "m5.xlarge"] };
    let mut spec = json!({
        "template": {"metadata": {"labels": {"team": group.pool}}, "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": requirements(types, &["us-east-1a", "us-east-1b"], &capacity_types(group)),
            "expireAfter": "720h",
        }},
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
            "budgets": [{"nodes": "100%"}],
        },
    });
    if group.is_static {
        spec["replicas"] = json!(group.nodes.iter().sum::<usize>());
    }
    if release == Release::V1_15 {
        // What 1.14 does not know: a reason, and an interval that is left out.
        spec["disruption"]["budgets"] = json!([{"nodes": "100%"}, {"nodes": "50%", "reasons": ["Unhealthy"]}]);
        spec["disruption"].as_object_mut().unwrap().remove("consolidateAfter");
    }
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": group.pool}, "spec": spec,
    })
}

pub(super) fn pool_status(group: &Group, generation: Option<i64>) -> Value {
    let nodes: usize = group.nodes.iter().sum();
    let kinds = ["NodeClassReady", "NodeRegistrationHealthy", "ValidationSucceeded", "Ready"];
    json!({
        "nodes": nodes, "resources": {"nodes": nodes.to_string()}, "nodeClassObservedGeneration": 1,
        "conditions": conditions(&kinds, generation),
    })
}

/// Labels of a claim, and of its Node.
fn labels(own: &Installation, ground: &Ground, group: &Group, zone: &str) -> Value {
    let (size, cpus, memory, network) = match group.instance_type {
        "m5.large" => ("large", "2", "8192", "750"),
        _ => ("xlarge", "4", "16384", "1250"),
    };
    let mut labels = json!({
        "team": group.pool,
        "karpenter.sh/nodepool": group.pool,
        "karpenter.sh/capacity-type": group.paid,
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.k8s.aws/instance-capability-flex": "false",
        "karpenter.k8s.aws/instance-category": "m",
        "karpenter.k8s.aws/instance-cpu": cpus,
        "karpenter.k8s.aws/instance-cpu-manufacturer": "intel",
        "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz": "3100",
        "karpenter.k8s.aws/instance-ebs-bandwidth": "4750",
        "karpenter.k8s.aws/instance-encryption-in-transit-supported": "false",
        "karpenter.k8s.aws/instance-family": "m5",
        "karpenter.k8s.aws/instance-generation": "5",
        "karpenter.k8s.aws/instance-hypervisor": "nitro",
        "karpenter.k8s.aws/instance-memory": memory,
        "karpenter.k8s.aws/instance-network-bandwidth": network,
        "karpenter.k8s.aws/instance-size": size,
        "karpenter.k8s.aws/instance-tenancy": "default",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": group.instance_type,
        "topology.k8s.aws/zone-id": ground.zone_ids[zone],
        "topology.kubernetes.io/region": "us-east-1",
        "topology.kubernetes.io/zone": zone,
    });
    if group.paid == "reserved" {
        labels["karpenter.k8s.aws/capacity-reservation-id"] = json!(own.reservation);
        labels["karpenter.k8s.aws/capacity-reservation-type"] = json!("default");
        labels["karpenter.k8s.aws/capacity-reservation-interruptible"] = json!("false");
    }
    labels
}

/// A claim before its status is written.
pub(super) fn claim(
    own: &Installation,
    ground: &Ground,
    group: &Group,
    (name, pool): (&str, &DynamicObject),
    instance: &Instance,
) -> Value {
    let mut annotations = class_annotations(own.release);
    for (key, value) in [
        ("compatibility.karpenter.k8s.aws/cluster-name-tagged", "true"),
        ("karpenter.k8s.aws/instance-profile-name", PROFILE),
        ("karpenter.k8s.aws/tagged", "true"),
        ("karpenter.sh/nodeclaim-min-values-relaxed", "false"),
        ("karpenter.sh/nodepool-hash", &*super::hash_of(pool)),
        ("karpenter.sh/nodepool-hash-version", "v3"),
    ] {
        annotations[key] = json!(value);
    }
    let mut wanted = requirements(&[group.instance_type], &["us-east-1a", "us-east-1b"], &capacity_types(group));
    let of_pool = json!({"key": "karpenter.sh/nodepool", "operator": "In", "values": [group.pool]});
    wanted.as_array_mut().unwrap().push(of_pool);
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "generateName": format!("{}-", group.pool), "annotations": annotations,
            "labels": labels(own, ground, group, &instance.zone), "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": group.pool,
                "uid": pool.uid().unwrap(), "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "expireAfter": "720h", "requirements": wanted,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "resources": {"requests": {"cpu": "1500m", "memory": "3Gi", "pods": "1"}},
        },
    })
}

fn amounts([cpu, memory, disk, pods]: [&str; 4]) -> Value {
    json!({"cpu": cpu, "memory": memory, "ephemeral-storage": disk, "pods": pods})
}

/// Capacity and allocatable, as Karpenter computes them for AL2023.
fn room(group: &Group) -> (Value, Value) {
    if group.instance_type == "m5.large" {
        (amounts(["2", "7577Mi", "20Gi", "29"]), amounts(["1930m", "6903Mi", "17Gi", "29"]))
    } else {
        (amounts(["4", "15155Mi", "20Gi", "58"]), amounts(["3920m", "14162Mi", "17Gi", "58"]))
    }
}

pub(super) fn claim_status(group: &Group, instance: &Instance) -> Value {
    let kinds = ["Launched", "Registered", "Initialized", "ConsistentStateFound", "Consolidatable", "Ready"];
    let (capacity, allocatable) = room(group);
    json!({
        "providerID": provider_id(instance), "nodeName": instance.private_dns_name, "imageID": instance.image,
        "capacity": capacity, "allocatable": allocatable, "lastPodEventTime": SINCE,
        "conditions": conditions(&kinds, Some(1)),
    })
}

fn provider_id(instance: &Instance) -> String {
    format!("aws:///{}/{}", instance.zone, instance.id)
}

/// Fields of a claim's Node beside those that every Node has.
pub(super) fn node(group: &Group, claim: &DynamicObject, instance: &Instance) -> Value {
    let mut labels = json!(claim.labels());
    for key in ["do-not-sync-taints", "registered", "initialized"] {
        labels[format!("karpenter.sh/{key}")] = json!("true");
    }
    let (capacity, allocatable) = room(group);
    json!({
        "metadata": {
            "labels": labels, "annotations": claim.annotations(), "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": claim.name_any(),
                "uid": claim.uid().unwrap(), "blockOwnerDeletion": true,
            }],
        },
        "spec": {"providerID": provider_id(instance)},
        "status": {"capacity": capacity, "allocatable": allocatable},
    })
}
