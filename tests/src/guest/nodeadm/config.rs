//! NodeConfig: found in the user data, merged over all its documents, checked as little as nodeadm checks it.

use anyhow::{Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::say;
use crate::user_data::parts;

const MEDIA_TYPE: &str = "application/node.eks.aws";

/// `spec` of all documents, merged. Unknown fields are ignored, as by nodeadm.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Config {
    pub(super) cluster: Cluster,
    pub(super) kubelet: Kubelet,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) api_server_endpoint: String,
    /// Base64 of PEM.
    pub(super) certificate_authority: String,
    pub(super) cidr: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Kubelet {
    pub(super) config: Map<String, Value>,
    pub(super) flags: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    spec: Config,
}

impl Config {
    pub(super) fn from_user_data(data: &[u8]) -> Result<Self> {
        let parts = parts(data);
        let documents: Vec<_> = parts.iter().filter(|part| part.media_type == MEDIA_TYPE).collect();
        if documents.is_empty() {
            bail!("could not find NodeConfig within UserData");
        }
        let mut merged = None;
        for document in documents {
            match serde_saphyr::from_str::<Document>(&document.body) {
                Ok(document) if document.kind == "NodeConfig" && document.api_version.starts_with("node.eks.aws/") => {
                    let config: &mut Self = merged.get_or_insert_default();
                    config.merge(document.spec);
                }
                // Not fatal: nodeadm warns, goes on, and ends with "no config in chain" when nothing else was found.
                Ok(document) => say(&format!("nodeadm: failed to decode \"{}\" (wrong Kind)", document.kind)),
                Err(error) => say(&format!("nodeadm: Encountered error in config provider: {error}")),
            }
        }
        merged.ok_or_else(|| anyhow::anyhow!("no config in chain"))
    }

    /// Later scalars win, flags are appended, the kubelet's configuration is merged deeply with lists replaced.
    fn merge(&mut self, later: Self) {
        let take = |into: &mut String, from: String| {
            if !from.is_empty() {
                *into = from;
            }
        };
        take(&mut self.cluster.name, later.cluster.name);
        take(&mut self.cluster.api_server_endpoint, later.cluster.api_server_endpoint);
        take(&mut self.cluster.certificate_authority, later.cluster.certificate_authority);
        take(&mut self.cluster.cidr, later.cluster.cidr);
        self.kubelet.flags.extend(later.kubelet.flags);
        merge_maps(&mut self.kubelet.config, later.kubelet.config);
    }

    /// All that nodeadm checks.
    pub(super) fn check(&self) -> Result<()> {
        for (value, message) in [
            (&self.cluster.name, "Name is missing in cluster configuration"),
            (&self.cluster.api_server_endpoint, "Apiserver endpoint is missing in cluster configuration"),
            (&self.cluster.certificate_authority, "Certificate authority is missing in cluster configuration"),
            (&self.cluster.cidr, "CIDR is missing in cluster configuration"),
        ] {
            if value.is_empty() {
                bail!(message);
            }
        }
        Ok(())
    }

    /// The certificate authority as PEM.
    pub(super) fn authority(&self) -> Result<String> {
        Ok(String::from_utf8(STANDARD.decode(self.cluster.certificate_authority.trim())?)?)
    }
}

fn merge_maps(into: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, value) in later {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(there)), Value::Object(more)) => merge_maps(there, more),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(spec: &str) -> String {
        format!(
            "--//\r\nContent-Type: application/node.eks.aws\r\n\r\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n{spec}\r\n"
        )
    }

    #[test]
    fn documents_merge_as_in_nodeadm() {
        let user = "  kubelet:\n    config:\n      maxPods: 5\n      registerWithTaints: [{key: a, effect: NoSchedule}]\n      evictionHard: {memory.available: 5%}\n    flags: [--node-labels=a=b]\n";
        let karpenter = "  cluster:\n    name: test\n    apiServerEndpoint: https://192.0.2.1:6443\n    certificateAuthority: QUJD\n    cidr: 10.100.0.0/16\n  kubelet:\n    config:\n      maxPods: 29\n      registerWithTaints: [{key: b, effect: NoExecute}]\n      evictionHard: {nodefs.available: 10%}\n    flags: [--v=4]\n";
        let data = format!(
            "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"//\"\r\n\r\n{}{}--//--\r\n",
            part(user),
            part(karpenter)
        );
        let config = Config::from_user_data(data.as_bytes()).unwrap();
        config.check().unwrap();
        assert_eq!(config.kubelet.flags, ["--node-labels=a=b", "--v=4"]);
        assert_eq!(config.kubelet.config["maxPods"], 29);
        assert_eq!(config.kubelet.config["registerWithTaints"].as_array().unwrap().len(), 1, "lists are replaced");
        assert_eq!(config.kubelet.config["evictionHard"].as_object().unwrap().len(), 2, "maps are merged");
        assert_eq!(config.authority().unwrap(), "ABC");
    }

    #[test]
    fn what_is_missing_is_named_in_the_words_of_nodeadm() {
        let say = |data: &str| {
            Config::from_user_data(data.as_bytes()).and_then(|config| config.check()).unwrap_err().to_string()
        };
        assert_eq!(say("#!/bin/sh\n"), "could not find NodeConfig within UserData");
        assert_eq!(say("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: ["), "no config in chain");
        assert_eq!(
            say("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nSpec: {}\n"),
            "Name is missing in cluster configuration"
        );
    }
}
