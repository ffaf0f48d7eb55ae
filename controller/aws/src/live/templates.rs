//! Launch templates in EC2: created once, reused, and removed when unused for a while.
//!
//! Any principal that may create launch templates in the account can create one with the controller's names and tags.
//! So a template that this process has not created is used only after its content was compared with the planned one,
//! and by ID and version, whose content cannot change. A foreign one makes the controller use the next name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_ec2::types::{Filter, LaunchTemplate, ResourceType};
use jiff::Timestamp;
use muster_cloud::{CloudError, after};
use tokio::sync::OnceCell;

use super::caller::{Caller, Failure};
use super::connection::Connection;
use super::fleet::VERSION;
use super::template_data::{data, tag_specification};
use super::template_match::difference;
use crate::error_codes::Meaning;
use crate::launch::{CLUSTER_NAME, NAME_PREFIX, PlannedTemplate};
use crate::rate_limits::Family;

/// Time after which an unused template is removed. The next launch that needs it creates it again.
const UNUSED: Duration = Duration::from_secs(3600);
/// Maximum number of times that a name is tried while its template comes and goes.
const TRIES: usize = 4;

/// Known launch templates.
#[derive(Debug, Default)]
pub(super) struct Templates {
    /// Locked for a few instructions, never across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Templates that launches have asked for, by their planned name.
    known: BTreeMap<String, Known>,
    /// Templates that were listed at the start, by name, until a launch asks for them and compares them.
    listed: BTreeMap<String, (LaunchTemplate, Timestamp)>,
    /// IDs of foreign templates that were reported.
    reported: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct Known {
    /// Set once the template exists; concurrent launches wait for the first one to create it.
    made: Arc<OnceCell<Made>>,
    used_at: Timestamp,
}

/// Template that is ours.
#[derive(Debug, Clone)]
struct Made {
    id: String,
    name: String,
}

/// Result of creating a template.
enum Created {
    Made(String),
    /// The name is taken.
    Taken,
}

/// Result of comparing a template with what was planned.
enum Compared {
    Same,
    /// The template, or its first version, no longer exists.
    Gone,
    /// Another content, and the reason.
    Foreign(&'static str),
}

impl Templates {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the template if it does not exist, and returns its ID.
    pub(super) async fn ensure(
        &self,
        aws: &Connection,
        caller: &Caller,
        planned: &PlannedTemplate,
    ) -> Result<String, CloudError> {
        let used_at = caller.now();
        let made = {
            let mut state = self.lock();
            let new = || Known { made: Arc::default(), used_at };
            let entry = state.known.entry(planned.name.clone()).or_insert_with(new);
            entry.used_at = used_at;
            Arc::clone(&entry.made)
        };
        made.get_or_try_init(|| self.settle(aws, caller, planned)).await.map(|made| made.id.clone())
    }

    /// Returns the template under the first of its names that is ours or free; under a name of chance if there is none.
    async fn settle(&self, aws: &Connection, caller: &Caller, planned: &PlannedTemplate) -> Result<Made, CloudError> {
        for name in std::iter::once(&planned.name).chain(&planned.spare_names) {
            match self.under(aws, caller, planned, name).await {
                Ok(Some(id)) => return Ok(Made { id, name: name.clone() }),
                Ok(None) => {}
                // A template that may not be read is as good as a foreign one: another name may be free.
                Err(error) if is_unreadable(&error) => {
                    tracing::warn!(name, %error, "a launch template cannot be read, so it is not launched with");
                }
                Err(error) => return Err(error),
            }
        }
        // A principal that takes all names of a template must not stop its launches. A restarted controller does not
        // find this one again, and removes it when it has been unused for long.
        let name = format!("{NAME_PREFIX}{:032x}", fastrand::u128(..));
        match create(aws, caller, planned, &name).await? {
            Created::Made(id) => Ok(Made { id, name }),
            Created::Taken => Err(CloudError::Transient { message: format!("the launch template `{name}` exists") }),
        }
    }

    /// Returns the ID of the template with this name, which is created if the name is free; `None` if another template
    /// has it.
    async fn under(
        &self,
        aws: &Connection,
        caller: &Caller,
        planned: &PlannedTemplate,
        name: &str,
    ) -> Result<Option<String>, CloudError> {
        let mut found = self.lock().listed.remove(name).map(|(template, _)| template);
        let mut unversioned: Option<String> = None;
        // A template may go between two calls, and another one come.
        for _ in 0..TRIES {
            let Some(template) = found.take() else {
                match create(aws, caller, planned, name).await? {
                    Created::Made(id) => return Ok(Some(id)),
                    Created::Taken => {
                        let named = Filter::builder().name("launch-template-name").values(name).build();
                        found = list(aws, caller, vec![named]).await?.into_iter().next();
                        continue;
                    }
                }
            };
            let id = template.launch_template_id().unwrap_or_default().to_owned();
            match compare(aws, caller, planned, &template, &id).await? {
                Compared::Same => return Ok(Some(id)),
                // It exists, but its first version does not: it is not as we create it.
                Compared::Gone if unversioned.as_ref() == Some(&id) => return Ok(None),
                Compared::Gone => unversioned = Some(id),
                Compared::Foreign(field) => {
                    if self.lock().reported.insert(id.clone()) {
                        let made_by = template.created_by().unwrap_or_default();
                        tracing::warn!(id, name, made_by, field, "a launch template has our name and is not ours");
                    }
                    return Ok(None);
                }
            }
        }
        let message = format!("the launch template `{name}` comes and goes");
        Err(CloudError::Transient { message })
    }

    /// Removes templates that EC2 no longer has.
    pub(super) fn forget<'a>(&self, names: impl IntoIterator<Item = &'a String>) {
        let mut state = self.lock();
        for name in names {
            state.known.remove(name);
        }
    }

    /// Removes templates by the names that they have in EC2.
    fn forget_made(&self, names: &[String]) {
        let mut state = self.lock();
        let is_gone = |name: &String| names.contains(name);
        state.known.retain(|_, one| !one.made.get().is_some_and(|made| is_gone(&made.name)));
        state.listed.retain(|name, _| !is_gone(name));
    }

    /// Lists existing templates, so that a restarted controller does not create them again, and returns their number.
    /// None of them is believed yet.
    pub(super) async fn learn(&self, aws: &Connection, caller: &Caller, cluster: &str) -> Result<usize, CloudError> {
        let found = list(aws, caller, vec![cluster_filter(cluster)]).await?;
        let now = caller.now();
        let mut state = self.lock();
        for template in found {
            let Some(name) = template.launch_template_name().map(str::to_owned) else { continue };
            if !state.known.contains_key(&name) {
                state.listed.insert(name, (template, now));
            }
        }
        Ok(state.listed.len())
    }

    /// Removes old templates of this cluster that have been unused for long, and returns their number.
    pub(super) async fn collect(&self, aws: &Connection, caller: &Caller, cluster: &str) -> Result<usize, CloudError> {
        let found = list(aws, caller, vec![cluster_filter(cluster)]).await?;
        let now = caller.now();
        let in_use: BTreeSet<String> = {
            let mut state = self.lock();
            state.known.retain(|_, one| now < after(one.used_at, UNUSED));
            state.listed.retain(|_, (_, listed_at)| now < after(*listed_at, UNUSED));
            let made = state.known.values().filter_map(|one| one.made.get()).map(|made| &made.name);
            state.known.keys().chain(state.listed.keys()).chain(made).cloned().collect()
        };
        let is_old = |one: &&LaunchTemplate| {
            let made_at = one.create_time().map_or(Timestamp::UNIX_EPOCH, moment);
            let is_ours = one.launch_template_name().is_some_and(|name| name.starts_with(NAME_PREFIX));
            let is_used = one.launch_template_name().is_some_and(|name| in_use.contains(name));
            is_ours && !is_used && now >= after(made_at, UNUSED)
        };
        remove(aws, caller, found.iter().filter(is_old)).await
    }

    /// Removes every template of a deleted class, and returns their number.
    pub(super) async fn remove_of_class(
        &self,
        aws: &Connection,
        caller: &Caller,
        cluster: &str,
        class: &str,
    ) -> Result<usize, CloudError> {
        let of_class =
            Filter::builder().name(format!("tag:{}", muster_api::labels::EC2NODECLASS)).values(class).build();
        let found = list(aws, caller, vec![cluster_filter(cluster), of_class]).await?;
        let names: Vec<String> = found.iter().filter_map(|one| one.launch_template_name().map(str::to_owned)).collect();
        self.forget_made(&names);
        remove(aws, caller, found.iter()).await
    }
}

async fn create(
    aws: &Connection,
    caller: &Caller,
    planned: &PlannedTemplate,
    name: &str,
) -> Result<Created, CloudError> {
    let data = data(&planned.template);
    let tags = tag_specification(ResourceType::LaunchTemplate, &planned.template.tags);
    let made = caller
        .call(Family::ChangeEc2, "ec2:CreateLaunchTemplate", || {
            aws.ec2
                .create_launch_template()
                .launch_template_name(name)
                .launch_template_data(data.clone())
                .tag_specifications(tags.clone())
                .send()
        })
        .await;
    match made {
        Ok(answer) => {
            let class = planned.template.tags.get(muster_api::labels::EC2NODECLASS);
            if let (Some(observer), Some(class)) = (caller.observer(), class) {
                observer.templated(class, planned.template.user_data.len());
            }
            let id = answer.launch_template().and_then(LaunchTemplate::launch_template_id);
            let message = || format!("the answer to CreateLaunchTemplate does not name `{name}`");
            id.map(|id| Created::Made(id.to_owned())).ok_or_else(|| CloudError::Transient { message: message() })
        }
        Err(failure) if failure.meaning() == Meaning::AlreadyThere => Ok(Created::Taken),
        Err(failure) => Err(failure.into_error(name)),
    }
}

/// Returns true if the content of a template may not be read.
fn is_unreadable(error: &CloudError) -> bool {
    matches!(error, CloudError::Unauthorized { action, .. } if action == "ec2:DescribeLaunchTemplateVersions")
}

/// Compares a template with what was planned: its tags, without which we may not launch with it, and its first version,
/// which cannot be changed.
async fn compare(
    aws: &Connection,
    caller: &Caller,
    planned: &PlannedTemplate,
    template: &LaunchTemplate,
    id: &str,
) -> Result<Compared, CloudError> {
    let has = |(key, value): (&String, &String)| {
        template.tags().iter().any(|tag| tag.key() == Some(key.as_str()) && tag.value() == Some(value.as_str()))
    };
    if !planned.template.tags.iter().all(has) {
        return Ok(Compared::Foreign("tags"));
    }
    let described = caller
        .call(Family::DescribeEc2, "ec2:DescribeLaunchTemplateVersions", || {
            aws.ec2.describe_launch_template_versions().launch_template_id(id).versions(VERSION).send()
        })
        .await;
    let described = match described {
        Ok(described) => described,
        Err(failure) if matches!(failure.meaning(), Meaning::TemplateGone | Meaning::NotFound) => {
            return Ok(Compared::Gone);
        }
        Err(failure) => return Err(failure.into_error(id)),
    };
    let version = described.launch_template_versions().first();
    let Some(content) = version.and_then(|version| version.launch_template_data()) else {
        return Ok(Compared::Foreign("content"));
    };
    Ok(match difference(&data(&planned.template), content) {
        Some(field) => Compared::Foreign(field),
        None => Compared::Same,
    })
}

fn cluster_filter(cluster: &str) -> Filter {
    Filter::builder().name(format!("tag:{CLUSTER_NAME}")).values(cluster).build()
}

async fn list(aws: &Connection, caller: &Caller, filters: Vec<Filter>) -> Result<Vec<LaunchTemplate>, CloudError> {
    let mut found = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = caller
            .call(Family::DescribeEc2, "ec2:DescribeLaunchTemplates", || {
                aws.ec2
                    .describe_launch_templates()
                    .set_filters(Some(filters.clone()))
                    .max_results(200)
                    .set_next_token(token.clone())
                    .send()
            })
            .await
            .map_err(|failure| failure.into_error("launch templates"))?;
        found.extend_from_slice(page.launch_templates());
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(found);
        }
    }
}

async fn remove<'a>(
    aws: &Connection,
    caller: &Caller,
    templates: impl Iterator<Item = &'a LaunchTemplate>,
) -> Result<usize, CloudError> {
    let mut removed = 0;
    for id in templates.filter_map(LaunchTemplate::launch_template_id) {
        let gone = caller
            .call(Family::ChangeEc2, "ec2:DeleteLaunchTemplate", || {
                aws.ec2.delete_launch_template().launch_template_id(id).send()
            })
            .await;
        match gone.map_err(|failure: Failure| (failure.meaning(), failure)) {
            Ok(_) | Err((Meaning::TemplateGone | Meaning::NotFound, _)) => removed += 1,
            Err((_, failure)) => return Err(failure.into_error(id)),
        }
    }
    Ok(removed)
}

/// Converts a time of the SDK; an invalid one becomes the Unix epoch.
pub(super) fn moment(time: &aws_sdk_ec2::primitives::DateTime) -> Timestamp {
    Timestamp::from_second(time.secs()).unwrap_or(Timestamp::UNIX_EPOCH)
}
