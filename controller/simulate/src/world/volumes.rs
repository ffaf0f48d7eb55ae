//! Volumes: created in the zone of their first pod, attached while it runs, and detached some time after its end.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::labels;

use super::super::api::{Api, Kind, Path, node_of};

/// Annotations that the volume controller sets on a bound claim.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Returns the names of the PersistentVolumeClaims of a pod.
pub(crate) fn claims_of(pod: &Pod) -> Vec<String> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let claim = |volume: &k8s_openapi::api::core::v1::Volume| {
        let named = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
        named.or_else(|| volume.ephemeral.as_ref().map(|_| format!("{name}-{}", volume.name)))
    };
    volumes.iter().filter_map(claim).collect()
}

/// Returns the PersistentVolumes that a pod uses.
pub(crate) fn volumes_of(api: &Api, pod: &Pod) -> Vec<String> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let volume = |claim: String| {
        let claim = api.volume_claims.get(&Path::new(namespace.clone(), claim))?;
        claim.spec.as_ref()?.volume_name.clone()
    };
    claims_of(pod).into_iter().filter_map(volume).collect()
}

/// Creates the claims of a pod's generic ephemeral volumes.
pub(crate) fn make_ephemeral(api: &mut Api, pod: &Pod, now: Timestamp) {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.clone()).unwrap_or_default();
    for volume in volumes {
        let Some(template) = volume.ephemeral.and_then(|source| source.volume_claim_template) else { continue };
        let meta = template.metadata.unwrap_or_default();
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(format!("{name}-{}", volume.name)),
                namespace: pod.metadata.namespace.clone(),
                ..meta
            },
            spec: Some(template.spec),
            status: None,
        };
        let _there_already = api.create(claim, now);
    }
}

/// Provisions volumes for the pod's unbound claims, in the zone of its node.
pub(crate) fn provision(api: &mut Api, pod: &Pod, node: &str, now: Timestamp) {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let labels_of = |node: &str| api.nodes.get(&Path::bare(node)).and_then(|node| node.metadata.labels.clone());
    let zone = labels_of(node).and_then(|all| all.get(labels::ZONE).cloned());
    for claim in claims_of(pod) {
        let path = Path::new(namespace.clone(), claim);
        let Some(there) = api.volume_claims.get(&path) else { continue };
        let spec = there.spec.clone().unwrap_or_default();
        if spec.volume_name.is_some() {
            continue;
        }
        let name = format!("pvc-{}", there.metadata.uid.clone().unwrap_or_default());
        let driver = driver(api, spec.storage_class_name.as_deref());
        let in_zone = zone.clone().map(|zone| VolumeNodeAffinity {
            required: Some(NodeSelector {
                node_selector_terms: vec![NodeSelectorTerm {
                    match_expressions: Some(vec![NodeSelectorRequirement {
                        key: labels::ZONE.to_owned(),
                        operator: "In".to_owned(),
                        values: Some(vec![zone]),
                    }]),
                    match_fields: None,
                }],
            }),
        });
        let volume = PersistentVolume {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            spec: Some(PersistentVolumeSpec {
                access_modes: spec.access_modes.clone(),
                capacity: spec.resources.as_ref().and_then(|resources| resources.requests.clone()),
                claim_ref: Some(ObjectReference {
                    namespace: Some(path.namespace.clone()),
                    name: Some(path.name.clone()),
                    ..ObjectReference::default()
                }),
                csi: Some(CSIPersistentVolumeSource {
                    driver,
                    volume_handle: name.replace("pvc-", "vol-"),
                    ..CSIPersistentVolumeSource::default()
                }),
                node_affinity: in_zone,
                storage_class_name: spec.storage_class_name.clone(),
                ..PersistentVolumeSpec::default()
            }),
            status: None,
        };
        let _there_already = api.create(volume, now);
        let _gone_already = api.update(&Kind::VolumeClaim, &path, None, |claim: &mut PersistentVolumeClaim| {
            claim.spec.get_or_insert_default().volume_name = Some(name);
            claim.status.get_or_insert_default().phase = Some("Bound".to_owned());
            let bound = [BIND_COMPLETED, BOUND_BY_CONTROLLER].map(|key| (key.to_owned(), "yes".to_owned()));
            claim.metadata.annotations.get_or_insert_default().extend(bound);
        });
    }
}

/// Attaches the volumes of a pod to its node.
pub(crate) fn attach(api: &mut Api, pod: &Pod, now: Timestamp) {
    let Some(node) = node_of(pod) else { return };
    for volume in volumes_of(api, pod) {
        let attacher = api
            .volumes
            .get(&Path::bare(volume.clone()))
            .and_then(|volume| Some(volume.spec.as_ref()?.csi.as_ref()?.driver.clone()))
            .unwrap_or_default();
        let attachment = VolumeAttachment {
            metadata: ObjectMeta { name: Some(format!("csi-{volume}-{node}")), ..ObjectMeta::default() },
            spec: VolumeAttachmentSpec {
                attacher,
                node_name: node.to_owned(),
                source: VolumeAttachmentSource {
                    persistent_volume_name: Some(volume),
                    ..VolumeAttachmentSource::default()
                },
            },
            status: None,
        };
        let _there_already = api.create(attachment, now);
    }
}

/// Returns attachments that no pod on their node needs.
pub(crate) fn idle(api: &Api) -> Vec<Path> {
    let mut used: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in api.pods.values() {
        if let Some(node) = node_of(pod).filter(|_| !super::super::api::has_ended(pod)) {
            used.entry(node).or_default().extend(volumes_of(api, pod));
        }
    }
    let is_idle = |one: &VolumeAttachment| {
        let volume = one.spec.source.persistent_volume_name.clone().unwrap_or_default();
        !used.get(one.spec.node_name.as_str()).is_some_and(|volumes| volumes.contains(&volume))
    };
    api.attachments.iter().filter(|(_, one)| is_idle(one)).map(|(path, _)| path.clone()).collect()
}

fn driver(api: &Api, class: Option<&str>) -> String {
    let Some(classes) = api.others.get("StorageClass") else { return "ebs.csi.aws.com".to_owned() };
    let named = class.and_then(|class| classes.get(&Path::bare(class)));
    let is_default = |class: &&kube::core::DynamicObject| {
        class.metadata.annotations.as_ref().and_then(|all| all.get(DEFAULT_CLASS)).is_some_and(|text| text == "true")
    };
    let class = named.or_else(|| classes.values().find(is_default));
    let provisioner = class.and_then(|class| class.data.get("provisioner")?.as_str());
    muster_manifest::driver_of(provisioner.unwrap_or("ebs.csi.aws.com")).to_owned()
}
