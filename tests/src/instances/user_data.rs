//! User data as Karpenter writes it, for machines that a test boots without a controller.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::CLUSTER;
use crate::cluster::Cluster;
use crate::error::Result;

/// What a NodeClaim makes of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeConfig {
    /// Labels, as the kubelet's flag takes them.
    pub labels: String,
    /// `registerWithTaints`.
    pub taints: Value,
    /// More of the kubelet's configuration.
    pub config: Value,
    /// A shell script that runs before the kubelet starts.
    pub script: String,
}

impl Default for NodeConfig {
    /// Of the NodePool `default`, without the taint that keeps pods away until Karpenter has registered the node.
    fn default() -> Self {
        Self {
            labels: "karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=default".to_owned(),
            taints: json!([]),
            config: json!({}),
            script: "true".to_owned(),
        }
    }
}

/// For AL2023: MIME with a shell script and Karpenter's NodeConfig.
///
/// # Errors
/// When the cluster is not ours.
pub fn al2023(cluster: &Cluster, node: &NodeConfig) -> Result<Vec<u8>> {
    let mut kubelet = json!({
        "clusterDNS": ["10.96.0.10"],
        "maxPods": 29,
        "nodeStatusUpdateFrequency": "2s",
        "registerWithTaints": node.taints,
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut kubelet, &node.config) {
        all.extend(more.clone());
    }
    let config = json!({
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {},
        "spec": {
            "cluster": {
                "name": CLUSTER,
                "apiServerEndpoint": cluster.inside()?,
                "certificateAuthority": STANDARD.encode(cluster.authority()?),
                "cidr": "10.96.0.0/16",
            },
            "kubelet": {"config": kubelet, "flags": [format!("--node-labels=\"{}\"", node.labels)]},
        },
    });
    let part = |kind: &str, body: &str| format!("--//\r\nContent-Type: {kind}\r\n\r\n{body}\n\r\n");
    let head = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"//\"\r\n\r\n";
    let script = part("text/x-shellscript; charset=\"us-ascii\"", &format!("#!/bin/sh\n{}", node.script));
    let config = part("application/node.eks.aws", &format!("# Karpenter Generated NodeConfig\n{config:#}"));
    Ok(format!("{head}{script}{config}--//--\r\n").into_bytes())
}

/// For AL2: the call of EKS's script.
///
/// # Errors
/// When the cluster is not ours.
pub fn al2(cluster: &Cluster, labels: &str) -> Result<Vec<u8>> {
    let (endpoint, authority) = (cluster.inside()?, STANDARD.encode(cluster.authority()?));
    let script = format!(
        "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n\
         /etc/eks/bootstrap.sh '{CLUSTER}' --apiserver-endpoint '{endpoint}' --b64-cluster-ca '{authority}' \\\n\
         --dns-cluster-ip '10.96.0.10' --use-max-pods true \\\n\
         --kubelet-extra-args '--node-labels=\"{labels}\" --register-with-taints=\"karpenter.sh/unregistered:NoExecute\"'\n"
    );
    Ok(script.into_bytes())
}
