//! Kubelet settings of an EC2NodeClass.

use std::borrow::Cow;

use muster_bootstrap::Family;
use muster_bootstrap::kubelet::class::{self, ClassFault};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AmiFamily, Ec2NodeClassSpec};

/// Settings of the kubelet: any field of KubeletConfiguration. `maxPods` and reserved resources may be expressions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KubeletSettings(pub Map<String, Value>);

// === impl KubeletSettings ===

impl JsonSchema for KubeletSettings {
    fn schema_name() -> Cow<'static, str> {
        "KubeletSettings".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Settings of the kubelet: any field of KubeletConfiguration. `maxPods` and reserved resources may be expressions.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

impl KubeletSettings {
    /// Returns the texts of a map, such as `kubeReserved`. Other values are left out.
    pub fn texts<'s>(&'s self, field: &str) -> impl Iterator<Item = (&'s str, &'s str)> + use<'s> {
        let map = self.0.get(field).and_then(Value::as_object).into_iter().flatten();
        map.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

// === impl Ec2NodeClassSpec ===

impl Ec2NodeClassSpec {
    /// Returns the faults of `spec.kubelet` under the family of the class. The API server stores these settings as they
    /// are.
    #[must_use]
    pub fn kubelet_faults(&self) -> Vec<ClassFault> {
        let family = self.resolved_ami_family().unwrap_or(AmiFamily::Custom);
        self.kubelet.iter().flat_map(|settings| class::faults(&settings.0, Family::from(family))).collect()
    }

    /// Returns true if a kubelet setting is an expression.
    #[must_use]
    pub fn has_kubelet_expressions(&self) -> bool {
        self.kubelet.as_ref().is_some_and(|settings| class::expressions(&settings.0).next().is_some())
    }
}

impl From<AmiFamily> for Family {
    fn from(family: AmiFamily) -> Self {
        match family {
            AmiFamily::Al2 => Self::Al2,
            AmiFamily::Al2023 => Self::Al2023,
            AmiFamily::Bottlerocket => Self::Bottlerocket,
            AmiFamily::Custom => Self::Custom,
            AmiFamily::Windows2019 => Self::Windows2019,
            AmiFamily::Windows2022 => Self::Windows2022,
            AmiFamily::Windows2025 => Self::Windows2025,
        }
    }
}
