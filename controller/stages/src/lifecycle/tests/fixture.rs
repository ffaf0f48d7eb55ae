//! A claim as it is seen a moment before the rule of a test comes to bear, and steps in words.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::node::{Node, NodeSpec, NodeStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, NodeClaimSpec, NodeClassReference, NodePool, annotations, labels, taints};
use muster_cloud::{Alternative, CapacityType, Instance, InstanceState, LaunchToken, Offering, Overlaid};

use crate::lifecycle::conditions::{Status, at as judged, set};
use crate::lifecycle::pause::Pause;
use crate::lifecycle::{
    Answers, Attachment, Call, Class, DisruptionBlocker, Listing, MetaChange, Readiness, Resident, Seen, Step, Subject,
    Write, decide,
};

pub(crate) const ID: &str = "aws:///eu-west-1a/i-1";

pub(crate) struct Fixture {
    pub(crate) claim: NodeClaim,
    pub(crate) pool: NodePool,
    pub(crate) class: Class,
    pub(crate) pause: Pause,
    pub(crate) nodes: Vec<Node>,
    pub(crate) namesakes: Vec<Node>,
    pub(crate) hold: Option<String>,
    pub(crate) drivers: BTreeSet<String>,
    pub(crate) residents: Vec<Resident>,
    pub(crate) expected: Vec<Subject>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) alternatives: Vec<Alternative>,
    pub(crate) overlaid: Overlaid,
    pub(crate) listing: Option<Listing>,
    pub(crate) answers: Answers,
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(crate) fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added: None }
}

pub(crate) fn instance(state: InstanceState) -> Instance {
    Instance {
        provider_id: ID.to_owned(),
        offering: offering("a", CapacityType::Spot),
        state,
        state_reason: None,
        launched_at: at(0),
        token: Some(LaunchToken { claim_uid: "uid-x".to_owned(), attempt: 1 }),
        image_id: Some("ami-1".to_owned()),
        subnet: None,
        security_groups: Vec::new(),
        placement_group: None,
        labels: BTreeMap::from([(labels::ZONE.to_owned(), "eu-west-1a".to_owned())]),
        annotations: BTreeMap::from([(annotations::EC2NODECLASS_HASH.to_owned(), "1".to_owned())]),
        capacity: BTreeMap::new(),
        allocatable: BTreeMap::new(),
        tags: BTreeMap::new(),
        host_name: None,
    }
}

pub(crate) fn offering(name: &str, capacity_type: CapacityType) -> Offering {
    Offering { instance_type: name.to_owned(), zone: "eu-west-1a".to_owned(), capacity_type, reservation: None }
}

pub(crate) fn resident(name: &str) -> Resident {
    Resident {
        pod: Subject {
            kind: "Pod".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
        },
        node: "node-1".to_owned(),
        is_critical: false,
        is_daemon: false,
        is_mirror: false,
        is_terminal: false,
        tolerates_disruption: false,
        hold: DisruptionBlocker::None,
        deleted_at: None,
        grace: Duration::from_secs(30),
        volumes: Vec::new(),
    }
}

impl Fixture {
    /// A claim of pool `default` that was made at second 0 and has its finalizer.
    pub(crate) fn new() -> Self {
        let reference = NodeClassReference {
            group: labels::AWS_GROUP.to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: "default".to_owned(),
        };
        let mut claim =
            NodeClaim::new("x", NodeClaimSpec { node_class_ref: reference.clone(), ..NodeClaimSpec::default() });
        claim.metadata = ObjectMeta {
            name: Some("x".to_owned()),
            uid: Some("uid-x".to_owned()),
            generation: Some(1),
            creation_timestamp: Some(Time(at(0))),
            finalizers: Some(vec![annotations::TERMINATION_FINALIZER.to_owned()]),
            labels: Some(BTreeMap::from([(labels::NODEPOOL.to_owned(), "default".to_owned())])),
            annotations: Some(BTreeMap::from([(annotations::LAUNCH_ATTEMPT.to_owned(), "1".to_owned())])),
            ..ObjectMeta::default()
        };
        let alternative = |(name, bought, price)| Alternative { offering: offering(name, bought), price };
        Self {
            claim,
            pool: NodePool::default(),
            class: Class {
                reference,
                meta: ObjectMeta::default(),
                conditions: Vec::new(),
                readiness: Readiness::Ready,
                hash: "1".to_owned(),
                bootstrap_fault: None,
                hands_over_taints: true,
                tags_instances: false,
                reboots_instances: false,
                block_ends: BTreeMap::new(),
            },
            pause: Pause::NOTHING,
            nodes: Vec::new(),
            namesakes: Vec::new(),
            hold: None,
            drivers: BTreeSet::new(),
            residents: Vec::new(),
            expected: Vec::new(),
            attachments: Vec::new(),
            alternatives: [("a", CapacityType::Spot, 0.1), ("b", CapacityType::OnDemand, 0.2)]
                .into_iter()
                .map(alternative)
                .collect(),
            overlaid: Overlaid::default(),
            listing: None,
            answers: Answers::default(),
        }
    }

    /// An annotation of the claim.
    pub(crate) fn annotate(&mut self, key: &str, value: &str) {
        self.claim.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }

    /// An annotation of the class.
    pub(crate) fn annotate_class(&mut self, key: &str, value: &str) {
        self.class.meta.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }

    /// An annotation of the pool.
    pub(crate) fn annotate_pool(&mut self, key: &str, value: &str) {
        self.pool.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn judge(&mut self, kind: &str, status: Status, reason: &str, message: &str, second: i64) {
        let status_of = self.claim.status.get_or_insert_default();
        set(&mut status_of.conditions, judged(kind, status, reason, message, Some(1), at(second)));
    }

    /// Launched at second 10.
    pub(crate) fn launched(&mut self) -> &mut Self {
        for kind in [nodeclaim::REGISTERED, nodeclaim::INITIALIZED] {
            self.judge(kind, Status::Unknown, "AwaitingReconciliation", "object is awaiting reconciliation", 0);
        }
        let open = "Registered=Unknown, Initialized=Unknown";
        self.judge("Ready", Status::Unknown, "ReconcilingDependents", open, 0);
        self.judge(nodeclaim::LAUNCHED, Status::True, "Launched", "", 10);
        self.claim.status.get_or_insert_default().provider_id = Some(ID.to_owned());
        self
    }

    /// Launched, and the Node is there and starting.
    pub(crate) fn joined(&mut self) -> &mut Self {
        self.launched();
        let mut node = Node { metadata: ObjectMeta::default(), spec: None, status: None };
        node.metadata.name = Some("node-1".to_owned());
        node.metadata.uid = Some("uid-node-1".to_owned());
        let startup = taint("ebs.csi.aws.com/agent-not-ready", "NoExecute");
        self.claim.spec.startup_taints = vec![startup.clone()];
        node.spec = Some(NodeSpec {
            provider_id: Some(ID.to_owned()),
            taints: Some(vec![taints::unregistered(), startup]),
            ..NodeSpec::default()
        });
        self.nodes = vec![node];
        self.ready("False", "KubeletNotReady");
        self
    }

    /// Joined, and registered at second 60.
    pub(crate) fn registered(&mut self) -> &mut Self {
        self.joined();
        self.judge(nodeclaim::REGISTERED, Status::True, "Registered", "", 60);
        let node = &mut self.nodes[0];
        node.metadata.labels = Some(BTreeMap::from([(labels::REGISTERED.to_owned(), "true".to_owned())]));
        node.metadata.finalizers = Some(vec![annotations::TERMINATION_FINALIZER.to_owned()]);
        self.untaint(taints::UNREGISTERED);
        self
    }

    /// Registered, and initialized at second 90.
    pub(crate) fn initialized(&mut self) -> &mut Self {
        self.registered();
        self.ready("True", "KubeletReady");
        self.untaint("ebs.csi.aws.com/agent-not-ready");
        self.judge(nodeclaim::INITIALIZED, Status::True, "Initialized", "", 90);
        self.judge("Ready", Status::True, "Ready", "", 90);
        self
    }

    /// Initialized, then deleted with its Node at second 1000; nothing new comes to the Node.
    pub(crate) fn leaving(&mut self) -> &mut Self {
        self.initialized();
        self.deleted();
        let meta = &mut self.nodes[0].metadata;
        meta.deletion_timestamp = Some(Time(at(1000)));
        let excluded = (labels::EXCLUDE_FROM_BALANCERS.to_owned(), "karpenter".to_owned());
        meta.labels.get_or_insert_default().extend([excluded]);
        self.nodes[0].spec.as_mut().unwrap().taints = Some(vec![taints::disrupted()]);
        self
    }

    /// What the stages say of the claim at that second has been written.
    pub(crate) fn decided(&mut self, second: i64) {
        for write in self.decide(at(second)).writes {
            if let Write::ClaimStatus { status, .. } = write {
                self.claim.status = Some(*status);
            }
        }
    }

    /// Deleted at second 1000.
    pub(crate) fn deleted(&mut self) -> &mut Self {
        self.claim.metadata.deletion_timestamp = Some(Time(at(1000)));
        self
    }

    pub(crate) fn ready(&mut self, status: &str, reason: &str) {
        let ready = NodeCondition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some("runtime network not ready".to_owned()).filter(|_| status != "True"),
            ..NodeCondition::default()
        };
        self.nodes[0].status = Some(NodeStatus { conditions: Some(vec![ready]), ..NodeStatus::default() });
    }

    pub(crate) fn untaint(&mut self, key: &str) {
        self.nodes[0].spec.as_mut().unwrap().taints.as_mut().unwrap().retain(|taint| taint.key != key);
    }

    pub(crate) fn decide(&self, now: Timestamp) -> Step {
        let seen = Seen {
            claim: &self.claim,
            pool: Some(&self.pool),
            class: &self.class,
            pause: self.pause,
            nodes: self.nodes.iter().collect(),
            namesakes: self.namesakes.iter().collect(),
            registration_hold: self.hold.as_deref(),
            device_drivers: &self.drivers,
            residents: &self.residents,
            expected: &self.expected,
            attachments: &self.attachments,
            alternatives: &self.alternatives,
            overlaid: &self.overlaid,
            listing: self.listing,
            answers: self.answers.clone(),
        };
        decide(&seen, now)
    }
}

/// A step, one line for each write, and when to look again.
pub(crate) fn in_words(step: &Step) -> Vec<String> {
    let again = step.again.map(|moment| format!("look again at {}", moment.as_millisecond() as f64 / 1000.0));
    step.writes.iter().map(word).chain(again).collect()
}

fn word(write: &Write) -> String {
    match write {
        Write::CreateClaim(claim) => {
            let meta = &claim.metadata;
            let set = |all: &Option<BTreeMap<String, String>>| {
                all.iter().flatten().map(|(key, value)| format!(" {key}={value}")).collect::<String>()
            };
            let name = meta.name.as_deref().unwrap_or_default();
            format!("create claim {name}:{}{}", set(&meta.labels), set(&meta.annotations))
        }
        Write::PoolMeta { name, change } => format!("pool {name}:{}", meta(change)),
        Write::PoolStatus { name, status } => format!("status of pool {name}: {status:?}"),
        Write::PodDeletionCost { pod, cost } => format!("deletion cost of {}: {cost:?}", pod.name),
        Write::BufferStatus { path, status } => format!("status of buffer {path}: {status:?}"),
        Write::OverlayStatus { name, status } => format!("status of overlay {name}: {status:?}"),
        Write::Nominate { pod, node } => format!("nominate {} for {}", pod.name, node.as_deref().unwrap_or("nothing")),
        Write::ClaimMeta { name, change } => format!("claim {name}:{}", meta(change)),
        Write::ClaimStatus { status, .. } => {
            let all =
                status.conditions.iter().filter(|one| one.reason != "AwaitingReconciliation" && one.type_ != "Ready");
            let all = all.map(|one| match one.message.as_str() {
                "" => format!(" {}={}", one.type_, one.status),
                message => format!(" {}={} {}: {message}", one.type_, one.status, one.reason),
            });
            format!("status:{}", all.collect::<Vec<_>>().join(","))
        }
        Write::DeleteClaim { name, cause, .. } => format!("delete claim {name}: {cause}"),
        Write::Node { name, change } => {
            let taints = change.taints.as_ref().map(|all| {
                let all: Vec<&str> = all.iter().map(|taint| taint.key.as_str()).collect();
                format!(" taints [{}]", all.join(", "))
            });
            format!("node {name}:{}{}", meta(&change.meta), taints.unwrap_or_default())
        }
        Write::DeleteNode { name, .. } => format!("delete node {name}"),
        Write::ClassMeta(change) => format!("class:{}", meta(change)),
        Write::ClassCondition(one) => format!("class condition: {}={} {}", one.type_, one.status, one.reason),
        Write::ClassStatus(status) => format!("class status: {status}"),
        Write::Evict(pod) => format!("evict {}", pod.name),
        Write::DeletePod { pod, grace } => format!("delete pod {} within {} s", pod.name, grace.as_secs()),
        Write::Cloud(Call::Launch(request)) => {
            let all: Vec<String> = request.alternatives.iter().map(|one| one.offering.to_string()).collect();
            format!("launch {} as {}", request.token, all.join(" or "))
        }
        Write::Cloud(Call::Tag { tags, .. }) => {
            let all: Vec<String> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("tag {}", all.join(", "))
        }
        Write::Cloud(call) => format!("{call:?}"),
        Write::Event(event) => format!("event {} about {}: {}", event.reason, event.about.name, event.message),
    }
}

fn meta(change: &MetaChange) -> String {
    let set = |all: &BTreeMap<String, Option<String>>| {
        let one = |(key, value): (&String, &Option<String>)| {
            value.as_ref().map_or_else(|| format!(" -{key}"), |value| format!(" {key}={value}"))
        };
        all.iter().map(one).collect::<String>()
    };
    let finalizers = change.finalizers.as_ref().map(|all| format!(" finalizers [{}]", all.join(", ")));
    let owners = change.owners.as_ref().map(|all| {
        let all: Vec<&str> = all.iter().map(|owner| owner.name.as_str()).collect();
        format!(" owners [{}]", all.join(", "))
    });
    [set(&change.labels), set(&change.annotations), finalizers.unwrap_or_default(), owners.unwrap_or_default()].concat()
}
