//! An installation of Karpenter on EKS as it is left when Karpenter is stopped: its objects in the cluster and in AWS,
//! with the names, labels, annotations, finalizers, conditions and tags that Karpenter gives them.

mod aws;
mod back;
mod objects;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_api::{NodePool, hash};
use muster_tests::cluster::fake_node;
use muster_tests::ec2::Instance;
use serde_json::{Value, json};

use self::aws::Images;
pub(crate) use self::aws::PROFILE;
pub(crate) use self::back::differences;
use super::controller::LEASE;
use super::ground::{Ground, SOON};
use super::machines::Joins;
use super::queue::Queue;

/// The identity that calls of Karpenter are recorded under.
pub(crate) const KARPENTER: &str = "karpenter";
/// The hash of the class, which only Karpenter can compute.
const CLASS_HASH: &str = "3821953628934417297";
/// Moment at which everything of Karpenter came about.
const SINCE: &str = "2026-01-01T00:00:00Z";

/// A release of Karpenter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    V1_14,
    V1_15,
}

impl Release {
    /// The version of the hash of an EC2NodeClass.
    pub(crate) fn class_hash_version(self) -> &'static str {
        match self {
            Self::V1_14 => "v5",
            Self::V1_15 => "v6",
        }
    }
}

/// A pool, its nodes, and pods that run on them only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) pool: &'static str,
    pub(crate) paid: &'static str,
    pub(crate) instance_type: &'static str,
    /// Nodes in us-east-1a and us-east-1b.
    pub(crate) nodes: [usize; 2],
    pub(crate) pods: usize,
    pub(crate) is_static: bool,
}

/// A pool of m5.large, each of which is full with one pod.
const fn full(pool: &'static str, paid: &'static str, nodes: [usize; 2]) -> Group {
    Group { pool, paid, instance_type: "m5.large", nodes, pods: nodes[0] + nodes[1], is_static: false }
}

/// 30 nodes, none of which can be done without.
pub(crate) const FULL: [Group; 4] = [
    full("general", "on-demand", [7, 7]),
    full("cheap", "spot", [4, 4]),
    full("reserved", "reserved", [4, 0]),
    Group { is_static: true, ..full("fixed", "on-demand", [2, 2]) },
];

/// 30 nodes, of which three are empty, and four are twice as large as their pods need.
pub(crate) const WASTEFUL: [Group; 5] = [
    Group { pods: 7, ..full("general", "on-demand", [5, 5]) },
    Group { instance_type: "m5.xlarge", ..full("roomy", "on-demand", [4, 0]) },
    full("cheap", "spot", [4, 4]),
    full("reserved", "reserved", [4, 0]),
    Group { is_static: true, ..full("fixed", "on-demand", [2, 2]) },
];

/// An installation as Karpenter leaves it.
pub(crate) struct Installation {
    pub(crate) release: Release,
    pub(crate) groups: Vec<Group>,
    /// `cr-…`.
    pub(crate) reservation: String,
    _queue: Queue,
    images: Images,
    security_group: String,
}

/// The objects of Karpenter at a time, by kind and name.
pub(crate) type Objects = BTreeMap<(&'static str, String), Value>;

impl Installation {
    /// Makes it, with its pods running.
    pub(crate) async fn leave(ground: &Ground, release: Release, groups: &[Group]) -> Self {
        ground.machines.join(Joins::Never);
        let own = Self {
            release,
            groups: groups.to_vec(),
            reservation: aws::reserve(ground).await,
            _queue: Queue::create(ground).await,
            images: Images::published(ground).await,
            security_group: aws::default_group(ground).await,
        };
        own.leave_class(ground).await;
        for group in groups {
            let mut number = 0;
            own.leave_pool(ground, group).await;
            for (zone, nodes) in ["us-east-1a", "us-east-1b"].into_iter().zip(group.nodes) {
                for instance in own.launch(ground, group, zone, nodes).await {
                    own.leave_node(ground, group, number, &instance).await;
                    number += 1;
                }
            }
            own.deploy(ground, group, group.pods).await;
        }
        // As a controller leaves it that was told to end.
        ground
            .apply(&[json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": LEASE, "namespace": "kube-system"},
                "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 7},
            })])
            .await;
        ground.running(own.groups.iter().map(|group| group.pods).sum(), SOON).await;
        ground.machines.join(Joins::AsTold);
        own
    }

    /// Pods of a group, which need a little less than an m5.large has.
    pub(crate) async fn deploy(&self, ground: &Ground, group: &Group, pods: usize) {
        let labels = json!({"app": "web", "group": group.pool});
        let resources = json!({"requests": {"cpu": "1500m", "memory": "3Gi"}});
        let spec = json!({
            "containers": [{"name": "main", "image": "none", "resources": resources}],
            "nodeSelector": {"karpenter.sh/nodepool": group.pool},
        });
        ground
            .apply(&[json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": group.pool, "namespace": "default"},
                "spec": {
                    "replicas": pods, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            })])
            .await;
    }

    async fn leave_class(&self, ground: &Ground) {
        let mut class = ground.class(objects::class_spec(self));
        class["metadata"]["annotations"] = objects::class_annotations(self.release);
        class["metadata"]["finalizers"] = json!(["karpenter.k8s.aws/termination"]);
        ground.apply(&[class]).await;
        let there = ground.classes().get("default").await.unwrap();
        aws::create_profile(ground, &there.uid().unwrap()).await;
        let status = objects::class_status(self, ground, there.metadata.generation);
        patch_status(&ground.classes(), "default", status).await;
    }

    async fn leave_pool(&self, ground: &Ground, group: &Group) {
        ground.apply(&[objects::pool(self.release, group)]).await;
        let pools = ground.pools();
        let made = pools.get(group.pool).await.unwrap();
        let stamped = json!({"metadata": {"annotations": {
            "karpenter.sh/nodepool-hash": hash_of(&made), "karpenter.sh/nodepool-hash-version": "v3",
        }}});
        pools.patch(group.pool, &PatchParams::default(), &Patch::Merge(stamped)).await.unwrap();
        patch_status(&pools, group.pool, objects::pool_status(group, made.metadata.generation)).await;
    }

    async fn leave_node(&self, ground: &Ground, group: &Group, number: usize, instance: &Instance) {
        let name = format!("{}-{number:05}", group.pool);
        let pool = ground.pools().get(group.pool).await.unwrap();
        let claim = objects::claim(self, ground, group, (&name, &pool), instance);
        let claim: DynamicObject = serde_json::from_value(claim).unwrap();
        let made = ground.claims().create(&PostParams::default(), &claim).await.unwrap();
        patch_status(&ground.claims(), &name, objects::claim_status(group, instance)).await;
        let node = objects::node(group, &made, instance);
        let node: Node = fake_node(&instance.private_dns_name, node).unwrap();
        ground.nodes().create(&PostParams::default(), &node).await.unwrap();
        aws::tag(ground, &instance.id, &name, &instance.private_dns_name).await;
    }

    /// Reads what is there now.
    pub(crate) async fn objects(ground: &Ground) -> Objects {
        let mut all = Objects::new();
        let nodes = ground.nodes().list(&ListParams::default()).await.unwrap().items;
        all.extend(nodes.iter().map(|node| (("Node", node.name_any()), serde_json::to_value(node).unwrap())));
        let kinds = [("NodeClaim", ground.claims()), ("NodePool", ground.pools()), ("EC2NodeClass", ground.classes())];
        for (kind, api) in kinds {
            let found = api.list(&ListParams::default()).await.unwrap().items;
            all.extend(found.iter().map(|one| ((kind, one.name_any()), serde_json::to_value(one).unwrap())));
        }
        all
    }
}

async fn patch_status(api: &Api<DynamicObject>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// The hash of a pool's template, which is that of Karpenter.
pub(crate) fn hash_of(pool: &DynamicObject) -> String {
    let typed: NodePool = serde_json::from_value(serde_json::to_value(pool).unwrap()).unwrap();
    hash::node_pool(&typed)
}
