//! What the NodeClaims say of their agents, and when that was first seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::wait;

/// What a NodeClaim says of its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whether its node has enrolled.
    pub has_enrolled: bool,
    /// Status of `AgentReady`.
    pub ready: Option<String>,
    /// Status of `NodeVerdict`, and its reason: a code.
    pub verdict: Option<(String, String)>,
    /// When the verdict was first seen as it is.
    pub verdict_seen: Instant,
    /// Whether it is being deleted.
    pub is_ending: bool,
}

/// Follows all NodeClaims, until it is dropped.
pub struct Claims {
    shared: Arc<Mutex<BTreeMap<String, Claim>>>,
    _task: JoinSet<()>,
}

impl Claims {
    /// Begins to follow.
    pub fn follow(client: &Client) -> Self {
        let shared = Arc::<Mutex<BTreeMap<String, Claim>>>::default();
        let (own, all) = (Arc::clone(&shared), Api::<NodeClaim>::all(client.clone()));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut events = std::pin::pin!(watcher(all, watcher::Config::default()));
            while let Some(event) = events.next().await {
                let mut known = own.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Ok(Event::Apply(claim) | Event::InitApply(claim)) => note(&mut known, &claim),
                    Ok(Event::Delete(claim)) => drop(known.remove(&claim.name_any())),
                    // The watcher lists again by itself.
                    Ok(Event::Init | Event::InitDone) | Err(_) => {}
                }
            }
        });
        Self { shared, _task: task }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Claim>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are as `is` says.
    pub fn count(&self, is: impl Fn(&Claim) -> bool) -> usize {
        self.lock().values().filter(|claim| is(claim)).count()
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<Claim> {
        self.lock().get(name).cloned()
    }

    /// Waits until so many are as `is` says.
    ///
    /// # Errors
    /// Not within `most`: how many were.
    pub async fn until(&self, what: &str, count: usize, most: Duration, is: impl Fn(&Claim) -> bool) -> Result<()> {
        let come = wait::until_some(what, most, || async { Ok((self.count(&is) == count).then_some(())) });
        come.await.map_err(|error| match error {
            Error::Deadline { what, waited, .. } => {
                let seen = format!("{} of {count}, of {} NodeClaims", self.count(&is), self.lock().len());
                Error::Deadline { what, waited, seen }
            }
            other => other,
        })
    }
}

fn note(known: &mut BTreeMap<String, Claim>, claim: &NodeClaim) {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let of = |kind: &str| conditions.iter().find(|one: &&Condition| one.type_ == kind);
    let name = claim.name_any();
    let verdict = of(nodeclaim::NODE_VERDICT).map(|it| (it.status.clone(), it.reason.clone()));
    let before = known.get(&name).filter(|before| before.verdict == verdict);
    let seen = Claim {
        has_enrolled: claim.annotations().contains_key(annotations::AGENT_KEY),
        ready: of(nodeclaim::AGENT_READY).map(|it| it.status.clone()),
        verdict_seen: before.map_or_else(Instant::now, |before| before.verdict_seen),
        verdict,
        is_ending: claim.metadata.deletion_timestamp.is_some(),
    };
    known.insert(name, seen);
}

impl Claim {
    /// Whether its agent says that the node takes pods.
    pub fn is_ready(&self) -> bool {
        self.ready.as_deref() == Some("True")
    }

    /// Whether its node has the fault of this code.
    pub fn has_fault(&self, code: &str) -> bool {
        self.verdict.as_ref().is_some_and(|(status, reason)| status == "False" && reason == code)
    }
}
