//! Event handling of the leader: maps changes in the watch cache to objects that must be reconciled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodeClassReference};
use muster_cloud::after;
use muster_stages::lifecycle::is_in_block;
use muster_stages::pools;
use muster_stages::provision::RETRY;
use muster_stages::state::{Changed, Cluster, Kind};
use muster_stages::step::{Step, Write};

use super::{Audience, Item, Leader};
use crate::provider::Provider;
use crate::run::{buffers, disruption, interruption, now, reconcile, unhealthy, zonal_shifts};

/// Delay before nominations, so that several nodes and pods are handled together. It grows by the same amount for every
/// thousand pending pods, since all of them are examined again.
const GATHER: Duration = Duration::from_millis(150);
/// Delay before a claim is reconciled because of pod events, which are not urgent and come in series. Not used for
/// claims that are being deleted.
const CROWD: Duration = Duration::from_millis(500);

impl<P: Provider> Leader<P> {
    /// Schedules a reconciliation of every object, since a new leader does not know what changed before.
    pub(super) fn look_at_everything(&mut self) {
        let now = now();
        let cluster = self.context.cluster_cache.read();
        for claim in cluster.claims() {
            let name = claim.metadata.name.clone().unwrap_or_default();
            for item in disruption::concern(&cluster, &name) {
                self.commands.want(item, now);
            }
            self.work_queue.want(Item::Claim(name), now);
        }
        for pool in cluster.pools() {
            self.work_queue.want(Item::Pool(pool.metadata.name.clone().unwrap_or_default()), now);
        }
        for class in cluster.classes().filter(|class| class.reference.kind == P::CLASS) {
            self.work_queue.want(Item::Class(class.reference.name.clone()), now);
        }
        interruption::remember_all(&self.context, &cluster);
        self.work_queue.want(Item::Overlays, now);
        self.work_queue.want(Item::Buffers, now);
        if buffers::are_kept(&self.context, &cluster) {
            self.window.arrive("buffers", now);
        }
        for pod in cluster.unbound() {
            self.window.arrive(&pod.uid, now);
        }
        if cluster.pools().any(|pool| pool.spec.replicas.is_some()) {
            self.window.arrive("static pools", now);
        }
        drop(cluster);
        self.nominate_at = Some(now);
    }

    pub(super) fn take_in(&mut self, changed: &Changed) {
        let now = now();
        let context = Arc::clone(&self.context);
        let cluster = context.cluster_cache.read();
        if interruption::remember(&context, changed, &cluster) {
            self.pass_schedule.hurry_at_once(now);
        }
        if changed.has_new_policy || unhealthy::remember(&context, changed, &cluster, now) {
            self.pass_schedule.hurry();
        } else {
            self.pass_schedule.stir();
        }
        self.forget_outdated(changed, now);
        for claim in changed.claims.iter().filter_map(|name| cluster.claim(name)) {
            context.leader_state().plan.observe(claim, now);
        }
        self.note_live_sets(changed, &cluster, now);
        self.queue_concerned(changed, &cluster, now);
        context.leader_state().left.extend(changed.left.iter().cloned());
        reconcile::remember_moves(&context, &cluster, &changed.moved, now);
        self.open_window(changed, &cluster, now);
        // What stays pending is decided again soon after a change, and seldom without one.
        self.has_changed = true;
        self.decide_at = self.decide_at.map(|moment| moment.min(after(now, RETRY)));
        if changed.has_strayed && self.is_any_crowded(changed, &cluster) {
            self.decide_at = Some(now);
        }
        self.schedule_nominations(changed, &cluster, now);
        drop(cluster);
        // Only now may it be known that a NodePool launches nodes in a zone that is shifted away.
        if [Kind::NodePool, Kind::Ec2NodeClass].into_iter().any(|kind| changed.kinds.contains(kind)) {
            self.tell_of_shifts();
        }
    }

    /// Records which of the sets whose nodes another actor deleted have pods. Nothing is read while there are none.
    fn note_live_sets(&self, changed: &Changed, cluster: &Cluster, now: Timestamp) {
        if changed.claims.is_empty() && !changed.kinds.contains(Kind::Pod) {
            return;
        }
        let plan = &mut self.context.leader_state().plan;
        let sets = plan.sets_with_losses();
        if !sets.is_empty() {
            plan.note_live(&cluster.live_among(&sets), now);
        }
    }

    /// Takes in zonal shifts that have begun or ended: other offerings are available from now on.
    pub(super) fn take_in_shifts(&mut self, now: Timestamp) {
        let Some(change) = self.shifts.turn(now) else { return };
        zonal_shifts::log(&change);
        self.context.metrics.shifted(self.shifts.known());
        self.has_changed = true;
        self.window.arrive("zonal shifts", now);
        self.pass_schedule.hurry();
        self.tell_of_shifts();
    }

    /// Takes in that instances of a reservation have become available: pods may wait for them.
    pub(super) fn take_in_freed(&mut self, now: Timestamp) {
        if self.context.cluster_cache.read().count_unbound() > 0 {
            self.has_changed = true;
            self.window.arrive("reservations", now);
        }
    }

    /// Tells NodePools of the zones that are shifted away, or are not any more.
    fn tell_of_shifts(&mut self) {
        let context = Arc::clone(&self.context);
        let news = self.told_shifts.news(&context.cluster_cache.read(), self.shifts.known(), P::CLASS);
        self.tell(Step::act(news.into_iter().map(Write::Event)), Audience::People);
    }

    /// Forgets what was derived from objects that have changed.
    fn forget_outdated(&self, changed: &Changed, now: Timestamp) {
        if changed.has_new_policy {
            self.context.leader_state().plan.forget_fruitless();
        } else if changed.concerns_daemons() {
            self.context.leader_state().plan.note_daemons(now);
        }
        let of_overlays = [Kind::NodeOverlay, Kind::NodePool, Kind::Ec2NodeClass, Kind::KwokNodeClass];
        if of_overlays.iter().any(|kind| changed.kinds.contains(*kind)) {
            self.context.leader_state().overlaid = None;
        }
    }

    /// Queues the objects to be reconciled, and the disruption commands that concern the claims.
    fn queue_concerned(&mut self, changed: &Changed, cluster: &Cluster, now: Timestamp) {
        if buffers::concern(changed) {
            self.work_queue.want(Item::Buffers, now);
            if buffers::are_kept(&self.context, cluster) {
                self.window.arrive("buffers", now);
            }
        }
        if changed.has_new_policy || changed.kinds.contains(Kind::NodeOverlay) {
            self.work_queue.want(Item::Overlays, now);
        }
        let is_of_class = Kind::named(P::CLASS).is_some_and(|kind| changed.kinds.contains(kind));
        for (item, moment) in of_pools_and_classes(changed, cluster, P::CLASS, now) {
            // When its class becomes ready, a pool is reconciled again even if it was just reconciled.
            if moment <= now && (changed.has_new_policy || is_of_class) {
                self.work_queue.insist(item, moment);
            } else {
                self.work_queue.want(item, moment);
            }
        }
        // The end of a block may have been moved.
        for claim in cluster.claims().filter(|claim| is_of_class && is_in_block(claim)) {
            self.work_queue.want(Item::Claim(claim.metadata.name.clone().unwrap_or_default()), now);
        }
        let is_of_pods = changed.kinds.is_only(Kind::Pod);
        for name in &changed.claims {
            let stays = cluster.claim(name).is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
            let moment = if is_of_pods && stays { after(now, CROWD) } else { now };
            self.work_queue.want(Item::Claim(name.to_string()), moment);
        }
        for item in changed.claims.iter().flat_map(|claim| disruption::concern(cluster, claim)) {
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
        let stays = |claim: &&NodeClaim| claim.metadata.deletion_timestamp.is_none();
        let going = changed.claims.iter().filter(|name| !cluster.claim(name).as_ref().is_some_and(stays));
        let mut is_any_going = false;
        for name in going {
            self.window.arrive(&format!("claim {name}"), now);
            is_any_going = true;
        }
        if is_any_going {
            self.context
                .provider
                .keep_turns(cluster.claims().filter(stays).filter_map(|claim| claim.metadata.uid.as_deref()));
        }
        // The supply of nodes for pending pods has changed.
        let supply = [
            Kind::NodePool,
            Kind::Ec2NodeClass,
            Kind::KwokNodeClass,
            Kind::NodeOverlay,
            Kind::DeviceClass,
            Kind::ResourceClaimTemplate,
            Kind::ResourceSlice,
        ];
        let is_of_use = cluster.count_unbound() > 0
            || cluster.pools().any(|pool| pool.spec.replicas.is_some())
            || buffers::are_kept(&self.context, cluster);
        if is_of_use && supply.iter().any(|kind| changed.kinds.contains(*kind)) {
            self.window.arrive("supply", now);
        }
    }

    /// Sets the time of the next nominations.
    fn schedule_nominations(&mut self, changed: &Changed, cluster: &Cluster, now: Timestamp) {
        // A pod was bound elsewhere than planned, so its place can go to a pod that is about to be tried; or a pod has
        // lost its nomination, and its room is not reserved.
        if changed.has_strayed || changed.has_forgotten && self.context.leader_state().plan.has_any_place() {
            self.nominate_at = Some(now);
        }
        let concerns_nodes = [Kind::Node, Kind::NodeClaim].iter().any(|kind| changed.kinds.contains(*kind));
        if concerns_nodes || !changed.waiting.is_empty() {
            // Do not delay nominations while nodes are held for them.
            let is_of_pods = changed.kinds.is_only(Kind::Pod);
            let is_held = self.context.leader_state().gates.is_any_held();
            let soon = after(now, if is_of_pods && !is_held { CROWD } else { gather(cluster.count_unbound()) });
            self.nominate_at = Some(self.nominate_at.map_or(soon, |moment| moment.min(soon)));
        }
    }

    /// Returns true if a pod among the changes occupies room planned for other pods. Those are about to be tried, and
    /// are refused unless the new decision moves some of them first.
    fn is_any_crowded(&self, changed: &Changed, cluster: &Cluster) -> bool {
        let leader_state = self.context.leader_state();
        let claims = changed.claims.iter().filter(|name| leader_state.plan.has_places(name));
        let mut claims = claims.filter_map(|name| cluster.claim(name).map(|claim| (name, claim)));
        claims.any(|(name, claim)| cluster.is_crowded(claim, leader_state.plan.placed_on(name)))
    }

    /// Reconciles the claims of classes that have become ready, which their status may not show, and provisions for
    /// pods that waited for the class.
    pub(super) fn look_at_claims_of_ready_classes(&mut self) {
        let ready = std::mem::take(&mut self.context.leader_state().ready_classes);
        if ready.is_empty() {
            return;
        }
        let now = now();
        let context = Arc::clone(&self.context);
        let cluster = context.cluster_cache.read();
        for class in cluster.classes().filter(|class| class.reference.kind == P::CLASS) {
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
    pub(super) fn forget_gone(&mut self) {
        let cluster = self.context.cluster_cache.read();
        let there: BTreeSet<&str> = cluster.unbound().map(|pod| &*pod.uid).collect();
        self.waiting.retain(|word| word.split_once(' ').is_some_and(|(uid, _)| there.contains(uid)));
    }
}

/// Returns the pools and classes to be reconciled, and when. Each reconciliation visits all their claims, so changes of
/// single claims or Nodes, of which there may be ten thousand, are batched.
fn of_pools_and_classes(
    changed: &Changed,
    cluster: &Cluster,
    class_kind: &str,
    now: Timestamp,
) -> Vec<(Item, Timestamp)> {
    let later = after(now, pools::EVERY);
    let mut items = Vec::new();
    let is_own_news = changed.kinds.contains(Kind::NodePool);
    items
        .extend(changed.pools.iter().map(|pool| (Item::Pool(pool.to_string()), if is_own_news { now } else { later })));
    for (kind, name) in changed.classes.iter().filter(|(kind, _)| kind.name() == class_kind) {
        let is_its = |reference: &NodeClassReference| reference.kind == class_kind && reference.name == **name;
        let live = cluster.classes().find(|live| is_its(&live.reference));
        // A class that is being deleted waits for the deletion of its last claim.
        let is_going = live.is_some_and(|live| live.meta.deletion_timestamp.is_some());
        let is_own_news = changed.kinds.contains(*kind);
        items.push((Item::Class(name.to_string()), if is_own_news || is_going { now } else { later }));
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
        let item = if is_pool { Item::Pool(name.to_owned()) } else { Item::Class(name.to_owned()) };
        (item, Timestamp::from_second(seconds).unwrap())
    }

    #[test]
    fn news_of_a_claim_are_taken_in_once_in_a_while_and_those_of_a_pool_and_a_class_at_once() {
        let mut cluster = Cluster::default();
        let now = Timestamp::from_second(100).unwrap();
        let asked = |changed: &Changed, cluster: &Cluster| {
            assert!(!changed.is_empty(), "nothing has changed");
            of_pools_and_classes(changed, cluster, KIND, now)
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
        assert_eq!(of_pools_and_classes(&changed, &cluster, "KWOKNodeClass", now), [of("general", true, 105)]);
    }
}
