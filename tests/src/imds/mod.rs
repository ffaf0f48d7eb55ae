//! The instance metadata service, at its true address, inside of a world's network only.
//!
//! ```text
//!   Instance ──► Metadata::serve ──► Served           interrupt, recommend_rebalance, shift_clock, fail, asked
//!                   │
//!   machine ─► 169.254.169.254:80 ─► registry ─► tokens ─► tree        meta-data/…
//!   (or its pod)    hop limit        by address   IMDSv2   identity    dynamic/instance-identity/…, signed by `Authority`
//!                                                          user data
//! ```
//!
//! The socket is made by a program that runs in the world's namespace and handed over: this process stays in its own,
//! and nothing outside of the world's namespace can reach the service or mistake it for a real one.

mod authority;
mod crowd;
mod identity;
mod instance;
pub mod proof;
mod registry;
mod serve;
mod tokens;
mod tree;

pub use authority::{Authority, verify};
pub use instance::{Asked, Instance, MetadataOptions, Role, Served};

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinHandle;

use self::identity::Identity;
use self::registry::{Known, Network, Registry};
use crate::error::Result;
use crate::machine::{Fabric, METADATA};

/// A running metadata service. Dropping it ends it.
#[derive(Debug)]
pub struct Metadata {
    registry: Arc<Registry>,
    authority: Authority,
    server: JoinHandle<()>,
}

impl Metadata {
    /// Serves on port 80 of the metadata address in the network of `fabric`. Identity documents are signed by
    /// `authority`.
    ///
    /// # Errors
    /// When the socket cannot be made there.
    pub async fn start(fabric: &Fabric, authority: Authority) -> Result<Self> {
        let listener = fabric.listen(SocketAddr::from((METADATA, 80))).await?;
        let registry = Arc::<Registry>::default();
        let server = tokio::spawn(serve::serve(listener, Arc::clone(&registry)));
        Ok(Self { registry, authority, server })
    }

    /// Who signs the identity documents.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Gives `instance` metadata from now on, to be read from its address and from its pods' network (`pods`, as
    /// `100.64.1.0/24`).
    ///
    /// # Errors
    /// When its identity document cannot be signed.
    pub fn serve(&self, instance: Instance, pods: Option<&str>) -> Result<Arc<Served>> {
        let identity = Arc::new(Identity::of(&instance, &self.authority)?);
        let served = Arc::new(Served::new(instance));
        let pods = pods.and_then(Network::parse);
        self.registry.add(Known { served: Arc::clone(&served), identity, pods });
        Ok(served)
    }

    /// Ends the metadata of an instance that is no more.
    pub fn forget(&self, instance_id: &str) {
        self.registry.remove(instance_id);
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        self.server.abort();
    }
}
