//! A small universe of objects, each of which may look in many ways.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::Kind;

/// Kinds that the tests draw from, the most interesting ones several times.
const KINDS: [Kind; 20] = [
    Kind::Pod,
    Kind::Pod,
    Kind::Pod,
    Kind::Pod,
    Kind::Node,
    Kind::Node,
    Kind::NodeClaim,
    Kind::NodeClaim,
    Kind::NodePool,
    Kind::Ec2NodeClass,
    Kind::KwokNodeClass,
    Kind::VolumeAttachment,
    Kind::ResourceSlice,
    Kind::PersistentVolumeClaim,
    Kind::PersistentVolume,
    Kind::DaemonSet,
    Kind::Namespace,
    Kind::PodDisruptionBudget,
    Kind::PriorityClass,
    Kind::CsiNode,
];

/// One thing that happens to an object.
#[derive(Debug, Clone)]
pub(super) struct Deed {
    pub(super) kind: Kind,
    pub(super) name: usize,
    /// How it looks from now on; nothing: it is gone.
    pub(super) look: Option<u32>,
}

pub(super) fn deed() -> impl Strategy<Value = Deed> {
    let look = prop_oneof![4 => any::<u32>().prop_map(Some), 1 => Just(None)];
    (0..KINDS.len(), 0..5_usize, look).prop_map(|(kind, name, look)| Deed { kind: KINDS[kind], name, look })
}

pub(super) fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    prop::collection::vec(deed(), 0..80)
}

/// The path of an object.
pub(super) fn path(kind: Kind, name: usize) -> String {
    if kind.is_namespaced() { format!("{}/x{name}", namespace(name)) } else { format!("x{name}") }
}

/// `a/x` comes after `a-b/x`, although `a` comes before `a-b`.
fn namespace(name: usize) -> &'static str {
    ["a", "a-b", "b"][name % 3]
}

fn pick<'a>(all: &[&'a str], number: u32) -> &'a str {
    all[number as usize % all.len()]
}

/// How an object looks: a function of its name and a number.
pub(super) fn object(kind: Kind, name: usize, look: u32) -> Value {
    // Each question is answered by other bits of the number.
    let mut bits = look;
    let mut ask = |answers: u32| {
        let answer = bits % answers;
        bits /= answers;
        answer
    };
    let mut meta = json!({
        "name": format!("x{name}"), "uid": format!("uid-{}-{}", kind.name(), ask(2)), "resourceVersion": look.to_string(),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "somebody", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
    });
    if kind.is_namespaced() {
        meta["namespace"] = namespace(name).into();
    }
    if ask(4) == 0 {
        meta["deletionTimestamp"] = "2026-01-01T01:00:00Z".into();
    }
    let rest = match kind {
        Kind::Pod => return pod(meta, &mut ask),
        Kind::Node | Kind::NodeClaim | Kind::ResourceSlice | Kind::CsiNode => of_a_node(kind, &mut meta, &mut ask),
        Kind::NodePool | Kind::Ec2NodeClass | Kind::KwokNodeClass => of_a_template(kind, &mut ask),
        Kind::VolumeAttachment | Kind::PersistentVolumeClaim | Kind::PersistentVolume => of_a_volume(kind, &mut ask),
        Kind::Namespace => {
            meta["annotations"] = json!({"muster.dev/pause": pick(&["false", "all"], ask(2))});
            json!({})
        }
        _ => of_pods(kind, &mut ask),
    };
    complete(kind, meta, rest)
}

/// The rest of a Node, and of objects that are there for one node each.
fn of_a_node(kind: Kind, meta: &mut Value, ask: &mut dyn FnMut(u32) -> u32) -> Value {
    match kind {
        Kind::Node => json!({
            "spec": {"providerID": pick(&["", "aws:///z/i-0", "aws:///z/i-1", "id-2"], ask(4))},
            "status": {
                "capacity": {"cpu": "4"}, "images": [{"names": ["a"]}],
                "conditions": [{"type": "Ready", "status": pick(&["True", "False"], ask(2)),
                                "lastHeartbeatTime": format!("2026-01-01T00:00:{:02}Z", ask(60))}],
            },
        }),
        Kind::NodeClaim => {
            meta["labels"] = json!({"karpenter.sh/nodepool": format!("x{}", ask(3))});
            json!({
                "spec": {
                    "requirements": [], "expireAfter": "720h",
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": format!("x{}", ask(2))},
                },
                "status": {"providerID": pick(&["", "aws:///z/i-0", "aws:///z/i-1", "id-2"], ask(4)), "allocatable": {"cpu": "4"}},
            })
        }
        Kind::ResourceSlice => json!({
            "spec": {
                "nodeName": format!("x{}", ask(4)), "driver": pick(&["gpu", "net"], ask(2)),
                "pool": {"name": "p", "generation": ask(2), "resourceSliceCount": 1 + ask(2)},
            },
        }),
        Kind::CsiNode => json!({"spec": {"drivers": [
            {"name": "ebs.csi.aws.com", "nodeID": "n", "allocatable": {"count": ask(30)}},
        ]}}),
        other => panic!("{other:?} is not drawn"),
    }
}

/// The rest of a pool or class, from which nodes are made.
fn of_a_template(kind: Kind, ask: &mut dyn FnMut(u32) -> u32) -> Value {
    match kind {
        Kind::NodePool => json!({
            "spec": {
                "weight": 1 + ask(3),
                "template": {"spec": {
                    "requirements": [],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x0"},
                }},
            },
        }),
        Kind::Ec2NodeClass => json!({
            "spec": {
                "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": format!("role-{}", ask(3)),
                "subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}],
                "securityGroupSelectorTerms": [{"id": "sg-0123456789abcdef0"}],
            },
        }),
        Kind::KwokNodeClass => json!({"spec": {"nodeRegistrationDelay": format!("{}s", ask(3))}}),
        other => panic!("{other:?} is not drawn"),
    }
}

/// The rest of a volume, of its claim, or of its attachment.
fn of_a_volume(kind: Kind, ask: &mut dyn FnMut(u32) -> u32) -> Value {
    match kind {
        Kind::VolumeAttachment => json!({
            "spec": {
                "nodeName": format!("x{}", ask(4)), "attacher": "ebs.csi.aws.com",
                "source": {"persistentVolumeName": format!("x{}", ask(3))},
            },
            "status": {"attached": true},
        }),
        Kind::PersistentVolumeClaim => json!({"spec": {"volumeName": format!("x{}", ask(3))}}),
        Kind::PersistentVolume => json!({"spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"}}}),
        other => panic!("{other:?} is not drawn"),
    }
}

/// The rest of an object that is about many pods.
fn of_pods(kind: Kind, ask: &mut dyn FnMut(u32) -> u32) -> Value {
    match kind {
        Kind::DaemonSet => json!({"spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": format!("{}m", 1 + ask(3))}}}]},
            },
        }}),
        Kind::PodDisruptionBudget => json!({
            "spec": {"selector": {"matchLabels": {"app": "a"}}}, "status": {"disruptionsAllowed": ask(3)},
        }),
        Kind::PriorityClass => json!({"value": ask(100)}),
        other => panic!("{other:?} is not drawn"),
    }
}

fn complete(kind: Kind, meta: Value, rest: Value) -> Value {
    let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": meta});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

fn pod(mut meta: Value, ask: &mut dyn FnMut(u32) -> u32) -> Value {
    match ask(4) {
        0 => {
            meta["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d",
                                               "controller": true}])
        }
        1 => {
            meta["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r",
                                               "controller": true}])
        }
        2 => meta["annotations"] = json!({"karpenter.sh/do-not-disrupt": pick(&["true", "1h"], ask(2))}),
        _ => {}
    }
    let tolerations = [
        json!([]),
        json!([{"operator": "Exists"}]),
        json!([{"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule"}]),
        json!([{"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute"}]),
        json!([{"key": "other", "value": "x"}]),
    ];
    let mut spec = json!({
        "containers": [{
            "name": "c", "image": "i", "env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "v", "mountPath": "/"}],
            "resources": {"requests": {"cpu": format!("{}m", 100 + ask(3))}},
        }],
        "tolerations": tolerations[ask(5) as usize], "terminationGracePeriodSeconds": ask(2) * 60,
        "schedulerName": pick(&["default-scheduler", "other"], ask(2)),
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": format!("x{}", ask(3))}}],
    });
    if ask(3) > 0 {
        spec["nodeName"] = format!("x{}", ask(4)).into();
    }
    if ask(4) == 0 {
        spec["priorityClassName"] = "system-node-critical".into();
    }
    let phase = pick(&["Pending", "Running", "Running", "Succeeded"], ask(4));
    let status = json!({
        "phase": phase, "startTime": "2026-01-01T00:00:10Z", "nominatedNodeName": pick(&["", "x0", "x1", "x2"], ask(4)),
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": pick(&["Unschedulable", "SchedulingGated"], ask(2))}],
        "containerStatuses": [{"name": "c", "image": "i", "state": {"running": {}}}],
    });
    complete(Kind::Pod, meta, json!({"spec": spec, "status": status}))
}
