//! Conversion of the options of EC2.

use std::time::Duration;

use muster_aws::AwsFeatureGates;

use super::super::arguments::Ec2Arguments;
use super::super::failure::Failure;
use super::super::settings::{QUEUE_HINT, is_queue};
use super::duration;
use crate::ec2;

/// Minimum interval between lookups of what a NodeClass selects: Karpenter's value.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(60);

/// Converts the options of EC2.
pub(super) fn options(arguments: Ec2Arguments, gates: AwsFeatureGates) -> Result<ec2::Options, Failure> {
    let Ec2Arguments {
        cluster_name,
        cluster_endpoint,
        cluster_ca_bundle,
        isolated_vpc,
        eks_control_plane,
        vm_memory_overhead_percent,
        reserved_enis,
        disable_dry_run,
        ami_refresh_interval,
        subnet_refresh_interval,
        security_group_refresh_interval,
        interruption_queue,
        enable_zonal_shift,
    } = arguments;
    // Before the checks of its options.
    if !cfg!(feature = "ec2") {
        return Err(Failure::Run(ec2::StartError::NotBuilt.into()));
    }
    let usage = |message: String| Err(Failure::Usage(message));
    let set = |text: Option<String>| text.filter(|text| !text.is_empty());
    let Some(cluster) = set(cluster_name) else {
        return usage(
            "`--cluster-name` is required with `--cloud aws`\n\nhint: give the name of the EKS cluster, or set CLUSTER_NAME"
                .to_owned(),
        );
    };
    let endpoint = set(cluster_endpoint);
    if let Some(url) = endpoint.as_deref().filter(|url| !is_url(url)) {
        return usage(format!(
            "`--cluster-endpoint`: `{url}` is not a URL\n\nhint: write it as `https://…`, as `aws eks describe-cluster` does"
        ));
    }
    if !vm_memory_overhead_percent.is_finite() || !(0.0..1.0).contains(&vm_memory_overhead_percent) {
        return usage(format!(
            "`--vm-memory-overhead-percent`: `{vm_memory_overhead_percent}` is not a fraction of the memory\n\nhint: write a \
             fraction from 0 to below 1, such as `0.075`"
        ));
    }
    let interval = |option: &str, text: &str| match duration(option, text)? {
        short if short < SHORTEST_INTERVAL => {
            Err(Failure::Usage(format!("`{option}`: `{text}` is too short\n\nhint: `1m` is the shortest")))
        }
        interval => Ok(interval),
    };
    let queue = Some(interruption_queue).filter(|name| !name.is_empty());
    if let Some(name) = queue.as_deref().filter(|name| !is_queue(name)) {
        return usage(format!("`--interruption-queue`: `{name}` is not the name of a queue\n\nhint: {QUEUE_HINT}"));
    }
    let images = interval("--ami-refresh-interval", &ami_refresh_interval)?;
    let subnets = interval("--subnet-refresh-interval", &subnet_refresh_interval)?;
    let groups = interval("--security-group-refresh-interval", &security_group_refresh_interval)?;
    Ok(ec2::Options {
        cluster,
        endpoint,
        certificate_authority: set(cluster_ca_bundle),
        is_isolated: isolated_vpc,
        asks_eks_for_version: eks_control_plane,
        vm_memory_overhead: vm_memory_overhead_percent,
        reserved_enis,
        tries_launches: !disable_dry_run,
        gates,
        look_up_every: images.min(subnets).min(groups),
        queue,
        zonal_shifts_every: enable_zonal_shift.then_some(ec2::ZONAL_SHIFTS_EVERY),
        only_reads: false,
    })
}

fn is_url(text: &str) -> bool {
    let is_http = |scheme: Option<&str>| matches!(scheme, Some("http" | "https"));
    text.parse::<http::Uri>().is_ok_and(|url| is_http(url.scheme_str()) && url.host().is_some())
}
