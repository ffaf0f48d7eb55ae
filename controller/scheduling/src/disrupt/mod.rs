//! Which nodes are taken away, why, and where their pods go.
//!
//! ```text
//!  Estate ──► candidates  what keeps a node from being touched at all ─────────────────────────────┐
//!  now        budgets     how many may go at once                                                  │
//!               │                                                                                  ▼
//!               ▼                                                                               blocked
//!  forceful ──► emptiness ──► drift ──► consolidate (many at once, then one by one) ──► commands     (each other node,
//!     │            │            │            │                                                       by what, since when)
//!     └────────────┴── world ◄──┴────────────┘
//!                      trial: where would the pods go?  (the packer, on what earlier commands leave)
//! ```
//!
//! Before any of them, pods that wait for a place are taken to go where a plan would put them, but onto none of the nodes that
//! cannot wait ([`Arrivals`]): rules between pods are counted with them.
//!
//! What consolidation proposes is replayed as kube-scheduler would place the pods (`delivery`), and only what still saves is kept. When
//! time alone may change the answer, `moments` says.
//!
//! A pass is a total function of a snapshot and a moment. Nodes that get pods never give any in the same pass, so commands
//! may be carried out in any order. What is bought for a command is full: its room is for the next pass, when it is up.

mod budgets;
mod candidates;
mod carried_out;
mod consolidate;
mod decision;
mod delivery;
mod drift;
mod estate;
mod forceful;
mod launch;
mod moments;
mod offer;
mod pass;
mod removal;
mod schedule;
mod split;
mod world;
mod worth;

pub use budgets::allowed_disruptions;
pub use carried_out::{carried_out, populated};
pub use decision::{Arrivals, Block, Blocked, Command, Decision, Method};
pub use estate::{
    Ailment, Cause, Consolidation, Drift, Estate, Hold, Interruption, Member, NodeBudget, Occupant, PodBudget, Policy,
    Share, Window,
};
pub(crate) use forceful::LATE;
pub use moments::{Moments, next_moments};
pub use removal::{Removal, if_removed};
pub use schedule::Schedule;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::model::{Options, PodSpec};
use crate::validate::places_hold;
use pass::Pass;

/// The operator's choices for a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How pods are packed.
    pub options: Options,
    /// Gate `NodeRepair`.
    pub node_repair: bool,
    /// Gate `SpotToSpotConsolidation`.
    pub spot_to_spot: bool,
    /// Only the first voluntary command, as one pass of Karpenter's loop.
    pub first: bool,
    /// USD per hour that moving one pod must save.
    pub move_price: f64,
    /// Consolidation is begun only if it saves once kube-scheduler, and not the plan, has placed the pods that come back.
    pub replayed: bool,
    /// Time in which a launch pays back: see [`Member::keeps_until`], which the live controller and the simulator set.
    pub payback: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            options: Options::default(),
            node_repair: false,
            spot_to_spot: false,
            first: false,
            move_price: MOVE_PRICE,
            payback: PAYBACK,
            replayed: true,
        }
    }
}

/// A pod that moves is away for a minute or so, and its images are pulled again. At half a thousandth of a dollar per hour,
/// a saving that is kept for an hour pays for two minutes of a quarter of a core.
const MOVE_PRICE: f64 = 0.0005;

/// The time in which a saving pays for its moves, and a launch for itself.
const PAYBACK: SignedDuration = SignedDuration::from_hours(1);

/// What is disrupted at `now`, and why every other managed node is not.
///
/// Rules between pods are kept by each trial as far as it sees; where commands together break one all the same, the pass is
/// made again, and each command asked to keep them together with all before it.
pub fn decide(estate: &Estate, now: Timestamp, settings: &Settings) -> Decision {
    decide_about(estate, now, settings, None)
}

/// What is disrupted at `now`, if by our own choice only `nodes` may be: what an earlier decision chose is decided anew. What
/// cannot wait does not ask.
pub fn decide_among(estate: &Estate, now: Timestamp, settings: &Settings, nodes: &BTreeSet<usize>) -> Decision {
    decide_about(estate, now, settings, Some(nodes))
}

fn decide_about(estate: &Estate, now: Timestamp, settings: &Settings, among: Option<&BTreeSet<usize>>) -> Decision {
    let decision = pass(estate, now, settings, among, false);
    let has_rules =
        |spec: &PodSpec| !spec.spread.is_empty() || !spec.affinity.is_empty() || !spec.anti_affinity.is_empty();
    if !estate.problem.specs.iter().any(has_rules) || places_hold(estate, &settings.options, &decision) {
        return decision;
    }
    pass(estate, now, settings, among, true)
}

fn pass<'a>(
    estate: &'a Estate,
    now: Timestamp,
    settings: &'a Settings,
    among: Option<&'a BTreeSet<usize>>,
    careful: bool,
) -> Decision {
    let mut pass = Pass::new(estate, settings, now, careful);
    pass.among = among;
    let forced = pass.forced();
    let going: Vec<usize> = forced.iter().flat_map(|(_, nodes)| nodes).copied().collect();
    // None of them takes pods of another, nor pods that wait.
    pass.settle(&going);
    pass.forceful(forced);
    let forced = pass.commands.len();
    let voluntary = [Pass::emptiness, Pass::static_drift, Pass::drift, Pass::consolidate];
    for method in voluntary {
        method(&mut pass);
        if settings.first && pass.commands.len() > forced {
            break;
        }
    }
    pass.end()
}
