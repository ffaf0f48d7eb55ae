//! The stop switch: what an operator has paused, in the cluster or for one NodePool.

use std::ops::BitOr;

/// What is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// Nothing is launched.
    pub launches: bool,
    /// Nothing that runs is taken away by our own choice. What is being deleted goes on, and so do timeouts of nodes that
    /// never took a pod.
    pub disruption: bool,
}

// === impl Pause ===

impl Pause {
    /// Nothing is paused.
    pub const NOTHING: Self = Self { launches: false, disruption: false };
    /// Everything is.
    pub const ALL: Self = Self { launches: true, disruption: true };

    /// What the annotation `muster.dev/pause` says, and whether it was understood. Who sets it wants something to stop,
    /// so whatever is not understood (`true`, `yes`, a slip of the pen at 3 a.m.) stops everything.
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
