//! Cloud API calls.

use muster_cloud::{Cloud, CloudError, Instance};
use muster_stages::lifecycle::Answers;
use muster_stages::step::Call;

use super::shared_listing::SharedListing;

/// Executes a call and stores its result in `answers`.
pub(super) async fn ask<C: Cloud>(cloud: &C, listing: &SharedListing, call: &Call, answers: &mut Answers) {
    match call {
        Call::Launch(request) => answers.launch = Some(cloud.launch(request).await),
        Call::Get(id) => answers.instance = Some(cloud.get(id).await),
        Call::Find(uid) => answers.instance = Some(find(cloud, listing, uid).await),
        Call::Console(id) => answers.console = Some(cloud.console(id).await),
        Call::Terminate(id) => answers.terminate = Some(cloud.terminate(id).await),
        Call::Reboot(id) => answers.reboot = Some(cloud.reboot(id).await),
        Call::Tag { provider_id, tags } => answers.tag = Some(cloud.tag(provider_id, tags).await),
    }
}

/// Returns the instance that was launched for the claim with this UID.
async fn find<C: Cloud>(cloud: &C, listing: &SharedListing, uid: &str) -> Result<Instance, CloudError> {
    let is_its = |one: &&Instance| one.token.as_ref().is_some_and(|token| token.claim_uid == uid);
    let listed = listing.new_one(|| cloud.list()).await;
    let all = listed.as_ref().as_ref().map_err(Clone::clone)?;
    all.iter().find(is_its).cloned().ok_or_else(|| CloudError::NotFound { what: uid.to_owned() })
}
