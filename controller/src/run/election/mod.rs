//! Leader election: the holder of the Lease writes. The rules are those of client-go, so that Karpenter and Muster can
//! compete for the same Lease.
//!
//! ```text
//!   stand by ── lease free, or not renewed for its duration ──► take ──► lead: renew every 2 s
//!       ▲                                                                   │
//!       └── another holder, or no renewal for 10 s (the fence closes) ◄─────┘    stop ──► release
//! ```
//!
//! Every write of the Lease is conditional on the observed version, so that only one of two concurrent writers
//! succeeds. The time since the last renewal is measured by the local clock, from the moment at which the renewal was
//! observed, because clocks of machines differ. The fence is open until ten seconds after the last renewal was
//! *requested*, and the lease is valid for fifteen: another replica cannot acquire it while a write of this one is in
//! flight. (kube-lease-manager patches without a version, trusts the clocks of others, and does not report until when
//! it holds the lease.)

mod standing;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use muster_api::annotations;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub(super) use self::standing::Standing;
use crate::edge::Gate;

/// Duration for which a lease is valid without renewal: Karpenter's value.
const VALID: Duration = Duration::from_secs(15);
/// Duration for which the holder writes without renewal: Karpenter's value.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Interval between renewals: Karpenter's value.
const RENEW: Duration = Duration::from_secs(2);
/// Polling interval of the other candidates. Shorter than Karpenter's two seconds, so that a released lease is acquired
/// within two.
const LOOK: Duration = Duration::from_millis(500);
/// Timeout of the release: a process that received SIGTERM is killed soon.
const RELEASE: Duration = Duration::from_secs(1);

/// A candidate for leadership.
pub(super) struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    seen: Option<Observed>,
    /// True while the holder of the lease is a replica of Muster.
    is_of_muster: watch::Sender<bool>,
    /// The write in flight, if any.
    writing: Option<JoinHandle<kube::Result<Lease>>>,
}

/// The Lease as last observed.
struct Observed {
    lease: Lease,
    /// Time at which this state was first observed.
    since: Instant,
}

// === impl Candidate ===

impl Candidate {
    pub(super) fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        let leases = Api::namespaced(client, namespace);
        let (name, identity) = (name.to_owned(), identity.to_owned());
        Self { leases, name, identity, seen: None, is_of_muster: watch::Sender::new(false), writing: None }
    }

    /// Returns a channel that is true while the holder of the lease is a replica of Muster, this or another one, and
    /// not of Karpenter. A lease that has expired is that of its last holder.
    pub(super) fn is_of_muster(&self) -> watch::Receiver<bool> {
        self.is_of_muster.subscribe()
    }

    /// Stands for election repeatedly, and keeps the gate open while it leads; on `stop` it releases the lease.
    pub(super) async fn stand(mut self, gate: Gate, mut stop: watch::Receiver<bool>) {
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        tokio::select! {
            () = self.campaign(&gate) => {}
            () = stopped => {}
        }
        gate.close();
        if timeout(RELEASE, self.give_up()).await.is_err() {
            tracing::warn!("the lease was not released in time: another replica takes it when it expires");
        }
    }

    async fn campaign(&mut self, gate: &Gate) {
        loop {
            match self.take().await {
                Ok(Some(asked)) => {
                    tracing::info!(lease = %self.name, identity = %self.identity, "leading");
                    self.lead(gate, asked).await;
                    gate.close();
                    tracing::warn!(lease = %self.name, identity = %self.identity, "not leading any more");
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(lease = %self.name, %error, "the lease cannot be read"),
            }
            sleep(LOOK).await;
        }
    }

    /// Renews the lease, which was requested at `asked`, until it is lost.
    async fn lead(&mut self, gate: &Gate, asked: Instant) {
        let mut until = asked + RENEW_DEADLINE;
        loop {
            gate.open_until(until);
            sleep(RENEW).await;
            // Retry until the deadline.
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

    /// Acquires the lease if it is free. Returns the time at which it was requested, or `None` if it was not acquired.
    async fn take(&mut self) -> kube::Result<Option<Instant>> {
        let there = self.leases.get_opt(&self.name).await?;
        if let Some(lease) = &there {
            self.note(lease.clone());
            if !self.is_free(Instant::now()) {
                return Ok(None);
            }
        }
        let asked = Instant::now();
        Ok(self.write(self.ours(there.as_ref())).await?.then_some(asked))
    }

    /// Renews the lease. Returns false if another replica holds it.
    async fn renew(&mut self) -> kube::Result<bool> {
        let Some(seen) = &self.seen else { return Ok(false) };
        if self.write(self.ours(Some(&seen.lease))).await? {
            return Ok(true);
        }
        // Another client has written it, perhaps only its metadata.
        let Some(lease) = self.leases.get_opt(&self.name).await? else { return Ok(false) };
        if !self.note(lease.clone()) {
            return Ok(false);
        }
        self.write(self.ours(Some(&lease))).await
    }

    /// Releases the lease, even if its acquisition is still in flight, so that another candidate can acquire it at
    /// once.
    async fn give_up(&mut self) {
        if let Some(writing) = self.writing.take()
            && let Ok(Ok(written)) = writing.await
        {
            self.note(written);
        }
        while self.is_holder() {
            match self.release().await {
                Ok(true) => return tracing::info!(lease = %self.name, "the lease was released"),
                // Another client has written it, perhaps only its metadata: retry with the new version.
                Ok(false) => match self.leases.get_opt(&self.name).await {
                    Ok(Some(lease)) => _ = self.note(lease),
                    Ok(None) => return,
                    Err(error) => return tracing::warn!(lease = %self.name, %error, "the lease was not released"),
                },
                Err(error) => return tracing::warn!(lease = %self.name, %error, "the lease was not released"),
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

    /// Replaces the lease as observed, or creates it. Returns false on a conflict.
    async fn write(&mut self, lease: Lease) -> kube::Result<bool> {
        let (leases, name) = (self.leases.clone(), self.name.clone());
        // A request that was sent is executed even if the answer is not awaited. On shutdown the result must be known.
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
            // The runtime is shutting down.
            Err(_) => Ok(false),
        }
    }

    /// Returns the lease with this replica as its holder.
    fn ours(&self, there: Option<&Lease>) -> Lease {
        let mut lease = there.cloned().unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: None,
        });
        let now = MicroTime(now());
        let own = lease.metadata.annotations.get_or_insert_default();
        own.insert(annotations::LEASE_HOLDER.to_owned(), self.identity.clone());
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

    /// Stores the observed lease. Returns true if this replica holds it.
    fn note(&mut self, lease: Lease) -> bool {
        let is_same = self.seen.as_ref().is_some_and(|seen| word(&seen.lease) == word(&lease));
        let since = self.seen.as_ref().filter(|_| is_same).map_or_else(Instant::now, |seen| seen.since);
        self.is_of_muster.send_if_modified(|is_of_muster| {
            let is_now = is_of_muster_now(&lease);
            std::mem::replace(is_of_muster, is_now) != is_now
        });
        self.seen = Some(Observed { lease, since });
        self.is_holder()
    }

    fn is_holder(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| holder(&seen.lease) == self.identity)
    }

    /// Returns true if the lease has no holder, is held by this replica, or has expired.
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

/// Returns true if the holder has also written its name into the annotation, which other programs leave as it is.
fn is_of_muster_now(lease: &Lease) -> bool {
    let written = lease.metadata.annotations.as_ref().and_then(|all| all.get(annotations::LEASE_HOLDER));
    !holder(lease).is_empty() && written.is_some_and(|name| name == holder(lease))
}

/// Returns the part of the lease that changes on renewal.
fn word(lease: &Lease) -> Option<&LeaseSpec> {
    lease.spec.as_ref()
}

#[expect(clippy::disallowed_methods, reason = "the edge: for people who read the lease")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests;
