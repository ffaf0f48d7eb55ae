//! Status checks and scheduled events of instances.

use std::collections::BTreeSet;

use aws_sdk_ec2::types::{Filter, InstanceStatusSummary, StatusType, SummaryStatus};
use muster_cloud::{CloudError, NoticeKind};

use super::cloud::Ec2Cloud;
use super::templates::moment;
use crate::instance_status::{Check, EVENT_CODES, InstanceStatus, ScheduledEvent, notices};
use crate::rate_limits::Family;

/// Maximum number of statuses per page.
const PAGE: i32 = 1000;
/// Maximum number of statuses of one filter, so that an account whose instances all fail takes bounded memory. Those
/// that are left out follow when others have gone.
const MOST: usize = 10_000;

impl Ec2Cloud {
    /// Returns the instances of the account and region with failed status checks or scheduled events.
    ///
    /// # Errors
    /// If EC2 refuses the call or does not answer.
    pub async fn unhealthy(&self) -> Result<BTreeSet<(String, NoticeKind)>, CloudError> {
        let filter = |name: &str, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            Filter::builder().name(name).set_values(Some(values)).build()
        };
        let mut found = BTreeSet::new();
        for filter in [
            filter("instance-status.status", &["impaired"]),
            filter("system-status.status", &["impaired"]),
            filter("event.code", &EVENT_CODES),
        ] {
            let statuses = self.statuses(&filter).await?;
            found.extend(notices(&statuses, self.0.caller.now()));
        }
        Ok(found)
    }

    async fn statuses(&self, filter: &Filter) -> Result<Vec<InstanceStatus>, CloudError> {
        let mut statuses = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let ask = || {
                let call = self.0.aws.ec2.describe_instance_status().filters(filter.clone()).max_results(PAGE);
                call.set_next_token(token.clone()).send()
            };
            let asked = self.0.caller.call(Family::DescribeEc2, "ec2:DescribeInstanceStatus", ask).await;
            let page = asked.map_err(|failure| failure.into_error("statuses of instances"))?;
            statuses.extend(page.instance_statuses().iter().filter_map(status));
            token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
            if token.is_none() || statuses.len() >= MOST {
                return Ok(statuses);
            }
        }
    }
}

fn status(described: &aws_sdk_ec2::types::InstanceStatus) -> Option<InstanceStatus> {
    let events = described.events().iter().map(|event| ScheduledEvent {
        code: event.code().map(|code| code.as_str().to_owned()).unwrap_or_default(),
        description: event.description().unwrap_or_default().to_owned(),
    });
    Some(InstanceStatus {
        instance: described.instance_id()?.to_owned(),
        own: check(described.instance_status()),
        system: check(described.system_status()),
        events: events.collect(),
    })
}

fn check(summary: Option<&InstanceStatusSummary>) -> Check {
    match summary {
        Some(summary) if summary.status() == Some(&SummaryStatus::Impaired) => {
            let failed = summary.details().iter().filter(|one| one.status() == Some(&StatusType::Failed));
            Check::Failed(failed.filter_map(|one| one.impaired_since().map(moment)).min())
        }
        _ => Check::Passed,
    }
}
