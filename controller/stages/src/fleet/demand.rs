//! An order as scheduling demand: identical pods, one per node, in a cluster without nodes.
//!
//! So the scheduler for pods also decides about ordered nodes: types and prices, overhead and daemons, minValues,
//! limits, reservations. Taints of the pool repel pods that are not meant for it; since the order names the pool, its
//! pods tolerate all taints.

use std::collections::BTreeSet;

use muster_api::labels;
use muster_scheduling::model::{
    AffinityTerm, LabelSelector, Labels, NamespaceScope, Operator, Pod, PodSpec, PoolState, Problem, Requirement,
    Resource, SelectorOperator, SelectorTerm, Toleration,
};

use super::Order;

/// Namespace that cannot exist in a cluster: valid names do not contain dots.
const NAMESPACE: &str = "muster.dev";
/// Label that distinguishes the pods of the order from daemons.
const LABEL: &str = "muster.dev/order";

/// Returns the problem of `count` nodes of the order, with pools and prices of `problem`; `pool` is the index of the
/// ordered pool.
pub(super) fn demand(problem: &Problem, pool: usize, order: &Order, count: usize) -> Problem {
    let mut alone = problem.clone();
    alone.pods.clear();
    alone.nodes.clear();
    for (number, other) in alone.pools.iter_mut().enumerate() {
        // Missing replicas of static pools are launched by provisioning rounds.
        other.missing_replicas = other.missing_replicas.map(|_| 0);
        if number != pool {
            other.state = PoolState::NotReady("the order is for another one".to_owned());
        }
    }
    let spec = alone.intern(spec(order));
    let pods = (0..count).map(|number| Pod { name: format!("{NAMESPACE}/{number}").into(), spec });
    alone.pods = pods.collect();
    alone
}

fn spec(order: &Order) -> PodSpec {
    let mut requests = order.requests.clone();
    requests.set(Resource::Pods, requests.get(&Resource::Pods).max(1));
    let mut node_selector = order.requirements.clone();
    node_selector.add(labels::NODEPOOL, Requirement::new(Operator::In, [order.pool.as_str()]));
    let exists = SelectorTerm { key: LABEL.into(), operator: SelectorOperator::Exists, values: Vec::new() };
    PodSpec {
        labels: Labels::from_iter([(LABEL, "")]),
        node_selector,
        tolerations: vec![Toleration { key: None, value: None, effect: None }],
        anti_affinity: vec![AffinityTerm {
            topology_key: labels::HOSTNAME.into(),
            selector: LabelSelector::Terms(vec![exists]),
            namespaces: NamespaceScope::Only(BTreeSet::from([NAMESPACE.into()])),
        }],
        ..PodSpec::unconstrained(NAMESPACE, requests)
    }
}
