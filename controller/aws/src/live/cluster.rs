//! Cluster settings from EKS.

use muster_cloud::CloudError;

use super::caller::{Caller, Clock};
use super::connection::Connection;
use crate::launch::Cluster;
use crate::rate_limits::Family;

impl Cluster {
    /// Returns the settings that EKS describes: ARN, endpoint, certificate authority, version, service CIDR. The DNS
    /// address is not part of them.
    ///
    /// # Errors
    /// If the call fails, or the cluster does not exist.
    pub async fn described(aws: &Connection, name: &str, clock: Clock) -> Result<Self, CloudError> {
        let caller = Caller::new(clock);
        let asked =
            caller.call(Family::Eks, "eks:DescribeCluster", || aws.eks.describe_cluster().name(name).send()).await;
        let answer = asked.map_err(|failure| failure.into_error(&format!("cluster {name}")))?;
        let missing = || CloudError::NotFound { what: format!("cluster {name}") };
        let cluster = answer.cluster().ok_or_else(missing)?;
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let network = cluster.kubernetes_network_config();
        let cidr = network.and_then(|network| network.service_ipv4_cidr().or_else(|| network.service_ipv6_cidr()));
        Ok(Self {
            name: name.to_owned(),
            arn: cluster.arn().filter(|arn| !arn.is_empty()).map(str::to_owned),
            region: aws.region.clone(),
            endpoint: text(cluster.endpoint()),
            certificate_authority: text(cluster.certificate_authority().and_then(|authority| authority.data())),
            kubernetes: text(cluster.version()),
            service_cidr: cidr.filter(|cidr| !cidr.is_empty()).map(str::to_owned),
            dns: None,
        })
    }
}
