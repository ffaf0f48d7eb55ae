//! Identity checks of nodes with EC2, IAM and STS.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::Ec2NodeClass;
use muster_aws::launch::Controller;
use muster_cloud::{CloudError, after};
use muster_gateway::Unavailable;
use muster_link::Described;
use muster_link::sts::SignedRequest;
use muster_stages::state::LiveClass;

use super::provider::{Ec2, now};
use crate::agents::{Asked, ClusterIdentity, Reachable, Vouch};

/// Cache duration for the roles of an instance profile: they rarely change, and every enrolment needs them.
const BELIEVED: Duration = Duration::from_secs(5 * 60);

/// Roles of instance profiles by name, and the time at which IAM returned them. Locked briefly.
#[derive(Default)]
pub(super) struct Roles {
    known: Mutex<BTreeMap<String, (BTreeSet<String>, Timestamp)>>,
    /// Held during a call of IAM, so that a booting fleet makes one call per profile.
    asking: tokio::sync::Mutex<()>,
}

impl Roles {
    fn of(&self, profile: &str) -> Option<(BTreeSet<String>, Timestamp)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(profile).cloned()
    }

    fn note(&self, profile: &str, roles: &BTreeSet<String>) {
        let said = (roles.clone(), now());
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(profile.to_owned(), said);
    }
}

impl Ec2 {
    async fn roles_of(&self, class: &LiveClass) -> Result<BTreeSet<String>, Unavailable> {
        let Ok(class) = class.typed::<Ec2NodeClass>() else { return Ok(BTreeSet::new()) };
        let Some(profile) = &class.spec.instance_profile else {
            // STS reports a role without its path.
            let role = class.spec.role.as_deref().and_then(|role| role.rsplit('/').next());
            return Ok(role.into_iter().map(ToOwned::to_owned).collect());
        };
        let believed = || self.roles().of(profile).filter(|(_, at)| now() < after(*at, BELIEVED));
        if let Some((roles, _)) = believed() {
            return Ok(roles);
        }
        let _asking = self.roles().asking.lock().await;
        if let Some((roles, _)) = believed() {
            return Ok(roles);
        }
        let known = self.roles().of(profile);
        match (self.cloud().roles_of_profile(profile).await, known) {
            (Ok(roles), _) => {
                self.roles().note(profile, &roles);
                Ok(roles)
            }
            // An expired entry is better than rejecting all nodes.
            (Err(_), Some((roles, _))) => Ok(roles),
            (Err(error), None) => Err(unavailable(&error)),
        }
    }
}

impl Vouch for Ec2 {
    fn cluster_identity(&self) -> Asked<'_, ClusterIdentity> {
        Box::pin(async {
            let (partition, account) = self.cloud().own_account().await.map_err(|error| unavailable(&error))?;
            let cluster = self.cluster();
            Ok(ClusterIdentity { cluster: cluster.name.clone(), partition, account, region: cluster.region.clone() })
        })
    }

    fn describe<'a>(&'a self, instance: &'a str) -> Asked<'a, Option<Described>> {
        Box::pin(async move { self.cloud().see(instance).await.map_err(|error| unavailable(&error)) })
    }

    fn roles<'a>(&'a self, class: &'a LiveClass) -> Asked<'a, BTreeSet<String>> {
        Box::pin(self.roles_of(class))
    }

    fn ask_sts<'a>(&'a self, request: &'a SignedRequest) -> Asked<'a, (u16, Vec<u8>)> {
        Box::pin(async { self.cloud().send_signed(request).await.map_err(|error| unavailable(&error)) })
    }

    fn tell(&self, reachable: Reachable) {
        let Reachable { address, certificate_authority, key, former_key } = reachable;
        self.cloud().learn_controller(Controller { address, certificate_authority, key, former_key });
    }
}

fn unavailable(error: &CloudError) -> Unavailable {
    Unavailable(error.to_string())
}
