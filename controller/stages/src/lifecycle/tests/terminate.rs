use std::time::Duration;

use muster_api::conditions::nodeclaim;
use muster_api::{Span, annotations, events};
use muster_cloud::{CloudError, InstanceState};

use super::check;
use super::fixture::{Fixture, ID, at, instance, resident};
use crate::lifecycle::conditions::Status;
use crate::lifecycle::{Attachment, DisruptionBlocker, Eviction, Resident};

/// Two tiers of pods, each with a daemon.
fn pods(it: &mut Fixture) {
    it.leaving();
    for (name, is_critical, is_daemon) in
        [("web", false, false), ("log", false, true), ("dns", true, false), ("proxy", true, true)]
    {
        it.residents.push(Resident { is_critical, is_daemon, ..resident(name) });
    }
}

fn drained(it: &mut Fixture) {
    it.leaving();
    for kind in [nodeclaim::DRAINED, nodeclaim::VOLUMES_DETACHED] {
        it.judge(kind, Status::True, kind, "", 1010);
    }
}

fn gone() -> CloudError {
    CloudError::NotFound { what: ID.to_owned() }
}

#[test]
fn the_way_to_the_node() {
    check(&[
        (
            "A Node that somebody deletes takes its claim along.",
            |it| {
                it.leaving();
                it.claim.metadata.deletion_timestamp = None;
            },
            1000,
            &["delete claim x: node_deleted"],
        ),
        (
            "The deadline of a deleted claim is written down once.",
            |it| {
                it.initialized().deleted();
                it.claim.spec.termination_grace_period = Some(Span::from_secs(60));
            },
            1000,
            &[
                "event TerminationGracePeriodExpiring about x: pods that are left on the node at 1970-01-01T00:17:40Z are \
                 terminated then",
                "claim x: karpenter.sh/nodeclaim-termination-timestamp=1970-01-01T00:17:40Z",
            ],
        ),
        (
            "The Node of a deleted claim is deleted; without our finalizer its pods would be gone at once, so it gets it.",
            |it| {
                it.initialized().deleted();
                it.nodes[0].metadata.finalizers = None;
            },
            1000,
            &["node node-1: finalizers [karpenter.sh/termination]", "delete node node-1"],
        ),
        (
            "Nothing new comes to the Node, from the scheduler or from load balancers.",
            |it| {
                it.leaving().nodes[0].spec.as_mut().unwrap().taints = None;
            },
            1000,
            &["node node-1: taints [karpenter.sh/disrupted]"],
        ),
        (
            "A claim without our finalizer is not ours to hold.",
            |it| {
                it.launched().deleted();
                it.claim.metadata.finalizers = None;
            },
            1000,
            &[],
        ),
    ]);
}

#[test]
fn pods_leave() {
    check(&[
        ("First what a cluster can do without.", pods, 1000, &["evict web"]),
        (
            "While one of a tier is ending, the next waits; it has a minute beyond its end.",
            |it| {
                pods(it);
                it.residents[0].deleted_at = Some(at(1030));
            },
            1000,
            &[
                "status: Drained=Unknown Draining: Draining, Initialized=True, Launched=True, Registered=True",
                "look again at 1090",
            ],
        ),
        (
            "A pod that should have been gone for a minute is not waited for.",
            |it| {
                pods(it);
                it.residents[0].deleted_at = Some(at(1030));
            },
            1090,
            &["evict log"],
        ),
        (
            "Daemons go after the others, critical pods after the rest, critical daemons last.",
            |it| {
                pods(it);
                it.residents.retain(|pod| pod.is_critical);
            },
            1000,
            &["evict dns"],
        ),
        (
            "Mirrors, pods that have ended, and pods that tolerate disruption are not waited for.",
            |it| {
                pods(it);
                it.residents[0].is_mirror = true;
                it.residents[1].is_terminal = true;
                it.residents[2].tolerates_disruption = true;
            },
            1000,
            &["evict proxy"],
        ),
        (
            "A drain takes five seconds at least.",
            |it| {
                it.leaving();
            },
            1004,
            &[
                "status: Drained=Unknown Draining: Draining, Initialized=True, Launched=True, Registered=True",
                "look again at 1005",
            ],
        ),
    ]);
}

#[test]
fn pods_that_stay() {
    check(&[
        (
            "A budget is named; the next try comes after as long as the drain has lasted.",
            |it| {
                pods(it);
                let answer = Eviction::Blocked("budget web needs 3".to_owned());
                it.answers.evictions.insert("uid-web".to_owned(), answer);
            },
            1003,
            &[
                "event FailedDraining about x: Draining: `shop/web`: budget web needs 3",
                "status: Drained=Unknown Draining: Draining: `shop/web`: budget web needs 3, Initialized=True, \
                 Launched=True, Registered=True",
                "look again at 1006",
            ],
        ),
        (
            "Ten seconds at most; what was said is not said again.",
            |it| {
                pods(it);
                it.judge(
                    nodeclaim::DRAINED,
                    Status::Unknown,
                    "Draining",
                    "Draining: `shop/web`: budget web needs 3",
                    1000,
                );
                let answer = Eviction::Blocked("budget web needs 3".to_owned());
                it.answers.evictions.insert("uid-web".to_owned(), answer);
            },
            1300,
            &["look again at 1310"],
        ),
        (
            "A pod that keeps its node is not evicted, and is named; it is looked at again when its time is over.",
            |it| {
                pods(it);
                it.residents[0].hold = DisruptionBlocker::Until(at(2000));
            },
            1500,
            &[
                "event FailedDraining about x: Draining: `shop/web`: karpenter.sh/do-not-disrupt",
                "status: Drained=Unknown Draining: Draining: `shop/web`: karpenter.sh/do-not-disrupt, Initialized=True, \
                 Launched=True, Registered=True",
                "look again at 2000",
            ],
        ),
    ]);
}

/// One pod that keeps its node, until second 1200.
fn limited(it: &mut Fixture) {
    pods(it);
    it.residents.truncate(1);
    it.residents[0].hold = DisruptionBlocker::Forever;
    let message = "Draining: `shop/web`: karpenter.sh/do-not-disrupt";
    it.judge(nodeclaim::DRAINED, Status::Unknown, "Draining", message, 1000);
    it.annotate(annotations::NODECLAIM_TERMINATION_TIMESTAMP, "1970-01-01T00:20:00Z");
}

#[test]
fn the_grace_period() {
    check(&[
        (
            "A pod that keeps its node does so until just the time is left that it takes to end.",
            limited,
            1169,
            &["look again at 1170"],
        ),
        (
            "When the time is over it does not matter that the Node could not be tainted.",
            |it| {
                limited(it);
                it.nodes[0].spec.as_mut().unwrap().taints = None;
            },
            1200,
            &["delete pod web within 1 s"],
        ),
        ("Then it is deleted with the time that is left.", limited, 1170, &["delete pod web within 30 s"]),
        (
            "It is told once that is done.",
            |it| {
                limited(it);
                it.answers.evictions.insert("uid-web".to_owned(), Eviction::Forced);
            },
            1170,
            &[
                "event Disrupted about web: ended because the termination grace period of NodeClaim `x` is over",
                "status: Drained=Unknown Draining: Draining, Initialized=True, Launched=True, Registered=True",
                "look again at 1180",
            ],
        ),
        (
            "A deletion that is denied is the reason why the drain goes on.",
            |it| {
                limited(it);
                it.answers.evictions.insert("uid-web".to_owned(), Eviction::Failed("denied by a policy".to_owned()));
            },
            1170,
            &[
                "event FailedDraining about x: Draining: `shop/web`: denied by a policy",
                "status: Drained=Unknown Draining: Draining: `shop/web`: denied by a policy, Initialized=True, Launched=True, Registered=True",
                "look again at 1180",
            ],
        ),
        (
            "A second at least.",
            |it| {
                limited(it);
                it.residents[0].grace = Duration::from_secs(1);
            },
            1300,
            &["delete pod web within 1 s"],
        ),
        (
            "Pods of later tiers are looked at as well: the one that takes longest to end is the first.",
            |it| {
                limited(it);
                let critical = Resident { is_critical: true, grace: Duration::from_secs(60), ..resident("dns") };
                it.residents.push(critical);
            },
            1139,
            &["look again at 1140"],
        ),
        (
            "A pod that ends in time anyway is left to it.",
            |it| {
                limited(it);
                it.residents[0].deleted_at = Some(at(1200));
            },
            1171,
            &[
                "status: Drained=Unknown Draining: Draining, Initialized=True, Launched=True, Registered=True",
                "look again at 1260",
            ],
        ),
        (
            "Volumes are not waited for any longer either.",
            |it| {
                limited(it);
                it.residents.clear();
                it.judge(nodeclaim::DRAINED, Status::True, "Drained", "", 1100);
                it.attachments = vec![Attachment { node: "node-1".to_owned(), volume: "pv-1".to_owned() }];
            },
            1200,
            &["status: Drained=True, Initialized=True, Launched=True, Registered=True, VolumesDetached=False \
               TerminationGracePeriodElapsed: left attached: `pv-1`"],
        ),
    ]);
}

#[test]
fn a_forced_deletion_does_not_keep_the_other_pods() {
    check(&[
        (
            "Pods that have time are evicted meanwhile, whatever becomes of the deletion.",
            |it| {
                limited(it);
                it.residents.push(Resident { grace: Duration::from_secs(5), ..resident("log") });
            },
            1170,
            &["delete pod web within 30 s", "evict log"],
        ),
        (
            "With the answer, nothing is deleted twice.",
            |it| {
                limited(it);
                it.residents.push(Resident { grace: Duration::from_secs(5), ..resident("log") });
                it.answers.evictions.insert("uid-log".to_owned(), Eviction::Done);
                it.answers.evictions.insert("uid-web".to_owned(), Eviction::Forced);
            },
            1170,
            &[
                "event Disrupted about web: ended because the termination grace period of NodeClaim `x` is over",
                "event Evicted about log: Evicted pod: the node is being terminated",
                "status: Drained=Unknown Draining: Draining, Initialized=True, Launched=True, Registered=True",
                "look again at 1180",
            ],
        ),
    ]);
}

#[test]
fn pods_that_are_left_alone_though_their_time_is_over() {
    check(&[
        (
            "A pod that was deleted after the deadline is not deleted again.",
            |it| {
                limited(it);
                it.residents[0].deleted_at = Some(at(1202));
            },
            1201,
            &[
                "status: Drained=Unknown Draining: Draining, Initialized=True, Launched=True, Registered=True",
                "look again at 1262",
            ],
        ),
        (
            "One that will end long after the deadline is.",
            |it| {
                limited(it);
                it.residents[0].deleted_at = Some(at(1500));
            },
            1201,
            &["delete pod web within 1 s"],
        ),
        (
            "If its kubelet does not end it within a minute, the node goes all the same.",
            |it| {
                limited(it);
                it.residents[0].deleted_at = Some(at(1205));
            },
            1270,
            &["status: Drained=True, Initialized=True, Launched=True, Registered=True, VolumesDetached=True"],
        ),
        (
            "A daemon that tolerates disruption would come back: it is left alone.",
            |it| {
                limited(it);
                it.residents[0].is_daemon = true;
                it.residents[0].tolerates_disruption = true;
            },
            1200,
            &["status: Drained=True, Initialized=True, Launched=True, Registered=True, VolumesDetached=True"],
        ),
        (
            "Nor is it looked at when it would be time to delete it.",
            |it| {
                limited(it);
                let agent =
                    Resident { tolerates_disruption: true, grace: Duration::from_secs(60), ..resident("agent") };
                it.residents.push(agent);
            },
            1139,
            &["look again at 1170"],
        ),
    ]);
}

#[test]
fn volumes_leave() {
    fn attached(it: &mut Fixture) {
        it.leaving().judge(nodeclaim::DRAINED, Status::True, "Drained", "", 1005);
        it.attachments = vec![Attachment { node: "node-1".to_owned(), volume: "pv-1".to_owned() }];
    }
    check(&[
        (
            "A volume of a pod that has left is waited for.",
            attached,
            1010,
            &["status: Drained=True, Initialized=True, Launched=True, Registered=True, VolumesDetached=Unknown \
               AwaitingVolumeDetachment: AwaitingVolumeDetachment: `pv-1`"],
        ),
        (
            "One of a pod that stays is not: it leaves with the instance.",
            |it| {
                attached(it);
                it.residents = vec![resident("agent")];
                it.residents[0].tolerates_disruption = true;
                it.residents[0].volumes = vec!["pv-1".to_owned()];
            },
            1010,
            &["status: Drained=True, Initialized=True, Launched=True, Registered=True, VolumesDetached=True"],
        ),
        (
            "Nor is one of another Node.",
            |it| {
                attached(it);
                it.attachments[0].node = "node-2".to_owned();
            },
            1010,
            &["status: Drained=True, Initialized=True, Launched=True, Registered=True, VolumesDetached=True"],
        ),
    ]);
}

#[test]
fn the_instance_ends() {
    check(&[
        ("It is looked at first.", drained, 1020, &[r#"Get("aws:///eu-west-1a/i-1")"#]),
        (
            "One that runs is told to end.",
            |it| {
                drained(it);
                it.answers.instance = Some(Ok(instance(InstanceState::Running)));
            },
            1020,
            &[r#"Terminate("aws:///eu-west-1a/i-1")"#],
        ),
        (
            "It is waited for, five seconds at a time.",
            |it| {
                drained(it);
                it.judge(nodeclaim::INSTANCE_TERMINATING, Status::True, "InstanceTerminating", "", 1020);
                it.answers.instance = Some(Ok(instance(InstanceState::ShuttingDown)));
            },
            1030,
            &["look again at 1035"],
        ),
        (
            "The Node's finalizer goes when the cloud says that it has ended.",
            |it| {
                drained(it);
                it.answers.instance = Some(Ok(instance(InstanceState::Terminated)));
            },
            1060,
            &["node node-1: finalizers []"],
        ),
        (
            "A refusal is said, and tried again; nothing is let go.",
            |it| {
                drained(it);
                it.answers.instance = Some(Ok(instance(InstanceState::Running)));
                let (action, message) = ("ec2:TerminateInstances".to_owned(), "denied".to_owned());
                it.answers.terminate = Some(Err(CloudError::Unauthorized { action, message }));
            },
            1020,
            &[
                "status: Drained=True, Initialized=True, InstanceTerminating=Unknown Unauthorized: not authorized to perform \
                 ec2:TerminateInstances: denied, Launched=True, Registered=True, VolumesDetached=True",
                "look again at 1025",
            ],
        ),
    ]);
}

#[test]
fn a_node_with_a_dead_kubelet() {
    check(&[
        (
            "A dead kubelet with a dead instance is not drained.",
            |it| {
                pods(it);
                it.ready("Unknown", "NodeStatusUnknown");
                it.answers.instance = Some(Err(gone()));
            },
            1000,
            &["node node-1: finalizers []"],
        ),
        (
            "A dead kubelet with an instance that runs is.",
            |it| {
                pods(it);
                it.ready("Unknown", "NodeStatusUnknown");
                it.answers.instance = Some(Ok(instance(InstanceState::Running)));
            },
            1000,
            &["evict web"],
        ),
    ]);
}

#[test]
fn a_node_whose_instance_the_cloud_says_has_ended() {
    fn told(it: &mut Fixture) {
        pods(it);
        it.judge(nodeclaim::INTERRUPTED, Status::True, events::INSTANCE_TERMINATING, "", 990);
    }
    check(&[
        (
            "It is asked for, though its kubelet has been silent for seconds only.",
            told,
            1000,
            &[r#"Get("aws:///eu-west-1a/i-1")"#],
        ),
        (
            "It has no pods to drain.",
            |it| {
                told(it);
                it.answers.instance = Some(Ok(instance(InstanceState::Terminated)));
            },
            1000,
            &["node node-1: finalizers []"],
        ),
        (
            "While it shuts down it is asked for again soon, whatever the drain waits for.",
            |it| {
                told(it);
                it.answers.instance = Some(Ok(instance(InstanceState::ShuttingDown)));
                it.residents[0].deleted_at = Some(at(1030));
            },
            1000,
            &[
                "status: Drained=Unknown Draining: Draining, Initialized=True, Interrupted=True, \
                 Launched=True, Registered=True",
                "look again at 1005",
            ],
        ),
    ]);
}

#[test]
fn the_claim_is_let_go() {
    check(&[
        (
            "The claim's finalizer goes last, with what is left of a Node that never registered.",
            |it| {
                it.joined().deleted();
                it.answers.instance = Some(Err(gone()));
            },
            1060,
            &["delete node node-1", "claim x: finalizers []"],
        ),
        (
            "A claim that was deleted while it was launched may have an instance that its status does not know.",
            |it| {
                it.deleted();
            },
            1000,
            &[r#"Find("uid-x")"#],
        ),
        (
            "If there is one, it ends before the claim is let go.",
            |it| {
                it.deleted();
                it.answers.instance = Some(Ok(instance(InstanceState::Running)));
            },
            1000,
            &[r#"Terminate("aws:///eu-west-1a/i-1")"#],
        ),
        (
            "A claim for which the cloud was never asked is let go at once.",
            |it| {
                it.deleted();
                it.claim.metadata.annotations = None;
            },
            1000,
            &["claim x: finalizers []"],
        ),
    ]);
}
