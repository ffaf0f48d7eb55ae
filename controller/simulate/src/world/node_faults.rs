//! Faults of machines that their monitoring agents report, and reboots, which mend them.

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use muster_cloud::{CloudError, after};

use super::super::api::{Kind, Path, seconds};
use super::machines::readiness;
use super::{Happening, Meant, World};

/// A condition of a Node that its monitoring agent sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedFault {
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
}

// === impl World ===

impl World {
    /// Sets a condition of matching Nodes. Returns their number.
    pub(crate) fn report_fault(&mut self, meant: &Meant, count: u32, fault: &ReportedFault) -> usize {
        let now = self.clock.now();
        let mut nodes: Vec<(u64, String)> = self
            .cloud
            .everything(now)
            .into_iter()
            .filter(|one| !one.state.is_ending() && meant.is(&one.offering))
            .filter_map(|one| self.node_with(&one.provider_id))
            .map(|node| (self.dice.below(&format!("{} {node}", fault.kind), 1 << 32), node))
            .collect();
        nodes.sort();
        nodes.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        for (_, name) in &nodes {
            let ReportedFault { kind, status, reason } = fault.clone();
            let condition = NodeCondition {
                type_: kind,
                status,
                reason: Some(reason),
                last_transition_time: Some(seconds(now)),
                ..NodeCondition::default()
            };
            let _gone_already = self.api.update(&Kind::Node, &Path::bare(name.clone()), None, |node: &mut Node| {
                let all = node.status.get_or_insert_default().conditions.get_or_insert_default();
                all.retain(|one| one.type_ != condition.type_);
                all.push(condition.clone());
            });
        }
        nodes.len()
    }

    /// Reboots a machine: it is away for as long as it takes to start.
    pub(crate) fn reboot(&mut self, id: &str) -> Result<(), CloudError> {
        let now = self.clock.now();
        let before = self.cloud.reboots(id).len();
        let answer = self.cloud.reboot(id, now);
        // The answer does not matter: a call without an answer may have rebooted the machine.
        let times = self.cloud.reboots(id).len();
        if times > before {
            let wait = self.dice.about(&format!("reboot {id} {times}"), self.habits.join);
            self.clock.at(after(now, self.cloud.latencies.boot + wait), Happening::Boots(id.to_owned()));
        }
        answer
    }

    /// Brings a machine back after a reboot, with another boot ID and without faults.
    pub(super) fn boot(&mut self, id: &str) {
        let now = self.clock.now();
        let Some(name) = self.node_with(id).filter(|name| self.has_kubelet(name)) else { return };
        let boot_id = boot_id(self.cloud.reboots(id).len());
        let _gone_already = self.api.update(&Kind::Node, &Path::bare(name), None, |node: &mut Node| {
            let status = node.status.get_or_insert_default();
            status.node_info.get_or_insert_default().boot_id.clone_from(&boot_id);
            status.conditions = Some(vec![readiness("True", "KubeletReady", "kubelet is posting ready status", now)]);
        });
    }
}

/// The boot of a machine that was rebooted so many times.
pub(super) fn boot_id(reboots: usize) -> String {
    format!("boot-{reboots}")
}
