//! Zonal shifts of the cluster: asked for at start, before a replica leads, and every half a minute while it does.
//!
//! ```text
//!   start ──────► not registered, or not allowed: the program ends       no answer: it goes on without
//!   leadership ─► asked again, for some seconds at most ─► decisions
//!   upkeep ─────► every 30 s ─► zones closed ─► types without them; the leader decides anew
//! ```
//!
//! While ARC does not answer, each known shift counts until its end, and no zone is closed beside those.

use std::time::Duration;

use muster_aws::live::Ec2Cloud;
use muster_cloud::CloudError;
use tokio::time::timeout;

use super::options::{Options, StartError};
use super::provider::Ec2;

/// Longest wait for the answer at start, and before a replica leads.
const MOST: Duration = Duration::from_secs(5);

/// Asks for the zonal shifts of the cluster with this ARN, if they are heeded.
///
/// # Errors
/// If the cluster is not registered with ARC, or the role may not ask. A failure of ARC is no error: an outage of a zone
/// must not keep the controller from starting.
pub(super) async fn begin(cloud: &Ec2Cloud, options: &Options, arn: Option<&str>) -> Result<(), StartError> {
    if options.zonal_shifts_every.is_none() {
        return Ok(());
    }
    let cluster = &options.cluster;
    let Some(arn) = arn else {
        return Err(StartError::Cluster {
            what: "the ARN",
            cluster: cluster.clone(),
            reason: "EKS does not report it".to_owned(),
            hint: "allow eks:DescribeCluster (`muster iam-policy`), or leave ENABLE_ZONAL_SHIFT out",
        });
    };
    match timeout(MOST, cloud.refresh_zonal_shifts(arn)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(CloudError::NotFound { .. })) => Err(StartError::NotRegistered { cluster: cluster.clone() }),
        Ok(Err(error @ CloudError::Unauthorized { .. })) => {
            Err(StartError::ZonalShifts { cluster: cluster.clone(), reason: error.to_string() })
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "zonal shifts are not known yet, and are asked for again");
            Ok(())
        }
        Err(_) => {
            tracing::warn!("zonal shifts are not known yet: ARC does not answer, and is asked again");
            Ok(())
        }
    }
}

impl Ec2 {
    /// Asks for zonal shifts before this replica decides anything: its last answer may be days old.
    pub(super) async fn catch_up_with_zonal_shifts(&self) {
        let Some(arn) = self.managed_resource() else { return };
        // The upkeep, which begins now, says what fails.
        let _ = timeout(MOST, self.cloud().refresh_zonal_shifts(&arn)).await;
    }

    /// Returns the ARN of the cluster if zonal shifts are heeded.
    pub(super) fn managed_resource(&self) -> Option<String> {
        self.cluster().arn.clone().filter(|_| self.options().zonal_shifts_every.is_some())
    }
}
