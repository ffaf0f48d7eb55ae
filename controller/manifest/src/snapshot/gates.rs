//! Karpenter's feature gates.

use std::str::FromStr;

/// Feature gates with Karpenter's names and defaults (`--feature-gates Name=true,…`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureGates {
    /// `NodeRepair`.
    pub node_repair: bool,
    /// `ReservedCapacity`.
    pub reserved_capacity: bool,
    /// `SpotToSpotConsolidation`.
    pub spot_to_spot_consolidation: bool,
    /// `NodeOverlay`.
    pub node_overlay: bool,
    /// `StaticCapacity`.
    pub static_capacity: bool,
    /// `CapacityBuffer`.
    pub capacity_buffer: bool,
    /// `TerminateFirstDrift`.
    pub terminate_first_drift: bool,
    /// `TerminateFirstRepair`.
    pub terminate_first_repair: bool,
    /// `PodDeletionCostManagement`.
    pub pod_deletion_cost_management: bool,
}

const NAMES: [&str; 9] = [
    "NodeRepair",
    "ReservedCapacity",
    "SpotToSpotConsolidation",
    "NodeOverlay",
    "StaticCapacity",
    "CapacityBuffer",
    "TerminateFirstDrift",
    "TerminateFirstRepair",
    "PodDeletionCostManagement",
];

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            node_repair: false,
            reserved_capacity: true,
            spot_to_spot_consolidation: false,
            node_overlay: false,
            static_capacity: false,
            capacity_buffer: false,
            terminate_first_drift: false,
            terminate_first_repair: false,
            pod_deletion_cost_management: false,
        }
    }
}

impl FeatureGates {
    /// Returns the gates for objects that are all read from files: NodeOverlays and CapacityBuffers in files are meant
    /// to have an effect.
    #[must_use]
    pub const fn of_files(self) -> Self {
        Self { node_overlay: true, capacity_buffer: true, ..self }
    }

    fn gate(&mut self, name: &str) -> Option<&mut bool> {
        let at = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(match at {
            0 => &mut self.node_repair,
            1 => &mut self.reserved_capacity,
            2 => &mut self.spot_to_spot_consolidation,
            3 => &mut self.node_overlay,
            4 => &mut self.static_capacity,
            5 => &mut self.capacity_buffer,
            6 => &mut self.terminate_first_drift,
            7 => &mut self.terminate_first_repair,
            _ => &mut self.pod_deletion_cost_management,
        })
    }
}

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut gates = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let Some((name, value)) = entry.split_once('=') else {
                return Err(format!("`{entry}` is not of the form Name=true or Name=false"));
            };
            let Some(gate) = gates.gate(name.trim()) else {
                return Err(format!("there is no gate `{}`; the gates are {}", name.trim(), NAMES.join(", ")));
            };
            *gate = match value.trim().to_ascii_lowercase().as_str() {
                "true" => true,
                "false" => false,
                other => return Err(format!("`{other}` is neither true nor false")),
            };
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_by_karpenters_names() {
        assert_eq!("".parse(), Ok(FeatureGates::default()));
        let gates: FeatureGates = "NodeRepair=true, reservedcapacity=FALSE,".parse().unwrap();
        assert_eq!(gates, FeatureGates { node_repair: true, reserved_capacity: false, ..FeatureGates::default() });
        for (text, expected) in [
            ("NodeRepair", "`NodeRepair` is not of the form Name=true or Name=false"),
            ("NodeRepair=1", "`1` is neither true nor false"),
        ] {
            assert_eq!(text.parse::<FeatureGates>(), Err(expected.to_owned()));
        }
        assert!("Drift=true".parse::<FeatureGates>().is_err_and(|error| error.starts_with("there is no gate `Drift`")));
    }
}
