//! Who decides: Muster, or something like Karpenter, so that a day can be paid for twice and compared.

use jiff::SignedDuration;
use muster_scheduling::disrupt;
use muster_scheduling::model::{Options, Packing};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// What the live controller decides.
    Muster,
    /// Pods go to the first node that may still take them, and its type and price are looked at last; and there is one
    /// voluntary command in each pass, in the order of Karpenter's methods: the first that finds anything.
    KarpenterLike,
}

// === impl Policy ===

impl Policy {
    /// How pods are packed, as this policy packs them.
    pub(crate) fn packing(self, chosen: &Options) -> Options {
        let packing = if self == Self::KarpenterLike { Packing::FirstFit } else { chosen.packing };
        Options { packing, ..*chosen }
    }

    /// The operator's choices about disruption, as this policy takes them.
    pub(crate) fn disruption(self, chosen: &disrupt::Settings) -> disrupt::Settings {
        let first = self == Self::KarpenterLike || chosen.first;
        // Karpenter takes nodes of any age, and does not ask where kube-scheduler will put their pods.
        let (payback, replayed) = match self {
            Self::Muster => (chosen.payback, chosen.replayed),
            Self::KarpenterLike => (SignedDuration::ZERO, false),
        };
        disrupt::Settings { first, options: self.packing(&chosen.options), payback, replayed, ..*chosen }
    }
}
