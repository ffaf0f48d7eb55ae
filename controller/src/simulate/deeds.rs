//! What a script does to the objects of the cluster, and to the cloud.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::DynamicObject;
use muster_api::NodePool;
use muster_cloud::after;
use serde_json::Value;

use super::Simulation;
use super::api::{Api, Kept, Kind, Path, seconds};
use super::script::{Deed, Reference};
use super::trace::Event;
use super::world::WORKLOADS;

/// Kinds that a day begins without: it makes its own.
const LEFT_OUT: [&str; 5] = ["Node", "NodeClaim", "CSINode", "VolumeAttachment", "ReplicaSet"];

// === impl Simulation ===

impl Simulation<'_> {
    /// Does what the script says.
    pub(super) fn act(&mut self, deed: Deed) {
        let now = self.world.clock.now();
        let mut what = deed.to_string();
        match deed {
            Deed::Scale(reference, replicas) => {
                let is_done = self.edit(&reference, |data| data["spec"]["replicas"] = replicas.into());
                // Scaling to what it has is nothing to tell of.
                if is_done == Some(false) {
                    return;
                }
                if is_done.is_none() {
                    what = format!("{reference} cannot be scaled: there is none");
                }
            }
            Deed::Apply(object) => self.apply(object),
            Deed::Patch(reference, set) => {
                if self.edit(&reference, |data| merge(data, &set)).is_none() {
                    what = format!("{reference} cannot be changed: there is none");
                }
            }
            Deed::Delete(reference) => self.delete(&reference),
            Deed::DeleteAll => self.delete_all(),
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
                    what = format!("{what}: there is none");
                }
            }
            Deed::Stop(writes, away) => {
                self.world.fuse = Some(writes);
                self.world.downtime = away;
            }
        }
        self.world.trace.add(now, Event::Script { what });
    }

    /// Makes an object, or replaces what it says of itself.
    pub(super) fn apply(&mut self, object: Value) {
        let now = self.world.clock.now();
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if LEFT_OUT.contains(&kind.as_str()) {
            return;
        }
        let api = &mut self.world.api;
        fn keep<T>(api: &mut Api, object: Value, now: Timestamp) -> Option<T>
        where
            T: Kept + serde::de::DeserializeOwned,
        {
            let made: T = serde_json::from_value(object).ok()?;
            let key = made.key();
            let replaced = api.update(&key.kind, &key.path, None, |there: &mut T| {
                let meta = there.meta().clone();
                *there = made.clone();
                let own = there.meta_mut();
                own.uid = meta.uid;
                own.resource_version = meta.resource_version;
                own.creation_timestamp = meta.creation_timestamp;
                own.generation = meta.generation.map(|number| number + 1);
                own.finalizers = meta.finalizers;
            });
            if replaced.is_err() {
                let _invalid = api.create(made.clone(), now);
            }
            Some(made)
        }
        let mut object = object;
        default_namespace(&kind, &mut object);
        match kind.as_str() {
            "Pod" => drop(keep::<Pod>(api, object, now)),
            "NodePool" => drop(keep::<NodePool>(api, object, now)),
            "PodDisruptionBudget" => {
                drop(keep::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(api, object, now));
            }
            "PersistentVolumeClaim" => {
                drop(keep::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(api, object, now));
            }
            "PersistentVolume" => drop(keep::<k8s_openapi::api::core::v1::PersistentVolume>(api, object, now)),
            _ => {
                let made = keep::<DynamicObject>(api, object, now);
                if let Some(class) = made.filter(|_| kind.ends_with("NodeClass")) {
                    judge_class(api, &kind, &Path::bare(class.metadata.name.unwrap_or_default()), now);
                }
            }
        }
    }

    /// Changes an object: whether that changed anything; nothing if there is none.
    fn edit(&mut self, reference: &Reference, change: impl FnOnce(&mut Value)) -> Option<bool> {
        let api = &mut self.world.api;
        let kind = Kind::Other(reference.kind.clone());
        if reference.kind == "NodePool" {
            let there = api.pools.get(&reference.path)?;
            let mut data = serde_json::to_value(there).ok()?;
            change(&mut data);
            let mut changed: NodePool = serde_json::from_value(data).ok()?;
            if changed == *there {
                return Some(false);
            }
            if changed.spec != there.spec {
                changed.metadata.generation = changed.metadata.generation.map(|number| number + 1);
            }
            let _there = api.update(&Kind::NodePool, &reference.path, None, |pool: &mut NodePool| *pool = changed);
            return Some(true);
        }
        let there = api.others.get(&reference.kind)?.get(&reference.path)?;
        let mut data = serde_json::to_value(there).ok()?;
        change(&mut data);
        let mut changed: DynamicObject = serde_json::from_value(data).ok()?;
        if changed == *there {
            return Some(false);
        }
        if changed.data.get("spec") != there.data.get("spec") {
            changed.metadata.generation = changed.metadata.generation.map(|number| number + 1);
        }
        let _there = api.update(&kind, &reference.path, None, |object: &mut DynamicObject| *object = changed);
        Some(true)
    }

    fn delete(&mut self, Reference { kind, path }: &Reference) {
        let now = self.world.clock.now();
        let api = &mut self.world.api;
        let _gone_already = match kind.as_str() {
            "Pod" => api.end_pod(path, None, Duration::from_secs(30), now),
            "NodePool" => api.delete::<NodePool>(&Kind::NodePool, path, None, now),
            "NodeClaim" => api.delete::<muster_api::NodeClaim>(&Kind::NodeClaim, path, None, now),
            "Node" => api.delete::<k8s_openapi::api::core::v1::Node>(&Kind::Node, path, None, now),
            "PodDisruptionBudget" => {
                api.delete::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(&Kind::Budget, path, None, now)
            }
            _ => api.delete::<DynamicObject>(&Kind::Other(kind.clone()), path, None, now),
        };
    }

    fn delete_all(&mut self) {
        let mut all: Vec<Reference> = Vec::new();
        let kinds = WORKLOADS.iter().copied().chain(["DaemonSet", "EC2NodeClass", "KWOKNodeClass"]);
        for kind in kinds {
            let paths =
                self.world.api.others.get(kind).into_iter().flat_map(|shelf| shelf.iter().map(|(path, _)| path));
            all.extend(paths.map(|path| Reference { kind: kind.to_owned(), path: path.clone() }));
        }
        let api = &self.world.api;
        let named = |kind: &str, path: &Path| Reference { kind: kind.to_owned(), path: path.clone() };
        all.extend(api.budgets.iter().map(|(path, _)| named("PodDisruptionBudget", path)));
        all.extend(api.pools.iter().map(|(path, _)| named("NodePool", path)));
        let bare = api.pods.iter().filter(|(_, pod)| pod.metadata.owner_references.is_none());
        all.extend(bare.map(|(path, _)| named("Pod", path)));
        for reference in all {
            self.delete(&reference);
        }
    }
}

/// What the controller of the cloud makes of a NodeClass: here all that it selects exists.
fn judge_class(api: &mut Api, kind: &str, path: &Path, now: Timestamp) {
    let kind = Kind::Other(kind.to_owned());
    let _gone_already = api.update(&kind, path, None, |class: &mut DynamicObject| {
        let ready = Condition {
            type_: muster_api::conditions::READY.to_owned(),
            status: "True".to_owned(),
            reason: muster_api::conditions::READY.to_owned(),
            message: String::new(),
            last_transition_time: seconds(now),
            observed_generation: class.metadata.generation,
        };
        if let (Some(data), Ok(ready)) = (class.data.as_object_mut(), serde_json::to_value(ready)) {
            data.insert("status".to_owned(), serde_json::json!({"conditions": [ready]}));
        }
    });
}

/// Objects without a namespace are in `default`, where their kind has namespaces.
fn default_namespace(kind: &str, object: &mut Value) {
    let kinds = ["Pod", "PodDisruptionBudget", "PersistentVolumeClaim", "DaemonSet", "LimitRange", "PodTemplate"];
    let others = ["Service", "CapacityBuffer"];
    if kinds.contains(&kind) || others.contains(&kind) || WORKLOADS.contains(&kind) {
        let meta = &mut object["metadata"];
        if meta.get("namespace").and_then(Value::as_str).is_none() {
            meta["namespace"] = "default".into();
        }
    }
}

/// JSON merge patch (RFC 7386).
fn merge(there: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *there = patch.clone();
        return;
    };
    if !there.is_object() {
        *there = Value::Object(serde_json::Map::new());
    }
    let Some(own) = there.as_object_mut() else { return };
    for (key, value) in fields {
        if value.is_null() {
            own.remove(key);
        } else {
            merge(own.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
