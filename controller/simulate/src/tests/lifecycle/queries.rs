//! Questions of tests to a life.

use kube::core::DynamicObject;
use muster_api::{NodeClaim, events};
use muster_cloud::Instance;
use muster_cloud::memory::Call;
use muster_stages::step::{Event, EventType, Write};

use super::WriteLog;
use super::life::Life;
use crate::api::Path;

// === impl Life ===

impl Life {
    pub(super) fn log(&self) -> &WriteLog {
        self.world.write_log.as_ref().unwrap()
    }

    pub(super) fn log_mut(&mut self) -> &mut WriteLog {
        self.world.write_log.as_mut().unwrap()
    }

    pub(super) fn diary(&self) -> String {
        self.log().diary()
    }

    /// Returns every instance ever launched.
    pub(super) fn launched(&self) -> Vec<Instance> {
        self.world.cloud.everything(self.world.clock.now())
    }

    /// Returns the instances that have not ended.
    pub(super) fn alive(&self) -> Vec<Instance> {
        self.launched().into_iter().filter(|one| !one.state.is_ending()).collect()
    }

    /// Returns the number of launch requests.
    pub(super) fn launches(&self) -> usize {
        self.world.cloud.record().iter().filter(|one| matches!(one.call, Call::Launch(_))).count()
    }

    /// Returns true if there are neither claims nor Nodes nor instances.
    pub(super) fn is_over(&self) -> bool {
        self.world.api.claims.is_empty() && self.world.api.nodes.is_empty() && self.alive().is_empty()
    }

    pub(super) fn claim(&self, name: &str) -> &NodeClaim {
        self.world.api.claims.get(&Path::bare(name)).unwrap()
    }

    pub(super) fn class(&self) -> &DynamicObject {
        self.world.api.others["EC2NodeClass"].get(&Path::bare("default")).unwrap()
    }

    /// Returns status, reason and message of a claim's condition; empty if there is none.
    pub(super) fn condition(&self, name: &str, kind: &str) -> (String, String, String) {
        muster_stages::lifecycle::condition(self.claim(name), kind)
            .map(|one| (one.status.clone(), one.reason.clone(), one.message.clone()))
            .unwrap_or_default()
    }

    /// Returns the messages of all events with this reason.
    pub(super) fn events(&self, reason: &str) -> Vec<&str> {
        self.log().events().filter(|one| one.reason == reason).map(|one| one.message.as_str()).collect()
    }

    /// Returns the messages of all warnings, but those of pods whose node leaves: without a NodePool there is no
    /// place for them.
    pub(super) fn warnings(&self) -> Vec<&str> {
        let is_warning = |one: &&Event| one.kind == EventType::Warning && one.reason != events::FAILED_SCHEDULING;
        self.log().events().filter(is_warning).map(|one| one.message.as_str()).collect()
    }

    /// Returns the pods that were asked to leave, in order.
    pub(super) fn evicted(&self) -> Vec<&str> {
        let all = self.log().writes();
        all.filter_map(|write| if let Write::Evict(pod) = write { Some(pod.name.as_str()) } else { None }).collect()
    }
}
