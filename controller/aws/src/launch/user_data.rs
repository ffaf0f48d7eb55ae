//! User data of the instances of a class.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use muster_api::labels;
use muster_api::nodeclass::{Ec2NodeClass, Ec2NodeClassSpec, InstanceStorePolicy};
use muster_bootstrap::Family;
use muster_bootstrap::kubelet::class::expressions;
use muster_bootstrap::kubelet::taints::Taint as KubeletTaint;
use muster_bootstrap::node_class::{self, Launch, MergeFault};
use serde_json::{Map, Value};

use crate::capacity::kubelet::KubeletOfType;
use crate::family::AmiFamily;

/// Cluster settings for nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// Name of the cluster.
    pub name: String,
    /// ARN of the cluster, if EKS has told it.
    pub arn: Option<String>,
    /// Region, such as `eu-west-1`.
    pub region: String,
    /// URL of the API server.
    pub endpoint: String,
    /// CA certificate of the API server: PEM, encoded as base64.
    pub certificate_authority: String,
    /// Minor version of Kubernetes, such as `1.35`, which selects the images.
    pub kubernetes: String,
    /// Service CIDR; AL2023 needs it.
    pub service_cidr: Option<String>,
    /// IP address of the cluster DNS; an IPv6 address makes it an IPv6 cluster.
    pub dns: Option<String>,
}

impl Cluster {
    /// Returns true if pods have IPv6 addresses.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.dns.as_deref().is_some_and(|address| address.contains(':'))
    }
}

/// Converts the family to that of the bootstrap rules.
#[must_use]
pub const fn bootstrap_family(family: AmiFamily) -> Family {
    match family {
        AmiFamily::Al2 => Family::Al2,
        AmiFamily::Al2023 => Family::Al2023,
        AmiFamily::Bottlerocket => Family::Bottlerocket,
        AmiFamily::Custom => Family::Custom,
        AmiFamily::Windows2019 => Family::Windows2019,
        AmiFamily::Windows2022 => Family::Windows2022,
        AmiFamily::Windows2025 => Family::Windows2025,
    }
}

/// Returns the AMI family of the class: the configured one, else that of its alias, else Custom.
#[must_use]
pub fn family_of(spec: &Ec2NodeClassSpec) -> AmiFamily {
    spec.resolved_ami_family().map_or(AmiFamily::Custom, AmiFamily::from)
}

/// Returns the input of the user data renderer: class, cluster, and node.
pub(crate) fn launch(
    cluster: &Cluster,
    class: &Ec2NodeClass,
    of_type: Option<&KubeletOfType>,
    labels_of_node: &BTreeMap<String, String>,
    taints: &[Taint],
) -> Launch {
    let spec = &class.spec;
    let mut labels_of_node = labels_of_node.clone();
    labels_of_node.insert(labels::EC2NODECLASS.to_owned(), class.metadata.name.clone().unwrap_or_default());
    if family_of(spec) != AmiFamily::Custom {
        // The node registers with its taints.
        labels_of_node.insert(labels::DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
    }
    let mut kubelet = spec.kubelet.as_ref().map(|settings| settings.0.clone()).unwrap_or_default();
    kubelet.retain(|_, value| !value.is_null());
    match of_type {
        Some(of_type) => resolve(&mut kubelet, of_type),
        None => leave_out_expressions(&mut kubelet),
    }
    let taint = |taint: &Taint| KubeletTaint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.clone(),
    };
    Launch {
        cluster_name: cluster.name.clone(),
        endpoint: cluster.endpoint.clone(),
        certificate_authority: cluster.certificate_authority.clone(),
        service_cidr: cluster.service_cidr.clone().unwrap_or_default(),
        cluster_dns: cluster.dns.clone(),
        labels: labels_of_node,
        taints: taints.iter().map(taint).collect(),
        kubelet,
        uses_instance_store: spec.instance_store_policy == Some(InstanceStorePolicy::Raid0),
    }
}

/// Replaces expressions by their results for the instance type.
fn resolve(kubelet: &mut Map<String, Value>, of_type: &KubeletOfType) {
    if kubelet.get("maxPods").is_none_or(Value::is_string) {
        kubelet.insert("maxPods".to_owned(), of_type.max_pods.into());
    }
    for (field, computed) in &of_type.reserved {
        if let Some(Value::Object(all)) = kubelet.get_mut(*field) {
            all.extend(computed.iter().map(|(resource, text)| (resource.clone(), text.as_str().into())));
        }
    }
}

/// Removes expressions, whose results are not known before the instance type is.
fn leave_out_expressions(kubelet: &mut Map<String, Value>) {
    let paths: Vec<Vec<String>> =
        expressions(kubelet).map(|(path, _)| path.into_iter().map(ToOwned::to_owned).collect()).collect();
    for path in paths {
        match &path[..] {
            [field] => drop(kubelet.remove(field)),
            [field, key] => {
                if let Some(Value::Object(all)) = kubelet.get_mut(field) {
                    all.remove(key);
                }
            }
            _ => {}
        }
    }
}

/// Returns the user data of a node with these labels, taints and kubelet settings, before base64 encoding.
///
/// # Errors
/// If the class's user data cannot be merged with that of the family.
pub fn user_data(
    cluster: &Cluster,
    class: &Ec2NodeClass,
    of_type: &KubeletOfType,
    labels_of_node: &BTreeMap<String, String>,
    taints: &[Taint],
) -> Result<String, MergeFault> {
    let launch = launch(cluster, class, Some(of_type), labels_of_node, taints);
    let own = class.spec.user_data.as_deref().unwrap_or_default();
    node_class::user_data(bootstrap_family(family_of(&class.spec)), own, &launch)
}
