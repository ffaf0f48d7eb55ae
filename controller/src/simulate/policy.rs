//! Who decides: Muster, or something like Karpenter, so that a day can be paid for twice and compared.

use muster_scheduling::disrupt;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// What the live controller decides.
    Muster,
    /// As Muster, but with one voluntary command in each pass, in the order of Karpenter's methods: the first that finds
    /// anything. Nodes are packed by Muster, so this is kinder to Karpenter than its own packing is.
    KarpenterLike,
}

// === impl Policy ===

impl Policy {
    /// The operator's choices about disruption, as this policy takes them.
    pub(crate) fn disruption(self, chosen: &disrupt::Settings) -> disrupt::Settings {
        disrupt::Settings { first: self == Self::KarpenterLike || chosen.first, ..*chosen }
    }
}
