//! Registration and initialization.

use muster_api::Quantities;
use std::collections::BTreeMap;

use crate::node::NodeStatus;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{annotations, labels, taints};

use super::check;
use super::fixture::{at, taint};

#[test]
fn registration_waits() {
    check(&[
        (
            "An instance without a Node is waited for.",
            |it| {
                it.launched();
            },
            14,
            &["status: Launched=True, Registered=Unknown NodeNotFound: Node not registered with cluster"],
        ),
        (
            "Two Nodes with one provider ID: neither is taken.",
            |it| {
                it.joined();
                it.nodes.push(it.nodes[0].clone());
                it.nodes[1].metadata.name = Some("node-2".to_owned());
            },
            20,
            &["status: Launched=True, Registered=Unknown MultipleNodesFound: several Nodes have its provider ID: \
               `node-1`, `node-2`"],
        ),
        (
            "What the cloud still has to learn about the node holds it back.",
            |it| {
                it.joined();
                it.hold = Some("the partition is not known yet".to_owned());
            },
            20,
            &["status: Launched=True, Registered=Unknown RegistrationHookPending: the partition is not known yet"],
        ),
        (
            "A Node that is being deleted before it was ours takes no finalizer.",
            |it| {
                it.joined();
                it.nodes[0].metadata.deletion_timestamp = Some(Time(at(15)));
            },
            20,
            &["status: Launched=True, Registered=Unknown NodeNotFound: the Node is being deleted"],
        ),
    ]);
}

#[test]
fn registration_is_one_write() {
    check(&[
        (
            "Labels, finalizer, owner and the removal of the taint are one write. How the launch went stays with the claim.",
            |it| {
                it.joined();
                it.annotate("karpenter.sh/nodepool-hash", "7");
            },
            20,
            &[
                "node node-1: karpenter.sh/nodepool=default karpenter.sh/registered=true karpenter.sh/nodepool-hash=7 \
                 finalizers [karpenter.sh/termination] owners [x] taints [ebs.csi.aws.com/agent-not-ready]",
                "status: Launched=True, Registered=True",
            ],
        ),
        (
            "A Node that is ours already, because somebody stopped before the status was written, keeps what others have \
             changed since.",
            |it| {
                it.registered();
                it.claim.spec.taints = vec![taint("gpu", "NoSchedule")];
                it.claim.status.as_mut().unwrap().conditions.retain(|one| one.type_ != "Registered");
            },
            70,
            &["node node-1: owners [x]", "status: Launched=True, Registered=True"],
        ),
    ]);
}

#[test]
fn taints_at_registration() {
    check(&[
        (
            "A startup taint that the kubelet was told to register with and that is gone has been taken off: it stays off.",
            |it| {
                it.joined();
                it.untaint("ebs.csi.aws.com/agent-not-ready");
            },
            20,
            &[
                "node node-1: karpenter.sh/nodepool=default karpenter.sh/registered=true \
                 finalizers [karpenter.sh/termination] owners [x] taints []",
                "status: Launched=True, Registered=True",
            ],
        ),
        (
            "Where the user data does not name the taints, registration brings them.",
            |it| {
                it.joined();
                it.untaint("ebs.csi.aws.com/agent-not-ready");
                it.claim.spec.taints = vec![taint("gpu", "NoSchedule")];
                it.class.hands_over_taints = false;
            },
            20,
            &[
                "node node-1: karpenter.sh/nodepool=default karpenter.sh/registered=true \
                 finalizers [karpenter.sh/termination] owners [x] taints [gpu, ebs.csi.aws.com/agent-not-ready]",
                "status: Launched=True, Registered=True",
            ],
        ),
        (
            "A Node that brings its own taints keeps them.",
            |it| {
                it.joined();
                it.claim.spec.taints = vec![taint("gpu", "NoSchedule")];
                it.nodes[0].metadata.labels =
                    Some(BTreeMap::from([(labels::DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned())]));
            },
            20,
            &[
                "node node-1: karpenter.sh/nodepool=default karpenter.sh/registered=true \
                 finalizers [karpenter.sh/termination] owners [x] taints [ebs.csi.aws.com/agent-not-ready]",
                "status: Launched=True, Registered=True",
            ],
        ),
        (
            "A Node without the taint of unregistered nodes is taken, and told about.",
            |it| {
                it.joined();
                it.untaint(taints::UNREGISTERED);
            },
            20,
            &[
                "event UnregisteredTaintMissing about x: Node `node-1` came without the taint \
                 karpenter.sh/unregistered:NoExecute; pods may have started there before it had its labels and taints",
                "node node-1: karpenter.sh/nodepool=default karpenter.sh/registered=true \
                 finalizers [karpenter.sh/termination] owners [x]",
                "status: Launched=True, Registered=True",
            ],
        ),
    ]);
}

#[test]
fn initialization_waits() {
    check(&[
        (
            "A kubelet that is not ready says why.",
            |it| {
                it.registered();
            },
            70,
            &[
                "status: Initialized=Unknown NodeNotReady: Node status is NotReady: KubeletNotReady: runtime network not \
               ready, Launched=True, Registered=True",
            ],
        ),
        (
            "A startup taint is named with who takes it off.",
            |it| {
                it.registered().ready("True", "KubeletReady");
            },
            70,
            &["status: Initialized=Unknown StartupTaintsExist: StartupTaint \
               `ebs.csi.aws.com/agent-not-ready:NoExecute` still exists; it is removed by the driver of EBS volumes, \
               Launched=True, Registered=True"],
        ),
        (
            "A startup taint of which nobody is known is left to the component that asked for it.",
            |it| {
                it.registered().ready("True", "KubeletReady");
                let own = taint("example.com/x", "NoSchedule");
                it.claim.spec.startup_taints = vec![own.clone()];
                it.nodes[0].spec.as_mut().unwrap().taints = Some(vec![own]);
            },
            70,
            &["status: Initialized=Unknown StartupTaintsExist: StartupTaint `example.com/x:NoSchedule` still exists; \
               its owner has to remove it, Launched=True, Registered=True"],
        ),
        (
            "So are the taints of a node that is starting.",
            |it| {
                it.initialized();
                it.claim.status.as_mut().unwrap().conditions.retain(|one| one.type_ != "Initialized");
                it.nodes[0].spec.as_mut().unwrap().taints =
                    Some(vec![taint(taints::CLOUD_UNINITIALIZED, "NoSchedule")]);
            },
            70,
            &["status: Initialized=Unknown KnownEphemeralTaintsExist: KnownEphemeralTaint \
               `node.cloudprovider.kubernetes.io/uninitialized:NoSchedule` still exists; it is removed by the cloud \
               controller, Launched=True, Registered=True"],
        ),
        (
            "A requested resource of which the Node has none is named.",
            |it| {
                it.initialized();
                it.claim.status.as_mut().unwrap().conditions.retain(|one| one.type_ != "Initialized");
                it.claim.spec.resources.requests =
                    Quantities::from([("nvidia.com/gpu".to_owned(), Quantity("2".to_owned()))]);
            },
            70,
            &["status: Initialized=Unknown ResourceNotRegistered: Resource `nvidia.com/gpu` was requested but not \
               registered; the Node's allocatable has none: it is published by the NVIDIA device plugin, which the GPU \
               operator brings too, Launched=True, Registered=True"],
        ),
        (
            "Drivers that have not published their devices are waited for.",
            |it| {
                it.initialized();
                it.claim.status.as_mut().unwrap().conditions.retain(|one| one.type_ != "Initialized");
                it.annotate(annotations::REQUESTED_DRA_DRIVERS, "gpu.example.com, nic.example.com");
                it.drivers.insert("gpu.example.com".to_owned());
            },
            70,
            &[
                "status: Initialized=Unknown DRADriverPoolsNotPublished: driver `nic.example.com` has not published the \
               devices of the Node; its pods are those of a DaemonSet that has to run there, Launched=True, Registered=True",
            ],
        ),
    ]);
}

#[test]
fn initialization_is_for_good() {
    check(&[
        (
            "When all is there, the Node is labelled before the status says so; the class's failures are forgotten.",
            |it| {
                it.initialized();
                it.claim.status.as_mut().unwrap().conditions.retain(|one| one.type_ != "Initialized");
                it.annotate_class(annotations::LAUNCH_FAILURES, "{}");
                it.claim.spec.resources.requests = Quantities::from([
                    ("nvidia.com/gpu".to_owned(), Quantity("2".to_owned())),
                    ("cpu".to_owned(), Quantity("0".to_owned())),
                ]);
                let ready =
                    NodeCondition { type_: "Ready".to_owned(), status: "True".to_owned(), ..Default::default() };
                let allocatable = Quantities::from([("nvidia.com/gpu".to_owned(), Quantity("1".to_owned()))]);
                it.nodes[0].status = Some(NodeStatus {
                    conditions: Some(vec![ready]),
                    allocatable: Some(allocatable),
                    ..NodeStatus::default()
                });
            },
            70,
            &[
                "class: -muster.dev/launch-failures",
                "node node-1: karpenter.sh/initialized=true",
                "status: ConsistentStateFound=True, Initialized=True, Launched=True, Registered=True",
            ],
        ),
        (
            "A startup taint that comes back later changes nothing: the claim stays initialized until it expires.",
            |it| {
                it.initialized();
                it.nodes[0].spec.as_mut().unwrap().taints = it.claim.spec.startup_taints.clone().into();
            },
            100,
            &["look again at 2595600"],
        ),
    ]);
}
