//! Zonal shifts of the cluster: asked for at start, before a replica leads, and every half a minute while it does.
//!
//! ```text
//!   start ──────► not registered, or not allowed: the program ends       no answer: it goes on without
//!   leadership ─► asked again, for some seconds at most ─► decisions
//!   upkeep ─────► every 30 s ─► zones closed ─► types without them; the leader decides anew
//! ```
//!
//! While ARC does not answer, each known shift counts until its end, and no zone is closed beside those.

use std::sync::Arc;
use std::time::Duration;

use muster_aws::launch::Cluster;
use muster_aws::live::{Connection, Ec2Cloud};
use muster_cloud::CloudError;
use tokio::time::timeout;

use super::options::{Options, StartError};
use super::provider::{Ec2, clock};

/// Longest wait for the answer at start, and before a replica leads.
const MOST: Duration = Duration::from_secs(5);

/// Asks for the zonal shifts of `cluster`, if they are heeded. Returns the ARN of the cluster, if it is known.
///
/// # Errors
/// If the cluster is not registered with ARC, or the role may not ask. A failure of ARC is no error: an outage of a
/// zone must not keep the controller from starting.
pub(super) async fn begin(
    aws: &Connection,
    cloud: &Ec2Cloud,
    options: &Options,
    cluster: &Cluster,
) -> Result<Option<Arc<str>>, StartError> {
    let known = cluster.arn.as_deref().map(Arc::from);
    if options.zonal_shifts_every.is_none() {
        return Ok(known);
    }
    let asked = async {
        let arn = match known.clone() {
            Some(arn) => arn,
            None => arn_of(aws, &cluster.name).await?,
        };
        cloud.refresh_zonal_shifts(&arn).await.map(|()| arn)
    };
    let cluster = cluster.name.clone();
    match timeout(MOST, asked).await {
        Ok(Ok(arn)) => Ok(Some(arn)),
        Ok(Err(CloudError::NotFound { .. })) => Err(StartError::NotRegistered { cluster }),
        Ok(Err(error @ CloudError::Unauthorized { .. })) => {
            Err(StartError::ZonalShifts { cluster, reason: error.to_string() })
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "zonal shifts are not known yet, and are asked for again");
            Ok(known)
        }
        Err(_) => {
            tracing::warn!("zonal shifts are not known yet: AWS does not answer, and is asked again");
            Ok(known)
        }
    }
}

async fn arn_of(aws: &Connection, cluster: &str) -> Result<Arc<str>, CloudError> {
    let described = Cluster::described(aws, cluster, clock()).await?;
    let arn = described.arn.ok_or_else(|| CloudError::Transient { message: format!("EKS has no ARN of {cluster}") })?;
    Ok(arn.into())
}

impl Ec2 {
    /// Asks for zonal shifts before this replica decides anything: its last answer may be days old.
    pub(super) async fn catch_up_with_zonal_shifts(&self) {
        if self.options().zonal_shifts_every.is_some() {
            // The upkeep, which begins now, says what fails.
            let _ = timeout(MOST, self.refresh_zonal_shifts()).await;
        }
    }

    /// Asks for zonal shifts. The ARN of the cluster, which never changes, is asked for until it is known.
    pub(super) async fn refresh_zonal_shifts(&self) -> Result<(), CloudError> {
        let arn = match self.arn() {
            Some(arn) => arn,
            None => self.note_arn(arn_of(self.aws(), &self.options().cluster).await?),
        };
        self.cloud().refresh_zonal_shifts(&arn).await
    }
}
