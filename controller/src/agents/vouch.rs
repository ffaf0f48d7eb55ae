//! Who knows what an instance is: its cloud.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use muster_gateway::Unavailable;
use muster_link::sts::SignedRequest;
use muster_link::{Described, LaunchKey};

use crate::state::LiveClass;

/// A question that somebody else answers, or does not.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unavailable>> + Send + 'a>>;

/// Where this controller is at home: nodes of other places are not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Name of the cluster.
    pub cluster: String,
    /// As `aws`.
    pub partition: String,
    /// Twelve digits.
    pub account: String,
    /// As `eu-west-1`.
    pub region: String,
}

/// How nodes that are launched from now on reach the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reachable {
    /// `host:port`
    pub address: String,
    /// What the controller's certificate chains to (PEM): one authority, or the next one too.
    pub certificate_authority: String,
    /// What the secrets of launch templates are made by.
    pub key: LaunchKey,
    /// And what they were made by before, while something may have been launched with it that is not known yet.
    pub former_key: Option<LaunchKey>,
}

/// A cloud that can say what an instance is, and who signed a request.
pub trait Vouch: Send + Sync {
    /// Where it is.
    fn home(&self) -> Asked<'_, Home>;

    /// What it says of an instance; none if it knows none of that ID.
    fn describe<'a>(&'a self, instance: &'a str) -> Asked<'a, Option<Described>>;

    /// Names of the roles that a class gives to its instances.
    fn roles<'a>(&'a self, class: &'a LiveClass) -> Asked<'a, BTreeSet<String>>;

    /// Sends a request that an instance has signed, as [`muster_gateway::Sources::ask_sts`] says.
    fn ask_sts<'a>(&'a self, request: &'a SignedRequest) -> Asked<'a, (u16, Vec<u8>)>;

    /// What user data say from now on.
    fn tell(&self, reachable: Reachable);
}
