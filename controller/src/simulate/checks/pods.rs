//! No pod waits for long that could have a node, under the NodePools, limits and pauses as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::after;

use super::{Checks, PATIENCE};
use crate::manifest::InputError;
use crate::simulate::api::{Path, node_of};
use crate::simulate::controller::Controller;
use crate::simulate::world::{World, is_waiting};

/// How often it is asked whether pods that wait could have a node. Whoever could not for one moment in between, because a
/// limit was reached or a pool was gone, has not waited for longer than that in vain.
const ASKED_EVERY: Duration = Duration::from_secs(5 * 60);

/// On pods that no node can hold: they may wait.
const MAY_WAIT: &str = "simulation.muster.dev/may-wait";

/// A pod without a node.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Timestamp,
    /// Since when it could have had a node each time that was asked.
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
    /// Looks for pods that wait in vain; `controller` is none while it is away.
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
        // Until it is given up, its pods are promised to a machine that never joins.
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
