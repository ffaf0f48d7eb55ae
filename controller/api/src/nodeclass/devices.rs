//! Disks of EC2 instances.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::patterns;
use crate::rules::{self, cel};

/// A disk of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    /// Device that the disk appears as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The EBS volume behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Marks the volume that holds the kubelet's files and the images: its size is the node's ephemeral storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub root_volume: bool,
}

/// An EBS volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = cel(rules::BLOCK_DEVICE)))]
pub struct BlockDevice {
    /// Deletes the volume with the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    /// Encrypts the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    /// Input and output operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    /// Key that the volume is encrypted with.
    #[serde(default, rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// Snapshot that the volume starts from.
    #[serde(default, rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// Mebibytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// Mebibytes per second at which the snapshot is read into the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 300))]
    pub volume_initialization_rate: Option<i32>,
    /// Size in G, Gi, T or Ti.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::VOLUME_SIZE))]
    pub volume_size: Option<String>,
    /// Type of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
}

/// Types of EBS volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VolumeType {
    /// Magnetic, previous generation.
    Standard,
    /// Provisioned operations.
    Io1,
    /// Provisioned operations, more durable.
    Io2,
    /// General purpose, speed grows with size.
    Gp2,
    /// Magnetic, rarely read.
    Sc1,
    /// Magnetic, for throughput.
    St1,
    /// General purpose, speed apart from size.
    Gp3,
}

/// Policy for the local disks of an instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum InstanceStorePolicy {
    /// They become one striped disk for pods, the kubelet and images.
    #[serde(rename = "RAID0")]
    Raid0,
}
