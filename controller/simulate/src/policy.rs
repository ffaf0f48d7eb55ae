//! Decision policies: Muster, or an approximation of Karpenter, to compare the cost of a day.

use jiff::SignedDuration;
use muster_scheduling::disrupt;
use muster_scheduling::model::{Options, Packing};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Decisions of the live controller.
    Muster,
    /// Pods go to the first node that may still take them, whose type and price are chosen last; and each pass runs one
    /// voluntary disruption command: the first that one of Karpenter's methods finds, in their order.
    KarpenterLike,
}

// === impl Policy ===

impl Policy {
    /// Returns the packing options for this policy.
    pub(crate) fn packing(self, chosen: &Options) -> Options {
        let packing = if self == Self::KarpenterLike { Packing::FirstFit } else { chosen.packing };
        Options { packing, ..*chosen }
    }

    /// Returns the disruption options for this policy.
    pub(crate) fn disruption(self, chosen: &disrupt::Settings) -> disrupt::Settings {
        let first = self == Self::KarpenterLike || chosen.first;
        // Karpenter takes nodes of any age, and does not check where kube-scheduler will place their pods.
        let (payback, replayed) = match self {
            Self::Muster => (chosen.payback, chosen.replayed),
            Self::KarpenterLike => (SignedDuration::ZERO, false),
        };
        disrupt::Settings { first, options: self.packing(&chosen.options), payback, replayed, ..*chosen }
    }
}
