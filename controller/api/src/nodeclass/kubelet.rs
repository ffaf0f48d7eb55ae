//! Kubelet settings of an EC2NodeClass.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::patterns;
use crate::rules::{self, Rule, cel};

/// Settings of the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel(rules::KUBELET)))]
pub struct KubeletSettings {
    /// Addresses of the cluster's name servers.
    #[serde(default, rename = "clusterDNS", skip_serializing_if = "Vec::is_empty")]
    pub cluster_dns: Vec<String>,
    /// Most pods that may run on a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_pods: Option<i32>,
    /// Most pods that may run on a node, for each of its CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub pods_per_core: Option<i32>,
    /// Resources reserved for the operating system.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "system_reserved")]
    pub system_reserved: BTreeMap<String, String>,
    /// Resources reserved for the kubelet and the container runtime.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "kube_reserved")]
    pub kube_reserved: BTreeMap<String, String>,
    /// Below what is left of a resource pods are evicted at once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "eviction_hard")]
    pub eviction_hard: BTreeMap<String, String>,
    /// Below what is left of a resource pods are evicted after a grace period.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "eviction_soft")]
    pub eviction_soft: BTreeMap<String, String>,
    /// The grace period of each soft threshold.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = cel(rules::EVICTION_SOFT_GRACE)))]
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// Longest grace period, in seconds, that a pod gets when a soft threshold is crossed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// Use of the image disk, in percent, above which images are always collected.
    #[serde(default, rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// Use of the image disk, in percent, down to which images are collected.
    #[serde(default, rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// Enforces CPU limits by CFS quota.
    #[serde(default, rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}

fn system_reserved(_: &mut SchemaGenerator) -> Schema {
    strings(patterns::QUANTITY, rules::SYSTEM_RESERVED)
}

fn kube_reserved(_: &mut SchemaGenerator) -> Schema {
    strings(patterns::QUANTITY, rules::KUBE_RESERVED)
}

fn eviction_hard(_: &mut SchemaGenerator) -> Schema {
    strings(patterns::EVICTION_THRESHOLD, rules::EVICTION_HARD)
}

fn eviction_soft(_: &mut SchemaGenerator) -> Schema {
    strings(patterns::EVICTION_THRESHOLD, rules::EVICTION_SOFT)
}

fn strings(pattern: &str, rules: &[Rule]) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string", "pattern": pattern},
        "x-kubernetes-validations": cel(rules),
    })
}
