//! Reasons why a pod's volume can never be attached, with a suggested fix each.

use std::sync::Arc;

use muster_api::likeness::nearest_of;
use muster_scheduling::labels::ZONE;
use muster_scheduling::model::{Refusal, Requirements};

/// Volume that prevents its pod from running on any node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable {
    why: String,
    fix: String,
}

impl From<Unusable> for Refusal {
    fn from(Unusable { why, fix }: Unusable) -> Self {
        Self::Volume { why, fix }
    }
}

/// Suggestion to use the EBS driver, for volumes whose driver does not work on EC2.
const USE_EBS: &str = "use a storage class with provisioner `ebs.csi.aws.com`, whose volumes EC2 instances can attach";

fn unusable(why: String, fix: impl Into<String>) -> Unusable {
    Unusable { why, fix: fix.into() }
}

pub(super) fn plugin(volume: &str, plugin: &str) -> Unusable {
    let why = format!("volume `{volume}` uses the in-tree plugin `{plugin}`, which no EC2 instance can serve");
    unusable(why, format!("replace `{plugin}` by a persistentVolumeClaim; {USE_EBS}"))
}

pub(super) fn no_claim<'k>(path: &str, known: impl Iterator<Item = &'k Arc<str>> + Clone) -> Unusable {
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    let named = |claim: &'k Arc<str>| claim.split_once('/').map(|(namespace, name)| (namespace, name, claim));
    let elsewhere = known.clone().filter_map(named).find(|(_, other, _)| *other == name).map(|(_, _, claim)| claim);
    let neighbours = known.filter_map(named).filter(|(other, ..)| *other == namespace).map(|(_, name, _)| name);
    let fix = match (elsewhere, nearest_of(neighbours, name)) {
        (Some(other), _) => {
            format!("a claim of this name is `{other}`: a pod can only use claims of its own namespace")
        }
        (None, Some(other)) => format!("did you mean claim `{other}`? else create the claim"),
        (None, None) => "create the claim, correct claimName, or add the claim to the input".to_owned(),
    };
    unusable(format!("persistent volume claim `{path}` is not in the input"), fix)
}

pub(super) fn claim_goes(path: &str) -> Unusable {
    let fix = "wait until it is gone and create it again, or let the pod use another claim";
    unusable(format!("persistent volume claim `{path}` is being deleted"), fix)
}

pub(super) fn lost(path: &str) -> Unusable {
    let fix = "its volume was deleted: restore it from a snapshot, or delete the claim and create it again";
    unusable(format!("persistent volume claim `{path}` has lost its volume"), fix)
}

pub(super) fn no_volume(path: &str, volume: &str) -> Unusable {
    let fix = "if the volume is gone, delete the claim and create it again; if it is there, add it to the input (`kubectl get pv -o json`)";
    unusable(format!("persistent volume claim `{path}` is bound to volume `{volume}`, which is not in the input"), fix)
}

pub(super) fn volume_goes(path: &str, volume: &str) -> Unusable {
    let fix = "let the pod use another claim, or restore the volume from a snapshot under a new name";
    unusable(format!("persistent volume `{volume}` of claim `{path}` is being deleted"), fix)
}

pub(super) fn taken(path: &str, volume: &str, owner: &str) -> Unusable {
    let why = format!("persistent volume claim `{path}` names volume `{volume}`, which belongs to claim `{owner}`");
    unusable(why, format!("name another volume in spec.volumeName, or free `{volume}` by removing its claimRef"))
}

pub(super) fn not_bound(path: &str, volume: &str, annotation: &str) -> Unusable {
    let why = format!(
        "persistent volume claim `{path}` names volume `{volume}` but is not fully bound (annotation `{annotation}` is missing)"
    );
    let fix = "wait for the binding; if it does not come, size, access modes and storage class of claim and volume must agree (`kubectl describe pvc`); in a manifest written by hand, add the annotation";
    unusable(why, fix)
}

pub(super) fn foreign_volume(path: &str, volume: &str, driver: &str) -> Unusable {
    let why = format!(
        "persistent volume `{volume}` of claim `{path}` is a disk of `{driver}`, which no EC2 instance can attach"
    );
    unusable(why, format!("copy its data to a volume of a new claim; {USE_EBS}"))
}

pub(super) fn classless(path: &str) -> Unusable {
    let fix = "name a storageClassName in the claim, or bind a volume to it by spec.volumeName";
    unusable(format!("persistent volume claim `{path}` is not bound and has no storage class"), fix)
}

pub(super) fn no_default_class(path: &str) -> Unusable {
    let why =
        format!("persistent volume claim `{path}` is not bound, and no storage class in the input is the default");
    let fix = "name a storageClassName in the claim, or annotate a StorageClass with `storageclass.kubernetes.io/is-default-class: \"true\"`";
    unusable(why, fix)
}

pub(super) fn no_class<'k>(path: &str, class: &str, known: impl Iterator<Item = &'k Arc<str>>) -> Unusable {
    let fix = match nearest_of(known.map(|name| &**name), class) {
        Some(other) => {
            format!("did you mean `{other}`? a claim's class cannot be changed: delete the claim and create it again")
        }
        None => "create the storage class, or add it to the input (`kubectl get storageclasses -o json`)".to_owned(),
    };
    unusable(format!("storage class `{class}` of persistent volume claim `{path}` is not in the input"), fix)
}

pub(super) fn immediate(path: &str, class: &str) -> Unusable {
    let why = format!(
        "persistent volume claim `{path}` is not bound, and storage class `{class}` binds immediately, not to the pod's node"
    );
    let fix = "wait until the claim is bound, and see `kubectl describe pvc` if it never is; with volumeBindingMode: WaitForFirstConsumer the volume is created where the pod is scheduled";
    unusable(why, fix)
}

pub(super) fn auto_mode_class(path: &str, class: &str, provisioner: &str) -> Unusable {
    let why = format!(
        "storage class `{class}` of persistent volume claim `{path}` is provisioned by `{provisioner}`, which serves EKS Auto Mode nodes only"
    );
    unusable(why, USE_EBS)
}

pub(super) fn auto_mode_topology(path: &str, class: &str, key: &str) -> Unusable {
    let why = format!(
        "storage class `{class}` of persistent volume claim `{path}` allows only nodes with `{key}`, which are those of EKS Auto Mode"
    );
    unusable(why, format!("use a storage class without `{key}` in its allowedTopologies"))
}

pub(super) fn foreign_class(path: &str, class: &str, provisioner: &str) -> Unusable {
    let why = format!(
        "storage class `{class}` of persistent volume claim `{path}` makes disks of another cloud (`{provisioner}`), which no EC2 instance can attach"
    );
    unusable(why, USE_EBS)
}

pub(super) fn removed_class(path: &str, class: &str, plugin: &str) -> Unusable {
    let why = format!(
        "storage class `{class}` of persistent volume claim `{path}` uses the in-tree plugin `{plugin}`, which no longer exists"
    );
    unusable(why, USE_EBS)
}

pub(super) fn apart(path: &str, terms: &[Requirements], others: &[Requirements]) -> Unusable {
    let why = format!("persistent volume claim `{path}` cannot be attached where the pod's other volumes can");
    let zones = |terms: &[Requirements]| {
        let mut zones: Vec<&str> = terms
            .iter()
            .filter_map(|term| term.get(ZONE))
            .filter(|zones| zones.is_finite())
            .flat_map(|zones| zones.values().map(|zone| &**zone))
            .collect();
        zones.sort_unstable();
        zones.dedup();
        zones.join(", ")
    };
    let (own, other) = (zones(terms), zones(others));
    if own.is_empty() || other.is_empty() {
        return unusable(why, "a pod has one node: let its volumes be where one node can attach them all");
    }
    let why = format!("{why}: it is in {own}, they are in {other}");
    unusable(why, "a node has one zone: restore a snapshot of one of the volumes in the zone of the others")
}
