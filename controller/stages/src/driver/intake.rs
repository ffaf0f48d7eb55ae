//! Maps changes of the cluster to what must be done.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodeClassReference};
use muster_cloud::after;

use super::{CommandItem, Driver, Item, LeaderState, Settings};
use crate::lifecycle::is_in_block;
use crate::pools;
use crate::provision::RETRY;
use crate::state::{Changed, Cluster, Kind};

/// Delay before nominations, so that several nodes and pods are handled together. It grows by the same amount for every
/// thousand pending pods, since all of them are examined again.
const GATHER: Duration = Duration::from_millis(150);
/// Delay before a claim is reconciled because of pod events, which are not urgent and come in series. Not used for
/// claims that are being deleted.
const CROWD: Duration = Duration::from_millis(500);
/// Kinds that the room of a CapacityBuffer depends on.
const OF_BUFFERS: [Kind; 5] =
    [Kind::CapacityBuffer, Kind::PodTemplate, Kind::Deployment, Kind::StatefulSet, Kind::ReplicaSet];
/// Kinds of NodeClasses.
const CLASSES: [Kind; 2] = [Kind::Ec2NodeClass, Kind::KwokNodeClass];
/// Kinds that the supply of nodes depends on.
const OF_SUPPLY: [Kind; 7] = [
    Kind::NodePool,
    Kind::Ec2NodeClass,
    Kind::KwokNodeClass,
    Kind::NodeOverlay,
    Kind::DeviceClass,
    Kind::ResourceClaimTemplate,
    Kind::ResourceSlice,
];

// === impl Driver ===

impl Driver {
    /// Schedules a reconciliation of every object.
    pub(super) fn on_everything(&mut self, cluster: &Cluster, state: &mut LeaderState, now: Timestamp) {
        for claim in cluster.claims() {
            let name = claim.metadata.name.clone().unwrap_or_default();
            for item in CommandItem::of_claim(cluster, &name) {
                self.commands.want(item, now);
            }
            self.work_queue.want(Item::Claim(name), now);
        }
        for pool in cluster.pools() {
            self.work_queue.want(Item::Pool(pool.metadata.name.clone().unwrap_or_default()), now);
        }
        for class in cluster.classes().filter(|class| self.settings.serves(&class.reference.kind)) {
            let kind = Kind::named(&class.reference.kind);
            if let Some(kind) = kind {
                self.work_queue.want(Item::Class(kind, class.reference.name.clone()), now);
            }
        }
        state.interrupted.remember_all(cluster, &mut state.refusals);
        self.work_queue.want(Item::Overlays, now);
        self.work_queue.want(Item::Buffers, now);
        if self.keeps_buffers(cluster) {
            self.window.arrive("buffers", now);
        }
        for pod in cluster.unbound() {
            self.window.arrive(&pod.uid, now);
        }
        if cluster.pools().any(|pool| pool.spec.replicas.is_some()) {
            self.window.arrive("static pools", now);
        }
    }

    /// Takes in a change of the cluster, which shows it already.
    pub fn on(&mut self, changed: &Changed, cluster: &Cluster, state: &mut LeaderState, now: Timestamp) {
        if changed.is_empty() {
            return;
        }
        if state.interrupted.remember(changed, cluster, &mut state.refusals) {
            self.pass_schedule.hurry_at_once(now);
        }
        if changed.has_new_policy || state.unhealthy.remember(changed, cluster, &self.settings, now) {
            self.pass_schedule.hurry();
        } else {
            self.pass_schedule.stir();
        }
        forget_outdated(changed, state, now);
        for claim in changed.claims.iter().filter_map(|name| cluster.claim(name)) {
            state.plan.observe(claim, now);
        }
        note_live_sets(changed, cluster, state, now);
        self.queue_concerned(changed, cluster, now);
        state.left.extend(changed.left.iter().cloned());
        state.remember_moves(cluster, &changed.moved, now);
        self.open_window(changed, cluster, now);
        self.has_changed = true;
        // What stays pending is decided again soon after a change, and seldom without one. A pod may have taken the
        // room of a buffer, which is filled again.
        let soon = after(now, RETRY);
        let again = self.decide_at.or_else(|| self.keeps_buffers(cluster).then_some(soon));
        self.decide_at = again.map(|moment| moment.min(soon));
        if changed.has_strayed && is_any_crowded(changed, cluster, state) {
            self.decide_at = Some(now);
        }
        self.schedule_nominations(changed, cluster, state, now);
    }

    /// Takes in that zonal shifts have begun or ended: other offerings are available from now on.
    pub fn on_zonal_shifts(&mut self, now: Timestamp) {
        self.has_changed = true;
        self.window.arrive("zonal shifts", now);
        self.pass_schedule.hurry();
    }

    /// Takes in that instances of a reservation have become available: pods may wait for them.
    pub fn on_freed_reservation(&mut self, cluster: &Cluster, now: Timestamp) {
        if cluster.count_unbound() > 0 {
            self.has_changed = true;
            self.window.arrive("reservations", now);
        }
    }

    /// Takes in that an order waits.
    pub const fn on_order(&mut self) {
        self.has_order = true;
    }

    /// Takes in a change that only decisions about disruption depend on.
    pub const fn stir_disruption(&mut self) {
        self.pass_schedule.stir();
    }

    /// Returns true if buffers are kept, and there are any.
    pub(super) fn keeps_buffers(&self, cluster: &Cluster) -> bool {
        self.settings.keeps_buffers && cluster.buffers().len() > 0
    }

    /// Queues the objects to be reconciled, and the disruption commands that concern the claims.
    fn queue_concerned(&mut self, changed: &Changed, cluster: &Cluster, now: Timestamp) {
        if contains_any(changed, &OF_BUFFERS) {
            self.work_queue.want(Item::Buffers, now);
            if self.keeps_buffers(cluster) {
                self.window.arrive("buffers", now);
            }
        }
        if changed.has_new_policy || changed.kinds.contains(Kind::NodeOverlay) {
            self.work_queue.want(Item::Overlays, now);
        }
        let mut served = CLASSES.into_iter().filter(|kind| self.settings.serves(kind.name()));
        let is_of_class = served.any(|kind| changed.kinds.contains(kind));
        for (item, moment) in of_pools_and_classes(changed, cluster, &self.settings, now) {
            // When its class becomes ready, a pool is reconciled again even if it was just reconciled.
            if moment <= now && (changed.has_new_policy || is_of_class) {
                self.work_queue.insist(item, moment);
            } else {
                self.work_queue.want(item, moment);
            }
        }
        // The end of a block may have been moved.
        for claim in cluster.claims().filter(|_| is_of_class).filter(|claim| is_in_block(claim)) {
            self.work_queue.want(Item::Claim(claim.metadata.name.clone().unwrap_or_default()), now);
        }
        let is_of_pods = changed.kinds.is_only(Kind::Pod);
        for name in &changed.claims {
            let stays = cluster.claim(name).is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
            let moment = if is_of_pods && stays { after(now, CROWD) } else { now };
            self.work_queue.want(Item::Claim(name.to_string()), moment);
        }
        for item in changed.claims.iter().flat_map(|claim| CommandItem::of_claim(cluster, claim)) {
            self.commands.want(item, now);
        }
    }

    /// Opens the provisioning window for pods that need a node, and for a changed supply of nodes.
    fn open_window(&mut self, changed: &Changed, cluster: &Cluster, now: Timestamp) {
        for path in &changed.waiting {
            if let Some(pod) = cluster.pod(path) {
                // A pod newly marked unschedulable opens the window again; a pod newly nominated does not.
                let word = if pod.is_marked { "marked" } else { "new" };
                if self.waiting.insert(format!("{} {word}", pod.uid).into()) {
                    self.window.arrive(&pod.uid, now);
                }
            }
        }
        // Pods planned on a claim that is being deleted, or whose launch failed, need another node.
        for name in changed.claims.iter().filter(|name| !cluster.claim(name).is_some_and(stays)) {
            self.window.arrive(&format!("claim {name}"), now);
        }
        // The supply of nodes for pending pods has changed.
        let is_of_use = cluster.count_unbound() > 0
            || cluster.pools().any(|pool| pool.spec.replicas.is_some())
            || self.keeps_buffers(cluster);
        if is_of_use && contains_any(changed, &OF_SUPPLY) {
            self.window.arrive("supply", now);
        }
    }

    /// Sets the time of the next nominations.
    fn schedule_nominations(&mut self, changed: &Changed, cluster: &Cluster, state: &LeaderState, now: Timestamp) {
        // A pod was bound elsewhere than planned, so its place can go to a pod that is about to be tried; or a pod has
        // lost its nomination, and its room is not reserved.
        if changed.has_strayed || changed.has_forgotten && state.plan.has_any_place() {
            self.nominating.at = Some(now);
        }
        let concerns_nodes = contains_any(changed, &[Kind::Node, Kind::NodeClaim]);
        if concerns_nodes || !changed.waiting.is_empty() {
            // Do not delay nominations while nodes are held for them.
            let is_of_pods = changed.kinds.is_only(Kind::Pod);
            let is_held = state.gates.is_any_held();
            let soon = after(now, if is_of_pods && !is_held { CROWD } else { gather(cluster.count_unbound()) });
            self.nominating.at = Some(self.nominating.at.map_or(soon, |moment| moment.min(soon)));
        }
    }

    /// Reconciles the claims of classes that have become ready, which their status may not show, and provisions for
    /// pods that waited for the class.
    pub(super) fn on_ready_classes(&mut self, ready: &BTreeSet<String>, cluster: &Cluster, now: Timestamp) {
        if ready.is_empty() {
            return;
        }
        for class in cluster.classes().filter(|class| self.settings.serves(&class.reference.kind)) {
            if ready.contains(&class.reference.name) {
                for claim in cluster.claims_of_class(&class.reference) {
                    self.work_queue.want(Item::Claim(claim.metadata.name.clone().unwrap_or_default()), now);
                }
            }
        }
        if cluster.count_unbound() > 0 {
            self.window.arrive("supply", now);
        }
    }

    /// Forgets pods that have been bound or deleted.
    pub(super) fn forget_gone(&mut self, cluster: &Cluster) {
        let there: BTreeSet<&str> = cluster.unbound().map(|pod| &*pod.uid).collect();
        self.waiting.retain(|word| word.split_once(' ').is_some_and(|(uid, _)| there.contains(uid)));
    }
}

fn contains_any(changed: &Changed, kinds: &[Kind]) -> bool {
    kinds.iter().any(|kind| changed.kinds.contains(*kind))
}

fn stays(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_none()
}

/// Records which of the sets whose nodes another actor deleted have pods. Nothing is read while there are none.
fn note_live_sets(changed: &Changed, cluster: &Cluster, state: &mut LeaderState, now: Timestamp) {
    if changed.claims.is_empty() && !changed.kinds.contains(Kind::Pod) {
        return;
    }
    let sets = state.plan.sets_with_losses();
    if !sets.is_empty() {
        state.plan.note_live(&cluster.live_among(&sets), now);
    }
}

/// Forgets what was derived from objects that have changed.
fn forget_outdated(changed: &Changed, state: &mut LeaderState, now: Timestamp) {
    if changed.has_new_policy {
        state.plan.forget_fruitless();
    } else if changed.concerns_daemons() {
        state.plan.note_daemons(now);
    }
    if contains_any(changed, &[Kind::NodeOverlay, Kind::NodePool, Kind::Ec2NodeClass, Kind::KwokNodeClass]) {
        state.overlaid = None;
    }
}

/// Returns true if a pod among the changes occupies room planned for other pods. Those are about to be tried, and are
/// refused unless the new decision moves some of them first.
fn is_any_crowded(changed: &Changed, cluster: &Cluster, state: &LeaderState) -> bool {
    let claims = changed.claims.iter().filter(|name| state.plan.has_places(name));
    let mut claims = claims.filter_map(|name| cluster.claim(name).map(|claim| (name, claim)));
    claims.any(|(name, claim)| cluster.is_crowded(claim, state.plan.placed_on(name)))
}

/// Returns the pools and classes to be reconciled, and when. Each reconciliation visits all their claims, so changes of
/// single claims or Nodes, of which there may be ten thousand, are batched.
fn of_pools_and_classes(
    changed: &Changed,
    cluster: &Cluster,
    settings: &Settings,
    now: Timestamp,
) -> Vec<(Item, Timestamp)> {
    let later = after(now, pools::EVERY);
    let mut items = Vec::new();
    let is_own_news = changed.kinds.contains(Kind::NodePool);
    items
        .extend(changed.pools.iter().map(|pool| (Item::Pool(pool.to_string()), if is_own_news { now } else { later })));
    for (kind, name) in changed.classes.iter().filter(|(kind, _)| settings.serves(kind.name())) {
        let is_its = |reference: &NodeClassReference| reference.kind == kind.name() && reference.name == **name;
        let live = cluster.classes().find(|live| is_its(&live.reference));
        // A class that is being deleted waits for the deletion of its last claim.
        let is_going = live.is_some_and(|live| live.meta.deletion_timestamp.is_some());
        let is_own_news = changed.kinds.contains(*kind);
        items.push((Item::Class(*kind, name.to_string()), if is_own_news || is_going { now } else { later }));
        if is_own_news {
            // The readiness of a pool depends on its class.
            let pools = cluster.pools().filter(|pool| is_its(&pool.spec.template.spec.node_class_ref));
            items.extend(pools.map(|pool| (Item::Pool(pool.metadata.name.clone().unwrap_or_default()), now)));
        }
    }
    items
}

/// Returns the delay before nominations for this number of unbound pods.
fn gather(crowd: usize) -> Duration {
    GATHER * u32::try_from(1 + crowd / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const KIND: &str = "EC2NodeClass";

    fn settings(class_kind: &'static str) -> Settings {
        Settings { class_kind: Some(class_kind), ..super::super::tests::settings() }
    }

    fn class(spec: &Value, deleted_at: Option<&str>) -> String {
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": KIND,
            "metadata": {"name": "default", "deletionTimestamp": deleted_at, "finalizers": ["karpenter.k8s.aws/termination"]},
            "spec": spec,
        })
        .to_string()
    }

    fn reference() -> Value {
        json!({"group": "karpenter.k8s.aws", "kind": KIND, "name": "default"})
    }

    fn pool(name: &str) -> String {
        let spec = json!({"template": {"spec": {"nodeClassRef": reference(), "requirements": []}}});
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec})
            .to_string()
    }

    fn claim(name: &str, finalizers: &[&str]) -> String {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "general"}, "finalizers": finalizers},
            "spec": {"nodeClassRef": reference(), "requirements": []},
        })
        .to_string()
    }

    fn of(name: &str, is_pool: bool, seconds: i64) -> (Item, Timestamp) {
        let item = if is_pool { Item::Pool(name.to_owned()) } else { Item::Class(Kind::Ec2NodeClass, name.to_owned()) };
        (item, Timestamp::from_second(seconds).unwrap())
    }

    #[test]
    fn news_of_a_claim_are_taken_in_once_in_a_while_and_those_of_a_pool_and_a_class_at_once() {
        let mut cluster = Cluster::default();
        let now = Timestamp::from_second(100).unwrap();
        let asked = |changed: &Changed, cluster: &Cluster| {
            assert!(!changed.is_empty(), "nothing has changed");
            of_pools_and_classes(changed, cluster, &settings(KIND), now)
        };
        let (own, other) = (json!({"role": "nodes"}), json!({"role": "others"}));
        cluster.apply(Kind::Ec2NodeClass, &class(&own, None));
        let changed = cluster.apply(Kind::NodePool, &pool("general"));
        assert_eq!(asked(&changed, &cluster), [of("general", true, 100)]);
        cluster.apply(Kind::NodePool, &pool("other"));

        for finalizers in [&[][..], &["karpenter.sh/termination"]] {
            let changed = cluster.apply(Kind::NodeClaim, &claim("a", finalizers));
            assert_eq!(asked(&changed, &cluster), [of("general", true, 105), of("default", false, 105)]);
        }
        let changed = cluster.apply(Kind::Ec2NodeClass, &class(&other, None));
        let at_once = [of("default", false, 100), of("general", true, 100), of("other", true, 100)];
        assert_eq!(asked(&changed, &cluster), at_once);

        cluster.apply(Kind::Ec2NodeClass, &class(&other, Some("2026-01-01T00:00:00Z")));
        let changed = cluster.remove(Kind::NodeClaim, "a");
        let last = [of("general", true, 105), of("default", false, 100)];
        assert_eq!(asked(&changed, &cluster), last, "a class that goes waits for it");
        assert_eq!(
            of_pools_and_classes(&changed, &cluster, &settings("KWOKNodeClass"), now),
            [of("general", true, 105)]
        );
    }
}
