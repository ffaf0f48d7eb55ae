//! Pause of operations, set by an operator for the cluster or for one NodePool.

use std::ops::BitOr;

/// Set of paused operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// True if nothing may be launched.
    pub launches: bool,
    /// True if no running node may be removed voluntarily. Deletions in progress continue, as do timeouts of nodes that
    /// never received a pod.
    pub disruption: bool,
}

// === impl Pause ===

impl Pause {
    /// Nothing is paused.
    pub const NOTHING: Self = Self { launches: false, disruption: false };
    /// Everything is paused.
    pub const ALL: Self = Self { launches: true, disruption: true };

    /// Parses the annotation `muster.dev/pause`, and reports whether the value was valid. An operator who sets it wants
    /// to stop something, so an invalid value (`true`, `yes`, a typo) pauses everything.
    #[must_use]
    pub fn read(text: &str) -> (Self, bool) {
        match text.trim().to_ascii_lowercase().as_str() {
            "launches" => (Self { launches: true, disruption: false }, true),
            "disruption" => (Self { launches: false, disruption: true }, true),
            "all" => (Self::ALL, true),
            "false" => (Self::NOTHING, true),
            _ => (Self::ALL, false),
        }
    }
}

impl BitOr for Pause {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { launches: self.launches || other.launches, disruption: self.disruption || other.disruption }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_stops_everything() {
        assert_eq!(Pause::read("launches"), (Pause { launches: true, disruption: false }, true));
        assert_eq!(Pause::read(" Disruption "), (Pause { launches: false, disruption: true }, true));
        assert_eq!(Pause::read("all"), (Pause::ALL, true));
        assert_eq!(Pause::read("false"), (Pause::NOTHING, true));
        for slip in ["", "true", "launch", "none"] {
            assert_eq!(Pause::read(slip), (Pause::ALL, false), "{slip}");
        }
    }
}
