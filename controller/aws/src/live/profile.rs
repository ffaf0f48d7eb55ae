//! Instance profile of a class: the configured one, or one created for the configured role.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_iam::types::{InstanceProfile, Tag};
use jiff::Timestamp;
use muster_api::Ec2NodeClass;
use muster_cloud::{CloudError, after};
use sha2::{Digest, Sha256};

use super::caller::Caller;
use super::connection::Connection;
use crate::error_codes::Meaning;
use crate::launch::{Cluster, ownership, tags_of_class};
use crate::rate_limits::Family;

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

/// Returns the name of the instance profile, and the role of one that is ours.
fn wanted<'c>(cluster: &Cluster, class: &'c Ec2NodeClass) -> Result<(String, Option<&'c str>), CloudError> {
    if let Some(name) = &class.spec.instance_profile {
        return Ok((name.clone(), None));
    }
    let Some(role) = class.spec.role.as_deref() else {
        let message = "neither spec.role nor spec.instanceProfile is set".to_owned();
        return Err(CloudError::BadClass { reason: "InstanceProfileNotFound".to_owned(), message });
    };
    // `AddRoleToInstanceProfile` takes the name of a role without its path.
    let role = role.rsplit('/').next().unwrap_or(role);
    Ok((name(cluster, class, role), Some(role)))
}

/// Returns the name of the instance profile, whether it exists or not.
pub(super) fn named(cluster: &Cluster, class: &Ec2NodeClass) -> Result<String, CloudError> {
    wanted(cluster, class).map(|(name, _)| name)
}

/// Returns the name of the instance profile, creating it if needed.
pub(super) async fn ensure(
    aws: &Connection,
    caller: &Caller,
    fresh: &Fresh,
    cluster: &Cluster,
    class: &Ec2NodeClass,
) -> Result<String, CloudError> {
    let (name, role) = match wanted(cluster, class)? {
        (name, None) => return Ok(name),
        (name, Some(role)) => (name, role),
    };
    if let Some(there) = in_use(aws, caller, cluster, class, role).await? {
        return Ok(there);
    }
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
            let is_taken = failure.code == "LimitExceeded" || failure.meaning() == Meaning::AlreadyThere;
            // Another replica was faster, or somebody has put another role there: a profile has at most one.
            let roles = if is_taken { get(aws, caller, &name).await? } else { None };
            if roles.is_none_or(|roles| roles != [role]) {
                return Err(failure.into_error(&format!("role {role} in instance profile {name}")));
            }
        }
    }
    Ok(name)
}

/// Returns the profile in the status of the class, if it was created for the class and has the role.
///
/// A part of Karpenter's names is random, so only the status knows the profile that Karpenter has created. It stays in
/// use: a second one would have the same role.
async fn in_use(
    aws: &Connection,
    caller: &Caller,
    cluster: &Cluster,
    class: &Ec2NodeClass,
    role: &str,
) -> Result<Option<String>, CloudError> {
    let told = class.status.as_ref().and_then(|status| status.instance_profile.as_ref());
    let Some(told) = told.filter(|told| **told != name(cluster, class, role)) else { return Ok(None) };
    let found = describe(aws, caller, told).await?;
    let is_it =
        |profile: &InstanceProfile| is_of(profile, cluster, class) && roles_of(profile).iter().any(|one| one == role);
    Ok(found.filter(is_it).map(|_| told.clone()))
}

/// Returns true if the profile was created for the class: its path says so, or, where an older release of Karpenter has
/// created it elsewhere, its tags.
fn is_of(profile: &InstanceProfile, cluster: &Cluster, class: &Ec2NodeClass) -> bool {
    let has = |key: &str, value: &str| profile.tags().iter().any(|tag| tag.key() == key && tag.value() == value);
    let class_name = class.metadata.name.as_deref().unwrap_or_default();
    profile.path() == path(cluster, class)
        || has(&ownership(&cluster.name), "owned") && has(muster_api::labels::EC2NODECLASS, class_name)
}

/// Returns the roles of the profile, if it exists.
pub(super) async fn get(aws: &Connection, caller: &Caller, name: &str) -> Result<Option<Vec<String>>, CloudError> {
    Ok(describe(aws, caller, name).await?.as_ref().map(roles_of))
}

fn roles_of(profile: &InstanceProfile) -> Vec<String> {
    profile.roles().iter().map(|role| role.role_name().to_owned()).collect()
}

async fn describe(aws: &Connection, caller: &Caller, name: &str) -> Result<Option<InstanceProfile>, CloudError> {
    let asked = caller
        .call(Family::Iam, "iam:GetInstanceProfile", || {
            aws.iam.get_instance_profile().instance_profile_name(name).send()
        })
        .await;
    match asked {
        Ok(answer) => Ok(answer.instance_profile),
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
    let mut removed = 0;
    let mut all = list(aws, caller, &path(cluster, class)).await?;
    // What is deleted is decided by what each profile says of itself.
    all.retain(|profile| is_of(profile, cluster, class));
    let told = class.status.as_ref().and_then(|status| status.instance_profile.as_ref());
    if let Some(told) =
        told.filter(|told| class.spec.role.is_some() && all.iter().all(|one| one.instance_profile_name() != *told))
    {
        all.extend(describe(aws, caller, told).await?.filter(|profile| is_of(profile, cluster, class)));
    }
    for profile in all {
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

/// Returns the profiles below the path. IAM may return fewer than requested although there are more.
async fn list(aws: &Connection, caller: &Caller, path: &str) -> Result<Vec<InstanceProfile>, CloudError> {
    let mut found = Vec::new();
    let mut marker: Option<String> = None;
    loop {
        let page = caller
            .call(Family::Iam, "iam:ListInstanceProfiles", || {
                let call = aws.iam.list_instance_profiles().path_prefix(path).max_items(1000);
                call.set_marker(marker.clone()).send()
            })
            .await
            .map_err(|failure| failure.into_error("instance profiles"))?;
        found.extend_from_slice(page.instance_profiles());
        marker = page.marker().filter(|_| page.is_truncated()).map(str::to_owned);
        if marker.is_none() {
            return Ok(found);
        }
    }
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread::{JoinHandle, spawn};

    use aws_config::{BehaviorVersion, Region, SdkConfig};
    use aws_sdk_iam::config::{Credentials, SharedCredentialsProvider};

    use super::*;

    /// Answers one request after the other, each on its own connection. Returns the clients, and the bodies of the
    /// requests when all are answered.
    fn scripted(answers: Vec<String>) -> (Connection, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let answer = move |answer: String| {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut length = 0;
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
            stream.get_mut().write_all((head + &answer).as_bytes()).unwrap();
            String::from_utf8(body).unwrap()
        };
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(endpoint)
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .credentials_provider(SharedCredentialsProvider::new(Credentials::new("key", "secret", None, None, "test")))
            .build();
        (Connection::new(&config).unwrap(), spawn(move || answers.into_iter().map(answer).collect()))
    }

    fn page(names: &[&str], rest: &str) -> String {
        let one = |name: &&str| {
            format!(
                "<member><Path>/a/</Path><InstanceProfileName>{name}</InstanceProfileName><InstanceProfileId>AIPA\
                 </InstanceProfileId><Arn>arn</Arn><CreateDate>2026-01-01T00:00:00Z</CreateDate><Roles/></member>"
            )
        };
        let members: String = names.iter().map(one).collect();
        format!(
            "<ListInstanceProfilesResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\">\
             <ListInstanceProfilesResult>{rest}<InstanceProfiles>{members}</InstanceProfiles>\
             </ListInstanceProfilesResult></ListInstanceProfilesResponse>"
        )
    }

    #[tokio::test]
    async fn profiles_are_listed_to_the_last_page() {
        let more = "<IsTruncated>true</IsTruncated><Marker>next</Marker>";
        let last = "<IsTruncated>false</IsTruncated>";
        let (aws, asked) = scripted(vec![page(&["a", "b"], more), page(&[], more), page(&["c"], last)]);
        let caller = Caller::new(Arc::new(|| Timestamp::UNIX_EPOCH));
        let found = list(&aws, &caller, "/a/").await.unwrap();
        assert_eq!(found.iter().map(InstanceProfile::instance_profile_name).collect::<Vec<_>>(), ["a", "b", "c"]);
        let asked = asked.join().unwrap();
        assert_eq!(asked.iter().map(|body| body.contains("Marker=next")).collect::<Vec<_>>(), [false, true, true]);
        assert!(asked.iter().all(|body| body.contains("PathPrefix=%2Fa%2F")), "{asked:?}");
    }
}
