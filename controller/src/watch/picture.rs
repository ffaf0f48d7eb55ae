//! The cluster as it is followed: many look at it, the streams alone change it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::health::{Health, Standing, Vitals};
use crate::state::{Changed, Cluster, Kind};

/// A handle on the picture; clones show the same one.
#[derive(Debug, Clone)]
pub struct Picture {
    shared: Arc<Shared>,
}

/// The cluster at one moment. It stands still for as long as this lives, so it is to be dropped soon, and before anything
/// is awaited.
#[derive(Debug)]
pub struct Glance<'p>(RwLockReadGuard<'p, Cluster>);

/// Locks are held for moments by code that does not wait, so they are those of the standard library. None of it leaves
/// anything half done, so a panic of somebody who looked (there should be none) takes nothing with it.
#[derive(Debug)]
struct Shared {
    /// Written by the streams, an object at a time.
    cluster: RwLock<Cluster>,
    /// What [`Picture::changed`] has not handed out yet.
    changed: Mutex<Changed>,
    news: Notify,
    vitals: Mutex<BTreeMap<Kind, Vitals>>,
    /// [`Cluster::revision`], for all who look again when it has moved on.
    revised: watch::Sender<u64>,
    synced: watch::Sender<bool>,
}

// === impl Picture ===

impl Picture {
    /// Nothing yet of these kinds.
    pub(crate) fn new(kinds: impl Iterator<Item = Kind>) -> Self {
        let shared = Shared {
            cluster: RwLock::default(),
            changed: Mutex::default(),
            news: Notify::new(),
            vitals: Mutex::new(kinds.map(|kind| (kind, Vitals::default())).collect()),
            revised: watch::Sender::new(0),
            synced: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The cluster as it is known now.
    #[must_use]
    pub fn glance(&self) -> Glance<'_> {
        Glance(self.shared.cluster.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until something has changed, and hands out all that has since the last time. For one caller: what is handed
    /// out to one is not seen by another. The beginning is a change of everything.
    ///
    /// It may be dropped at any time without losing anything.
    pub async fn changed(&self) -> Changed {
        loop {
            let news = self.shared.news.notified();
            let changed = self.take_changed();
            if !changed.is_empty() {
                return changed;
            }
            news.await;
        }
    }

    /// What [`Picture::changed`] would hand out now, if anything.
    #[must_use]
    pub fn take_changed(&self) -> Changed {
        std::mem::take(&mut *lock(&self.shared.changed))
    }

    /// Tells when something has changed, and not what. For any number of callers.
    #[must_use]
    pub fn revised(&self) -> watch::Receiver<u64> {
        self.shared.revised.subscribe()
    }

    /// Whether every kind has been listed, or is known not to exist. From then on the picture is never less than whole,
    /// however old it may be ([`Picture::health`]).
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until [`Picture::is_synced`].
    pub async fn synced(&self) {
        // The sender lives as long as this handle.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// How well each kind is known.
    #[must_use]
    pub fn health(&self) -> Vec<Health> {
        let now = Instant::now();
        lock(&self.shared.vitals).iter().map(|(kind, vitals)| vitals.health(*kind, now)).collect()
    }

    /// Changes the cluster.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> (Changed, T)) -> T {
        let (changed, rest, revision) = {
            let mut cluster = self.shared.cluster.write().unwrap_or_else(PoisonError::into_inner);
            let (changed, rest) = change(&mut cluster);
            (changed, rest, cluster.revision())
        };
        if !changed.is_empty() {
            self.shared.revised.send_replace(revision);
            lock(&self.shared.changed).merge(changed);
            // One permit is kept if nobody waits just now.
            self.shared.news.notify_one();
        }
        rest
    }

    /// The API server has said something about `kind`, if only that there is nothing to say.
    pub(super) fn heard(&self, kind: Kind) {
        let mut vitals = lock(&self.shared.vitals);
        let vitals = vitals.entry(kind).or_default();
        vitals.last_word = Some(Instant::now());
        vitals.trouble = None;
    }

    /// Something is wrong with `kind`.
    pub(super) fn trouble(&self, kind: Kind, trouble: String) {
        lock(&self.shared.vitals).entry(kind).or_default().trouble = Some(trouble);
    }

    /// All of `kind` is known, or that there is no such kind.
    pub(super) fn stands(&self, kind: Kind, standing: Standing) {
        let mut vitals = lock(&self.shared.vitals);
        vitals.entry(kind).or_default().standing = Some(standing);
        if vitals.values().all(|vitals| vitals.standing.is_some()) {
            self.shared.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Glance ===

impl Deref for Glance<'_> {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}
