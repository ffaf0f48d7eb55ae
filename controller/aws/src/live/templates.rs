//! Launch templates in EC2: created once, reused, and removed when unused for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_ec2::types::{Filter, LaunchTemplate, ResourceType};
use jiff::Timestamp;
use muster_cloud::{CloudError, after};
use tokio::sync::OnceCell;

use super::caller::{Caller, Failure};
use super::connection::Connection;
use super::template_data::{data, tag_specification};
use crate::budget::Family;
use crate::launch::{CLUSTER_NAME, NAME_PREFIX, PlannedTemplate};
use crate::refusal::Meaning;

/// Time after which an unused template is removed. The next launch that needs it creates it again.
const UNUSED: Duration = Duration::from_secs(3600);

/// Known launch templates.
#[derive(Debug, Default)]
pub(super) struct Templates {
    /// By name. Locked for a few instructions.
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    /// Set once the template exists; concurrent launches wait for the first one to create it.
    made: Arc<OnceCell<()>>,
    used_at: Timestamp,
}

impl Templates {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the template if it does not exist.
    pub(super) async fn ensure(
        &self,
        aws: &Connection,
        caller: &Caller,
        planned: &PlannedTemplate,
    ) -> Result<(), CloudError> {
        let used_at = caller.now();
        let made = {
            let mut known = self.lock();
            let entry = known.entry(planned.name.clone()).or_insert_with(|| Known { made: Arc::default(), used_at });
            entry.used_at = used_at;
            Arc::clone(&entry.made)
        };
        made.get_or_try_init(|| create(aws, caller, planned)).await.copied()
    }

    /// Removes templates that EC2 no longer has.
    pub(super) fn forget<'a>(&self, names: impl IntoIterator<Item = &'a String>) {
        let mut known = self.lock();
        for name in names {
            known.remove(name);
        }
    }

    /// Lists existing templates, so that a restarted controller does not create them again.
    pub(super) async fn learn(&self, aws: &Connection, caller: &Caller, cluster: &str) -> Result<usize, CloudError> {
        let found = list(aws, caller, vec![cluster_filter(cluster)]).await?;
        let used_at = caller.now();
        let mut known = self.lock();
        for name in found.iter().filter_map(LaunchTemplate::launch_template_name) {
            let made = Arc::new(OnceCell::new_with(Some(())));
            known.entry(name.to_owned()).or_insert(Known { made, used_at });
        }
        Ok(known.len())
    }

    /// Removes old templates of this cluster that have been unused for long, and returns their number.
    pub(super) async fn collect(&self, aws: &Connection, caller: &Caller, cluster: &str) -> Result<usize, CloudError> {
        let found = list(aws, caller, vec![cluster_filter(cluster)]).await?;
        let now = caller.now();
        let in_use: BTreeSet<String> = {
            let mut known = self.lock();
            known.retain(|_, one| now < after(one.used_at, UNUSED));
            known.keys().cloned().collect()
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
        self.forget(&names);
        remove(aws, caller, found.iter()).await
    }
}

async fn create(aws: &Connection, caller: &Caller, planned: &PlannedTemplate) -> Result<(), CloudError> {
    let data = data(&planned.template);
    let tags = tag_specification(ResourceType::LaunchTemplate, &planned.template.tags);
    let made = caller
        .call(Family::ChangeEc2, "ec2:CreateLaunchTemplate", || {
            aws.ec2
                .create_launch_template()
                .launch_template_name(&planned.name)
                .launch_template_data(data.clone())
                .tag_specifications(tags.clone())
                .send()
        })
        .await;
    match made {
        Ok(_) => Ok(()),
        // The name is derived from the content, so an existing template has the same content.
        Err(failure) if failure.meaning() == Meaning::AlreadyThere => Ok(()),
        Err(failure) => Err(failure.into_error(&planned.name)),
    }
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
