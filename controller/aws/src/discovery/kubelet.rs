//! Judgement of `spec.kubelet`, which the API server stores as it is.

use muster_api::conditions::reason;
use muster_api::nodeclass::Ec2NodeClass;
use muster_bootstrap::kubelet::class::{ClassFault, ClassFaultKind};

use super::judge::first_few;
use crate::capacity::kubelet::evaluate;
use crate::class::ClassSettings;
use crate::embedded::Ec2;
use crate::feature_gates::AwsFeatureGates;

/// Returns reason and message of the refusal of a class's kubelet settings; `None` if nodes can run with them.
pub(super) fn kubelet_refusal(class: &Ec2NodeClass, gates: AwsFeatureGates) -> Option<(&'static str, String)> {
    let faults = class.spec.kubelet_faults();
    for (kind, reason) in [
        (ClassFaultKind::Invalid, reason::INVALID_KUBELET_CONFIGURATION),
        (ClassFaultKind::Unsupported, reason::UNSUPPORTED_KUBELET_CONFIGURATION),
    ] {
        if let Some(message) = texts(&faults, kind) {
            return Some((reason, message));
        }
    }
    if !class.spec.has_kubelet_expressions() {
        return None;
    }
    if !gates.node_class_cel {
        let message = "spec.kubelet has an expression, and the gate `NodeClassCEL` is off: set \
                       `--aws-feature-gates NodeClassCEL=true`";
        return Some((reason::KUBELET_EXPRESSIONS_DISABLED, message.to_owned()));
    }
    if let Some(message) = texts(&faults, ClassFaultKind::Expression) {
        return Some((reason::KUBELET_EXPRESSION_INVALID, message));
    }
    let failed = |message: String| Some((reason::KUBELET_EXPRESSION_EVALUATION_FAILED, message));
    let settings = match ClassSettings::try_from(class) {
        Ok(settings) => settings,
        Err(error) => return failed(error.to_string()),
    };
    let table = match Ec2::embedded() {
        Ok(table) => table,
        Err(error) => return failed(error.to_string()),
    };
    let fault = table.all_types().find_map(|facts| evaluate(facts, &settings).err());
    fault.and_then(|(field, error)| failed(format!("spec.kubelet.{field} {error}")))
}

fn texts(faults: &[ClassFault], kind: ClassFaultKind) -> Option<String> {
    let of_kind = faults.iter().filter(|fault| fault.kind == kind);
    let texts: Vec<String> =
        of_kind.map(|fault| format!("spec.kubelet.{}: {}", fault.path.join("."), fault.message)).collect();
    (!texts.is_empty()).then(|| first_few(&texts))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ON: AwsFeatureGates = AwsFeatureGates { node_class_cel: true, ..AwsFeatureGates::NONE };

    fn refusal(alias: &str, kubelet: Value, gates: AwsFeatureGates) -> Option<(&'static str, String)> {
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"role": "node", "amiSelectorTerms": [{"alias": alias}], "kubelet": kubelet,
                     "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]},
        });
        kubelet_refusal(&serde_json::from_value(class).unwrap(), gates)
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let plain = json!({"maxPods": 20, "kubeReserved": {"cpu": "100m"}});
        assert_eq!(refusal("bottlerocket@latest", plain, AwsFeatureGates::NONE), None);
        for (alias, kubelet, gates, reason) in [
            ("al2023@latest", json!({"maxpods": 20}), ON, "InvalidKubeletConfiguration"),
            ("bottlerocket@latest", json!({"cpuManagerPolicy": "static"}), ON, "UnsupportedKubeletConfiguration"),
            ("al2023@latest", json!({"maxPods": "max_pods"}), AwsFeatureGates::NONE, "KubeletExpressionsDisabled"),
            ("al2023@latest", json!({"maxPods": "max_pods +"}), ON, "KubeletExpressionInvalid"),
            ("al2023@latest", json!({"maxPods": "100 / (vcpus - 2)"}), ON, "KubeletExpressionEvaluationFailed"),
        ] {
            let (found, message) = refusal(alias, kubelet.clone(), gates).unwrap();
            assert_eq!(found, reason, "{kubelet}: {message}");
        }
        let expressions = json!({"maxPods": "min(110, max_pods)", "systemReserved": {"memory": "vcpus * 20"}});
        assert_eq!(refusal("al2023@latest", expressions, ON), None);
    }
}
