//! Instance profile of a class: the configured one, or one created for the configured role.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_iam::types::Tag;
use jiff::Timestamp;
use muster_api::Ec2NodeClass;
use muster_cloud::{CloudError, after};
use sha2::{Digest, Sha256};

use super::caller::Caller;
use super::connection::Connection;
use crate::budget::Family;
use crate::launch::{Cluster, tags_of_class};
use crate::refusal::Meaning;

/// Time for which EC2 may not know a profile that IAM has created. Usually it is ten seconds.
const SPREADS: Duration = Duration::from_secs(60);

/// Recently created profiles.
#[derive(Debug, Default)]
pub(super) struct Fresh(Mutex<BTreeMap<String, Timestamp>>);

impl Fresh {
    fn add(&self, name: &str, now: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), now);
    }

    /// Returns true if EC2 may not know the profile yet.
    pub(super) fn has(&self, name: &str, now: Timestamp) -> bool {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(name).is_some_and(|made_at| now < after(*made_at, SPREADS))
    }
}

/// Returns the name of the instance profile, creating it if needed.
pub(super) async fn ensure(
    aws: &Connection,
    caller: &Caller,
    fresh: &Fresh,
    cluster: &Cluster,
    class: &Ec2NodeClass,
) -> Result<String, CloudError> {
    if let Some(name) = &class.spec.instance_profile {
        return Ok(name.clone());
    }
    let Some(role) = class.spec.role.as_deref() else {
        let message = "neither spec.role nor spec.instanceProfile is set".to_owned();
        return Err(CloudError::BadClass { reason: "InstanceProfileNotFound".to_owned(), message });
    };
    // `AddRoleToInstanceProfile` takes the name of a role without its path.
    let role = role.rsplit('/').next().unwrap_or(role);
    let name = name(cluster, class, role);
    let has_role = match get(aws, caller, &name).await? {
        Some(roles) => roles.iter().any(|one| one == role),
        None => {
            create(aws, caller, cluster, class, &name).await?;
            fresh.add(&name, caller.now());
            false
        }
    };
    if !has_role {
        let added = caller
            .call(Family::Iam, "iam:AddRoleToInstanceProfile", || {
                aws.iam.add_role_to_instance_profile().instance_profile_name(&name).role_name(role).send()
            })
            .await;
        if let Err(failure) = added {
            // Another replica was faster: a profile has at most one role, and the name of the profile identifies the
            // role.
            if failure.code != "LimitExceeded" && failure.meaning() != Meaning::AlreadyThere {
                return Err(failure.into_error(&format!("role {role}")));
            }
        }
    }
    Ok(name)
}

/// Returns the roles of the profile, if it exists.
pub(super) async fn get(aws: &Connection, caller: &Caller, name: &str) -> Result<Option<Vec<String>>, CloudError> {
    let asked = caller
        .call(Family::Iam, "iam:GetInstanceProfile", || {
            aws.iam.get_instance_profile().instance_profile_name(name).send()
        })
        .await;
    match asked {
        Ok(answer) => {
            let roles = answer.instance_profile().map(|profile| profile.roles()).unwrap_or_default();
            Ok(Some(roles.iter().map(|role| role.role_name().to_owned()).collect()))
        }
        Err(failure) if failure.meaning() == Meaning::NotFound => Ok(None),
        Err(failure) => Err(failure.into_error(name)),
    }
}

async fn create(
    aws: &Connection,
    caller: &Caller,
    cluster: &Cluster,
    class: &Ec2NodeClass,
    name: &str,
) -> Result<(), CloudError> {
    let class_name = class.metadata.name.as_deref().unwrap_or_default();
    let mut of_profile = tags_of_class(&cluster.name, class_name, None, &class.spec.tags);
    of_profile.remove(muster_api::labels::NODEPOOL);
    of_profile.insert(muster_api::labels::REGION.to_owned(), cluster.region.clone());
    let tags: Vec<Tag> =
        of_profile.iter().filter_map(|(key, value)| Tag::builder().key(key).value(value).build().ok()).collect();
    let made = caller
        .call(Family::Iam, "iam:CreateInstanceProfile", || {
            aws.iam
                .create_instance_profile()
                .instance_profile_name(name)
                .path(path(cluster, class))
                .set_tags(Some(tags.clone()))
                .send()
        })
        .await;
    match made {
        Ok(_) => Ok(()),
        Err(failure) if failure.meaning() == Meaning::AlreadyThere => Ok(()),
        Err(failure) => Err(failure.into_error(name)),
    }
}

/// Removes every profile that was created for the class, and returns their number.
pub(super) async fn remove(
    aws: &Connection,
    caller: &Caller,
    cluster: &Cluster,
    class: &Ec2NodeClass,
) -> Result<usize, CloudError> {
    let answer = caller
        .call(Family::Iam, "iam:ListInstanceProfiles", || {
            aws.iam.list_instance_profiles().path_prefix(path(cluster, class)).max_items(1000).send()
        })
        .await
        .map_err(|failure| failure.into_error("instance profiles"))?;
    let mut removed = 0;
    for profile in answer.instance_profiles() {
        let name = profile.instance_profile_name();
        for role in profile.roles() {
            let taken = caller
                .call(Family::Iam, "iam:RemoveRoleFromInstanceProfile", || {
                    let call = aws.iam.remove_role_from_instance_profile();
                    call.instance_profile_name(name).role_name(role.role_name()).send()
                })
                .await;
            ignore_missing(taken.map(drop).map_err(|failure| (failure.meaning(), failure.into_error(name))))?;
        }
        let gone = caller
            .call(Family::Iam, "iam:DeleteInstanceProfile", || {
                aws.iam.delete_instance_profile().instance_profile_name(name).send()
            })
            .await;
        ignore_missing(gone.map(drop).map_err(|failure| (failure.meaning(), failure.into_error(name))))?;
        removed += 1;
    }
    Ok(removed)
}

fn ignore_missing(result: Result<(), (Meaning, CloudError)>) -> Result<(), CloudError> {
    match result {
        Err((Meaning::NotFound, _)) | Ok(()) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

/// Returns the path that Karpenter uses, so that either finds the profiles of the other.
fn path(cluster: &Cluster, class: &Ec2NodeClass) -> String {
    let uid = class.metadata.uid.as_deref().unwrap_or_default();
    format!("/karpenter/{}/{}/{uid}/", cluster.region, cluster.name)
}

/// Returns a name derived from region, class and role: another role needs another profile, since instances may still
/// use the old one. IAM allows 128 characters; a cluster name has at most 100.
fn name(cluster: &Cluster, class: &Ec2NodeClass, role: &str) -> String {
    let uid = class.metadata.uid.as_deref().or(class.metadata.name.as_deref()).unwrap_or_default();
    let digest = Sha256::digest(format!("{}/{uid}/{role}", cluster.region).as_bytes());
    let hex: String = digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    format!("{}_{hex}", cluster.name)
}
