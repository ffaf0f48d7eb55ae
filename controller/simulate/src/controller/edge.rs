//! In-memory edge: applies the stages' writes one by one to the simulated API and cloud, and can be stopped before each
//! of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::core::DynamicObject;
use muster_api::annotations::POD_DELETION_COST;
use muster_api::nodeclaim::NodeClaimStatus;
use muster_api::{NodeClaim, NodePool};
use muster_cloud::{CloudError, Instance};
use muster_stages::lifecycle::{Answers, Eviction};
use muster_stages::step::{Call, Event, EventType, MetaChange, Step, Subject, Write};
use serde_json::Value;

use super::{Controller, Stop};
use crate::api::{Kind, Path, Refused};
use crate::trace::Event as Traced;
use crate::world::World;

/// State of a step while it is applied.
#[derive(Debug, Default)]
pub(super) struct Carriage {
    /// Resource versions of the objects that it changes, as read or as left by its earlier writes.
    versions: BTreeMap<(Kind, String), String>,
    /// Kind and name of the class that it concerns.
    pub(super) class: Option<(String, String)>,
    /// Results of the calls that it made.
    pub(super) answers: Answers,
}

/// Action after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Continue with the next write.
    On,
    /// Discard the rest of the step: the objects it was decided from have changed.
    Drop,
}

// === impl Carriage ===

impl Carriage {
    /// Makes writes of a step conditional on the version of an object that was read.
    pub(super) fn hold(&mut self, kind: Kind, meta: &ObjectMeta) {
        if let (Some(name), Some(version)) = (&meta.name, &meta.resource_version) {
            self.versions.insert((kind, name.clone()), version.clone());
        }
    }

    fn version(&self, kind: &Kind, name: &str) -> Option<String> {
        self.versions.get(&(kind.clone(), name.to_owned())).cloned()
    }
}

// === impl Controller ===

impl Controller {
    /// Applies a step, and lets the world react. Returns [`Flow::Drop`] if a write was refused.
    pub(super) fn carry_all(&mut self, step: &Step, carriage: &mut Carriage, world: &mut World) -> Result<Flow, Stop> {
        let flow = self.carry_each(step, carriage, world)?;
        self.refresh(world)?;
        Ok(flow)
    }

    /// Applies a step, without letting the world react. Returns [`Flow::Drop`] if a write was refused that the rest
    /// depends on; writes after it are applied only if that one stands alone.
    pub(super) fn carry_each(&mut self, step: &Step, carriage: &mut Carriage, world: &mut World) -> Result<Flow, Stop> {
        let mut flow = Flow::On;
        for write in &step.writes {
            if self.carry(write, carriage, world)? == Flow::Drop && write.needs_success() {
                flow = Flow::Drop;
                if !write.stands_alone() {
                    break;
                }
            }
        }
        Ok(flow)
    }

    /// Applies one write, unless the controller is killed before it.
    fn carry(&mut self, write: &Write, carriage: &mut Carriage, world: &mut World) -> Result<Flow, Stop> {
        world.writes += 1;
        if let Some(left) = &mut world.fuse {
            if *left == 0 {
                world.fuse = None;
                return Err(Stop::Killed);
            }
            *left -= 1;
        }
        #[cfg(test)]
        crate::tests::log_write(write, world);
        Ok(self.write(write, carriage, world))
    }

    fn write(&self, write: &Write, carriage: &mut Carriage, world: &mut World) -> Flow {
        let now = world.clock.now();
        let result = match write {
            Write::CreateClaim(claim) => create_claim(claim, world, now),
            Write::ClaimMeta { name, change } => self.change_claim_meta(name, change, carriage, world),
            Write::ClaimStatus { name, status } => self.change_claim_status(name, status, carriage, world),
            Write::DeleteClaim { name, uid, cause } => Self::delete_claim(name, uid, cause.name(), world),
            Write::Node { name, change } => {
                self.change(carriage, world, &Kind::Node, name, |node: &mut Node| change.apply(node))
            }
            Write::DeleteNode { name, uid } => {
                world.api.delete::<Node>(&Kind::Node, &Path::bare(name.clone()), Some(uid), now)
            }
            Write::ClassMeta(change) => self.change_class(carriage, world, |class| change.apply(&mut class.metadata)),
            Write::ClassCondition(condition) => {
                self.change_class(carriage, world, |class| set_condition(&mut class.data, condition))
            }
            Write::ClassStatus(status) => {
                self.change_class(carriage, world, |class| class.data["status"] = Value::clone(status))
            }
            Write::PoolMeta { name, change } => {
                self.change(carriage, world, &Kind::NodePool, name, |pool: &mut NodePool| {
                    change.apply(&mut pool.metadata);
                })
            }
            Write::PoolStatus { name, status } => {
                self.change(carriage, world, &Kind::NodePool, name, |pool: &mut NodePool| {
                    pool.status = Some((**status).clone());
                })
            }
            // Simulations do not show what overlays and buffers say of themselves.
            Write::OverlayStatus { .. } | Write::BufferStatus { .. } => Ok(()),
            Write::Nominate { pod, node } => nominate(world, pod, node.as_ref()),
            Write::PodDeletionCost { pod, cost } => set_deletion_cost(world, pod, *cost),
            Write::Evict(pod) => {
                let answer = world.api.evict(&path_of(pod), &pod.uid, now);
                carriage.answers.evictions.insert(pod.uid.clone(), answer);
                Ok(())
            }
            Write::DeletePod { pod, grace } => {
                let ended = world.api.end_pod(&path_of(pod), Some(&pod.uid), *grace, now);
                let answer = match ended {
                    Ok(()) | Err(Refused::Conflict | Refused::NotFound) => Eviction::Forced,
                    Err(Refused::Invalid(why)) => Eviction::Failed(why.to_owned()),
                    Err(Refused::AlreadyExists) => Eviction::Failed("a pod of its name exists".to_owned()),
                };
                carriage.answers.evictions.insert(pod.uid.clone(), answer);
                ended
            }
            Write::Cloud(call) => {
                ask(call, &mut carriage.answers, world, now);
                Ok(())
            }
            Write::Event(event) => {
                warn(event, world, now);
                Ok(())
            }
        };
        match result {
            Ok(()) | Err(Refused::NotFound) => Flow::On,
            // A concurrent change was faster: the object is reconciled again.
            Err(Refused::Conflict) => Flow::Drop,
            Err(refused @ (Refused::Invalid(_) | Refused::AlreadyExists)) => {
                world.trace.add(now, Traced::Broken { what: format!("the API server refuses a write: {refused:?}") });
                Flow::Drop
            }
        }
    }

    fn change_claim_meta(
        &self,
        name: &str,
        change: &MetaChange,
        carriage: &mut Carriage,
        world: &mut World,
    ) -> Result<(), Refused> {
        let is_deletion_allowed = change.finalizers.as_ref().is_some_and(Vec::is_empty);
        let result = self.change(carriage, world, &Kind::NodeClaim, name, |claim: &mut NodeClaim| {
            change.apply(&mut claim.metadata);
        });
        if is_deletion_allowed && world.api.claims.get(&Path::bare(name.to_owned())).is_none() {
            world.trace.add(world.clock.now(), Traced::Gone { claim: name.to_owned() });
        }
        result
    }

    fn change_claim_status(
        &self,
        name: &str,
        status: &NodeClaimStatus,
        carriage: &mut Carriage,
        world: &mut World,
    ) -> Result<(), Refused> {
        let before = initialized(world, name);
        let result = self.change(carriage, world, &Kind::NodeClaim, name, |claim: &mut NodeClaim| {
            claim.status = Some(status.clone());
        });
        if !before && initialized(world, name) {
            tell_initialized(world, name, world.clock.now());
        }
        result
    }

    fn delete_claim(name: &str, uid: &str, cause: &str, world: &mut World) -> Result<(), Refused> {
        let now = world.clock.now();
        let path = Path::bare(name.to_owned());
        let was_there = world.api.claims.get(&path).is_some_and(|one| one.metadata.deletion_timestamp.is_none());
        let result = world.api.delete::<NodeClaim>(&Kind::NodeClaim, &path, Some(uid), now);
        if was_there && result.is_ok() {
            world.trace.add(now, Traced::Ending { claim: name.to_owned(), reason: cause.to_owned() });
        }
        result
    }

    fn change<T: crate::api::Kept>(
        &self,
        carriage: &mut Carriage,
        world: &mut World,
        kind: &Kind,
        name: &str,
        change: impl FnOnce(&mut T),
    ) -> Result<(), Refused> {
        let version = carriage.version(kind, name);
        let written = world.api.update(kind, &Path::bare(name), version.as_deref(), change)?;
        carriage.versions.insert((kind.clone(), name.to_owned()), written);
        Ok(())
    }

    fn change_class(
        &self,
        carriage: &mut Carriage,
        world: &mut World,
        change: impl FnOnce(&mut DynamicObject),
    ) -> Result<(), Refused> {
        let Some((kind, name)) = carriage.class.clone() else { return Err(Refused::NotFound) };
        self.change(carriage, world, &Kind::Other(kind), &name, change)
    }
}

fn path_of(pod: &Subject) -> Path {
    Path::new(pod.namespace.clone().unwrap_or_default(), pod.name.clone())
}

fn ask(call: &Call, answers: &mut Answers, world: &mut World, now: Timestamp) {
    match call {
        Call::Launch(request) => {
            let answer = world.launch(request);
            answers.launch = Some(answer);
        }
        Call::Get(id) => answers.instance = Some(world.cloud.get(id, now)),
        Call::Find(uid) => {
            let is_its = |one: &Instance| one.token.as_ref().is_some_and(|token| token.claim_uid == *uid);
            answers.instance = Some(world.cloud.list(now).and_then(|all| {
                all.into_iter().find(is_its).ok_or_else(|| CloudError::NotFound { what: uid.clone() })
            }));
        }
        Call::Console(id) => answers.console = Some(world.cloud.console(id, now)),
        Call::Reboot(id) => answers.reboot = Some(world.reboot(id)),
        Call::Tag { provider_id, tags } => answers.tag = Some(world.cloud.tag(provider_id, tags, now)),
        Call::Terminate(id) => {
            let answer = world.cloud.terminate(id, now);
            world.ending(id);
            answers.terminate = Some(answer);
        }
    }
}

fn create_claim(claim: &NodeClaim, world: &mut World, now: Timestamp) -> Result<(), Refused> {
    match world.api.create(claim.clone(), now) {
        Ok(()) => {
            let meta = &claim.metadata;
            let pool = meta.labels.as_ref().and_then(|all| all.get(muster_api::labels::NODEPOOL).cloned());
            let claim = meta.name.clone().unwrap_or_default();
            world.trace.add(now, Traced::ClaimAndNode { claim, node_pool: pool.unwrap_or_default() });
            Ok(())
        }
        // A claim of that name is the result of the same decision, applied before.
        Err(Refused::AlreadyExists) => Ok(()),
        Err(refused) => Err(refused),
    }
}

/// Adds a warning to the trace; other events are not shown.
fn warn(event: &Event, world: &mut World, now: Timestamp) {
    if event.kind != EventType::Warning {
        return;
    }
    let Subject { kind, namespace, name, .. } = &event.about;
    let path = namespace.as_ref().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
    let (reason, message) = (event.reason.to_owned(), event.message.clone());
    world.trace.add(now, Traced::Warned { about: format!("{kind} {path}"), reason, message });
}

fn nominate(world: &mut World, pod: &Subject, node: Option<&String>) -> Result<(), Refused> {
    let path = path_of(pod);
    let there = world.api.pods.get(&path).ok_or(Refused::NotFound)?;
    if there.metadata.uid.as_deref() != Some(pod.uid.as_str()) || crate::api::node_of(there).is_some() {
        return Ok(());
    }
    let written = world.api.update(&Kind::Pod, &path, None, |pod: &mut Pod| {
        pod.status.get_or_insert_default().nominated_node_name = node.cloned();
    });
    written.map(drop)
}

fn set_deletion_cost(world: &mut World, pod: &Subject, cost: Option<i32>) -> Result<(), Refused> {
    let path = path_of(pod);
    let there = world.api.pods.get(&path).ok_or(Refused::NotFound)?;
    if there.metadata.uid.as_deref() != Some(pod.uid.as_str()) {
        return Ok(());
    }
    let written = world.api.update(&Kind::Pod, &path, None, |pod: &mut Pod| {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        match cost {
            Some(cost) => annotations.insert(POD_DELETION_COST.to_owned(), cost.to_string()),
            None => annotations.remove(POD_DELETION_COST),
        };
    });
    written.map(drop)
}

fn initialized(world: &World, claim: &str) -> bool {
    let claim = world.api.claims.get(&Path::bare(claim));
    claim.is_some_and(|claim| muster_stages::lifecycle::is_true(claim, muster_api::conditions::nodeclaim::INITIALIZED))
}

fn tell_initialized(world: &mut World, name: &str, now: Timestamp) {
    let Some(claim) = world.api.claims.get(&Path::bare(name)) else { return };
    let made_at = claim.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let node = claim.status.as_ref().and_then(|status| status.node_name.clone()).unwrap_or_default();
    let seconds = now.duration_since(made_at).as_secs();
    world.trace.add(now, Traced::Initialized { claim: name.to_owned(), node, seconds });
}

/// Sets a condition in the status of an object of any kind.
fn set_condition(object: &mut Value, condition: &Condition) {
    let Some(object) = object.as_object_mut() else { return };
    let status = object.entry("status").or_insert_with(|| Value::Object(serde_json::Map::new()));
    let Some(status) = status.as_object_mut() else { return };
    let conditions = status.entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    if let (Some(all), Ok(written)) = (conditions.as_array_mut(), serde_json::to_value(condition)) {
        all.retain(|one| one.get("type").and_then(Value::as_str) != Some(condition.type_.as_str()));
        all.push(written);
    }
}
