//! Checks that no pod waits for long that could be scheduled under the current NodePools, limits and pauses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;
use muster_manifest::InputError;

use super::{Checks, PATIENCE};
use crate::api::{Path, node_of};
use crate::controller::Controller;
use crate::world::{World, is_waiting};

/// Interval between checks of whether waiting pods can be scheduled. A pod that could not be at one check, because a
/// limit was reached or a pool did not exist, starts its wait again.
const ASKED_EVERY: Duration = Duration::from_secs(5 * 60);

/// Annotation of pods that no node can hold, which may wait.
const MAY_WAIT: &str = "simulation.muster.dev/may-wait";

/// A pod without a node.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Timestamp,
    /// Time since which it could be scheduled at every check.
    could_since: Option<Timestamp>,
}

/// Pods without a node, by UID.
#[derive(Debug, Default)]
pub(super) struct Waits {
    all: BTreeMap<String, Wait>,
    asked_at: Option<Timestamp>,
}

// === impl Checks ===

impl Checks {
    /// Checks for pods that wait too long; `controller` is none while it is down.
    pub(super) fn pods(
        &mut self,
        world: &World,
        controller: Option<&mut Controller>,
        broken: &mut Vec<String>,
    ) -> Result<(), InputError> {
        let now = world.clock.now();
        if let Some(until) = world.short_until() {
            self.excuse(until);
        }
        // Until a machine that never joins is given up, pods are planned onto it.
        if world.has_misfits() {
            self.excuse(now);
        }
        let before = std::mem::take(&mut self.waits.all);
        let mut waiting: Vec<(&Path, String)> = Vec::new();
        for (path, pod) in world.api.pods.iter().filter(|(_, pod)| is_waiting(pod) && node_of(pod).is_none()) {
            if pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MAY_WAIT)) {
                continue;
            }
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let wait = before.get(&uid).copied().unwrap_or(Wait { since: now, could_since: None });
            self.waits.all.insert(uid.clone(), wait);
            waiting.push((path, uid));
        }
        let excused = self.excused_at;
        let is_late = |wait: &Wait| now >= after(excused.map_or(wait.since, |it| it.max(wait.since)), ASKED_EVERY);
        let is_due = self.waits.asked_at.is_none_or(|asked_at| now >= after(asked_at, ASKED_EVERY));
        let Some(controller) = controller.filter(|_| is_due && self.waits.all.values().any(is_late)) else {
            return Ok(());
        };
        self.waits.asked_at = Some(now);
        let could: BTreeSet<String> = controller.could_be_placed(world)?;
        for (path, uid) in waiting {
            let Some(wait) = self.waits.all.get_mut(&uid) else { continue };
            if !is_late(wait) || !could.contains(&path.to_string()) {
                wait.could_since = None;
                continue;
            }
            let could_since = *wait.could_since.get_or_insert(now);
            if now >= after(could_since, PATIENCE) {
                broken.push(format!("pod {path} waits for a node since {}, and could have had one", wait.since));
            }
        }
        Ok(())
    }
}
