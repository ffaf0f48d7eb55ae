//! Interface to the cloud for verifying instances.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use muster_gateway::Unavailable;
use muster_link::sts::SignedRequest;
use muster_link::{Described, LaunchKey};
use muster_stages::state::LiveClass;

/// Future of a request to the cloud, which may be unavailable.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unavailable>> + Send + 'a>>;

/// Location of this controller: nodes of other accounts, regions and clusters are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterIdentity {
    /// Name of the cluster.
    pub cluster: String,
    /// AWS partition, such as `aws`.
    pub partition: String,
    /// AWS account ID, twelve digits.
    pub account: String,
    /// Region, such as `eu-west-1`.
    pub region: String,
}

/// Connection data for user data of nodes that are launched from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reachable {
    /// Address of the controller: `host:port`.
    pub address: String,
    /// CA certificates of the controller (PEM): the current one, and the next one during a rotation.
    pub certificate_authority: String,
    /// Key from which the secrets of launch templates are derived.
    pub key: LaunchKey,
    /// Previous key, while launches with it may be in progress.
    pub former_key: Option<LaunchKey>,
}

/// Cloud that can describe an instance, and send a signed request to find its signer.
pub trait Vouch: Send + Sync {
    /// Returns the location of the controller.
    fn cluster_identity(&self) -> Asked<'_, ClusterIdentity>;

    /// Describes an instance; `None` if its ID is unknown.
    fn describe<'a>(&'a self, instance: &'a str) -> Asked<'a, Option<Described>>;

    /// Returns the names of the roles that a NodeClass gives to its instances.
    fn roles<'a>(&'a self, class: &'a LiveClass) -> Asked<'a, BTreeSet<String>>;

    /// Sends a request that an instance has signed, like [`muster_gateway::Sources::ask_sts`].
    fn ask_sts<'a>(&'a self, request: &'a SignedRequest) -> Asked<'a, (u16, Vec<u8>)>;

    /// Sets the connection data for user data from now on.
    fn tell(&self, reachable: Reachable);
}
