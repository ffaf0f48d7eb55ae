//! List of NodeClaims and Nodes, with the phase of each and the report of its agent. Pure.
//!
//! ```text
//!   NodeClaim: conditions, deletion ──┐
//!   Node: Ready, deletion ────────────┼─► phase: Launching … Ready … Terminating, with time and reason ─┐
//!   NodeClaim: AgentReady ────────────┼─► agent: its stage, or that it is silent ───────────────────────┼─► Member
//!   NodeClaim: NodeVerdict ───────────┴─► fault: the code, with its title, cause and fix ───────────────┘
//! ```
//!
//! Members are sorted by urgency, broken ones first.

mod agent;
mod fault;
mod phase;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::labels;
use muster_manifest::{Condition, Manifests, Node, NodeClaim};
use rustc_hash::FxHashMap;

pub use self::agent::{Agent, AgentState};
pub use self::fault::FIX;
pub use self::fault::Fault;
pub use self::phase::{Phase, Stand};

/// A NodeClaim with its Node, if it has one; or a Node without a NodeClaim.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Name of the Node, or of the NodeClaim while there is no Node.
    pub name: Arc<str>,
    /// Its NodeClaim.
    pub claim: Option<Arc<str>>,
    /// UID of the NodeClaim, if the input has it.
    pub uid: Option<Arc<str>>,
    /// Its Node, if that is in the input or named by the claim.
    pub node: Option<Arc<str>>,
    /// Its NodePool.
    pub pool: Option<Arc<str>>,
    /// Its NodeClass.
    pub class: Option<Arc<str>>,
    /// Instance type, such as `m7g.large`.
    pub instance_type: Option<Arc<str>>,
    /// Its zone.
    pub zone: Option<Arc<str>>,
    /// Capacity type, such as `spot`.
    pub capacity_type: Option<Arc<str>>,
    /// Provider ID of the instance.
    pub provider_id: Option<Arc<str>>,
    /// Creation time of the NodeClaim, or of a Node without one.
    pub created: Option<Timestamp>,
    /// Phase, with time and reason.
    pub stand: Stand,
    /// State of its agent; none if no agent is known.
    pub agent: Option<Agent>,
    /// Verdict of its agent.
    pub fault: Option<Fault>,
}

/// Urgency of a member: operators see it in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Its agent reports that it cannot become a node.
    Broken,
    /// It was Ready before and is not now.
    NotReady,
    /// It is a node whose agent is silent.
    Silent,
    /// It is joining the cluster.
    Coming,
    /// It is leaving the cluster.
    Going,
    /// It is as intended.
    None,
    /// Muster does not manage it.
    Foreign,
}

/// Returns all members by urgency, then by time in their phase (longest first), then by name.
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
        // The instance decides: a Node of that name may be another one that has come since. Of several with its
        // provider ID it is the one that the claim was registered with.
        let named = claim.node.as_deref().and_then(|name| by_name.get(name)).copied();
        let is_of_instance = |node: &&Node| claim.provider_id.is_some() && node.provider_id == claim.provider_id;
        let of_instance = claim.provider_id.as_deref().and_then(|id| by_provider.get(id)).copied();
        named.filter(is_of_instance).or(of_instance).or(named)
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

/// Returns the condition of this type, if it is set.
fn condition<'c>(all: &'c [Condition], kind: &str) -> Option<&'c Condition> {
    all.iter().find(|one| &*one.kind == kind)
}

/// Parses a timestamp of an object's field.
fn moment(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

/// Returns the trimmed text; none if it is empty.
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
            // Before the launch, a requirement may allow only one value.
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

    /// Returns true if its agent reports that it cannot become a node.
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
