//! Dry run of a script on the manifests, which finds errors before the simulation starts.
//!
//! ```text
//!   manifests ──► Rehearsal: objects by name, and their pods ◄── events, in order
//!                      │
//!                      └──► Misdeed: event, field, problem, hint
//! ```
//!
//! Objects that the simulation creates (pods of workloads, claims of volumes, nodes) do not exist here: the template of
//! its workload stands in for a pod, and only the simulation itself can tell whether a node exists.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::Span;
use muster_api::likeness::nearest_of;
use muster_manifest::{Decoded, Fault, Inspected, UnknownField, inspect, shorten};
use serde_json::{Value, json};

use super::super::api::Path;
use super::super::deeds::{applied, emptied, scale};
use super::super::objects::{self, MOST, crowd, is_left_out, is_owned_set, reference_of, settled};
use super::super::world::WORKLOADS;
use super::{Deed, Reference, Script};

/// Error of a script, or of the initial objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misdeed {
    /// The manifests result in more pods and static nodes than allowed.
    Crowd(u64),
    /// An event is invalid.
    Event {
        /// Number of the event in time order, from 0.
        number: usize,
        /// Fault, with a field path relative to the event.
        fault: Box<Fault>,
    },
}

/// Warning about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Number of the event in time order, from 0.
    pub number: usize,
    /// Object and problem.
    pub text: String,
}

/// Current version of an object.
#[derive(Debug)]
struct Piece {
    object: Value,
    /// Last applied manifest.
    applied: Value,
    /// Number of pods or static nodes that it results in.
    crowd: u64,
    /// Paths of unknown fields.
    unknown: BTreeSet<String>,
}

/// See the module.
#[derive(Debug, Default)]
struct Rehearsal {
    pieces: BTreeMap<(String, Path), Piece>,
    /// Objects that existed before.
    gone: BTreeSet<(String, Path)>,
    crowd: u64,
}

/// Dry-runs `script` in a cluster with the initial objects `objects`, which are valid.
///
/// # Errors
/// Returns the first invalid event.
pub fn rehearse(script: &Script, objects: &[Value]) -> Result<Vec<Remark>, Misdeed> {
    let mut rehearsal = Rehearsal::default();
    for object in objects.iter().filter(|object| !is_left_out(object)) {
        rehearsal.begin(settled(object.clone()));
    }
    if rehearsal.crowd > MOST {
        return Err(Misdeed::Crowd(rehearsal.crowd));
    }
    let mut remarks = Vec::new();
    for (number, (at, deed)) in script.deeds.iter().enumerate() {
        let unknown = rehearsal.act(deed, *at).map_err(|fault| Misdeed::Event { number, fault })?;
        let reference = unknown.first().map(|_| about(deed)).unwrap_or_default();
        remarks.extend(
            unknown.into_iter().map(|field| Remark { number, text: format!("{reference}: {}", ignored(&field)) }),
        );
    }
    Ok(remarks)
}

fn ignored(UnknownField { path, nearest }: &UnknownField) -> String {
    let nearest = nearest.as_ref().map_or_else(String::new, |nearest| format!(" (did you mean `{nearest}`?)"));
    format!("unknown field `{path}` is ignored{nearest}")
}

fn about(deed: &Deed) -> String {
    if let Deed::Apply(object) = deed { quoted(&reference_of(object)) } else { String::new() }
}

fn quoted(Reference { kind, path }: &Reference) -> String {
    format!("{} `{}`", shorten(kind), shorten(&path.to_string()))
}

fn fault(path: &str, problem: String, hint: impl Into<String>) -> Box<Fault> {
    Box::new(Fault { path: path.to_owned(), problem, hint: hint.into() })
}

/// Validates an object with the manifest reader and the simulation.
fn judge(object: &Value) -> Decoded<Inspected> {
    let inspected = inspect(object)?;
    objects::check(object)?;
    Ok(inspected)
}

// === impl Rehearsal ===

impl Rehearsal {
    fn begin(&mut self, object: Value) {
        // Objects of unknown kinds are never referenced.
        let Ok(inspected) = inspect(&object) else { return };
        let Reference { kind, path } = reference_of(&object);
        self.put((kind, path), object.clone(), object, &inspected);
    }

    fn put(&mut self, key: (String, Path), object: Value, applied: Value, inspected: &Inspected) {
        let crowd = crowd(&inspected.object);
        let unknown = inspected.unknown.iter().map(|field| field.path.clone()).collect();
        self.remove(&key);
        self.crowd = self.crowd.saturating_add(crowd);
        self.pieces.insert(key, Piece { object, applied, crowd, unknown });
    }

    fn remove(&mut self, key: &(String, Path)) -> bool {
        let Some(piece) = self.pieces.remove(key) else { return false };
        self.crowd = self.crowd.saturating_sub(piece.crowd);
        self.gone.insert(key.clone());
        true
    }

    fn remove_those(&mut self, is_meant: &dyn Fn(&(String, Path)) -> bool) {
        let meant: Vec<(String, Path)> = self.pieces.keys().filter(|key| is_meant(key)).cloned().collect();
        for key in &meant {
            self.remove(key);
        }
    }

    /// Applies an event to the objects. Returns the unknown fields of an applied object.
    fn act(&mut self, deed: &Deed, at: Duration) -> Decoded<Vec<UnknownField>> {
        let moment = Span(at);
        match deed {
            Deed::Scale(reference, replicas) => {
                let piece = self.pieces.get(&key_of(reference));
                let mut object =
                    piece.map(|piece| piece.object.clone()).ok_or_else(|| self.missing(reference, "scale", moment))?;
                scale(&mut object, *replicas);
                self.replace(reference, object, None, "scale", moment)?;
            }
            Deed::Patch(reference, set) => {
                let stand_in = self.stand_in(reference);
                let Some(piece) = self.pieces.get(&key_of(reference)) else {
                    let Some(stand_in) = stand_in else { return Err(self.missing(reference, "patch", moment)) };
                    let Some(mut object) = stand_in else { return Ok(Vec::new()) };
                    json_patch::merge(&mut object, set);
                    judge(&settled(object)).map_err(|found| within(*found, "patch.set", reference, moment))?;
                    return Ok(Vec::new());
                };
                let mut object = piece.object.clone();
                json_patch::merge(&mut object, set);
                self.replace(reference, object, None, "patch.set", moment)?;
            }
            Deed::Apply(object) => return self.apply(object, moment),
            Deed::Delete(reference) => {
                if reference.kind == "Namespace" {
                    self.remove_those(&|(_, path)| path.namespace == reference.path.name);
                }
                if !self.remove(&key_of(reference)) && self.stand_in(reference).is_none() {
                    return Err(self.missing(reference, "delete", moment));
                }
            }
            Deed::DeleteAll => {
                let kinds: Vec<&str> = emptied().chain(["PodDisruptionBudget", "NodePool", "Pod"]).collect();
                self.remove_those(&|(kind, _)| kinds.contains(&kind.as_str()));
            }
            Deed::RunOut(..)
            | Deed::Refuse(..)
            | Deed::Misregister(..)
            | Deed::Interrupt(..)
            | Deed::ReportFault(..)
            | Deed::Publish
            | Deed::Stop(..) => {}
        }
        Ok(Vec::new())
    }

    fn apply(&mut self, object: &Value, moment: Span) -> Decoded<Vec<UnknownField>> {
        let object = settled(object.clone());
        let reference = reference_of(&object);
        if objects::OWN.contains(&reference.kind.as_str()) {
            let problem = format!("is `{}`, and the day makes its own", reference.kind);
            return Err(fault("apply.kind", problem, "apply a NodePool, and pods that need nodes of it"));
        }
        if is_owned_set(&object) {
            let problem = "has an owner, whose pods are its own".to_owned();
            return Err(fault(
                "apply.metadata.ownerReferences",
                problem,
                "apply the Deployment, or leave the owner out",
            ));
        }
        // Validates the manifest alone, and below the object that results from merging it.
        let unknown = judge(&object).map_err(|found| within(*found, "apply", &reference, moment))?.unknown;
        let mut whole = object.clone();
        if let Some(piece) = self.pieces.get(&key_of(&reference)) {
            whole = piece.object.clone();
            json_patch::merge(&mut whole, &applied(&piece.applied, &object));
        }
        self.replace(&reference, whole, Some(object), "apply", moment)?;
        Ok(unknown)
    }

    /// Replaces an object.
    fn replace(
        &mut self,
        reference: &Reference,
        object: Value,
        applied: Option<Value>,
        from: &str,
        moment: Span,
    ) -> Decoded<()> {
        let object = settled(object);
        let inspected = judge(&object).map_err(|found| within(*found, from, reference, moment))?;
        let key = key_of(reference);
        let before = self.pieces.get(&key);
        let is_new = |field: &&UnknownField| before.is_some_and(|piece| !piece.unknown.contains(&field.path));
        // A manifest may contain unknown fields, but a patch must have an effect.
        if let Some(field) = inspected.unknown.iter().filter(|_| applied.is_none()).find(is_new) {
            let hint = match &field.nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "leave it out".to_owned(),
            };
            return Err(fault(
                &format!("{from}.{}", field.path),
                format!("is not a field of {}", quoted(reference)),
                hint,
            ));
        }
        let applied = applied.or_else(|| before.map(|piece| piece.applied.clone())).unwrap_or_default();
        let was = before.map_or(0, |piece| piece.crowd);
        self.put(key, object, applied, &inspected);
        let is_more = crowd(&inspected.object) > was;
        if self.crowd > MOST && is_more {
            let path = if from == "scale" { "scale.replicas" } else { from };
            let problem =
                format!("makes {} pods and static nodes at once, at {moment}, with {}", self.crowd, quoted(reference));
            return Err(fault(path, problem, format!("a day is played with at most {MOST}: ask for less")));
        }
        Ok(())
    }

    /// Returns the fault for an object that does not exist at the time of the event.
    fn missing(&self, reference: &Reference, from: &str, moment: Span) -> Box<Fault> {
        let Reference { kind, path } = reference;
        let paths: Vec<String> =
            self.pieces.keys().filter(|(of, _)| of == kind).map(|(_, path)| path.to_string()).collect();
        let wanted = path.to_string();
        let namesake = || self.pieces.keys().find(|(of, there)| of == kind && there.name == path.name);
        let unmade = "is in no manifest, and no event before makes it";
        let (what, hint) = if self.gone.contains(&key_of(reference)) {
            ("was deleted before", "apply it again first".to_owned())
        } else if let Some((_, there)) = namesake() {
            (unmade, format!("there is `{there}`: say `namespace: {}`", there.namespace))
        } else if let Some(nearest) = nearest_of(paths.iter().map(String::as_str), &wanted) {
            (unmade, format!("did you mean `{nearest}`?"))
        } else if paths.is_empty() {
            let hint = match kind.as_str() {
                "Pod" => "the pods of a workload begin with its name, such as `web-0`".to_owned(),
                "PersistentVolumeClaim" => "the claims of a StatefulSet are named as `data-db-0`".to_owned(),
                "NodeClaim" => "the NodeClaims of a NodePool begin with its name, such as `general-x7k2p`".to_owned(),
                _ => format!("put a {kind} into the manifests, or apply one before"),
            };
            (unmade, hint)
        } else {
            let some: Vec<String> = paths.iter().take(5).map(|path| format!("`{path}`")).collect();
            let more = if paths.len() > some.len() { " and others" } else { "" };
            (unmade, format!("there are {}{more}", some.join(", ")))
        };
        fault(&format!("{from}.name"), format!("names {}, which {what} (at {moment})", quoted(reference)), hint)
    }

    /// Returns a template for an object that only the simulation creates, if known; none if no simulation can create
    /// it.
    fn stand_in(&self, Reference { kind, path }: &Reference) -> Option<Option<Value>> {
        let is_near = |(of, there): &(String, Path), kinds: &[&str]| {
            kinds.contains(&of.as_str()) && there.namespace == path.namespace && begins(&path.name, &there.name)
        };
        let maker =
            |kinds: &[&str]| self.pieces.iter().find(|(key, _)| is_near(key, kinds)).map(|(_, piece)| &piece.object);
        match kind.as_str() {
            "Node" => Some(None),
            "NodeClaim" => {
                let mut pools = self.pieces.keys().chain(&self.gone).filter(|(of, _)| of == "NodePool");
                pools.any(|(_, pool)| begins(&path.name, &pool.name)).then_some(None)
            }
            "Pod" => {
                let makers: Vec<&str> = WORKLOADS.iter().copied().chain(["DaemonSet"]).collect();
                let template = template_of(maker(&makers)?);
                Some(template.map(|template| pod_of(template, path)))
            }
            "Job" => {
                let template = maker(&["CronJob"])?.pointer("/spec/jobTemplate/spec");
                let job = |spec: &Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta_of(path), "spec": spec});
                Some(template.map(job))
            }
            "PersistentVolume" => path.name.starts_with("pvc-").then_some(None),
            "PersistentVolumeClaim" => {
                // `<template>-<set>-<number>`, or `<pod>-<volume>` of a generic ephemeral volume.
                let sets = self
                    .pieces
                    .iter()
                    .filter(|((of, there), _)| of == "StatefulSet" && there.namespace == path.namespace);
                let of_set = sets.filter_map(|((_, set), piece)| {
                    let templates = piece.object.pointer("/spec/volumeClaimTemplates")?.as_array()?;
                    templates.iter().find(|template| {
                        let name = template.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                        begins(&path.name, &format!("{name}-{}", set.name))
                    })
                });
                let claim = |template: &Value| {
                    let mut claim = template.clone();
                    json_patch::merge(
                        &mut claim,
                        &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta_of(path)}),
                    );
                    claim
                };
                let of_set = of_set.map(claim).next();
                let of_pod =
                    || maker(&["Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob", "Pod"]).map(|_| None);
                of_set.map(Some).or_else(of_pod)
            }
            _ => None,
        }
    }
}

fn key_of(Reference { kind, path }: &Reference) -> (String, Path) {
    (kind.clone(), path.clone())
}

/// Returns true if `name` is that of an object created by `maker`: its name, a dash and a suffix.
fn begins(name: &str, maker: &str) -> bool {
    name.strip_prefix(maker).is_some_and(|rest| rest.starts_with('-'))
}

fn template_of(workload: &Value) -> Option<&Value> {
    workload.pointer("/spec/template").or_else(|| workload.pointer("/spec/jobTemplate/spec/template"))
}

fn meta_of(path: &Path) -> Value {
    json!({"name": path.name, "namespace": path.namespace})
}

fn pod_of(template: &Value, path: &Path) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": template.get("metadata").cloned().unwrap_or_default(),
        "spec": template.get("spec").cloned().unwrap_or_default()});
    json_patch::merge(&mut pod, &json!({"metadata": meta_of(path)}));
    pod
}

/// Converts a fault of an object to one of the event that causes it.
fn within(found: Fault, from: &str, reference: &Reference, moment: Span) -> Box<Fault> {
    let Fault { path, problem, hint } = found;
    let what = quoted(reference);
    if path.is_empty() {
        return fault(from, format!("makes {what} invalid, at {moment}: {problem}"), hint);
    }
    let at = match from {
        "scale" => "scale.replicas".to_owned(),
        from if path.starts_with('[') => format!("{from}{path}"),
        from => format!("{from}.{path}"),
    };
    fault(&at, format!("makes {what} invalid, at {moment}: its field `{path}` {problem}"), hint)
}
