//! Nodes that another controller reboots.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{annotations, taints};

use super::check;
use super::fixture::{Fixture, at, taint};
use crate::lifecycle::conditions::Status;

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
                "claim x: -karpenter.sh/reboot-pre-boot-id",
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
                "claim x: -karpenter.sh/reboot-pre-boot-id",
                "status: Initialized=Unknown Rebooting: the node is rebooting, Launched=True, Rebooting=False \
                 RebootFailed: the node was not ready again within 30m, Registered=True",
            ],
        ),
        (
            "After the reboot the time for initialization begins anew.",
            |it| {
                rebooting(it);
                it.judge("Rebooting", Status::False, "RebootSucceeded", "", 1100);
                it.decided(1100);
            },
            1100,
            &["look again at 2000"],
        ),
    ]);
}
