//! One listing of all instances for all who look for one of theirs: hundreds of NodeClaims that are given up at once
//! do not list thousands of instances hundreds of times.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_cloud::{CloudError, Instance};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Instances of the cluster, or the reason why they could not be listed.
pub(super) type Listed = Arc<Result<Vec<Instance>, CloudError>>;

/// The last listing, while somebody waits for one.
#[derive(Debug, Default)]
pub(super) struct SharedListing {
    /// Held while instances are listed. The time is that of the beginning.
    last: Mutex<Option<(Instant, Listed)>>,
    waiting: AtomicUsize,
}

/// One who waits.
struct Place<'l>(&'l AtomicUsize);

// === impl SharedListing ===

impl SharedListing {
    /// Returns a listing that was begun after this call.
    pub(super) async fn new_one<F>(&self, list: impl FnOnce() -> F) -> Listed
    where
        F: Future<Output = Result<Vec<Instance>, CloudError>>,
    {
        let asked = Instant::now();
        let place = Place::take(&self.waiting);
        let mut last = self.last.lock().await;
        let listed = match &*last {
            Some((begun, listed)) if *begun >= asked => Arc::clone(listed),
            _ => {
                let begun = Instant::now();
                let listed = Arc::new(list().await);
                *last = Some((begun, Arc::clone(&listed)));
                listed
            }
        };
        if place.is_last() {
            *last = None;
        }
        listed
    }
}

// === impl Place ===

impl<'l> Place<'l> {
    fn take(waiting: &'l AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }

    fn is_last(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Place<'_> {
    /// For one whose caller has given up, too.
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::JoinSet;
    use tokio::time::{sleep, timeout};

    use super::*;

    /// Lists for ten seconds, and counts.
    async fn look(listing: Arc<SharedListing>, count: Arc<AtomicUsize>) -> Listed {
        let list = || async {
            count.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_secs(10)).await;
            Ok(Vec::new())
        };
        listing.new_one(list).await
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_while_instances_are_listed_shares_the_next_listing() {
        let (listing, count) = (Arc::<SharedListing>::default(), Arc::<AtomicUsize>::default());
        let mut looking = JoinSet::new();
        for _ in 0..30 {
            looking.spawn(look(Arc::clone(&listing), Arc::clone(&count)));
            sleep(Duration::from_millis(100)).await;
        }
        let found = looking.join_all().await;
        assert_eq!((found.len(), count.load(Ordering::Relaxed)), (30, 2));
        assert!(listing.last.lock().await.is_none(), "nothing is kept");
        look(Arc::clone(&listing), Arc::clone(&count)).await;
        assert_eq!(count.load(Ordering::Relaxed), 3, "an old one is not used");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_holds_up_nobody() {
        let (listing, count) = (Arc::<SharedListing>::default(), Arc::<AtomicUsize>::default());
        let gone = timeout(Duration::from_secs(1), look(Arc::clone(&listing), Arc::clone(&count))).await;
        assert!(gone.is_err());
        look(Arc::clone(&listing), Arc::clone(&count)).await;
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert!(listing.last.lock().await.is_none());
    }
}
