//! Zonal shifts of the cluster, as ARC tells of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_sdk_arczonalshift::types::{AppliedStatus, AutoshiftAppliedStatus};
use muster_cloud::{CloudError, ZonalShifts};
use tokio::sync::watch;

use super::cloud::Ec2Cloud;
use super::templates::moment;
use crate::rate_limits::Family;
use crate::zonal_shifts::{ReportedShift, in_effect};

impl Ec2Cloud {
    /// Returns the zonal shifts that ARC has last told of. Some of them may be over.
    #[must_use]
    pub fn zonal_shifts(&self) -> watch::Receiver<ZonalShifts> {
        self.0.shifts.subscribe()
    }

    /// Returns the IDs of the zones that traffic is shifted away from now.
    #[must_use]
    pub fn shifted_zones(&self) -> BTreeSet<Arc<str>> {
        self.0.shifted()
    }

    /// Asks ARC for the zonal shifts of the cluster with this ARN. Nothing is launched in these zones from then on.
    ///
    /// # Errors
    /// If the cluster is not registered with ARC ([`CloudError::NotFound`]), or the call fails. Each known shift then
    /// counts until its end.
    pub async fn refresh_zonal_shifts(&self, cluster: &str) -> Result<(), CloudError> {
        let ask = || self.0.aws.arc.get_managed_resource().resource_identifier(cluster).send();
        let asked = self.0.caller.call(Family::ZonalShifts, "arc-zonal-shift:GetManagedResource", ask).await;
        let answer = asked.map_err(|failure| failure.into_error(cluster))?;
        let is_empty = answer.arn().is_none() && answer.applied_weights().is_empty();
        if is_empty || answer.arn().is_some_and(|arn| arn != cluster) {
            // An answer that says nothing must not end a shift.
            let message = format!("the answer of arc-zonal-shift:GetManagedResource is not about {cluster}");
            return Err(CloudError::Transient { message });
        }
        let shifts = answer.zonal_shifts().iter().map(|one| ReportedShift {
            zone: one.away_from().to_owned(),
            is_applied: *one.applied_status() == AppliedStatus::Applied,
            expires: Some(moment(one.expiry_time())),
        });
        let autoshifts = answer.autoshifts().iter().map(|one| ReportedShift {
            zone: one.away_from().to_owned(),
            is_applied: *one.applied_status() == AutoshiftAppliedStatus::Applied,
            expires: None,
        });
        let reported: Vec<ReportedShift> = shifts.chain(autoshifts).collect();
        let found = in_effect(&reported, self.0.caller.now());
        self.0.shifts.send_if_modified(|known| {
            let is_news = *known != found;
            *known = found;
            is_news
        });
        Ok(())
    }
}
