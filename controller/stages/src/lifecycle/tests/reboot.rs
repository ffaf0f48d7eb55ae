//! Nodes that are rebooted, by this controller or by another one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{annotations, taints};
use muster_cloud::CloudError;

use super::check;
use super::fixture::{Fixture, at, resident, taint};
use crate::lifecycle::conditions::Status;
use crate::node::NodeInfo;

/// The reboot was requested at second 1000, and issued at second 1010.
fn rebooting(it: &mut Fixture) {
    it.initialized();
    it.annotate(annotations::REBOOT_PRE_BOOT_ID, "1-2-3");
    it.judge("Rebooting", Status::True, "RebootRequested", "rebooting for AcceleratedHardwareReady/XID48", 1000);
    it.judge("Rebooting", Status::True, "RebootIssued", "rebooting for AcceleratedHardwareReady/XID48", 1000);
    it.judge("Initialized", Status::Unknown, "Rebooting", "the node is rebooting", 1010);
    it.nodes[0].spec.as_mut().unwrap().taints = Some(vec![taint(taints::REBOOTING, "NoSchedule")]);
    it.ready("Unknown", "NodeStatusUnknown");
}

fn back(it: &mut Fixture, second: i64) {
    it.ready("True", "KubeletReady");
    let conditions = it.nodes[0].status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions[0].last_transition_time = Some(Time(at(second)));
}

#[test]
fn reboots() {
    check(&[
        (
            "A node that is rebooting is left alone, long after its registration.",
            rebooting,
            1100,
            &["look again at 2800"],
        ),
        (
            "Ready from before the reboot is no sign of its end.",
            |it| {
                rebooting(it);
                back(it, 90);
            },
            1100,
            &["look again at 2800"],
        ),
        (
            "Once it is ready again the taint goes, and initialization runs as usual.",
            |it| {
                rebooting(it);
                back(it, 1090);
            },
            1100,
            &[
                "node node-1: taints []",
                "status: Initialized=Unknown Rebooting: the node is rebooting, Launched=True, Rebooting=False \
                 RebootSucceeded: the node is ready again, Registered=True",
            ],
        ),
        (
            "A reboot that does not end is told, and the node is judged as any other.",
            rebooting,
            2800,
            &[
                "node node-1: taints []",
                "status: Initialized=Unknown Rebooting: the node is rebooting, Launched=True, Rebooting=False \
                 RebootFailed: the node was not ready again within 30m, Registered=True",
            ],
        ),
        (
            "After the reboot the time for initialization begins anew.",
            |it| {
                rebooting(it);
                it.claim.metadata.annotations.as_mut().unwrap().remove(annotations::REBOOT_PRE_BOOT_ID);
                it.judge("Rebooting", Status::False, "RebootSucceeded", "", 1100);
                it.decided(1100);
            },
            1100,
            &["look again at 2000"],
        ),
    ]);
}

/// The same of a cloud that can reboot, requested at second 1000, on a Node of boot `1`.
fn requested(it: &mut Fixture) {
    it.initialized();
    it.class.reboots_instances = true;
    it.judge("Rebooting", Status::True, "RebootRequested", "rebooting for AcceleratedHardwareReady/XID48", 1000);
    boots(it, "1");
}

fn boots(it: &mut Fixture, boot: &str) {
    let status = it.nodes[0].status.as_mut().unwrap();
    status.node_info = Some(NodeInfo { boot_id: boot.to_owned() });
}

fn drained(it: &mut Fixture) {
    requested(it);
    it.nodes[0].spec.as_mut().unwrap().taints = Some(vec![taints::rebooting()]);
    it.annotate(annotations::REBOOT_PRE_BOOT_ID, "1");
    it.annotate(annotations::REBOOTS, "1970-01-01T00:16:46Z");
}

fn issued(it: &mut Fixture) {
    drained(it);
    it.judge("Rebooting", Status::True, "RebootIssued", "rebooting for AcceleratedHardwareReady/XID48", 1000);
    it.judge("Initialized", Status::Unknown, "Rebooting", "the node is rebooting", 1010);
}

#[test]
fn requests() {
    check(&[
        ("The taint comes first.", requested, 1001, &["node node-1: taints [karpenter.sh/rebooting]"]),
        (
            "Pods have five seconds to show up.",
            |it| {
                requested(it);
                it.nodes[0].spec.as_mut().unwrap().taints = Some(vec![taints::rebooting()]);
            },
            1001,
            &["look again at 1005"],
        ),
        (
            "Pods are evicted.",
            |it| {
                requested(it);
                it.nodes[0].spec.as_mut().unwrap().taints = Some(vec![taints::rebooting()]);
                it.residents = vec![resident("web")];
            },
            1001,
            &["evict web"],
        ),
        (
            "A pod that tolerates disruption is left alone, though it takes longer to end than the drain may.",
            |it| {
                requested(it);
                it.nodes[0].spec.as_mut().unwrap().taints = Some(vec![taints::rebooting()]);
                it.annotate(annotations::REBOOT_TERMINATION_GRACE_PERIOD, "20s");
                it.residents = vec![resident("agent")];
                it.residents[0].tolerates_disruption = true;
            },
            1006,
            &["claim x: karpenter.sh/reboot-pre-boot-id=1 muster.dev/reboots=1970-01-01T00:16:46Z"],
        ),
        (
            "Before the call the boot and the time are noted.",
            |it| {
                requested(it);
                it.nodes[0].spec.as_mut().unwrap().taints = Some(vec![taints::rebooting()]);
            },
            1006,
            &["claim x: karpenter.sh/reboot-pre-boot-id=1 muster.dev/reboots=1970-01-01T00:16:46Z"],
        ),
        ("Then the call is made.", drained, 1006, &["Reboot(\"aws:///eu-west-1a/i-1\")"]),
        (
            "A call that was refused is made again after as long as it has been tried.",
            |it| {
                drained(it);
                it.answers.reboot = Some(Err(CloudError::Throttled { operation: "RebootInstances".to_owned() }));
            },
            1016,
            &["look again at 1026"],
        ),
        (
            "After five minutes it has failed.",
            |it| {
                drained(it);
                it.answers.reboot = Some(Err(CloudError::Throttled { operation: "RebootInstances".to_owned() }));
            },
            1306,
            &[
                "event RebootFailed about x: provider_error: the cloud limits the rate of RebootInstances",
                "status: Initialized=True, Launched=True, Rebooting=False RebootFailed: provider_error: the cloud limits \
                 the rate of RebootInstances, Registered=True",
            ],
        ),
        (
            "A node that has booted anew before the answer was noted is not rebooted again.",
            |it| {
                drained(it);
                boots(it, "2");
            },
            1030,
            &["status: Initialized=Unknown Rebooting: the node is rebooting, Launched=True, Rebooting=True \
               RebootIssued: rebooting for AcceleratedHardwareReady/XID48, Registered=True"],
        ),
    ]);
}

#[test]
fn requests_without_effect() {
    check(&[
        (
            "A request that cannot be read leaves the node as it is.",
            |it| {
                requested(it);
                it.annotate(annotations::REBOOT_TERMINATION_GRACE_PERIOD, "-5m");
            },
            1001,
            &[
                "event RebootFailed about x: invalid_request: `-5m` of karpenter.sh/reboot-termination-grace-period is \
                 not a duration",
                "status: Initialized=True, Launched=True, Rebooting=False RebootFailed: invalid_request: `-5m` of \
                 karpenter.sh/reboot-termination-grace-period is not a duration, Registered=True",
            ],
        ),
        (
            "While an operator pauses disruption nothing is rebooted.",
            |it| {
                drained(it);
                it.pause.disruption = true;
            },
            1006,
            &["look again at 2595600"],
        ),
    ]);
}

#[test]
fn rejoins() {
    check(&[
        ("The node is waited for, for twenty minutes.", issued, 1100, &["look again at 2210"]),
        (
            "As soon as it has booted anew the taint goes.",
            |it| {
                issued(it);
                it.ready("Unknown", "NodeStatusUnknown");
                boots(it, "2");
            },
            1100,
            &["event RebootObserved about x: Node `node-1` has booted anew", "node node-1: taints []"],
        ),
        (
            "Once it is ready, too, it is initialized as usual.",
            |it| {
                issued(it);
                it.untaint(taints::REBOOTING);
                boots(it, "2");
            },
            1100,
            &["status: Initialized=Unknown Rebooting: the node is rebooting, Launched=True, Rebooting=False \
               RebootSucceeded: the node is ready again, Registered=True"],
        ),
        (
            "A node that does not come back has failed.",
            issued,
            2210,
            &[
                "event RebootFailed about x: recovery_timeout: the node was not back within 20m",
                "status: Initialized=Unknown Rebooting: the node is rebooting, Launched=True, Rebooting=False \
                 RebootFailed: recovery_timeout: the node was not back within 20m, Registered=True",
            ],
        ),
        (
            "And then it goes.",
            |it| {
                issued(it);
                it.judge("Rebooting", Status::False, "RebootFailed", "recovery_timeout: the node was not back", 2210);
            },
            2210,
            &[
                "claim x: karpenter.sh/nodeclaim-termination-timestamp=1970-01-01T00:46:50Z",
                "delete claim x: unhealthy",
            ],
        ),
    ]);
}
