//! A test with machines, in a network in which no other test is.

use std::path::Path;
use std::sync::Arc;

use jiff::SignedDuration;
use tokio::sync::OnceCell;

use super::sites::{Sites, VacantSite};
use super::{Stage, logs};
use crate::cluster::{Cluster, Contents};
use crate::ec2::Ec2;
use crate::error::Result;
use crate::instances::Site;
use crate::leaks::{self, Item};
use crate::world::Shared;

/// What machines of a test stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// A network with metadata.
    Network,
    /// That, and a cluster in it.
    Cluster,
    /// As [`Ground::Cluster`], of which every clock is so far ahead of the machines'.
    ClusterAhead(SignedDuration),
}

/// What a test with machines has while it runs.
#[derive(Debug)]
pub struct OnSite {
    name: String,
    title: String,
    site: Arc<Site>,
    ec2: OnceCell<Arc<Ec2>>,
    before: Vec<Item>,
    /// Objects that the cluster held, if the site can serve another test.
    contents: Option<Contents>,
}

impl OnSite {
    pub(super) async fn begin(name: &str, ground: Ground, sites: &Sites) -> Result<Self> {
        let (site, contents) = match ground {
            Ground::Network => (Site::open(name).await?, None),
            Ground::Cluster => sites.take().await.map(|(site, contents)| (site, Some(contents)))?,
            Ground::ClusterAhead(ahead) => (Site::with_cluster_ahead(name, ahead).await?, None),
        };
        let title = format!("{name}-t{}", crate::random::text(3)?);
        let mut before = leaks::of_ledger(site.world().ledger());
        if let Ok(cluster) = site.cluster() {
            before.extend(leaks::of_cluster(cluster).await?);
        }
        Ok(Self { name: name.to_owned(), title, site: Arc::new(site), ec2: OnceCell::new(), before, contents })
    }

    /// A name that no other test has: that of the folder for its logs.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Where machines boot.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// The cluster.
    ///
    /// # Errors
    /// When the test asked for [`Ground::Network`] alone.
    pub fn cluster(&self) -> Result<&Cluster> {
        self.site.cluster()
    }

    /// An EC2 of this test's own.
    ///
    /// # Errors
    /// What kept moto from starting.
    pub async fn ec2(&self) -> Result<&Arc<Ec2>> {
        let make = async || Ok(Arc::new(Shared::ec2().await?));
        self.ec2.get_or_try_init(make).await
    }
}

impl Stage for OnSite {
    type Left = Option<VacantSite>;

    fn title(&self) -> &str {
        self.title()
    }

    async fn end(&self) -> Result<()> {
        let mut now = leaks::of_ledger(self.site.world().ledger());
        if let Ok(cluster) = self.site.cluster() {
            now.extend(leaks::of_cluster(cluster).await?);
        }
        if let Some(ec2) = self.ec2.get() {
            now.extend(leaks::of_ec2(ec2).await?);
        }
        // Nobody else is in the world, so all that came is this test's.
        leaks::none(&self.name, "", &self.before, &now)
    }

    async fn keep_logs(&self, folder: &Path) -> Result<()> {
        logs::copy(self.site.world().logs(), folder)?;
        let ec2 = self.ec2.get();
        if let Some(ec2) = ec2 {
            logs::write_calls(ec2, folder)?;
        }
        match self.site.cluster() {
            Ok(cluster) => logs::write_picture(cluster, ec2.map(Arc::as_ref), "", folder).await,
            Err(_) => Ok(()),
        }
    }

    async fn close(self, is_sound: bool) -> Result<Option<VacantSite>> {
        let ledger = Arc::clone(self.site.world().ledger());
        let close = match (Arc::into_inner(self.site), self.contents.filter(|_| is_sound)) {
            (Some(site), Some(contents)) => {
                return Ok(Some(VacantSite { vacant: site.vacate()?, contents }));
            }
            (Some(site), None) => tokio::task::spawn_blocking(move || site.close()),
            // A task of a bridge that was aborted still holds it.
            (None, _) => tokio::task::spawn_blocking(move || ledger.close()),
        };
        close.await.map_err(std::io::Error::other)??;
        Ok(None)
    }
}
