//! Networks with a cluster that the tests with machines of one process use one after the other: to start a control plane
//! costs more than most of them.
//!
//! ```text
//!  Sites::take ──► a vacant one: its etcd is set back ──┐
//!      │ there is none                                  ├──► Site ──► test ──► runtime ends ──► Sites::give ──► vacant
//!      └──► opened, its etcd is read ───────────────────┘               │ it has failed
//!                                                                       └──► closed
//! ```
//!
//! They end with the last test that may take one: a process that runs one test at a time starts one for each.

use std::sync::{Arc, Mutex, Weak};

use crate::cluster::Contents;
use crate::error::Result;
use crate::instances::{Site, Vacant};
use crate::lock::lock;

/// The vacant sites of this process.
#[derive(Debug, Default)]
pub(super) struct Sites(Mutex<Vec<VacantSite>>);

/// A site between two tests, and what its cluster held before the first.
#[derive(Debug)]
pub(super) struct VacantSite {
    pub(super) vacant: Vacant,
    pub(super) contents: Contents,
}

impl Sites {
    /// Returns those that tests of this process share.
    pub(super) fn of_this_process() -> Arc<Self> {
        static SITES: Mutex<Weak<Sites>> = Mutex::new(Weak::new());
        let mut known = lock(&SITES);
        if let Some(sites) = known.upgrade() {
            return sites;
        }
        let sites = Arc::<Self>::default();
        *known = Arc::downgrade(&sites);
        sites
    }

    /// Takes a site, and opens one if none is vacant. Also returns what its cluster holds.
    ///
    /// # Errors
    /// As [`Site::with_cluster`].
    #[expect(clippy::print_stderr, reason = "the test goes on, and whoever wonders why it is slow reads this")]
    pub(super) async fn take(&self) -> Result<(Site, Contents)> {
        while let Some(VacantSite { vacant, mut contents }) = self.take_vacant() {
            match Site::reopen(vacant, &mut contents).await {
                Ok(site) => return Ok((site, contents)),
                Err(error) => eprintln!("a site is not used again: {error}"),
            }
        }
        let mut site = Site::with_cluster("sites").await?;
        let contents = site.contents().await?;
        Ok((site, contents))
    }

    /// Gives a site back. The runtime of its test has ended, and with it whatever listened in the network.
    pub(super) fn give(&self, site: VacantSite) {
        lock(&self.0).push(site);
    }

    fn take_vacant(&self) -> Option<VacantSite> {
        lock(&self.0).pop()
    }
}

impl Drop for Sites {
    #[expect(clippy::print_stderr, reason = "no test is left that could fail")]
    fn drop(&mut self) {
        while let Some(site) = self.take_vacant() {
            if let Err(error) = site.vacant.close() {
                eprintln!("a site does not end: {error}");
            }
        }
    }
}
