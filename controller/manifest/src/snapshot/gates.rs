//! Karpenter's feature gates.

use muster_aws::AwsFeatureGates;

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

/// Gates that were parsed, and a warning about each unknown name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedGates<T> {
    /// The gates.
    pub gates: T,
    /// Warnings, each in one line.
    pub warnings: Vec<String>,
}

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
    /// Names of the gates, in the order of the fields.
    pub const NAMES: [&'static str; 9] = [
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

    /// Returns the gates for objects that are all read from files: NodeOverlays and CapacityBuffers in files are meant
    /// to have an effect.
    #[must_use]
    pub const fn of_files(self) -> Self {
        Self { node_overlay: true, capacity_buffer: true, ..self }
    }

    fn gate(&mut self, index: usize) -> Option<&mut bool> {
        Some(match index {
            0 => &mut self.node_repair,
            1 => &mut self.reserved_capacity,
            2 => &mut self.spot_to_spot_consolidation,
            3 => &mut self.node_overlay,
            4 => &mut self.static_capacity,
            5 => &mut self.capacity_buffer,
            6 => &mut self.terminate_first_drift,
            7 => &mut self.terminate_first_repair,
            8 => &mut self.pod_deletion_cost_management,
            _ => return None,
        })
    }

    /// Parses gates. Unknown ones are warned about: those of an older or newer Karpenter do not keep the controller
    /// from starting.
    ///
    /// # Errors
    /// If an entry is not of the form `Name=true`.
    pub fn parse(text: &str) -> Result<ParsedGates<Self>, String> {
        parse(text, &Self::NAMES, Self::default(), Self::gate)
    }
}

/// Parses the gates of AWS, like [`FeatureGates::parse`].
///
/// # Errors
/// If an entry is not of the form `Name=true`.
pub fn parse_aws_gates(text: &str) -> Result<ParsedGates<AwsFeatureGates>, String> {
    parse(text, &AwsFeatureGates::NAMES, AwsFeatureGates::default(), AwsFeatureGates::gate)
}

fn parse<T>(
    text: &str,
    names: &[&str],
    mut gates: T,
    gate: impl for<'g> Fn(&'g mut T, usize) -> Option<&'g mut bool>,
) -> Result<ParsedGates<T>, String> {
    let mut warnings = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let Some((name, value)) = entry.split_once('=') else {
            return Err(format!("`{entry}` is not of the form Name=true or Name=false"));
        };
        let (name, value) = (name.trim(), value.trim());
        // As Go reads booleans.
        let is_on = match value {
            "1" | "t" => true,
            "0" | "f" => false,
            _ if value.eq_ignore_ascii_case("true") || value == "T" => true,
            _ if value.eq_ignore_ascii_case("false") || value == "F" => false,
            other => return Err(format!("`{other}` of `{name}` is neither true nor false")),
        };
        let index = names.iter().position(|known| known.eq_ignore_ascii_case(name));
        match index.and_then(|index| gate(&mut gates, index)) {
            Some(gate) => *gate = is_on,
            None => {
                warnings
                    .push(format!("gate `{name}` is not known and has no effect; the gates are {}", names.join(", ")));
            }
        }
    }
    Ok(ParsedGates { gates, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_by_karpenters_names() {
        let gates = |text: &str| FeatureGates::parse(text).map(|parsed| parsed.gates);
        assert_eq!(gates(""), Ok(FeatureGates::default()));
        let expected = FeatureGates { node_repair: true, reserved_capacity: false, ..FeatureGates::default() };
        assert_eq!(gates("NodeRepair=true, reservedcapacity=FALSE,"), Ok(expected));
        for (index, name) in FeatureGates::NAMES.into_iter().enumerate() {
            let mut gates = gates(&format!("{name}=1")).unwrap();
            assert!(*gates.gate(index).unwrap(), "{name}");
        }
        for (text, expected) in [
            ("NodeRepair", "`NodeRepair` is not of the form Name=true or Name=false"),
            ("NodeRepair=yes", "`yes` of `NodeRepair` is neither true nor false"),
        ] {
            assert_eq!(gates(text), Err(expected.to_owned()));
        }
    }

    #[test]
    fn an_unknown_gate_is_a_warning() {
        let parsed = FeatureGates::parse("Drift=true,NodeRepair=true").unwrap();
        assert!(parsed.gates.node_repair);
        assert_eq!(parsed.warnings.len(), 1);
        assert!(parsed.warnings[0].starts_with("gate `Drift` is not known and has no effect"), "{parsed:?}");
    }

    #[test]
    fn every_gate_has_a_row() {
        let table = include_str!("../../../../docs/karpenter-1.15.tsv");
        let told: Vec<&str> =
            table.lines().filter_map(|line| line.strip_prefix("gate\t")?.split('\t').next()).collect();
        let known: Vec<&str> = FeatureGates::NAMES.into_iter().chain(AwsFeatureGates::NAMES).collect();
        let sorted = |mut names: Vec<&'static str>| {
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(told), sorted(known));
    }

    #[test]
    fn gates_of_aws_are_apart() {
        let parsed =
            parse_aws_gates("NodeClassCEL=true,DRANVIDIAGPU=false,DRAEFA=false,RebootForRepair=false").unwrap();
        assert_eq!(parsed.gates, AwsFeatureGates { node_class_cel: true, ..AwsFeatureGates::NONE });
        assert!(parsed.warnings.is_empty());
        assert_eq!(parse_aws_gates("NodeRepair=true").unwrap().warnings.len(), 1);
    }
}
