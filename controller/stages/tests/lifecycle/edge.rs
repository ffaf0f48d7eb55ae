//! Carries out what the stages decide, one write at a time, and may be killed at any of them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_cloud::{Alternative, CloudError, Memory, Overlaid, Refusals};
use muster_stages::lifecycle::garbage::{self, GarbageInput};
use muster_stages::lifecycle::pause::Pause;
use muster_stages::lifecycle::{Answers, Call, Listing, Seen, Step, Write, breaker, decide};
use muster_stages::node::Node;

use super::api::{Api, Refused};
use super::orders::Wish;

/// Rounds of questions and writes after which one look at one claim must have come to rest.
const MOST_ROUNDS: usize = 60;

/// What happens at one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Blow {
    /// The controller stops before it.
    Before,
    /// The controller stops after it: it is done, and nobody knows.
    After,
    /// Somebody else changes every object just before it.
    Meddle,
}

/// A write, for whoever reads a failure.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at: Timestamp,
    pub(crate) write: Write,
    pub(crate) blow: Option<Blow>,
}

/// The controller stopped.
#[derive(Debug)]
pub(crate) struct Killed;

/// What the controller has in memory, and loses when it stops.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remembered {
    refusals: Refusals,
    listings: BTreeMap<String, Listing>,
    again: BTreeMap<String, Timestamp>,
    /// When disruption wants to look again.
    pub(crate) disruption: Option<Timestamp>,
    /// When it was last decided what is to go.
    pub(crate) decided: Option<Timestamp>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Edge {
    pub(crate) remembered: Remembered,
    /// What happens at which write, counted over all lives of the controller.
    pub(crate) blows: BTreeMap<usize, Blow>,
    /// Writes so far.
    pub(crate) writes: usize,
    /// What was written.
    pub(crate) diary: Vec<Entry>,
    pub(crate) pause: Pause,
    /// What is to be taken away.
    pub(crate) wishes: Vec<Wish>,
}

/// Versions of the objects that a step looks at, as earlier writes of it have left them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Versions {
    claims: BTreeMap<String, String>,
    class: String,
    nodes: BTreeMap<String, String>,
}

/// What the writes of one step act on.
pub(crate) struct WriteContext<'a> {
    pub(crate) api: &'a mut Api,
    pub(crate) cloud: &'a mut Memory,
    pub(crate) versions: Versions,
    pub(crate) answers: Answers,
    pub(crate) now: Timestamp,
}

impl Versions {
    /// Those of all objects.
    pub(crate) fn of(api: &Api) -> Self {
        fn version(meta: &ObjectMeta) -> Option<(String, String)> {
            Some((meta.name.clone()?, meta.resource_version.clone()?))
        }
        Self {
            claims: api.claims.values().filter_map(|claim| version(&claim.metadata)).collect(),
            class: api.class.as_ref().and_then(|class| class.meta.resource_version.clone()).unwrap_or_default(),
            nodes: api.nodes.values().filter_map(|node| version(&node.metadata)).collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// To the next write.
    On,
    /// The rest of the step is dropped.
    Drop,
}

impl Edge {
    /// The diary in words.
    pub(crate) fn told(&self) -> String {
        let line = |(number, one): (usize, &Entry)| format!("{number} at {}, {:?}: {:?}", one.at, one.blow, one.write);
        self.diary.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The pods that were asked to leave, in order.
    pub(crate) fn evicted(&self) -> Vec<&str> {
        let all = self.diary.iter();
        all.filter_map(|one| if let Write::Evict(pod) = &one.write { Some(pod.name.as_str()) } else { None }).collect()
    }

    /// When a step wants to look again, whatever happens.
    pub(crate) fn next_look(&self) -> Option<Timestamp> {
        self.remembered.again.values().chain(&self.remembered.disruption).min().copied()
    }

    /// Stops the controller: what it had in memory is lost.
    pub(crate) fn restart(&mut self) {
        self.remembered = Remembered::default();
    }

    /// Looks at everything once, and again until nothing is left to do now.
    pub(crate) fn settle(
        &mut self,
        api: &mut Api,
        cloud: &mut Memory,
        offered: &[Alternative],
        now: Timestamp,
    ) -> Result<(), Killed> {
        for _ in 0..MOST_ROUNDS {
            let before = api.changes;
            self.judge_class(api, cloud, now)?;
            let names: Vec<String> = api.claims.keys().cloned().collect();
            self.remembered.again.retain(|name, _| names.contains(name));
            for name in names {
                self.look(&name, api, cloud, offered, now)?;
            }
            self.disrupt(api, cloud, now)?;
            if api.changes == before {
                return Ok(());
            }
        }
        panic!("the claims do not come to rest:\n{}", self.told());
    }

    /// Lists what the cloud has, and has ended what nobody owns.
    pub(crate) fn collect(&mut self, api: &mut Api, cloud: &mut Memory, now: Timestamp) -> Result<(), Killed> {
        let Ok(instances) = cloud.list(now) else { return Ok(()) };
        let known: BTreeSet<&str> = instances.iter().map(|one| one.provider_id.as_str()).collect();
        for id in api.claims.values().filter_map(|claim| claim.status.as_ref()?.provider_id.as_deref()) {
            let listing = Listing { at: now, has_instance: known.contains(id), capacity_type: None };
            self.remembered.listings.insert(id.to_owned(), listing);
        }
        let claims: Vec<_> = api.claims.values().cloned().collect();
        let nodes: Vec<Node> = api.nodes.values().cloned().map(Node::from).collect();
        let yard = GarbageInput {
            listed_at: now,
            instances: &instances,
            claims: claims.iter().collect(),
            nodes: nodes.iter().collect(),
        };
        let step = garbage::collect(&yard, now);
        let mut context = WriteContext { versions: Versions::of(api), api, cloud, answers: Answers::default(), now };
        for write in &step.writes {
            // Each stands for itself.
            let _ = self.carry(write, &mut context)?;
        }
        Ok(())
    }

    fn judge_class(&mut self, api: &mut Api, cloud: &mut Memory, now: Timestamp) -> Result<(), Killed> {
        let Some(class) = api.class.clone() else { return Ok(()) };
        let step = breaker::judge(&class, now);
        let mut context = WriteContext { versions: Versions::of(api), api, cloud, answers: Answers::default(), now };
        self.carry_all(&step, &mut context)?;
        Ok(())
    }

    fn look(
        &mut self,
        name: &str,
        api: &mut Api,
        cloud: &mut Memory,
        offered: &[Alternative],
        now: Timestamp,
    ) -> Result<(), Killed> {
        let mut answers = Answers::default();
        for _ in 0..MOST_ROUNDS {
            let Some(claim) = api.claims.get(name).cloned() else { return Ok(()) };
            let class = api.class.clone().unwrap();
            let id = claim.status.as_ref().and_then(|status| status.provider_id.clone());
            let nodes: Vec<Node> = api
                .nodes
                .values()
                .filter(|node| {
                    id.is_some() && node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()) == id.as_ref()
                })
                .cloned()
                .map(Node::from)
                .collect();
            let residents: Vec<_> = api.pods.values().map(|pod| pod.resident.clone()).collect();
            let mut alternatives = offered.to_vec();
            self.remembered.refusals.sieve(&mut alternatives, now);
            let attachments = api.attachments.clone();
            let seen = Seen {
                claim: &claim,
                pool: None,
                class: &class,
                pause: self.pause,
                nodes: nodes.iter().collect(),
                namesakes: Vec::new(),
                registration_hold: None,
                expected: &[],
                device_drivers: &BTreeSet::new(),
                residents: &residents,
                attachments: &attachments,
                alternatives: &alternatives,
                overlaid: &Overlaid::default(),
                listing: id.as_ref().and_then(|id| self.remembered.listings.get(id).copied()),
                answers: answers.clone(),
            };
            let step = decide(&seen, now);
            assert_eq!(step, decide(&seen, now), "the same look gives the same step");
            let asks = step.writes.iter().any(Write::is_question);
            let is_rest = step.writes.is_empty();
            let mut context = WriteContext { versions: Versions::of(api), api, cloud, answers, now };
            self.carry_all(&step, &mut context)?;
            answers = context.answers;
            if let (Some(id), Some(answer)) = (id, &answers.instance) {
                self.remembered.listings.insert(id, Listing::of(answer, now));
            }
            self.remembered.again.remove(name);
            if let Some(again) = step.again {
                assert!(again > now || !is_rest, "a step that wants to look again at once never rests");
                self.remembered.again.insert(name.to_owned(), again);
            }
            if is_rest {
                return Ok(());
            }
            if !asks {
                answers = Answers::default();
                if step.again.is_some() {
                    return Ok(());
                }
            }
        }
        panic!("claim {name} does not come to rest:\n{}", self.told());
    }

    pub(crate) fn carry_all(&mut self, step: &Step, context: &mut WriteContext<'_>) -> Result<Flow, Killed> {
        for write in &step.writes {
            if self.carry(write, context)? == Flow::Drop {
                return Ok(Flow::Drop);
            }
        }
        Ok(Flow::On)
    }

    /// One write, unless something happens there.
    fn carry(&mut self, write: &Write, context: &mut WriteContext<'_>) -> Result<Flow, Killed> {
        let number = self.writes;
        self.writes += 1;
        let blow = self.blows.get(&number).copied();
        self.diary.push(Entry { at: context.now, write: write.clone(), blow });
        match blow {
            Some(Blow::Before) => return Err(Killed),
            Some(Blow::Meddle) => context.api.meddle(),
            Some(Blow::After) | None => {}
        }
        let flow = self.carry_out(write, context);
        if blow == Some(Blow::After) { Err(Killed) } else { Ok(flow) }
    }

    fn carry_out(&mut self, write: &Write, context: &mut WriteContext<'_>) -> Flow {
        let WriteContext { api, cloud, versions, answers, now } = context;
        let now = *now;
        let claim_version = |versions: &Versions, name: &str| versions.claims.get(name).cloned().unwrap_or_default();
        let result = match write {
            Write::CreateClaim(claim) => {
                // One of that name is the same decision.
                if !claim.metadata.name.as_ref().is_some_and(|name| api.claims.contains_key(name)) {
                    api.create_claim((**claim).clone(), now);
                }
                Ok(())
            }
            Write::ClaimMeta { name, change } => {
                let written = api.claim_meta(name, &claim_version(versions, name), change);
                api.own(now);
                written.map(|version| drop(versions.claims.insert(name.clone(), version)))
            }
            Write::ClaimStatus { name, status } => api
                .claim_status(name, &claim_version(versions, name), status)
                .map(|version| drop(versions.claims.insert(name.clone(), version))),
            Write::DeleteClaim { name, uid, .. } => api.delete_claim(name, uid, now),
            Write::Node { name, change } => {
                let version = versions.nodes.get(name).cloned().unwrap_or_default();
                api.node(name, &version, change).map(|version| drop(versions.nodes.insert(name.clone(), version)))
            }
            Write::DeleteNode { name, uid } => api.delete_node(name, uid, now),
            Write::ClassMeta(change) => api.class_meta(&versions.class, change).map(|version| versions.class = version),
            Write::ClassCondition(condition) => {
                api.change_class(|class| {
                    class.conditions.retain(|one| one.type_ != condition.type_);
                    class.conditions.push(condition.clone());
                });
                Ok(())
            }
            Write::Evict(pod) => {
                answers.evictions.insert(pod.uid.clone(), api.evict(&pod.uid, now));
                Ok(())
            }
            Write::DeletePod { pod, grace } => {
                api.delete_pod(&pod.uid, *grace, now);
                Ok(())
            }
            Write::Cloud(call) => {
                self.ask(call, answers, cloud, now);
                Ok(())
            }
            Write::ClassStatus(_)
            | Write::PoolMeta { .. }
            | Write::PoolStatus { .. }
            | Write::OverlayStatus { .. }
            | Write::BufferStatus { .. }
            | Write::Nominate { .. }
            | Write::PodDeletionCost { .. } => {
                panic!("neither the life of a claim nor a disruption has such a write: {write:?}")
            }
            Write::Event(event) => {
                api.events.push(event.clone());
                Ok(())
            }
        };
        match result {
            Ok(()) => Flow::On,
            Err(Refused::Conflict) => {
                // Somebody else was faster: look again.
                context.api.changes += 1;
                Flow::Drop
            }
            Err(Refused::NotFound) => Flow::On,
            Err(Refused::Invalid(why)) => panic!("the API server refuses {write:?}: {why}"),
        }
    }

    fn ask(&mut self, call: &Call, answers: &mut Answers, cloud: &mut Memory, now: Timestamp) {
        match call {
            Call::Launch(request) => {
                let answer = cloud.launch(request, now);
                let refused = match &answer {
                    Ok(launched) => launched.refused.as_slice(),
                    Err(failed) => failed.error.refused(),
                };
                for one in refused {
                    self.remembered.refusals.record(one, now);
                }
                answers.launch = Some(answer);
            }
            Call::Get(id) => answers.instance = Some(cloud.get(id, now)),
            Call::Find(uid) => {
                let is_its =
                    |one: &muster_cloud::Instance| one.token.as_ref().is_some_and(|token| token.claim_uid == *uid);
                answers.instance = Some(cloud.list(now).and_then(|all| {
                    all.into_iter().find(is_its).ok_or_else(|| CloudError::NotFound { what: uid.clone() })
                }));
            }
            Call::Console(id) => answers.console = Some(cloud.console(id, now)),
            Call::Reboot(id) => answers.reboot = Some(cloud.reboot(id, now)),
            Call::Tag { provider_id, tags } => answers.tag = Some(cloud.tag(provider_id, tags, now)),
            Call::Terminate(id) => answers.terminate = Some(cloud.terminate(id, now)),
        }
    }
}
