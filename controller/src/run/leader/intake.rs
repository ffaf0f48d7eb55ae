//! What the leader takes in: what has changed in the picture, and what is to be looked at for that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_api::NodeClaim;
use muster_cloud::after;

use super::{Item, Leader};
use crate::pools;
use crate::run::provider::Provider;
use crate::run::{disruption, look, now};
use crate::state::{Changed, Kind};

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
        self.rhythm.stir();
        // Nodes that come and go change what a pool counts: all of them are counted again for that, once in a while.
        let is_own_news = changed.kinds.contains(Kind::NodePool);
        for pool in &changed.pools {
            let moment = if is_own_news { now } else { after(now, pools::EVERY) };
            self.agenda.want(Item::Pool(pool.to_string()), moment);
        }
        for (kind, class) in &changed.classes {
            if kind.name() == P::CLASS {
                self.agenda.want(Item::Class(class.to_string()), now);
            }
        }
        let cluster = self.desk.picture.glance();
        let is_of_pods = changed.kinds.is_only(Kind::Pod);
        for name in &changed.claims {
            let stays = cluster.claim(name).is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
            let moment = if is_of_pods && stays { after(now, CROWD) } else { now };
            self.agenda.want(Item::Claim(name.to_string()), moment);
        }
        // A pool is as ready as its class.
        for pool in cluster.pools() {
            let reference = &pool.spec.template.spec.node_class_ref;
            let is_its = |(kind, name): &(Kind, Arc<str>)| kind.name() == reference.kind && **name == *reference.name;
            if reference.kind == P::CLASS && changed.classes.iter().any(is_its) {
                self.agenda.want(Item::Pool(pool.metadata.name.clone().unwrap_or_default()), now);
            }
        }
        for item in changed.claims.iter().flat_map(|claim| disruption::concern(&cluster, claim)) {
            self.commands.want(item, now);
        }
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
        let concerns_nodes = [Kind::Node, Kind::NodeClaim].iter().any(|kind| changed.kinds.contains(*kind));
        if concerns_nodes || !changed.waiting.is_empty() {
            // Unless nodes wait for their pods to know.
            let is_held = self.desk.memory().gates.is_any_held();
            let soon = after(now, if is_of_pods && !is_held { CROWD } else { gather(cluster.count_unbound()) });
            self.nominate_at = Some(self.nominate_at.map_or(soon, |moment| moment.min(soon)));
        }
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

/// How long to wait for others, of so many pods that have no node.
fn gather(crowd: usize) -> Duration {
    GATHER * u32::try_from(1 + crowd / 1000).unwrap_or(u32::MAX)
}
