//! Warnings about options of `muster run` that have no effect.

use muster_aws::AwsFeatureGates;
use muster_manifest::snapshot::FeatureGates;

use super::super::arguments::CloudName;

/// Returns warnings about gates of devices that are on while claims are ignored.
pub(super) fn unused_devices(aws_gates: AwsFeatureGates, ignores_claims: bool) -> Vec<String> {
    if !ignores_claims {
        return Vec::new();
    }
    let on = [("DRANVIDIAGPU", aws_gates.dra_nvidia_gpu), ("DRAEFA", aws_gates.dra_efa)];
    let on = on.into_iter().filter(|(_, is_on)| *is_on);
    on.map(|(name, _)| format!("gate `{name}` is on and has no effect: it needs `--ignore-dra-requests=false`"))
        .collect()
}

/// Returns a warning if nodes are to be rebooted and cannot be.
pub(super) fn unused_reboots(
    cloud: CloudName,
    gates: &FeatureGates,
    aws_gates: AwsFeatureGates,
    is_legacy: bool,
) -> Option<String> {
    let why = match cloud {
        _ if !aws_gates.reboot_for_repair => return None,
        CloudName::Kwok => "nodes that KWOK simulates have nothing to reboot",
        CloudName::Aws if is_legacy => "`--legacy-node-repair` replaces nodes only",
        CloudName::Aws if !gates.node_repair => "it needs the gate `NodeRepair` of `--feature-gates`",
        CloudName::Aws => return None,
    };
    Some(format!("gate `RebootForRepair` is on and has no effect: {why}"))
}
