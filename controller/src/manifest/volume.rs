//! Volumes of pods, claims and what stands behind them.

use std::sync::Arc;

use muster_scheduling::model::{Operator, Requirement, Requirements};

use super::field::{Decoded, Field};
use super::meta::{Meta, meta};
use super::selector::node_selector_term;

/// A volume of a pod that needs something of its node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Volume {
    /// It uses a claim.
    Claim {
        /// The name of the volume.
        volume: Arc<str>,
        /// The name of the claim.
        claim: Arc<str>,
    },
    /// A claim `<pod>-<volume>` is made for it.
    Ephemeral {
        /// The name of the volume.
        volume: Arc<str>,
        /// The class in the claim's template; `None` is the default class.
        class: Option<Arc<str>>,
    },
    /// It names a disk directly, through a plugin that became a CSI driver.
    InTree {
        /// The driver that took over.
        driver: Arc<str>,
        /// The disk.
        disk: Arc<str>,
    },
    /// It names a disk through a plugin that no EC2 instance can serve.
    Foreign {
        /// The name of the volume.
        volume: Arc<str>,
        /// Its field, which is the plugin (`azureDisk`).
        plugin: &'static str,
    },
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Its metadata.
    pub meta: Meta,
    /// `spec.storageClassName` (or the annotation that came before it); `Some("")` asks for no class at all.
    pub class: Option<Arc<str>>,
    /// `spec.volumeName`.
    pub volume: Option<Arc<str>>,
    /// `status.phase` is Lost.
    pub lost: bool,
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq)]
pub struct PersistentVolume {
    /// Its metadata.
    pub meta: Meta,
    /// Where it can be attached: one of these must hold; empty is anywhere.
    pub terms: Vec<Requirements>,
    /// Its CSI driver, be it that of its in-tree plugin.
    pub driver: Option<Arc<str>>,
    /// The claim that it is bound to, `namespace/name`.
    pub claim: Option<Arc<str>>,
}

/// A StorageClass.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageClass {
    /// Its metadata.
    pub meta: Meta,
    /// Its provisioner.
    pub provisioner: Arc<str>,
    /// `volumeBindingMode: WaitForFirstConsumer`.
    pub waits: bool,
    /// `allowedTopologies`: one of these must hold; empty is anywhere.
    pub topologies: Vec<Requirements>,
}

/// A CSINode.
#[derive(Debug, Clone, PartialEq)]
pub struct CsiNode {
    /// The name of the node.
    pub name: Arc<str>,
    /// How many volumes it can attach, by driver.
    pub limits: Vec<(Arc<str>, u32)>,
}

/// A VolumeAttachment.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeAttachment {
    /// The node.
    pub node: Arc<str>,
    /// The driver.
    pub driver: Arc<str>,
    /// The PersistentVolume.
    pub volume: Option<Arc<str>>,
}

/// In-tree plugins, their name in a volume, in a StorageClass, and the CSI driver that took over.
const MIGRATED: [(&str, &str, &str); 7] = [
    ("awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("azureFile", "kubernetes.io/azure-file", "file.csi.azure.com"),
    ("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("vsphereVolume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

/// Drivers of disks that are attached by the machinery of another cloud.
const OTHER_CLOUDS: [&str; 4] =
    ["pd.csi.storage.gke.io", "disk.csi.azure.com", "cinder.csi.openstack.org", "csi.vsphere.vmware.com"];

/// In-tree plugins that were removed from Kubernetes, and became no driver under the same fields (the last ones in 1.31).
const REMOVED: [&str; 8] =
    ["rbd", "cephfs", "glusterfs", "quobyte", "flocker", "storageos", "scaleIO", "photonPersistentDisk"];

/// Whether volumes of this CSI driver can never be attached to an EC2 instance.
pub fn is_foreign(driver: &str) -> bool {
    OTHER_CLOUDS.contains(&driver)
}

/// The CSI driver behind a provisioner.
pub fn driver_of(provisioner: &str) -> &str {
    MIGRATED.iter().find(|(_, plugin, _)| *plugin == provisioner).map_or(provisioner, |(_, _, driver)| driver)
}

/// A volume of a pod, if it needs something of a node.
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

/// A PersistentVolumeClaim.
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
    let class = spec.read("storageClassName", |class| class.shared())?;
    let phase = object.read("status", |status| status.shared_at("phase"))?.flatten();
    Ok(Claim {
        class: class.or_else(|| meta.annotations.get("volume.beta.kubernetes.io/storage-class").cloned()),
        volume: spec.shared_at("volumeName")?,
        lost: phase.as_deref() == Some("Lost"),
        meta,
    })
}

/// Judges the amounts of `resources`, which nobody uses.
fn check_amounts(spec: &Field<'_>) -> Decoded<()> {
    spec.read("resources", super::containers::resources).map(drop)
}

/// A PersistentVolume.
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
    // The data of such a volume is on one node; whether the pod may be there is for that node's labels to say.
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

/// Volumes from before node affinity carry their zone as a label, several of them joined by two underscores.
fn zone_of(meta: &Meta) -> Option<Requirements> {
    let keys = [muster_scheduling::labels::ZONE, "failure-domain.beta.kubernetes.io/zone"];
    let zones = keys.iter().find_map(|key| meta.labels.get(key))?;
    let requirement = Requirement::new(Operator::In, zones.split("__"));
    Some([(muster_scheduling::labels::ZONE, requirement)].into_iter().collect())
}

/// A StorageClass.
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

/// A CSINode.
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

/// A VolumeAttachment.
pub(crate) fn volume_attachment(object: &Field<'_>) -> Decoded<VolumeAttachment> {
    meta(object, false)?;
    let spec = object.require("spec")?;
    Ok(VolumeAttachment {
        node: spec.require("nodeName")?.shared()?,
        driver: spec.require("attacher")?.shared()?,
        volume: spec.read("source", |source| source.shared_at("persistentVolumeName"))?.flatten(),
    })
}
