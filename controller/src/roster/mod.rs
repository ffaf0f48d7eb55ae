//! Who is there: each NodeClaim and each Node, how far it has come, and what its agent says of it. Pure.
//!
//! ```text
//!   NodeClaim: conditions, deletion ──┐
//!   Node: Ready, deletion ────────────┼─► phase: Launching … Ready … Terminating, since when, what it waits for ─┐
//!   NodeClaim: AgentReady ────────────┼─► agent: the stage at which the node's agent is, or that it is silent ──┼─► Member
//!   NodeClaim: NodeVerdict ───────────┴─► fault: the code, and what muster_bootstrap knows of it ───────────────┘
//! ```
//!
//! Members stand in the order in which they need somebody: what is broken first.

mod agent;
mod fault;
mod phase;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::labels;
use rustc_hash::FxHashMap;

pub use self::agent::{Agent, AgentState};
pub(crate) use self::fault::FIX;
pub use self::fault::Fault;
pub use self::phase::{Phase, Stand};
use crate::manifest::{Condition, Manifests, Node, NodeClaim};

/// A NodeClaim with its Node, if it has one by now; or a Node that no NodeClaim stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The Node's name; as long as there is none, the NodeClaim's.
    pub name: Arc<str>,
    /// Its NodeClaim.
    pub claim: Option<Arc<str>>,
    /// The UID of that, if the input says it.
    pub uid: Option<Arc<str>>,
    /// Its Node, if that is in the input or the claim names it.
    pub node: Option<Arc<str>>,
    /// Its NodePool.
    pub pool: Option<Arc<str>>,
    /// Its NodeClass.
    pub class: Option<Arc<str>>,
    /// As `m7g.large`.
    pub instance_type: Option<Arc<str>>,
    /// Its zone.
    pub zone: Option<Arc<str>>,
    /// As `spot`.
    pub capacity_type: Option<Arc<str>>,
    /// The cloud's name of the instance.
    pub provider_id: Option<Arc<str>>,
    /// When it began to be wanted.
    pub created: Option<Timestamp>,
    /// How far it has come.
    pub stand: Stand,
    /// What its agent says; none if it has none that is known.
    pub agent: Option<Agent>,
    /// What its agent says is wrong.
    pub fault: Option<Fault>,
}

/// How urgently somebody is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Its agent says that it cannot become a node.
    Broken,
    /// It was a node, and is none.
    NotReady,
    /// It is a node, and nobody hears of its agent.
    Silent,
    /// It is on its way into the cluster.
    Coming,
    /// It is on its way out.
    Going,
    /// It is as it should be.
    None,
    /// It is not Muster's.
    Foreign,
}

/// All members, what needs somebody first; among equals who has been so for longest, and then by name.
#[must_use]
pub fn members(manifests: &Manifests) -> Vec<Member> {
    let mut by_name: FxHashMap<&str, &Node> = FxHashMap::default();
    let mut by_provider: FxHashMap<&str, &Node> = FxHashMap::default();
    for node in &manifests.nodes {
        by_name.insert(&node.meta.name, node);
        if let Some(id) = node.provider_id.as_deref() {
            by_provider.insert(id, node);
        }
    }
    let node_of = |claim: &NodeClaim| {
        let of_instance = claim.provider_id.as_deref().and_then(|id| by_provider.get(id));
        of_instance.or_else(|| by_name.get(claim.node.as_deref()?)).copied()
    };
    let mut claimed: FxHashMap<&str, ()> = FxHashMap::default();
    let mut all = Vec::with_capacity(manifests.node_claims.len());
    for claim in &manifests.node_claims {
        let node = node_of(claim);
        claimed.extend(node.map(|node| (&*node.meta.name, ())));
        all.push(Member::of(claim, node));
    }
    all.extend(
        manifests.nodes.iter().filter(|node| !claimed.contains_key(&*node.meta.name)).map(Member::without_claim),
    );
    all.sort_by(|a, b| {
        let key = |it: &Member| (it.need(), it.stand.since.is_none(), it.stand.since);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    all
}

/// A condition, if somebody has judged it.
fn condition<'c>(all: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    all.iter().find(|one| &*one.kind == kind)
}

/// A moment as objects have it.
fn moment(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

/// Text that is not empty.
fn some(text: &str) -> Option<Arc<str>> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(Arc::from)
}

// === impl Member ===

impl Member {
    fn of(claim: &NodeClaim, node: Option<&Node>) -> Self {
        let named = claim.node.clone().filter(|name| !name.is_empty());
        let node_name = node.map(|node| Arc::clone(&node.meta.name)).or(named);
        let label = |key: &str| {
            let of_claim = claim.meta.labels.get(key).or_else(|| node?.meta.labels.get(key));
            // Before the launch a requirement may leave no choice.
            of_claim.cloned().or_else(|| claim.requirements.single(key).map(Arc::from))
        };
        Self {
            name: node_name.clone().unwrap_or_else(|| Arc::clone(&claim.meta.name)),
            claim: Some(Arc::clone(&claim.meta.name)),
            uid: claim.uid.clone(),
            pool: label(labels::NODEPOOL),
            class: Some(Arc::clone(&claim.class.name)),
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            capacity_type: label(labels::CAPACITY_TYPE),
            provider_id: claim.provider_id.clone(),
            created: moment(claim.meta.created.as_deref()),
            stand: Stand::of(claim, node),
            agent: Agent::of(claim),
            fault: Fault::of(claim),
            node: node_name,
        }
    }

    fn without_claim(node: &Node) -> Self {
        let label = |key: &str| node.meta.labels.get(key).cloned();
        Self {
            name: Arc::clone(&node.meta.name),
            claim: None,
            uid: None,
            node: Some(Arc::clone(&node.meta.name)),
            pool: label(labels::NODEPOOL),
            class: None,
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            capacity_type: label(labels::CAPACITY_TYPE),
            provider_id: node.provider_id.clone(),
            created: moment(node.meta.created.as_deref()),
            stand: Stand::without_claim(node),
            agent: None,
            fault: None,
        }
    }

    /// Whether its agent says that it cannot become a node.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        self.fault.is_some()
    }

    fn need(&self) -> Need {
        let is_silent = self.agent.as_ref().is_some_and(|agent| agent.state == AgentState::Silent);
        match self.stand.phase {
            _ if self.is_broken() => Need::Broken,
            Phase::NotReady => Need::NotReady,
            Phase::Launching | Phase::Launched | Phase::Registered => Need::Coming,
            Phase::Disrupting | Phase::Terminating => Need::Going,
            Phase::Initialized | Phase::Ready if is_silent => Need::Silent,
            Phase::Initialized | Phase::Ready if self.claim.is_none() => Need::Foreign,
            Phase::Initialized | Phase::Ready => Need::None,
        }
    }
}
