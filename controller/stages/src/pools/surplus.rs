//! Surplus nodes of a static pool, which go when its `replicas` are fewer than its nodes.
//!
//! ```text
//!   goes first   claims without an instance
//!      │         nodes without pods that have to move
//!      │         nodes whose pods cost least to move; of equal ones those that have drifted
//!      ▼         nodes that ask not to be disrupted, or a pod on which does
//!   goes last
//! ```
//!
//! As in Karpenter, budgets do not apply: the operator has said how many nodes there are to be. Each node is drained
//! like any other. Nodes that a disruption command will remove do not count, so their replacements are no surplus.

use std::cmp::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, NodePool, annotations, events};
use muster_cloud::after;
use muster_manifest::snapshot::{FeatureGates, eviction_cost};

use crate::disruption::{is_marked, paused};
use crate::lifecycle::is_true;
use crate::lifecycle::pause::Pause;
use crate::provision::Plan;
use crate::state::{Cluster, LivePod};
use crate::step::{DeletionCause, Event, EventType, Step, Subject, Write};

/// Maximum number of nodes that one step gives up; the next step follows as soon as these are going.
const MOST: usize = 100;
/// Interval between checks whether a pause has ended.
const PAUSED: Duration = Duration::from_secs(60);

/// State that decides about the surplus of a pool.
#[derive(Debug, Clone, Copy)]
pub struct SurplusInput<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Places planned for pending pods.
    pub plan: &'a Plan,
    /// Operations that an operator has paused in the whole cluster.
    pub pause: Pause,
    /// Feature gates, which decide what a pod costs.
    pub gates: FeatureGates,
}

/// Cost of the end of a node.
struct Loss<'a> {
    claim: &'a NodeClaim,
    is_launched: bool,
    asks_to_stay: bool,
    /// True if pods would have to move, or are about to be bound to it.
    is_occupied: bool,
    cost: f64,
    has_drifted: bool,
    is_initialized: bool,
}

/// Returns the deletions of the claims that `pool` has too many of; none if it is not static.
#[must_use]
pub fn shrink(input: &SurplusInput<'_>, pool: &NodePool, now: Timestamp) -> Step {
    let Some(replicas) = pool.spec.replicas.filter(|_| pool.metadata.deletion_timestamp.is_none()) else {
        return Step::rest();
    };
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let staying: Vec<&NodeClaim> =
        input.cluster.claims_of_pool(name).filter(|claim| stays(input.cluster, claim)).collect();
    let wanted = usize::try_from(replicas).unwrap_or(0);
    let surplus = staying.len().saturating_sub(wanted);
    if surplus == 0 {
        return Step::rest();
    }
    if (input.pause | paused(Some(pool))).disruption {
        return Step::until(after(now, PAUSED));
    }
    let count = staying.len();
    let mut losses: Vec<Loss<'_>> = staying.into_iter().map(|claim| Loss::of(input, claim, now)).collect();
    losses.sort_by(Loss::compare);
    let message = format!("NodePool `{name}` has {count} nodes, and its `replicas` are {wanted}");
    let mut writes = Vec::new();
    for Loss { claim, .. } in losses.into_iter().take(surplus.min(MOST)) {
        let (name, uid) = (claim.metadata.name.clone().unwrap_or_default(), claim.metadata.uid.clone());
        let uid = uid.unwrap_or_default();
        let about = Subject { kind: "NodeClaim".to_owned(), namespace: None, name: name.clone(), uid: uid.clone() };
        let (kind, reason) = (EventType::Normal, events::DISRUPTION_TERMINATING);
        writes.push(Write::Event(Event { about, kind, reason, message: message.clone() }));
        writes.push(Write::DeleteClaim { name, uid, cause: DeletionCause::ScaledDown });
    }
    Step::act(writes)
}

/// Returns true if neither the claim nor its Node is being removed.
fn stays(cluster: &Cluster, claim: &NodeClaim) -> bool {
    let is_leaving =
        |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| meta.deletion_timestamp.is_some();
    !is_leaving(&claim.metadata)
        && !is_marked(claim)
        && !is_true(claim, nodeclaim::INSTANCE_TERMINATING)
        && !cluster.node_of(claim).is_some_and(|node| is_leaving(&node.metadata))
}

// === impl Loss ===

impl<'a> Loss<'a> {
    fn of(input: &SurplusInput<'a>, claim: &'a NodeClaim, now: Timestamp) -> Self {
        let SurplusInput { cluster, plan, pause: _, gates } = *input;
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let node = cluster.node_of(claim);
        let around = cluster.around(name);
        let residents = around.as_ref().map(|around| around.residents()).unwrap_or_default();
        let says_no = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            let said = meta.annotations.as_ref().and_then(|all| all.get(annotations::DO_NOT_DISRUPT));
            said.is_some_and(|value| value == "true")
        };
        let holds = residents
            .iter()
            .any(|pod| !pod.is_mirror && !pod.is_terminal && pod.deleted_at.is_none() && pod.hold.is_on(now));
        let pods = node.and_then(|node| node.metadata.name.as_deref()).map(|node| cluster.pods_on(node));
        let moves = |pod: &&LivePod| !pod.is_daemon && !pod.is_mirror && !pod.pod.terminal && pod.deleted_at.is_none();
        let costs = pods.into_iter().flatten().filter(moves).map(|pod| {
            let priority = pod.pod.template.priority.unwrap_or_default();
            eviction_cost(&pod.pod.annotations, priority, gates).max(0.0)
        });
        let costs: Vec<f64> = costs.collect();
        let coming = plan.placed_on(name).filter(|path| cluster.pod(path).is_some_and(LivePod::waits)).count();
        Self {
            claim,
            is_launched: is_true(claim, nodeclaim::LAUNCHED),
            asks_to_stay: holds || says_no(&claim.metadata) || node.is_some_and(|node| says_no(&node.metadata)),
            is_occupied: !costs.is_empty() || coming > 0,
            cost: costs.iter().sum::<f64>() + coming as f64,
            has_drifted: is_true(claim, nodeclaim::DRIFTED),
            is_initialized: is_true(claim, nodeclaim::INITIALIZED),
        }
    }

    /// Compares two nodes: the one to be given up first is less.
    fn compare(&self, other: &Self) -> Ordering {
        let states = |one: &Self| (one.is_launched, one.asks_to_stay, one.is_occupied);
        states(self)
            .cmp(&states(other))
            .then(self.cost.total_cmp(&other.cost))
            .then(other.has_drifted.cmp(&self.has_drifted))
            .then(self.is_initialized.cmp(&other.is_initialized))
            .then_with(|| self.claim.metadata.name.cmp(&other.claim.metadata.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::state::Kind;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn pool(replicas: i64, annotations: Value) -> NodePool {
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let spec = json!({"replicas": replicas, "template": {"spec": {"nodeClassRef": class, "requirements": []}}});
        let meta = json!({"name": "fixed", "annotations": annotations});
        serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap()
    }

    fn claim(name: &str, annotations: Value, conditions: &[&str]) -> String {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|kind| json!({"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "1970-01-01T00:00:00Z"}))
            .collect();
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": name, "labels": {"karpenter.sh/nodepool": "fixed"}, "annotations": annotations},
            "spec": {"nodeClassRef": class, "requirements": []},
            "status": {"providerID": format!("kwok://{name}"), "nodeName": name, "conditions": conditions},
        })
        .to_string()
    }

    fn node(name: &str) -> String {
        let labels = json!({"karpenter.sh/nodepool": "fixed"});
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"providerID": format!("kwok://{name}")}})
            .to_string()
    }

    fn pod(name: &str, node: &str, annotations: Value) -> String {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]);
        let meta = json!({"name": name, "namespace": "default", "uid": name, "annotations": annotations, "ownerReferences": owner});
        json!({"metadata": meta, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}}).to_string()
    }

    fn up(cluster: &mut Cluster, name: &str, annotations: Value) {
        cluster.apply(Kind::NodeClaim, &claim(name, annotations, &["Launched", "Registered", "Initialized"]));
        cluster.apply(Kind::Node, &node(name));
    }

    fn gone(cluster: &Cluster, pool: &NodePool) -> Vec<String> {
        let (plan, gates) = (Plan::default(), FeatureGates::default());
        let step = shrink(&SurplusInput { cluster, plan: &plan, pause: Pause::NOTHING, gates }, pool, NOW);
        let deleted = |write: Write| match write {
            Write::DeleteClaim { name, .. } => Some(name),
            _ => None,
        };
        step.writes.into_iter().filter_map(deleted).collect()
    }

    /// Claims `a` to `g`, in the order in which they are to go from the last letter on.
    fn crowd() -> Cluster {
        let mut cluster = Cluster::default();
        up(&mut cluster, "a", json!({"karpenter.sh/do-not-disrupt": "true"}));
        up(&mut cluster, "b", json!({}));
        cluster.apply(Kind::Pod, &pod("held", "b", json!({"karpenter.sh/do-not-disrupt": "true"})));
        up(&mut cluster, "c", json!({}));
        cluster.apply(Kind::Pod, &pod("one", "c", json!({})));
        cluster.apply(Kind::Pod, &pod("two", "c", json!({})));
        up(&mut cluster, "d", json!({}));
        cluster.apply(Kind::Pod, &pod("dear", "d", json!({"karpenter.sh/disruption-cost": "100000000"})));
        up(&mut cluster, "e", json!({}));
        cluster.apply(Kind::Pod, &pod("cheap", "e", json!({})));
        up(&mut cluster, "f", json!({}));
        cluster.apply(Kind::NodeClaim, &claim("g", json!({}), &[]));
        cluster
    }

    #[test]
    fn the_cheapest_to_lose_go_first_and_those_that_ask_to_stay_last() {
        let cluster = crowd();
        assert!(gone(&cluster, &pool(7, json!({}))).is_empty());
        assert!(gone(&cluster, &pool(9, json!({}))).is_empty(), "missing ones are launched elsewhere");
        assert_eq!(gone(&cluster, &pool(0, json!({}))), ["g", "f", "e", "d", "c", "a", "b"]);
        assert_eq!(gone(&cluster, &pool(5, json!({}))), ["g", "f"]);
    }

    #[test]
    fn nodes_that_go_anyway_do_not_count() {
        let mut cluster = crowd();
        cluster.apply(Kind::NodeClaim, &claim("c", json!({"muster.dev/disruption": "{}"}), &["Launched"]));
        cluster.apply(Kind::NodeClaim, &claim("d", json!({}), &["Launched", "InstanceTerminating"]));
        assert!(gone(&cluster, &pool(5, json!({}))).is_empty());
        assert_eq!(gone(&cluster, &pool(4, json!({}))), ["g"]);
    }

    #[test]
    fn a_pool_that_is_paused_keeps_its_nodes() {
        let cluster = crowd();
        let paused = pool(1, json!({"muster.dev/pause": "disruption"}));
        assert!(gone(&cluster, &paused).is_empty());
    }
}
