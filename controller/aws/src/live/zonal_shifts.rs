//! Zonal shifts of the cluster, as ARC tells of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_sdk_arczonalshift::primitives::DateTime;
use aws_sdk_arczonalshift::types::{AppliedStatus, AutoshiftAppliedStatus};
use jiff::Timestamp;
use muster_cloud::{CloudError, ZonalShifts};
use tokio::sync::watch;

use super::cloud::Ec2Cloud;
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
            expires: Some(whole_second_after(one.expiry_time())),
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

/// Returns the first whole second that is not before this moment: no launch may come a fraction of a second too early.
/// An invalid moment becomes the Unix epoch.
fn whole_second_after(moment: &DateTime) -> Timestamp {
    let second = moment.secs().saturating_add(i64::from(moment.subsec_nanos() > 0));
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_ends_no_fraction_of_a_second_early() {
        let end =
            |second, nanosecond| whole_second_after(&DateTime::from_secs_and_nanos(second, nanosecond)).as_second();
        assert_eq!([end(30, 0), end(30, 1), end(30, 999_000_000)], [30, 31, 31]);
        assert_eq!(end(i64::MAX, 1), 0);
    }
}
