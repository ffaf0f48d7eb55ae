//! Who writes: the replica that holds the Lease, by the rules of client-go, so that Karpenter and Muster take turns on the
//! same one.
//!
//! ```text
//!   stand by ── lease free, or its holder silent for as long as it is valid ──► take ──► lead: renew every 2 s
//!       ▲                                                                                  │
//!       └──────────── somebody else has it, or no renewal for 10 s (the fence closes) ◄────┘    stop ──► release
//! ```
//!
//! Every write of the Lease names the version that was seen, so of two that take it at once one does. How long a holder
//! has been silent is measured by our own clock, from the moment at which we saw it renew: clocks of machines differ.
//! The fence is open until ten seconds after the last renewal was *asked for*, and the lease is valid for fifteen: nobody
//! else can have it while something of ours is on its way. (kube-lease-manager patches without a version, trusts the
//! clocks of others, and does not say until when it holds the lease.)

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::edge::Gate;

/// How long a lease is valid that is not renewed: Karpenter's figure.
const VALID: Duration = Duration::from_secs(15);
/// How long the holder writes without having renewed it: Karpenter's figure.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often it is renewed: Karpenter's figure.
const RENEW: Duration = Duration::from_secs(2);
/// How often the others look. Less than Karpenter's two seconds, so that a lease that was given up is taken within two.
const LOOK: Duration = Duration::from_millis(500);
/// How long giving it up may take: whoever is told to stop is killed soon.
const RELEASE: Duration = Duration::from_secs(1);

/// A candidate.
pub(super) struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    seen: Option<Observed>,
    /// What is on its way to the API server.
    writing: Option<JoinHandle<kube::Result<Lease>>>,
}

/// The Lease as it was last seen.
struct Observed {
    lease: Lease,
    /// When it was first seen like this.
    since: Instant,
}

// === impl Candidate ===

impl Candidate {
    pub(super) fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        let leases = Api::namespaced(client, namespace);
        Self { leases, name: name.to_owned(), identity: identity.to_owned(), seen: None, writing: None }
    }

    /// Stands for election again and again, and opens the gate while it leads; until `stop`, when it gives the lease up.
    pub(super) async fn stand(mut self, gate: Gate, mut stop: watch::Receiver<bool>) {
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        tokio::select! {
            () = self.campaign(&gate) => {}
            () = stopped => {}
        }
        gate.close();
        if timeout(RELEASE, self.give_up()).await.is_err() {
            tracing::warn!("the lease was not given up in time: others take it when it runs out");
        }
    }

    async fn campaign(&mut self, gate: &Gate) {
        loop {
            match self.take().await {
                Ok(true) => {
                    tracing::info!(lease = %self.name, identity = %self.identity, "leading");
                    self.lead(gate).await;
                    gate.close();
                    tracing::warn!(lease = %self.name, identity = %self.identity, "not leading any more");
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(lease = %self.name, %error, "the lease cannot be looked at"),
            }
            sleep(LOOK).await;
        }
    }

    /// Renews the lease for as long as it can.
    async fn lead(&mut self, gate: &Gate) {
        let mut until = Instant::now() + RENEW_DEADLINE;
        loop {
            gate.open_until(until);
            sleep(RENEW).await;
            // As often as it takes, until it is too late.
            loop {
                let asked = Instant::now();
                match timeout_at(until, self.renew()).await {
                    Ok(Ok(true)) => {
                        until = asked + RENEW_DEADLINE;
                        break;
                    }
                    Ok(Ok(false)) | Err(_) => return,
                    Ok(Err(error)) => tracing::warn!(lease = %self.name, %error, "the lease was not renewed"),
                }
                if timeout_at(until, sleep(RENEW / 4)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Takes the lease if it is to be had.
    async fn take(&mut self) -> kube::Result<bool> {
        let Some(lease) = self.leases.get_opt(&self.name).await? else {
            return self.write(self.ours(None)).await;
        };
        self.note(lease.clone());
        if self.is_free(Instant::now()) { self.write(self.ours(Some(&lease))).await } else { Ok(false) }
    }

    /// Renews it, unless somebody else has it.
    async fn renew(&mut self) -> kube::Result<bool> {
        let Some(seen) = &self.seen else { return Ok(false) };
        if self.write(self.ours(Some(&seen.lease))).await? {
            return Ok(true);
        }
        // Somebody has written it, perhaps only its metadata.
        let Some(lease) = self.leases.get_opt(&self.name).await? else { return Ok(false) };
        if !self.note(lease.clone()) {
            return Ok(false);
        }
        self.write(self.ours(Some(&lease))).await
    }

    /// Gives it up, also where we are about to get it: who looks next may take it at once.
    async fn give_up(&mut self) {
        if let Some(writing) = self.writing.take()
            && let Ok(Ok(written)) = writing.await
        {
            self.note(written);
        }
        while self.is_holder() {
            match self.release().await {
                Ok(true) => return tracing::info!(lease = %self.name, "the lease was given up"),
                // Somebody has written it, perhaps only its metadata: once more, on top of it.
                Ok(false) => match self.leases.get_opt(&self.name).await {
                    Ok(Some(lease)) => _ = self.note(lease),
                    Ok(None) => return,
                    Err(error) => return tracing::warn!(lease = %self.name, %error, "the lease was not given up"),
                },
                Err(error) => return tracing::warn!(lease = %self.name, %error, "the lease was not given up"),
            }
        }
    }

    async fn release(&mut self) -> kube::Result<bool> {
        let Some(seen) = &self.seen else { return Ok(true) };
        let mut lease = seen.lease.clone();
        let now = MicroTime(now());
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(now.clone());
        spec.acquire_time = Some(now);
        self.write(lease).await
    }

    /// Replaces the lease as it was seen, or makes the first; whether that was done.
    async fn write(&mut self, lease: Lease) -> kube::Result<bool> {
        let (leases, name) = (self.leases.clone(), self.name.clone());
        // A write that was sent is done whether its answer is waited for or not. Who stops has to know.
        let writing = self.writing.insert(tokio::spawn(async move {
            match lease.metadata.resource_version {
                Some(_) => leases.replace(&name, &PostParams::default(), &lease).await,
                None => leases.create(&PostParams::default(), &lease).await,
            }
        }));
        let written = writing.await;
        self.writing = None;
        match written {
            Ok(Ok(written)) => {
                self.note(written);
                Ok(true)
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 || status.code == 404 => Ok(false),
            Ok(Err(error)) => Err(error),
            // The runtime ends.
            Err(_) => Ok(false),
        }
    }

    /// The lease with us as its holder.
    fn ours(&self, there: Option<&Lease>) -> Lease {
        let mut lease = there.cloned().unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: None,
        });
        let now = MicroTime(now());
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(match there {
                Some(_) => spec.lease_transitions.unwrap_or(0).saturating_add(1),
                None => 0,
            });
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(i32::try_from(VALID.as_secs()).unwrap_or(i32::MAX));
        spec.renew_time = Some(now);
        lease
    }

    /// Remembers the lease; whether we hold it.
    fn note(&mut self, lease: Lease) -> bool {
        let is_same = self.seen.as_ref().is_some_and(|seen| word(&seen.lease) == word(&lease));
        let since = self.seen.as_ref().filter(|_| is_same).map_or_else(Instant::now, |seen| seen.since);
        self.seen = Some(Observed { lease, since });
        self.is_holder()
    }

    fn is_holder(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| holder(&seen.lease) == self.identity)
    }

    /// Whether nobody has the lease, or its holder has been silent for too long.
    fn is_free(&self, now: Instant) -> bool {
        let Some(seen) = &self.seen else { return true };
        let spec = seen.lease.spec.as_ref();
        let valid = spec.and_then(|spec| spec.lease_duration_seconds).and_then(|seconds| u64::try_from(seconds).ok());
        let valid = valid.map_or(VALID, Duration::from_secs);
        holder(&seen.lease).is_empty() || self.is_holder() || now >= seen.since + valid
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// What a holder says when it renews.
fn word(lease: &Lease) -> Option<&LeaseSpec> {
    lease.spec.as_ref()
}

#[expect(clippy::disallowed_methods, reason = "the edge: for people who read the lease")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests;
