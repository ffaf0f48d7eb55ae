//! Constraints that a pod's volumes impose on its node: topology and attachments per driver.

use std::sync::Arc;

use muster_scheduling::model::{Attachment, Requirements};

use super::resolve::PodIdentity;
use super::unusable::{self, Unusable};
use crate::{Claim, Manifests, PersistentVolume, StorageClass, Volume, driver_of, is_foreign};

/// Constraints of the volumes of a pod.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Wanted {
    /// Alternatives, of which one must hold; empty without constraints.
    pub(super) terms: Vec<Requirements>,
    /// Volumes to attach.
    pub(super) attachments: Vec<Attachment>,
}

/// Claims, volumes and classes of the input.
pub(super) struct Volumes<'m> {
    manifests: &'m Manifests,
    default_class: Option<&'m StorageClass>,
}

/// Storage class that a claim requests.
enum ClassChoice<'c> {
    /// The default class.
    Default,
    /// No class: only a volume without a class can be bound.
    Absent,
    /// The class of this name.
    Named(&'c str),
}

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// Provisioner and topology key of EKS Auto Mode: its volumes can be attached to its own nodes only.
const AUTO_MODE_PROVISIONER: &str = "ebs.csi.eks.amazonaws.com";
const AUTO_MODE_KEY: &str = "eks.amazonaws.com/compute-type";

/// Maximum number of alternatives, more than zones can cause; excess ones are dropped to bound the product.
const MOST_ALTERNATIVES: usize = 256;

impl<'m> Volumes<'m> {
    pub(super) fn new(manifests: &'m Manifests) -> Self {
        let is_default = |class: &&StorageClass| {
            DEFAULT_CLASS.iter().any(|key| class.meta.annotations.get(key).is_some_and(|value| &**value == "true"))
        };
        // The newest of several default classes is used; creation times compare correctly as text.
        let newest =
            |class: &&StorageClass| (class.meta.created.clone(), std::cmp::Reverse(Arc::clone(&class.meta.name)));
        let default_class = manifests.storage_classes.values().filter(is_default).max_by_key(newest);
        Self { manifests, default_class }
    }

    /// Returns the constraints of the volumes of `pod`.
    ///
    /// # Errors
    /// Returns the reason if one of them can never be attached.
    pub(super) fn wanted(&self, pod: &PodIdentity<'_>) -> Result<Wanted, Unusable> {
        let mut wanted = Wanted::default();
        for volume in &pod.template.volumes {
            match volume {
                // Claim templates of a StatefulSet override volumes of the same name.
                Volume::Claim { volume, .. } | Volume::Ephemeral { volume, .. }
                    if pod.claim_templates.iter().any(|(template, _)| template == volume) => {}
                Volume::Claim { claim, .. } => self.add_claim(pod.namespace, claim, None, &mut wanted)?,
                Volume::Ephemeral { volume, class } => {
                    let claim = format!("{}-{volume}", pod.name);
                    self.add_claim(pod.namespace, &claim, Some(class.as_deref()), &mut wanted)?;
                }
                Volume::InTree { driver, disk } => {
                    wanted.attachments.push(Attachment { driver: Arc::clone(driver), claim: Arc::clone(disk) });
                }
                Volume::Foreign { volume, plugin } => return Err(unusable::plugin(volume, plugin)),
            }
        }
        for (template, class) in pod.claim_templates {
            let claim = format!("{template}-{}", pod.name);
            self.add_claim(pod.namespace, &claim, Some(class.as_deref()), &mut wanted)?;
        }
        wanted.attachments.sort_by(|a, b| (&a.driver, &a.claim).cmp(&(&b.driver, &b.claim)));
        wanted.attachments.dedup();
        Ok(wanted)
    }

    /// Adds a claim; `template` is the class in the claim template from which a missing claim will be created.
    fn add_claim(
        &self,
        namespace: &str,
        name: &str,
        template: Option<Option<&str>>,
        wanted: &mut Wanted,
    ) -> Result<(), Unusable> {
        let path: Arc<str> = format!("{namespace}/{name}").into();
        let (terms, driver) = match (self.manifests.claims.get(&path), template) {
            (Some(claim), _) => self.of_claim(&path, claim)?,
            (None, Some(class)) => self.of_class(&path, class_choice(class))?,
            (None, None) => return Err(unusable::no_claim(&path, self.manifests.claims.keys())),
        };
        wanted.terms = combine(&wanted.terms, terms).ok_or_else(|| unusable::apart(&path, terms, &wanted.terms))?;
        if let Some(driver) = driver {
            wanted.attachments.push(Attachment { driver, claim: path });
        }
        Ok(())
    }

    fn of_claim(&self, path: &str, claim: &'m Claim) -> Result<(&'m [Requirements], Option<Arc<str>>), Unusable> {
        if claim.meta.deleting {
            return Err(unusable::claim_goes(path));
        }
        if claim.lost {
            return Err(unusable::lost(path));
        }
        match &claim.volume {
            Some(name) => {
                let volume = self.manifests.volumes.get(name);
                of_volume(path, claim, volume.ok_or_else(|| unusable::no_volume(path, name))?)
            }
            None => self.of_class(path, class_choice(claim.class.as_deref())),
        }
    }

    /// Returns the constraints of an unbound claim: its class determines where the volume can be created.
    fn of_class(
        &self,
        path: &str,
        choice: ClassChoice<'_>,
    ) -> Result<(&'m [Requirements], Option<Arc<str>>), Unusable> {
        let classes = &self.manifests.storage_classes;
        let class = match choice {
            ClassChoice::Absent => return Err(unusable::classless(path)),
            ClassChoice::Default => self.default_class.ok_or_else(|| unusable::no_default_class(path))?,
            ClassChoice::Named(name) => {
                classes.get(name).ok_or_else(|| unusable::no_class(path, name, classes.keys()))?
            }
        };
        let name = &class.meta.name;
        if !class.waits {
            return Err(unusable::immediate(path, name));
        }
        if &*class.provisioner == AUTO_MODE_PROVISIONER {
            return Err(unusable::auto_mode_class(path, name, AUTO_MODE_PROVISIONER));
        }
        let driver = driver_of(&class.provisioner);
        let static_volumes = &*class.provisioner == "kubernetes.io/no-provisioner";
        if is_foreign(driver) {
            return Err(unusable::foreign_class(path, name, &class.provisioner));
        }
        if driver.starts_with("kubernetes.io/") && !static_volumes {
            return Err(unusable::removed_class(path, name, driver));
        }
        if class.topologies.iter().any(|term| term.get(AUTO_MODE_KEY).is_some()) {
            return Err(unusable::auto_mode_topology(path, name, AUTO_MODE_KEY));
        }
        Ok((&class.topologies, (!static_volumes).then(|| driver.into())))
    }
}

fn class_choice(class: Option<&str>) -> ClassChoice<'_> {
    match class {
        None => ClassChoice::Default,
        Some("") => ClassChoice::Absent,
        Some(name) => ClassChoice::Named(name),
    }
}

fn of_volume<'v>(
    path: &str,
    claim: &Claim,
    volume: &'v PersistentVolume,
) -> Result<(&'v [Requirements], Option<Arc<str>>), Unusable> {
    let name = &volume.meta.name;
    if volume.meta.deleting {
        return Err(unusable::volume_goes(path, name));
    }
    if claim.meta.annotations.get(BIND_COMPLETED).is_none() {
        let owner = volume.claim.as_ref().filter(|owner| ***owner != *path);
        return Err(owner.map_or_else(
            || unusable::not_bound(path, name, BIND_COMPLETED),
            |owner| unusable::taken(path, name, owner),
        ));
    }
    if let Some(driver) = volume.driver.as_deref().filter(|driver| is_foreign(driver)) {
        return Err(unusable::foreign_volume(path, name, driver));
    }
    Ok((&volume.terms, volume.driver.clone()))
}

/// Returns all combinations of an alternative of each, without contradictory ones. `None` if all contradict.
fn combine(one: &[Requirements], other: &[Requirements]) -> Option<Vec<Requirements>> {
    if one.is_empty() || other.is_empty() {
        return Some(if one.is_empty() { other.to_vec() } else { one.to_vec() });
    }
    let mut both: Vec<Requirements> = Vec::new();
    for (first, second) in one.iter().flat_map(|first| other.iter().map(move |second| (first, second))) {
        if !first.intersects(second) {
            continue;
        }
        let mut alternative = first.clone();
        alternative.add_all(second);
        if !both.contains(&alternative) && both.len() < MOST_ALTERNATIVES {
            both.push(alternative);
        }
    }
    (!both.is_empty()).then_some(both)
}
