//! `muster run`: conversion of its arguments to the controller's options, and its runtime.

mod agents;
mod ec2;
mod log;
mod warnings;

use std::io;
use std::time::Duration;

use muster_aws::AwsFeatureGates;
use muster_manifest::snapshot::{self, DeviceSettings, FeatureGates, ParsedGates, parse_aws_gates};
use muster_manifest::{self as manifest, DefaultSpread};
use muster_scheduling::{disrupt, model};
use muster_stages::disruption::Timing;
use muster_stages::lifecycle::caps::Caps;
use muster_stages::provision::Lengths;
use tokio::signal::unix::{SignalKind, signal};

use self::log::Log;
use super::arguments::{
    CloudName, IneffectiveArguments, LeaseArguments, MinValuesPolicy, PaybackArguments, PolicyArguments,
    PreferencePolicy, RunArguments,
};
use super::dry_run;
use super::failure::Failure;
use super::settings::{gates_of, move_price_of, payback_of, preference_price_of};
use crate::run::{self, CloudOptions, Options, Report};

/// File with the pod's own namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Runs the controller until SIGTERM or SIGINT.
pub(super) fn run(arguments: RunArguments) -> Result<(), Failure> {
    let ineffective = ineffective(&arguments.ineffective);
    let tells = arguments.dry_run.then_some(arguments.output);
    let (options, log) = settings(arguments)?;
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(log.filter).with_writer(log.writer).init();
    for option in ineffective {
        tracing::warn!(option, "this option of Karpenter's has no effect here");
    }
    for warning in log.warnings {
        tracing::warn!("{warning}");
    }
    // A single thread handles the network, and decisions have their own threads. Network tasks are so short that
    // passing them between threads would take longer than the tasks.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Internal(format!("no runtime: {error}")))?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        match tells {
            None => run::run(options, stop).await?,
            Some(format) => {
                // stdout may be closed.
                let tell = |report: &Report| drop(dry_run::write(&mut io::stdout().lock(), report, format));
                run::observe(options, tell, stop).await?;
            }
        }
        Ok::<_, Failure>(())
    });
    // A decision in progress is not waited for.
    runtime.shutdown_background();
    ended
}

/// Returns options that were given but have no effect.
fn ineffective(arguments: &IneffectiveArguments) -> Vec<&'static str> {
    let IneffectiveArguments {
        log_error_output_paths,
        karpenter_service,
        memory_limit,
        cpu_requests,
        enable_profiling,
        disable_controller_warmup,
        disable_cluster_state_observability,
    } = arguments;
    let given = [
        ("--karpenter-service", !karpenter_service.is_empty()),
        ("--memory-limit", *memory_limit >= 0),
        ("--cpu-requests", *cpu_requests != 1000),
        ("--enable-profiling", *enable_profiling),
        ("--disable-controller-warmup", !disable_controller_warmup),
        ("--disable-cluster-state-observability", *disable_cluster_state_observability),
        ("--log-error-output-paths", log_error_output_paths != "stderr"),
    ];
    given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}

/// Feature gates, as parsed.
struct Gates {
    core: FeatureGates,
    aws: AwsFeatureGates,
    legacy_node_repair: bool,
}

fn settings(arguments: RunArguments) -> Result<(Options, Log), Failure> {
    let RunArguments {
        cloud,
        dry_run,
        output: _,
        context,
        instance_types_file_path,
        ec2,
        batch_idle_duration,
        batch_max_duration,
        wait_for_unschedulable_mark,
        disable_nominations,
        max_launches_per_minute,
        max_hourly_price,
        payback,
        policies,
        scheduler_config,
        ignore_dra_requests,
        feature_gates,
        aws_feature_gates,
        legacy_node_repair,
        kube_client_qps,
        kube_client_burst,
        metrics_port,
        health_probe_port,
        agents,
        lease,
        log,
        ineffective: _,
    } = arguments;
    let agents = agents::options(agents, cloud)?;
    let (gates, mut warnings) = gates(&feature_gates, &aws_feature_gates, legacy_node_repair, cloud)?;
    warnings.extend(warnings::unused_devices(gates.aws, ignore_dra_requests));
    let cloud = match cloud {
        CloudName::Kwok => CloudOptions::Kwok { types: instance_types_file_path },
        CloudName::Aws => CloudOptions::Aws(Box::new(ec2::options(ec2, gates.aws)?)),
    };
    let default_spread = match &scheduler_config {
        Some(file) => manifest::read_scheduler_config(file)?,
        None => DefaultSpread::default(),
    };
    let packing = packing(&policies, &gates)?;
    if let Some(price) = max_hourly_price.filter(|price| !price.is_finite() || *price < 0.0) {
        return Err(Failure::Usage(format!(
            "`--max-hourly-price`: `{price}` is not a price\n\nhint: write USD per hour, such as `12.50`"
        )));
    }
    let LeaseArguments { disable_leader_election, leader_election_name, leader_election_namespace } = lease;
    let options = Options {
        context,
        cloud,
        metrics_port,
        health_port: health_probe_port,
        pace: (kube_client_qps, kube_client_burst),
        lease: (!disable_leader_election).then_some(leader_election_name),
        namespace: leader_election_namespace.filter(|name| !name.is_empty()).unwrap_or_else(own_namespace),
        window: Lengths {
            idle: duration("--batch-idle-duration", &batch_idle_duration)?,
            max: duration("--batch-max-duration", &batch_max_duration)?,
        },
        packing,
        disruption: disruption(packing, &gates, &payback)?,
        timing: Timing::default(),
        snapshot: snapshot::Settings {
            gates: gates.core,
            default_spread,
            legacy_node_repair,
            reboot_for_repair: gates.aws.reboot_for_repair,
            devices: DeviceSettings::new(gates.aws, !ignore_dra_requests),
        },
        reads_selectors: scheduler_config.is_some(),
        wait_for_unschedulable_mark,
        nominates: !disable_nominations,
        caps: Caps { launches_per_minute: max_launches_per_minute, hourly_price: max_hourly_price },
        agents,
    };
    Ok((options, Log::new(&log, dry_run, warnings)?))
}

/// Parses the feature gates. Returns them with warnings about gates without effect.
fn gates(
    core: &[String],
    aws: &[String],
    legacy_node_repair: bool,
    cloud: CloudName,
) -> Result<(Gates, Vec<String>), Failure> {
    let ParsedGates { gates: core, mut warnings } = gates_of("--feature-gates", FeatureGates::parse(&core.join(",")))?;
    let ParsedGates { gates: aws, warnings: of_aws } =
        gates_of("--aws-feature-gates", parse_aws_gates(&aws.join(",")))?;
    warnings.extend(of_aws);
    warnings.extend(warnings::unused_reboots(cloud, &core, aws, legacy_node_repair));
    Ok((Gates { core, aws, legacy_node_repair }, warnings))
}

/// Returns the settings of bin packing.
fn packing(arguments: &PolicyArguments, gates: &Gates) -> Result<model::Options, Failure> {
    Ok(model::Options {
        preferences: match arguments.preference_policy {
            PreferencePolicy::Respect => model::PreferencePolicy::Respect,
            PreferencePolicy::Ignore => model::PreferencePolicy::Ignore,
        },
        preference_price: preference_price_of(&arguments.preference_price)?,
        min_values: match arguments.min_values_policy {
            MinValuesPolicy::Strict => model::MinValuesPolicy::Strict,
            MinValuesPolicy::BestEffort => model::MinValuesPolicy::BestEffort,
        },
        reserved_capacity: gates.core.reserved_capacity,
        ..model::Options::default()
    })
}

/// Returns the settings that decide which nodes are disrupted.
fn disruption(
    packing: model::Options,
    gates: &Gates,
    payback: &PaybackArguments,
) -> Result<disrupt::Settings, Failure> {
    Ok(disrupt::Settings {
        options: packing,
        repair: disrupt::Repair::of(gates.core.node_repair, gates.legacy_node_repair),
        static_capacity: gates.core.static_capacity,
        terminate_first: disrupt::TerminateFirst {
            drift: gates.core.terminate_first_drift,
            repair: gates.core.terminate_first_repair,
        },
        spot_to_spot: gates.core.spot_to_spot_consolidation,
        move_price: move_price_of(&payback.price)?,
        payback: payback_of(payback)?,
        ..disrupt::Settings::default()
    })
}

/// Returns the namespace of the controller.
fn own_namespace() -> String {
    let named = std::env::var("SYSTEM_NAMESPACE").ok();
    let own = || std::fs::read_to_string(OWN_NAMESPACE).ok().map(|text| text.trim().to_owned());
    let known = |name: &String| !name.is_empty();
    named.filter(known).or_else(|| own().filter(known)).unwrap_or_else(|| "kube-system".to_owned())
}

/// Parses a duration in Go's format.
fn duration(option: &str, text: &str) -> Result<Duration, Failure> {
    let read: Result<kube::core::Duration, _> = text.parse();
    read.ok().filter(|read| !read.is_negative()).map(Duration::from).ok_or_else(|| {
        Failure::Usage(format!("`{option}`: `{text}` is not a duration\n\nhint: write it as `10s` or `1m30s`"))
    })
}

#[cfg(test)]
mod tests;
