//! Kubelet settings of a class for an instance type: expressions come to numbers.

use std::collections::BTreeMap;

#[cfg(feature = "launch")]
use muster_bootstrap::kubelet::expression::ExpressionError;
use muster_bootstrap::kubelet::expression::{Expression, Variables};
use muster_scheduling::model::{Resource, Resources};

use crate::capacity;
use crate::class::ClassSettings;
#[cfg(feature = "launch")]
use crate::class::KubeletExpressions;
use crate::facts::InstanceTypeFacts;
use crate::quantity;

/// Settings that differ between the instance types of a class.
#[cfg(feature = "launch")]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct KubeletOfType {
    /// `maxPods`.
    pub max_pods: i64,
    /// Computed entries of `kubeReserved` and `systemReserved`, as quantities.
    pub reserved: BTreeMap<&'static str, BTreeMap<String, String>>,
}

#[cfg(feature = "launch")]
impl KubeletOfType {
    /// Returns the settings for a type. Expressions without a result are left out: such a class launches nothing.
    pub(crate) fn of(facts: &InstanceTypeFacts, class: &ClassSettings) -> Self {
        let max_pods = capacity::pods(facts, class);
        let mut reserved = BTreeMap::new();
        for (field, all) in maps(&class.kubelet.expressions) {
            let texts: BTreeMap<String, String> =
                texts(facts, class, all).map(|(resource, text)| (resource.to_string(), text)).collect();
            if !texts.is_empty() {
                reserved.insert(field, texts);
            }
        }
        Self { max_pods, reserved }
    }
}

/// Returns the result of `maxPods` for a type, if it is an expression with a result. `family` is the limit of the
/// family.
pub(crate) fn max_pods(facts: &InstanceTypeFacts, class: &ClassSettings, family: i64) -> Option<i64> {
    let expression = class.kubelet.expressions.max_pods.as_ref()?;
    expression.evaluate(&variables(facts, family)).ok()
}

/// Sets the computed entries of a map of reserved resources.
pub(crate) fn reserve(
    facts: &InstanceTypeFacts,
    class: &ClassSettings,
    all: &BTreeMap<Resource, Expression>,
    reserved: &mut Resources,
) {
    for (resource, text) in texts(facts, class, all) {
        if let Ok(amount) = quantity::parse(resource, &text) {
            reserved.set(resource.clone(), amount);
        }
    }
}

/// Evaluates all expressions of a class for a type.
///
/// # Errors
/// Returns the field of the first expression without a result, and the reason.
#[cfg(feature = "launch")]
pub(crate) fn evaluate(facts: &InstanceTypeFacts, class: &ClassSettings) -> Result<(), (String, ExpressionError)> {
    let expressions = &class.kubelet.expressions;
    if let Some(expression) = &expressions.max_pods {
        let family = variables(facts, capacity::family_pods(facts, class));
        expression.evaluate(&family).map_err(|error| ("maxPods".to_owned(), error))?;
    }
    let of_type = variables(facts, capacity::pods(facts, class));
    for (field, all) in maps(expressions) {
        for (resource, expression) in all {
            let failed = |error| (format!("{field}.{resource}"), error);
            expression.reserved(resource.name(), &of_type).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(feature = "launch")]
fn maps(expressions: &KubeletExpressions) -> [(&'static str, &BTreeMap<Resource, Expression>); 2] {
    [("kubeReserved", &expressions.kube_reserved), ("systemReserved", &expressions.system_reserved)]
}

fn texts<'e>(
    facts: &InstanceTypeFacts,
    class: &ClassSettings,
    all: &'e BTreeMap<Resource, Expression>,
) -> impl Iterator<Item = (&'e Resource, String)> {
    let of_type = (!all.is_empty()).then(|| variables(facts, capacity::pods(facts, class)));
    all.iter().filter_map(move |(resource, expression)| {
        Some((resource, expression.reserved(resource.name(), of_type.as_ref()?).ok()?))
    })
}

fn variables(facts: &InstanceTypeFacts, max_pods: i64) -> Variables<'_> {
    Variables {
        instance_type: &facts.name,
        vcpus: facts.vcpus.into(),
        memory_mib: i64::try_from(facts.memory_mib).unwrap_or(i64::MAX),
        default_enis: facts.network.default_interfaces().into(),
        ips_per_eni: facts.network.ipv4_per_interface.into(),
        max_pods,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ec2, Prices, resolve};

    fn class(kubelet: &serde_json::Value) -> ClassSettings {
        let class = serde_json::json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {"role": "node", "amiSelectorTerms": [{"alias": "al2023@latest"}], "kubelet": kubelet,
                     "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]},
        });
        let class: muster_api::Ec2NodeClass = serde_json::from_value(class).unwrap();
        ClassSettings::try_from(&class).unwrap()
    }

    #[test]
    fn expressions_count_in_capacity_and_allocatable() {
        let class = class(&serde_json::json!({
            "maxPods": "min(20, max_pods)",
            "kubeReserved": {"memory": "max_pods * 10", "cpu": "100m"},
            "systemReserved": {"cpu": "vcpus * 11"},
        }));
        let ec2 = Ec2::embedded().unwrap();
        let region = ec2.region("us-east-1").unwrap();
        let (facts, _) = ec2.types(region).find(|(facts, _)| &*facts.name == "m5.large").unwrap();
        let resolved = resolve(&facts, &Prices::default(), region.place(), &class);
        assert_eq!(resolved.capacity.get(&Resource::Pods), 20);
        assert_eq!(resolved.overhead.get(&Resource::Cpu), 100 + 30, "22 millicores are rounded up to 30");
        assert_eq!(resolved.overhead.get(&Resource::Memory), (208 + 100) << 20, "200 Mi are rounded up to 208");
        #[cfg(feature = "launch")]
        {
            let of_type = KubeletOfType::of(&facts, &class);
            assert_eq!(of_type.max_pods, 20);
            assert_eq!(of_type.reserved["kubeReserved"]["memory"], "208Mi");
            assert_eq!(of_type.reserved["systemReserved"]["cpu"], "30m");
            assert_eq!(evaluate(&facts, &class), Ok(()));
        }
    }

    #[cfg(feature = "launch")]
    #[test]
    fn an_expression_without_result_is_named() {
        let ec2 = Ec2::embedded().unwrap();
        let (facts, _) = ec2.types(ec2.region("us-east-1").unwrap()).next().unwrap();
        let (field, error) = evaluate(&facts, &class(&serde_json::json!({"maxPods": "max_pods / 0"}))).unwrap_err();
        assert_eq!(field, "maxPods");
        assert!(error.to_string().starts_with("does not come to a number"), "{error}");
    }
}
