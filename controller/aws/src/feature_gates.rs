//! Feature gates of AWS.

/// Feature gates with Karpenter's names (`--aws-feature-gates Name=true,…`). All are off unless they are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AwsFeatureGates {
    /// `NodeClassCEL`: expressions in `spec.kubelet` of EC2NodeClasses.
    pub node_class_cel: bool,
    /// `DRANVIDIAGPU`.
    pub dra_nvidia_gpu: bool,
    /// `DRAEFA`.
    pub dra_efa: bool,
    /// `RebootForRepair`.
    pub reboot_for_repair: bool,
}

// === impl AwsFeatureGates ===

impl AwsFeatureGates {
    /// Names of the gates, in the order of the fields.
    pub const NAMES: [&'static str; 4] = ["NodeClassCEL", "DRANVIDIAGPU", "DRAEFA", "RebootForRepair"];
    /// No gate is on.
    pub const NONE: Self =
        Self { node_class_cel: false, dra_nvidia_gpu: false, dra_efa: false, reboot_for_repair: false };

    /// Returns the gate at an index of [`Self::NAMES`].
    pub fn gate(&mut self, index: usize) -> Option<&mut bool> {
        match index {
            0 => Some(&mut self.node_class_cel),
            1 => Some(&mut self.dra_nvidia_gpu),
            2 => Some(&mut self.dra_efa),
            3 => Some(&mut self.reboot_for_repair),
            _ => None,
        }
    }
}
