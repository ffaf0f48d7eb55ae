//! Execution of a script's events on the objects of the cluster and on the cloud.
//!
//! ```text
//!   Deed ──► Simulation::act ──┬──► Author: apply, edit, delete ──► Api
//!                              └──► World: capacity, spot instances, machines, the controller's fuse
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::core::DynamicObject;
use muster_api::{NodePool, decode};
use muster_cloud::after;
use muster_manifest::{InputError, Place};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Simulation;
use super::api::{Api, Kept, Key, Kind, Path, Refused, grace_of, seconds};
use super::objects::{is_left_out, reference_of, settled};
use super::script::{Deed, Reference};
use super::trace::Event;
use super::world::{WORKLOADS, admit, make_ephemeral};

/// Result of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// The object was changed.
    Changed,
    /// The object already was as wanted.
    Same,
    /// The object does not exist.
    Missing,
}

/// Author of the manifests: creates, changes and deletes objects like `kubectl`.
#[derive(Debug, Default)]
pub(super) struct Author {
    /// Last applied manifests, which determine the fields that the author removes and others have not set.
    applied: BTreeMap<Key, Value>,
}

// === impl Simulation ===

impl Simulation<'_> {
    /// Executes an event of the script.
    ///
    /// # Errors
    /// Fails if an object would become invalid. The reader of a script prevents that ([`super::script::rehearse`]).
    pub(super) fn act(&mut self, deed: Deed) -> Result<(), InputError> {
        let now = self.world.clock.now();
        let mut what = deed.to_string();
        let api = &mut self.world.api;
        match deed {
            Deed::Scale(reference, replicas) => match edit(api, &reference, &mut |data| scale(data, replicas))? {
                Edit::Changed => {}
                // Scaling to the current size is not recorded.
                Edit::Same => return Ok(()),
                Edit::Missing => what = format!("{reference} cannot be scaled: it does not exist"),
            },
            Deed::Apply(object) => self.author.apply(api, object, now)?,
            Deed::Patch(reference, set) => {
                if edit(api, &reference, &mut |data| json_patch::merge(data, &set))? == Edit::Missing {
                    what = format!("{reference} cannot be changed: it does not exist");
                }
            }
            Deed::Delete(reference) => {
                if !delete(api, &reference, now) {
                    what = format!("{reference} cannot be deleted: it does not exist");
                }
            }
            Deed::DeleteAll => delete_all(api, now),
            Deed::RunOut(meant, lasts) => {
                self.world.run_out(meant, lasts);
                self.checks.excuse(after(now, lasts));
            }
            Deed::Refuse(launches, lasts) => {
                self.world.snub(launches, lasts);
                self.checks.excuse(after(now, lasts));
            }
            Deed::Misregister(launches, code) => self.world.misregister(launches, code),
            Deed::Interrupt(meant, count) => {
                let told = self.world.interrupt(&meant, count);
                if told == 0 {
                    what = format!("{what}: it does not exist");
                }
            }
            Deed::Publish => self.world.publish_image(),
            Deed::ReportFault(meant, count, fault) => {
                if self.world.report_fault(&meant, count, &fault) == 0 {
                    what = format!("{what}: it does not exist");
                }
            }
            Deed::Stop(writes, away) => {
                self.world.fuse = Some(writes);
                self.world.downtime = away;
            }
        }
        self.world.trace.add(now, Event::Script { what });
        Ok(())
    }
}

// === impl Author ===

impl Author {
    /// Creates an object that is there when the day begins. A Pod is taken as admitted.
    ///
    /// # Errors
    /// Fails if the object is invalid.
    pub(super) fn start(&mut self, api: &mut Api, object: Value, now: Timestamp) -> Result<(), InputError> {
        self.put(api, object, true, now)
    }

    /// Creates an object, or updates an existing one to the new manifest, keeping fields that others have set.
    ///
    /// # Errors
    /// Fails if the object is invalid.
    pub(super) fn apply(&mut self, api: &mut Api, object: Value, now: Timestamp) -> Result<(), InputError> {
        self.put(api, object, false, now)
    }

    fn put(&mut self, api: &mut Api, object: Value, is_admitted: bool, now: Timestamp) -> Result<(), InputError> {
        if is_left_out(&object) {
            return Ok(());
        }
        let object = settled(object);
        let reference = reference_of(&object);
        let key = key_of(&reference);
        let last = self.applied.insert(key.clone(), object.clone());
        let change = applied(&last.unwrap_or_default(), &object);
        if edit(api, &reference, &mut |data| json_patch::merge(data, &change))? == Edit::Missing {
            create(api, &key.kind, object, is_admitted, now).map_err(|cause| unfit(&reference, &cause))?;
        }
        if reference.kind.ends_with("NodeClass") {
            judge_class(api, &key, now);
        }
        Ok(())
    }
}

/// Returns the merge patch from the object applied as `last` to `new`: fields that `new` lacks are removed, fields in
/// neither stay. The status is excluded.
pub(super) fn applied(last: &Value, new: &Value) -> Value {
    let mut change = difference(last, new);
    if let Some(fields) = change.as_object_mut() {
        fields.remove("status");
    }
    change
}

fn difference(last: &Value, new: &Value) -> Value {
    let (Some(last), Some(new)) = (last.as_object(), new.as_object()) else { return new.clone() };
    let gone = last.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let kept = new.iter().map(|(key, value)| {
        let before = last.get(key).unwrap_or(&Value::Null);
        (key.clone(), difference(before, value))
    });
    Value::Object(gone.chain(kept).collect())
}

/// Sets the number of replicas of a workload.
pub(super) fn scale(data: &mut Value, replicas: u32) {
    json_patch::merge(data, &serde_json::json!({"spec": {"replicas": replicas}}));
}

/// Changes an object. Server-managed metadata, such as UID and finalizers, stays.
fn edit(api: &mut Api, reference: &Reference, change: &mut dyn FnMut(&mut Value)) -> Result<Edit, InputError> {
    use k8s_openapi::api::{core::v1 as core, policy::v1 as policy, storage::v1 as storage};
    let Key { kind, path } = key_of(reference);
    let edited = match kind {
        Kind::Pod => edit_as::<Pod>(api, &kind, &path, change),
        Kind::Node => edit_as::<core::Node>(api, &kind, &path, change),
        Kind::NodeClaim => edit_as::<muster_api::NodeClaim>(api, &kind, &path, change),
        Kind::NodePool => edit_as::<NodePool>(api, &kind, &path, change),
        Kind::Budget => edit_as::<policy::PodDisruptionBudget>(api, &kind, &path, change),
        Kind::VolumeClaim => edit_as::<core::PersistentVolumeClaim>(api, &kind, &path, change),
        Kind::Volume => edit_as::<core::PersistentVolume>(api, &kind, &path, change),
        Kind::Attachment => edit_as::<storage::VolumeAttachment>(api, &kind, &path, change),
        Kind::Other(_) => edit_as::<DynamicObject>(api, &kind, &path, change),
    };
    edited.map_err(|cause| unfit(reference, &cause))
}

fn edit_as<T: Kept + DeserializeOwned>(
    api: &mut Api,
    kind: &Kind,
    path: &Path,
    change: &mut dyn FnMut(&mut Value),
) -> Result<Edit, serde_json::Error> {
    let Some(there) = T::store(api, kind).and_then(|store| store.get(path)) else { return Ok(Edit::Missing) };
    let before = serde_json::to_value(there)?;
    let mut data = before.clone();
    change(&mut data);
    let data = settled(data);
    let is_as_specified = data.get("spec") == before.get("spec");
    let mut changed: T = decode(&data)?;
    let meta = changed.meta_mut();
    *meta = ObjectMeta {
        labels: meta.labels.take(),
        annotations: meta.annotations.take(),
        generation: there.meta().generation.map(|number| number + i64::from(!is_as_specified)),
        ..there.meta().clone()
    };
    if changed == *there {
        return Ok(Edit::Same);
    }
    let _there = api.update(kind, path, None, |object: &mut T| *object = changed);
    Ok(Edit::Changed)
}

fn create(
    api: &mut Api,
    kind: &Kind,
    object: Value,
    is_admitted: bool,
    now: Timestamp,
) -> Result<(), serde_json::Error> {
    use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
    use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    fn create_as<T: Kept + DeserializeOwned>(
        api: &mut Api,
        object: Value,
        now: Timestamp,
    ) -> Result<(), serde_json::Error> {
        let _there_already = api.create::<T>(decode(&object)?, now);
        Ok(())
    }
    match kind {
        Kind::Pod => {
            let mut pod: Pod = decode(&object)?;
            if !is_admitted {
                admit(api, &mut pod);
            }
            make_ephemeral(api, &pod, now);
            let _there_already = api.create(pod, now);
            Ok(())
        }
        Kind::NodePool => create_as::<NodePool>(api, object, now),
        Kind::Budget => create_as::<PodDisruptionBudget>(api, object, now),
        Kind::VolumeClaim => create_as::<PersistentVolumeClaim>(api, object, now),
        Kind::Volume => create_as::<PersistentVolume>(api, object, now),
        // Created by the simulation itself.
        Kind::Node | Kind::NodeClaim | Kind::Attachment => Ok(()),
        Kind::Other(_) => create_as::<DynamicObject>(api, object, now),
    }
}

/// Deletes an object, for a Namespace including its contents. Returns true if it existed.
fn delete(api: &mut Api, reference: &Reference, now: Timestamp) -> bool {
    if reference.kind == "Namespace" {
        let inside: Vec<Key> = api.keys().into_iter().filter(|key| key.path.namespace == reference.path.name).collect();
        for key in inside {
            let _gone_already = delete_key(api, &key, now);
        }
    }
    delete_key(api, &key_of(reference), now).is_ok()
}

fn delete_key(api: &mut Api, Key { kind, path }: &Key, now: Timestamp) -> Result<(), Refused> {
    use k8s_openapi::api::{core::v1 as core, policy::v1 as policy, storage::v1 as storage};
    match kind {
        Kind::Pod => {
            let grace = api.pods.get(path).map_or(0, grace_of);
            api.end_pod(path, None, Duration::from_secs(grace), now)
        }
        Kind::Node => api.delete::<core::Node>(kind, path, None, now),
        Kind::NodeClaim => api.delete::<muster_api::NodeClaim>(kind, path, None, now),
        Kind::NodePool => api.delete::<NodePool>(kind, path, None, now),
        Kind::Budget => api.delete::<policy::PodDisruptionBudget>(kind, path, None, now),
        Kind::VolumeClaim => api.delete::<core::PersistentVolumeClaim>(kind, path, None, now),
        Kind::Volume => api.delete::<core::PersistentVolume>(kind, path, None, now),
        Kind::Attachment => api.delete::<storage::VolumeAttachment>(kind, path, None, now),
        Kind::Other(_) => api.delete::<DynamicObject>(kind, path, None, now),
    }
}

fn delete_all(api: &mut Api, now: Timestamp) {
    let mut all: Vec<Key> = Vec::new();
    for kind in emptied() {
        let paths = api.others.get(kind).into_iter().flat_map(|store| store.iter().map(|(path, _)| path));
        all.extend(paths.map(|path| Key { kind: Kind::named(kind), path: path.clone() }));
    }
    all.extend(api.budgets.iter().map(|(path, _)| Key { kind: Kind::Budget, path: path.clone() }));
    all.extend(api.pools.iter().map(|(path, _)| Key { kind: Kind::NodePool, path: path.clone() }));
    let bare = api.pods.iter().filter(|(_, pod)| pod.metadata.owner_references.is_none());
    all.extend(bare.map(|(path, _)| Key { kind: Kind::Pod, path: path.clone() }));
    for key in all {
        let _gone_already = delete_key(api, &key, now);
    }
}

/// Kinds, other than Pods, PodDisruptionBudgets and NodePools, of which all objects are deleted.
pub(super) fn emptied() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().copied().chain(["DaemonSet", "EC2NodeClass", "KWOKNodeClass"])
}

fn key_of(Reference { kind, path }: &Reference) -> Key {
    Key { kind: Kind::named(kind), path: path.clone() }
}

fn unfit(reference: &Reference, cause: &serde_json::Error) -> InputError {
    InputError::Object {
        place: Box::new(Place { file: "the day".to_owned(), ..Place::default() }),
        object: format!("{} `{}`", reference.kind, reference.path),
        problem: format!("is not what the API takes: {cause}"),
        hint: format!("`kubectl explain {}` says what it takes", reference.kind.to_lowercase()),
    }
}

/// Sets the status of a NodeClass as its cloud's controller would: here, everything that it selects exists.
fn judge_class(api: &mut Api, Key { kind, path }: &Key, now: Timestamp) {
    let _gone_already = api.update(kind, path, None, |class: &mut DynamicObject| {
        let ready = Condition {
            type_: muster_api::conditions::READY.to_owned(),
            status: "True".to_owned(),
            reason: muster_api::conditions::READY.to_owned(),
            message: String::new(),
            last_transition_time: seconds(now),
            observed_generation: class.metadata.generation,
        };
        if let (Some(data), Ok(ready)) = (class.data.as_object_mut(), serde_json::to_value(ready)) {
            data.insert(
                "status".to_owned(),
                Value::Object(Map::from_iter([("conditions".to_owned(), Value::Array(vec![ready]))])),
            );
        }
    });
}
