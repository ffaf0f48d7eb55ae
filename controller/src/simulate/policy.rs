//! Who decides: Muster, or something like Karpenter, so that a day can be paid for twice and compared.

use muster_scheduling::disrupt;
use muster_scheduling::model::Options;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// What the live controller decides.
    Muster,
    /// Each node grows to whatever type still holds more pods, and is priced last; and there is one voluntary command in each
    /// pass, in the order of Karpenter's methods: the first that finds anything.
    KarpenterLike,
}

// === impl Policy ===

impl Policy {
    /// How pods are packed, as this policy packs them.
    pub(crate) fn packing(self, chosen: &Options) -> Options {
        Options { grows_nodes: self == Self::KarpenterLike || chosen.grows_nodes, ..*chosen }
    }

    /// The operator's choices about disruption, as this policy takes them.
    pub(crate) fn disruption(self, chosen: &disrupt::Settings) -> disrupt::Settings {
        let first = self == Self::KarpenterLike || chosen.first;
        disrupt::Settings { first, options: self.packing(&chosen.options), ..*chosen }
    }
}
