//! The answer: findings, and what the kubelet will be told.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::family::Family;
use crate::finding::{Finding, Severity};
use crate::kubelet::taints::Taint;
use crate::secrets::Values;

/// What came of judging a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Errors first, then in the order of the layers.
    pub findings: Vec<Finding>,
    /// What is in effect.
    pub effective: Effective,
}

/// What the kubelet will be told, as far as the document decides it.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// The family that the document was read as.
    pub family: Family,
    /// Name of the cluster.
    pub cluster_name: Option<String>,
    /// URL of its API server.
    pub endpoint: Option<String>,
    /// Taints that the node registers with.
    pub taints: Vec<Taint>,
    /// Labels that the node registers with.
    pub labels: BTreeMap<String, String>,
    /// Arguments that the kubelet's process receives.
    pub kubelet_args: Vec<String>,
    /// The merged configuration, before flags.
    pub kubelet_config: Map<String, Value>,
    /// The configuration with the flags laid over it: what the kubelet does.
    pub kubelet_settings: Map<String, Value>,
    /// The flags by name; of one that is given twice, the last.
    pub flags: BTreeMap<String, String>,
    /// The cluster's certificate authority: base64 of PEM.
    pub certificate_authority: Option<String>,
    /// The network of Services.
    pub service_cidr: Option<String>,
    /// Most pods; absent if the instance type decides.
    pub max_pods: Option<i64>,
    /// Whether bootstrap.sh looks the instance type up in the image's table of pods, and fails without it.
    pub needs_pod_table: bool,
    /// The node's name; absent if the instance decides.
    pub node_name: Option<String>,
    /// Values that the documents give to names of secrets. The other fields may hold them, for the kubelet is told so:
    /// who shows a field hides them in it.
    pub secrets: Values,
}

impl Report {
    /// Whether the node joins, and joins right: there is no error.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }
}
