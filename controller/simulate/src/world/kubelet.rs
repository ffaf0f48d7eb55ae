//! Kubelets: start pods on their nodes, run them, and terminate them within their grace period.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use muster_cloud::after;

use super::super::api::{Key, Kind, Path, has_ended, node_of, seconds};
use super::scheduler::set_condition;
use super::{Happening, World, volumes};

/// Annotation of pods that their kubelet never terminates.
#[cfg(test)]
pub(crate) const STUCK: &str = "simulation.muster.dev/stuck";

// === impl World ===

impl World {
    /// Handles a new or changed pod on its node.
    pub(super) fn notice(&mut self, path: &Path) {
        let Some(pod) = self.api.pods.get(path) else { return };
        let (Some(node), Some(uid)) = (node_of(pod).map(str::to_owned), pod.metadata.uid.clone()) else { return };
        let now = self.clock.now();
        if let Some(end) = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0) {
            if self.ending.get(&uid).is_none_or(|noted| end < *noted) {
                self.ending.insert(uid.clone(), end);
                let wait = self.dice.about(&format!("end {path}"), self.habits.pod_end);
                let moment = if has_ended(pod) { now } else { end.min(after(now, wait)) };
                self.clock.at(moment, Happening::PodEnds(path.clone(), uid, node));
            }
            return;
        }
        if !has_ended(pod) && self.started.insert(uid.clone()) {
            let wait = self.dice.about(&format!("start {path}"), self.habits.pod_start);
            self.clock.at(after(now, wait), Happening::PodStarts(path.clone(), uid));
        }
    }

    /// Starts the containers of a pod.
    pub(super) fn start(&mut self, path: &Path, uid: &str) {
        let now = self.clock.now();
        let Some(pod) = self.living(path, uid) else { return };
        if node_of(&pod).is_none_or(|node| !self.has_kubelet(node)) {
            return;
        }
        let owner = pod.metadata.owner_references.as_deref().and_then(|owners| owners.first());
        let job = owner.filter(|owner| owner.kind == "Job").map(|owner| owner.name.clone());
        volumes::attach(&mut self.api, &pod, now);
        let _gone_already = self.api.update(&Kind::Pod, path, None, |pod: &mut Pod| {
            let status = pod.status.get_or_insert_default();
            status.phase = Some("Running".to_owned());
            status.start_time = Some(seconds(now));
            set_condition(pod, "Ready", "True", "", "", now);
        });
        if let Some(job) = job {
            let length = self.run_of(&Path::new(path.namespace.clone(), job));
            self.clock.at(after(now, length), Happening::PodSucceeds(path.clone(), uid.to_owned()));
        }
    }

    /// Completes a pod of a Job.
    pub(super) fn succeed(&mut self, path: &Path, uid: &str) {
        let now = self.clock.now();
        let Some(pod) = self.living(path, uid) else { return };
        if node_of(&pod).is_none_or(|node| !self.has_kubelet(node)) {
            return;
        }
        let _gone_already = self.api.update(&Kind::Pod, path, None, |pod: &mut Pod| {
            pod.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
            set_condition(pod, "Ready", "False", "PodCompleted", "", now);
        });
        self.detach_later(now);
    }

    /// Removes a pod that was being deleted. Without a running kubelet, it stays.
    pub(super) fn end(&mut self, path: &Path, uid: &str, node: &str) {
        let pod = self.api.pods.get(path).filter(|pod| pod.metadata.uid.as_deref() == Some(uid));
        #[cfg(test)]
        let pod = pod.filter(|pod| !pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(STUCK)));
        if pod.is_none() || !self.has_kubelet(node) {
            return;
        }
        self.ending.remove(uid);
        self.api.remove::<Pod>(&Key { kind: Kind::Pod, path: path.clone() });
        self.detach_later(self.clock.now());
    }

    /// Detaches unused volumes after a delay.
    pub(super) fn detach_later(&mut self, now: Timestamp) {
        if !self.api.attachments.is_empty() {
            self.clock.at(after(now, self.habits.detach), Happening::Detach);
        }
    }

    /// Returns the run time of a Job's pods.
    fn run_of(&self, job: &Path) -> Duration {
        let listed = |path: &Path| self.runs.get(path).copied();
        // A Job of a CronJob is looked up by the name of the CronJob.
        let family = || job.name.rsplit_once('-').and_then(|(name, _)| listed(&Path::new(job.namespace.clone(), name)));
        listed(job).or_else(family).unwrap_or(self.habits.job)
    }

    fn living(&self, path: &Path, uid: &str) -> Option<Pod> {
        let pod = self.api.pods.get(path)?;
        let is_it = pod.metadata.uid.as_deref() == Some(uid) && pod.metadata.deletion_timestamp.is_none();
        (is_it && !has_ended(pod)).then(|| pod.clone())
    }
}
