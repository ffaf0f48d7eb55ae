//! Volumes of pods, PersistentVolumeClaims, and the objects behind them.

use std::sync::Arc;

use muster_scheduling::model::{Operator, Requirement, Requirements};

use super::field::{Decoded, Field};
use super::meta::{Meta, meta};
use super::selector::node_selector_term;

/// Volume of a pod that constrains its node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Volume {
    /// Volume of a PersistentVolumeClaim.
    Claim {
        /// Name of the volume.
        volume: Arc<str>,
        /// Name of the claim.
        claim: Arc<str>,
    },
    /// Generic ephemeral volume, with a claim `<pod>-<volume>`.
    Ephemeral {
        /// Name of the volume.
        volume: Arc<str>,
        /// StorageClass of the claim's template; `None` is the default class.
        class: Option<Arc<str>>,
    },
    /// Disk named directly, through a plugin that was migrated to a CSI driver.
    InTree {
        /// CSI driver of the plugin.
        driver: Arc<str>,
        /// ID of the disk.
        disk: Arc<str>,
    },
    /// Disk named directly, through a plugin that does not work on EC2 instances.
    Foreign {
        /// Name of the volume.
        volume: Arc<str>,
        /// Field of the plugin, such as `azureDisk`.
        plugin: &'static str,
    },
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Metadata.
    pub meta: Meta,
    /// The older annotation, or `spec.storageClassName`; `Some("")` requests a volume without a class.
    pub class: Option<Arc<str>>,
    /// `spec.volumeName`.
    pub volume: Option<Arc<str>>,
    /// True if `status.phase` is Lost.
    pub lost: bool,
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq)]
pub struct PersistentVolume {
    /// Metadata.
    pub meta: Meta,
    /// Node affinity: one of the terms must match; empty allows any node.
    pub terms: Vec<Requirements>,
    /// CSI driver, also that of an in-tree plugin.
    pub driver: Option<Arc<str>>,
    /// Claim that it is bound to, as `namespace/name`.
    pub claim: Option<Arc<str>>,
}

/// A StorageClass.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageClass {
    /// Metadata.
    pub meta: Meta,
    /// Provisioner.
    pub provisioner: Arc<str>,
    /// True for `volumeBindingMode: WaitForFirstConsumer`.
    pub waits: bool,
    /// `allowedTopologies`: one of the terms must match; empty allows any node.
    pub topologies: Vec<Requirements>,
}

/// A CSINode.
#[derive(Debug, Clone, PartialEq)]
pub struct CsiNode {
    /// Name of the node.
    pub name: Arc<str>,
    /// Maximum number of volumes that it can attach, by driver.
    pub limits: Vec<(Arc<str>, u32)>,
}

/// A VolumeAttachment.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeAttachment {
    /// Name of the node.
    pub node: Arc<str>,
    /// CSI driver.
    pub driver: Arc<str>,
    /// Name of the PersistentVolume.
    pub volume: Option<Arc<str>>,
}

/// In-tree plugins: their field in a volume, their name in a StorageClass, and the CSI driver that replaces them.
const MIGRATED: [(&str, &str, &str); 7] = [
    ("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("azureFile", "kubernetes.io/azure-file", "file.csi.azure.com"),
    ("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("vsphereVolume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

/// CSI drivers of disks that only another cloud can attach.
const OTHER_CLOUDS: [&str; 4] =
    ["pd.csi.storage.gke.io", "disk.csi.azure.com", "cinder.csi.openstack.org", "csi.vsphere.vmware.com"];

/// In-tree plugins that were removed from Kubernetes without a CSI migration (the last ones in 1.31).
const REMOVED: [&str; 8] =
    ["rbd", "cephfs", "glusterfs", "quobyte", "flocker", "storageos", "scaleIO", "photonPersistentDisk"];

/// Returns true if volumes of this CSI driver can never be attached to an EC2 instance.
pub fn is_foreign(driver: &str) -> bool {
    OTHER_CLOUDS.contains(&driver)
}

/// Returns the CSI driver of a provisioner.
pub fn driver_of(provisioner: &str) -> &str {
    MIGRATED.iter().find(|(_, plugin, _)| *plugin == provisioner).map_or(provisioner, |(_, _, driver)| driver)
}

/// Reads a volume of a pod, if it constrains the node.
pub(crate) fn volume(field: Field<'_>) -> Decoded<Option<Volume>> {
    let name = field.require("name")?.shared()?;
    if let Some(source) = field.get("persistentVolumeClaim")? {
        return Ok(Some(Volume::Claim { volume: name, claim: source.require("claimName")?.shared()? }));
    }
    if let Some(ephemeral) = field.get("ephemeral")? {
        let class = ephemeral.read("volumeClaimTemplate", |template| {
            Ok(template.read("spec", |spec| spec.read("storageClassName", |class| class.shared()))?.flatten())
        })?;
        return Ok(Some(Volume::Ephemeral { volume: name, class: class.flatten() }));
    }
    for (key, _, driver) in MIGRATED {
        if let Some(source) = field.get(key)? {
            if is_foreign(driver) {
                return Ok(Some(Volume::Foreign { volume: name, plugin: key }));
            }
            let disk = ["volumeID", "pdName", "diskName", "volumePath"]
                .into_iter()
                .find_map(|key| source.tree().get(key)?.text());
            return Ok(Some(Volume::InTree { driver: driver.into(), disk: disk.map_or(name, Arc::from) }));
        }
    }
    for plugin in REMOVED {
        if field.get(plugin)?.is_some() {
            return Ok(Some(Volume::Foreign { volume: name, plugin }));
        }
    }
    Ok(None)
}

/// Decodes a PersistentVolumeClaim.
pub(crate) fn claim(object: &Field<'_>) -> Decoded<Claim> {
    object.only(&["apiVersion", "kind", "metadata", "spec", "status"]);
    let meta = meta(object, true)?;
    let spec = object.require("spec")?;
    spec.only(&[
        "accessModes",
        "dataSource",
        "dataSourceRef",
        "resources",
        "selector",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
        "volumeName",
    ]);
    check_amounts(&spec)?;
    let of_spec = spec.read("storageClassName", |class| class.shared())?;
    let phase = object.read("status", |status| status.shared_at("phase"))?.flatten();
    Ok(Claim {
        // Kubernetes prefers the annotation (GetPersistentVolumeClaimClass).
        class: meta.annotations.get("volume.beta.kubernetes.io/storage-class").cloned().or(of_spec),
        volume: spec.shared_at("volumeName")?,
        lost: phase.as_deref() == Some("Lost"),
        meta,
    })
}

/// Validates the amounts of `resources`, which are not used.
fn check_amounts(spec: &Field<'_>) -> Decoded<()> {
    spec.read("resources", super::containers::resources).map(drop)
}

/// Decodes a PersistentVolume.
pub(crate) fn persistent_volume(object: &Field<'_>) -> Decoded<PersistentVolume> {
    let meta = meta(object, false)?;
    let spec = object.require("spec")?;
    spec.read("capacity", |amounts| amounts.quantities())?;
    let terms = spec.read("nodeAffinity", |affinity| {
        affinity.read("required", |required| required.list("nodeSelectorTerms", node_selector_term))
    })?;
    let mut terms: Vec<Requirements> = terms
        .flatten()
        .unwrap_or_default()
        .into_iter()
        .filter(|term| !term.empty)
        .map(|term| term.requirements)
        .collect();
    // The data is on one node: the hostname is dropped, and the node's other labels decide.
    if spec.get("local")?.is_some() || spec.get("hostPath")?.is_some() {
        terms.iter_mut().for_each(|term| term.remove(muster_scheduling::labels::HOSTNAME));
        if terms.iter().any(Requirements::is_empty) {
            terms.clear();
        }
    }
    if terms.is_empty() {
        terms.extend(zone_of(&meta));
    }
    let csi = spec.read("csi", |csi| csi.require("driver")?.shared())?;
    let mut driver = csi;
    for (key, _, successor) in MIGRATED {
        if driver.is_none() && spec.get(key)?.is_some() {
            driver = Some(successor.into());
        }
    }
    let claim = spec.read("claimRef", |claim| {
        let namespace = claim.shared_at("namespace")?.unwrap_or_else(|| "default".into());
        Ok(claim.shared_at("name")?.map(|name| format!("{namespace}/{name}").into()))
    })?;
    Ok(PersistentVolume { meta, terms, driver, claim: claim.flatten() })
}

/// Returns the zone label of volumes that predate node affinity; several zones are joined by two underscores.
fn zone_of(meta: &Meta) -> Option<Requirements> {
    let keys = [muster_scheduling::labels::ZONE, "failure-domain.beta.kubernetes.io/zone"];
    let zones = keys.iter().find_map(|key| meta.labels.get(key))?;
    let requirement = Requirement::new(Operator::In, zones.split("__"));
    Some([(muster_scheduling::labels::ZONE, requirement)].into_iter().collect())
}

/// Decodes a StorageClass.
pub(crate) fn storage_class(object: &Field<'_>) -> Decoded<StorageClass> {
    object.only(&[
        "apiVersion",
        "kind",
        "metadata",
        "allowVolumeExpansion",
        "allowedTopologies",
        "mountOptions",
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ]);
    let waits = object.read("volumeBindingMode", |mode| match mode.text()? {
        "WaitForFirstConsumer" => Ok(true),
        "Immediate" => Ok(false),
        other => Err(super::selector::unknown_word(&mode, other, &["WaitForFirstConsumer", "Immediate"])),
    })?;
    let topologies = object.list("allowedTopologies", |term| {
        let expressions = term.list("matchLabelExpressions", |expression| {
            let values = expression.list("values", |value| value.shared())?;
            Ok((expression.require("key")?.shared()?, Requirement::new(Operator::In, values)))
        })?;
        Ok(expressions.into_iter().collect::<Requirements>())
    })?;
    Ok(StorageClass {
        meta: meta(object, false)?,
        provisioner: object.require("provisioner")?.shared()?,
        waits: waits.unwrap_or(false),
        topologies: topologies.into_iter().filter(|term| !term.is_empty()).collect(),
    })
}

/// Decodes a CSINode.
pub(crate) fn csi_node(object: &Field<'_>) -> Decoded<CsiNode> {
    let name = meta(object, false)?.name;
    let drivers = object.read_or_default("spec", |spec| {
        spec.list("drivers", |driver| {
            let count = driver.read("allocatable", |allocatable| allocatable.read("count", |count| count.count()))?;
            Ok((driver.require("name")?.shared()?, count.flatten()))
        })
    })?;
    Ok(CsiNode { name, limits: drivers.into_iter().filter_map(|(name, count)| Some((name, count?))).collect() })
}

/// Decodes a VolumeAttachment.
pub(crate) fn volume_attachment(object: &Field<'_>) -> Decoded<VolumeAttachment> {
    meta(object, false)?;
    let spec = object.require("spec")?;
    Ok(VolumeAttachment {
        node: spec.require("nodeName")?.shared()?,
        driver: spec.require("attacher")?.shared()?,
        volume: spec.read("source", |source| source.shared_at("persistentVolumeName"))?.flatten(),
    })
}
