//! Cluster configuration that nodes need, from the options, EKS and the API server.

use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use muster_aws::launch::Cluster;
use muster_aws::live::{Clock, Connection};

use super::options::{Options, StartError};

/// Namespace and name of the cluster's DNS service.
const DNS: (&str, &str) = ("kube-system", "kube-dns");
/// Major version if the API server does not report it.
const MAJOR: &str = "1";

/// Collects the configuration. Options take precedence over EKS.
pub(super) async fn ask(
    aws: &Connection,
    client: &Client,
    options: &Options,
    clock: Clock,
) -> Result<Cluster, StartError> {
    let described = Cluster::described(aws, &options.cluster, clock).await;
    let missing = |what, hint| {
        let reason = match &described {
            Ok(_) => "EKS does not report it".to_owned(),
            Err(error) => error.to_string(),
        };
        StartError::Cluster { what, cluster: options.cluster.clone(), reason, hint }
    };
    let known = described.as_ref().ok();
    let of = |said: Option<&String>, known: Option<&String>| said.or(known).filter(|text| !text.is_empty()).cloned();
    let endpoint = of(options.endpoint.as_ref(), known.map(|one| &one.endpoint)).ok_or_else(|| {
        missing("the endpoint", "allow eks:DescribeCluster (`muster iam-policy`), or set CLUSTER_ENDPOINT")
    })?;
    let authority = options.certificate_authority.as_ref();
    let certificate_authority = of(authority, known.map(|one| &one.certificate_authority)).ok_or_else(|| {
        missing(
            "the certificate authority",
            "allow eks:DescribeCluster (`muster iam-policy`), or set CLUSTER_CA_BUNDLE",
        )
    })?;
    let kubernetes = if options.asks_eks_for_version {
        known.map(|one| one.kubernetes.clone()).filter(|version| !version.is_empty()).ok_or_else(|| {
            missing("the version of Kubernetes", "allow eks:DescribeCluster, or leave EKS_CONTROL_PLANE out")
        })?
    } else {
        version(client).await.map_err(|error| StartError::Cluster {
            what: "the version of Kubernetes",
            cluster: options.cluster.clone(),
            reason: error.to_string(),
            hint: "check that the API server can be reached",
        })?
    };
    Ok(Cluster {
        name: options.cluster.clone(),
        arn: known.and_then(|one| one.arn.clone()),
        region: aws.region.clone(),
        endpoint,
        certificate_authority,
        kubernetes,
        service_cidr: known.and_then(|one| one.service_cidr.clone()),
        dns: dns(client).await,
    })
}

/// Returns the minor version, such as `1.35`.
async fn version(client: &Client) -> kube::Result<String> {
    let said = client.apiserver_version().await?;
    Ok(minor_version(&said.major, &said.minor))
}

fn minor_version(major: &str, minor: &str) -> String {
    let major = if major.is_empty() { MAJOR } else { major };
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    format!("{major}.{digits}")
}

/// Returns the address of the cluster's DNS service. Without it, nodes use the default of their image.
async fn dns(client: &Client) -> Option<String> {
    let services: Api<Service> = Api::namespaced(client.clone(), DNS.0);
    match services.get_opt(DNS.1).await {
        Ok(service) => service?.spec?.cluster_ip.filter(|address| !address.is_empty() && address != "None"),
        Err(error) => {
            tracing::warn!(%error, "the address of the cluster's DNS is not known: nodes use the default of their image");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_eks_end_with_a_plus() {
        assert_eq!(minor_version("1", "34+"), "1.34");
        assert_eq!(minor_version("", "35"), "1.35");
    }
}
