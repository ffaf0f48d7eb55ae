//! State of the watched cluster: many readers, written by the streams only.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use muster_stages::state::{Changed, Cluster, Kind, Milestone};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::health::{Health, Vitals, WatchState};

/// Handle on the state of the watched cluster; clones share it.
#[derive(Debug, Clone)]
pub struct ClusterCache {
    shared: Arc<Shared>,
}

/// Read lock on the cluster. Writers block while it is held: drop it quickly, and before any await.
#[derive(Debug)]
pub struct ClusterRead<'p>(RwLockReadGuard<'p, Cluster>);

/// Observer of transitions.
pub(crate) trait MilestoneObserver: std::fmt::Debug + Send + Sync {
    /// Called with the transitions of a change, after it can be read. The stream waits for it.
    fn observe(&self, milestones: &[Milestone]);
}

/// The locks are held briefly and not across awaits, so those of the standard library suffice. Critical sections leave
/// no partial updates, so a poisoned lock (a panic of a reader, which would be a bug) stays usable.
#[derive(Debug)]
struct Shared {
    /// Written by the streams, one object at a time.
    cluster: RwLock<Cluster>,
    /// Changes that [`ClusterCache::changed`] has not returned yet.
    changed: Mutex<Changed>,
    news: Notify,
    vitals: Mutex<BTreeMap<Kind, Vitals>>,
    /// [`Cluster::revision`], for readers that wait for changes.
    revised: watch::Sender<u64>,
    synced: watch::Sender<bool>,
    observer: OnceLock<Arc<dyn MilestoneObserver>>,
}

// === impl ClusterCache ===

impl ClusterCache {
    /// Creates an empty cache of these kinds.
    pub(crate) fn new(kinds: impl Iterator<Item = Kind>) -> Self {
        let shared = Shared {
            cluster: RwLock::default(),
            changed: Mutex::default(),
            news: Notify::new(),
            vitals: Mutex::new(kinds.map(|kind| (kind, Vitals::default())).collect()),
            revised: watch::Sender::new(0),
            synced: watch::Sender::new(false),
            observer: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the current cluster.
    #[must_use]
    pub fn read(&self) -> ClusterRead<'_> {
        ClusterRead(self.shared.cluster.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a change, and returns all changes since the last call. For a single caller: each change is returned
    /// once. Initially everything counts as changed.
    ///
    /// It is cancel safe: no change is lost if it is dropped.
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

    /// Returns the changes that [`ClusterCache::changed`] would return now, possibly none.
    #[must_use]
    pub fn take_changed(&self) -> Changed {
        std::mem::take(&mut *lock(&self.shared.changed))
    }

    /// Returns a receiver of the revision, which signals changes without their content. For any number of callers.
    #[must_use]
    pub fn revised(&self) -> watch::Receiver<u64> {
        self.shared.revised.subscribe()
    }

    /// Returns true once every kind has been listed or is known not to exist. From then on the cache is complete, but
    /// may be out of date ([`ClusterCache::health`]).
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits until [`ClusterCache::is_synced`].
    pub async fn synced(&self) {
        // The sender lives as long as this handle.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Returns the freshness of each kind.
    #[must_use]
    pub fn health(&self) -> Vec<Health> {
        let now = Instant::now();
        lock(&self.shared.vitals).iter().map(|(kind, vitals)| vitals.health(*kind, now)).collect()
    }

    /// Sets the observer of transitions, once.
    pub(crate) fn tell(&self, observer: Arc<dyn MilestoneObserver>) {
        // A second one is ignored.
        let _ = self.shared.observer.set(observer);
    }

    /// Changes the cluster and notifies readers.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> (Changed, T)) -> T {
        let (mut changed, rest, revision) = {
            let mut cluster = self.shared.cluster.write().unwrap_or_else(PoisonError::into_inner);
            let (changed, rest) = change(&mut cluster);
            (changed, rest, cluster.revision())
        };
        let milestones = std::mem::take(&mut changed.milestones);
        if let Some(observer) = self.shared.observer.get().filter(|_| !milestones.is_empty()) {
            observer.observe(&milestones);
        }
        if !changed.is_empty() {
            self.shared.revised.send_replace(revision);
            lock(&self.shared.changed).merge(changed);
            // The permit is stored if no caller is waiting.
            self.shared.news.notify_one();
        }
        rest
    }

    /// Records a response of the API server about `kind`, possibly an empty one.
    pub(super) fn mark_seen(&self, kind: Kind) {
        let mut vitals = lock(&self.shared.vitals);
        let vitals = vitals.entry(kind).or_default();
        vitals.last_word = Some(Instant::now());
        vitals.trouble = None;
    }

    /// Records an error with `kind`.
    pub(super) fn trouble(&self, kind: Kind, trouble: String) {
        lock(&self.shared.vitals).entry(kind).or_default().trouble = Some(trouble);
    }

    /// Records that all of `kind` is listed, or that the kind does not exist.
    pub(super) fn set_status(&self, kind: Kind, standing: WatchState) {
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

// === impl ClusterRead ===

impl Deref for ClusterRead<'_> {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}
