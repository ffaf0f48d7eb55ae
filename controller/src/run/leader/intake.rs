//! What the leader takes in: what has changed in the picture, and what is to be looked at for that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::{NodeClaim, NodeClassReference};
use muster_cloud::after;

use super::{Item, Leader};
use crate::pools;
use crate::run::provider::Provider;
use crate::run::{disruption, look, now};
use crate::state::{Changed, Cluster, Kind};

/// A crowd of nodes and pods is told of together: so long is waited for others, and as much longer for every
/// thousand pods that wait, since all of them are looked at again then.
const GATHER: Duration = Duration::from_millis(150);
/// Pods come to a node one by one, and nothing about it is urgent: so long is waited for others, unless it is leaving.
const CROWD: Duration = Duration::from_millis(500);

impl<P: Provider> Leader<P> {
    /// Who leads knows nothing of what changed before.
    pub(super) fn look_at_everything(&mut self) {
        let now = now();
        let cluster = self.desk.picture.glance();
        for claim in cluster.claims() {
            let name = claim.metadata.name.clone().unwrap_or_default();
            for item in disruption::concern(&cluster, &name) {
                self.commands.want(item, now);
            }
            self.agenda.want(Item::Claim(name), now);
        }
        for pool in cluster.pools() {
            self.agenda.want(Item::Pool(pool.metadata.name.clone().unwrap_or_default()), now);
        }
        for class in cluster.classes().filter(|class| class.reference.kind == P::CLASS) {
            self.agenda.want(Item::Class(class.reference.name.clone()), now);
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
        if changed.has_new_policy {
            self.rhythm.hurry();
        } else {
            self.rhythm.stir();
        }
        let cluster = self.desk.picture.glance();
        let of_daemons = [Kind::DaemonSet, Kind::LimitRange, Kind::RuntimeClass];
        if changed.has_new_policy || of_daemons.iter().any(|kind| changed.kinds.contains(*kind)) {
            self.desk.memory().plan.forget_fruitless();
        }
        for claim in changed.claims.iter().filter_map(|name| cluster.claim(name)) {
            self.desk.memory().plan.observe(claim, now);
        }
        let is_of_class = Kind::named(P::CLASS).is_some_and(|kind| changed.kinds.contains(kind));
        for (item, moment) in of_pools_and_classes(changed, &cluster, P::CLASS, now) {
            // A pool that has just been looked at is looked at again when its class turns out ready.
            if moment <= now && (changed.has_new_policy || is_of_class) {
                self.agenda.insist(item, moment);
            } else {
                self.agenda.want(item, moment);
            }
        }
        let is_of_pods = changed.kinds.is_only(Kind::Pod);
        for name in &changed.claims {
            let stays = cluster.claim(name).is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
            let moment = if is_of_pods && stays { after(now, CROWD) } else { now };
            self.agenda.want(Item::Claim(name.to_string()), moment);
        }
        for item in changed.claims.iter().flat_map(|claim| disruption::concern(&cluster, claim)) {
            self.commands.want(item, now);
        }
        self.desk.memory().left.extend(changed.left.iter().cloned());
        look::remember_moves(&self.desk, &cluster, &changed.moved, now);
        for path in &changed.waiting {
            if let Some(pod) = cluster.pod(path) {
                // A pod that has been marked since is news; one that has been told of its node is not.
                let word = if pod.is_marked { "marked" } else { "new" };
                if self.waiting.insert(format!("{} {word}", pod.uid).into()) {
                    self.window.arrive(&pod.uid, now);
                }
            }
        }
        // Pods of a claim that ends, or that came to nothing, need another node.
        let stays = |claim: &&NodeClaim| claim.metadata.deletion_timestamp.is_none();
        let going = changed.claims.iter().filter(|name| !cluster.claim(name).as_ref().is_some_and(stays));
        let mut is_any_going = false;
        for name in going {
            self.window.arrive(&format!("claim {name}"), now);
            is_any_going = true;
        }
        if is_any_going {
            self.desk
                .provider
                .keep_turns(cluster.claims().filter(stays).filter_map(|claim| claim.metadata.uid.as_deref()));
        }
        // What pods may go to has changed.
        let supply = [Kind::NodePool, Kind::Ec2NodeClass, Kind::KwokNodeClass, Kind::NodeOverlay, Kind::CapacityBuffer];
        let is_of_use = cluster.count_unbound() > 0 || cluster.pools().any(|pool| pool.spec.replicas.is_some());
        if is_of_use && supply.iter().any(|kind| changed.kinds.contains(*kind)) {
            self.window.arrive("supply", now);
        }
        if changed.has_strayed && self.is_any_crowded(changed, &cluster) {
            self.decide_at = Some(now);
        }
        // A place is another one's, who is about to be tried; or it is nobody's, while who was refused at its own looks for one.
        if changed.has_strayed || changed.has_forgotten && self.desk.memory().plan.has_any_place() {
            self.nominate_at = Some(now);
        }
        let concerns_nodes = [Kind::Node, Kind::NodeClaim].iter().any(|kind| changed.kinds.contains(*kind));
        if concerns_nodes || !changed.waiting.is_empty() {
            // Unless nodes wait for their pods to know.
            let is_held = self.desk.memory().gates.is_any_held();
            let soon = after(now, if is_of_pods && !is_held { CROWD } else { gather(cluster.count_unbound()) });
            self.nominate_at = Some(self.nominate_at.map_or(soon, |moment| moment.min(soon)));
        }
    }

    /// Whether somebody took room, of what has changed, that is meant for others. They are about to be tried, and are refused unless
    /// it is found out before who goes elsewhere.
    fn is_any_crowded(&self, changed: &Changed, cluster: &Cluster) -> bool {
        let memory = self.desk.memory();
        let claims = changed.claims.iter().filter(|name| memory.plan.has_places(name));
        let mut claims = claims.filter_map(|name| cluster.claim(name).map(|claim| (name, claim)));
        claims.any(|(name, claim)| cluster.is_crowded(claim, memory.plan.placed_on(name)))
    }

    /// Claims, and pods, may have waited for a class without anything of it having changed.
    pub(super) fn look_at_claims_of_ready_classes(&mut self) {
        let ready = std::mem::take(&mut self.desk.memory().ready_classes);
        if ready.is_empty() {
            return;
        }
        let now = now();
        let desk = Arc::clone(&self.desk);
        let cluster = desk.picture.glance();
        for class in cluster.classes().filter(|class| class.reference.kind == P::CLASS) {
            if ready.contains(&class.reference.name) {
                for claim in cluster.claims_of_class(&class.reference) {
                    self.agenda.want(Item::Claim(claim.metadata.name.clone().unwrap_or_default()), now);
                }
            }
        }
        if cluster.count_unbound() > 0 {
            self.window.arrive("supply", now);
        }
    }

    /// Pods that have a node or are gone are not remembered.
    pub(super) fn forget_gone(&mut self) {
        let cluster = self.desk.picture.glance();
        let there: BTreeSet<&str> = cluster.unbound().map(|pod| &*pod.uid).collect();
        self.waiting.retain(|word| word.split_once(' ').is_some_and(|(uid, _)| there.contains(uid)));
    }
}

/// Which pools and classes are to be looked at, and when. Each look goes through all their claims: what has happened to one of ten
/// thousand, or to its Node, changes what is counted, and is taken in once in a while.
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
        // One that goes waits for its last claim.
        let is_going = live.is_some_and(|live| live.meta.deletion_timestamp.is_some());
        let is_own_news = changed.kinds.contains(*kind);
        items.push((Item::Class(name.to_string()), if is_own_news || is_going { now } else { later }));
        if is_own_news {
            // A pool is as ready as its class.
            let pools = cluster.pools().filter(|pool| is_its(&pool.spec.template.spec.node_class_ref));
            items.extend(pools.map(|pool| (Item::Pool(pool.metadata.name.clone().unwrap_or_default()), now)));
        }
    }
    items
}

/// How long to wait for others, of so many pods that have no node.
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
