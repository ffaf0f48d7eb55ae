//! Result of a judgement: findings, and the effective configuration of the kubelet.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::family::Family;
use crate::finding::{Finding, Severity};
use crate::kubelet::taints::Taint;
use crate::secrets::Values;

/// Result of judging a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Errors first, then in the order of the layers.
    pub findings: Vec<Finding>,
    /// Effective configuration.
    pub effective: Effective,
}

/// Effective configuration of the kubelet and the node, as far as the document determines it.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// AMI family whose format the document was read in.
    pub family: Family,
    /// Name of the cluster.
    pub cluster_name: Option<String>,
    /// URL of its API server.
    pub endpoint: Option<String>,
    /// Taints that the node registers with.
    pub taints: Vec<Taint>,
    /// Labels that the node registers with.
    pub labels: BTreeMap<String, String>,
    /// Arguments that the kubelet process receives.
    pub kubelet_args: Vec<String>,
    /// Merged configuration, before flags.
    pub kubelet_config: Map<String, Value>,
    /// Merged configuration with the flags applied: the settings in effect.
    pub kubelet_settings: Map<String, Value>,
    /// Flags by name; the last value of a repeated flag.
    pub flags: BTreeMap<String, String>,
    /// Certificate authority of the cluster: PEM in base64.
    pub certificate_authority: Option<String>,
    /// Service CIDR of the cluster.
    pub service_cidr: Option<String>,
    /// Maximum number of pods; absent if it depends on the instance type.
    pub max_pods: Option<i64>,
    /// True if bootstrap.sh looks up the instance type in the image's eni-max-pods table, and fails if it is not
    /// listed.
    pub needs_pod_table: bool,
    /// Name of the node; absent if it depends on the instance.
    pub node_name: Option<String>,
    /// Values that the documents assign to secret names. The other fields may contain them, because the kubelet
    /// receives them: code that shows a field must hide them.
    pub secrets: Values,
}

impl Report {
    /// Returns true if no finding is an error: the node joins with the right configuration.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }
}
