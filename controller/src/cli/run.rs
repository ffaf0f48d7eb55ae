//! `muster run`: conversion of its arguments to the controller's options, and its runtime.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use muster_aws::AwsFeatureGates;
use muster_link::document::Certificates;
use muster_manifest::snapshot::{self, FeatureGates, ParsedGates, parse_aws_gates};
use muster_manifest::{self as manifest, DefaultSpread};
use muster_scheduling::{disrupt, model};
use muster_stages::disruption::Timing;
use muster_stages::lifecycle::caps::Caps;
use muster_stages::provision::Lengths;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};

use super::arguments::{CloudName, Ec2Arguments, MinValuesPolicy, PreferencePolicy, RunArguments};
use super::failure::Failure;
use super::settings::{QUEUE_HINT, gates_of, is_queue, move_price_of, payback_of, preference_price_of};
use super::{dry_run, run_warnings};
use crate::agents::{self, Port};
use crate::ec2;
use crate::run::{self, CloudOptions, Options, Report, RunError};

/// File with the pod's own namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Minimum interval between lookups of what a NodeClass selects: Karpenter's value.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(60);
/// Log directives for libraries whose debug messages do not concern nodes.
const QUIET: &str = "hyper=info,hyper_util=info,kube=info,kube_client=info,tower=info,rustls=info,h2=info";

/// Configuration of the log.
struct Log {
    filter: EnvFilter,
    writer: BoxMakeWriter,
    /// Warnings for its beginning.
    warnings: Vec<String>,
}

/// Runs the controller until SIGTERM or SIGINT.
pub(super) fn run(arguments: RunArguments) -> Result<(), Failure> {
    let ineffective = ineffective(&arguments);
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
fn ineffective(arguments: &RunArguments) -> Vec<&'static str> {
    let given = [
        ("--karpenter-service", !arguments.karpenter_service.is_empty()),
        ("--memory-limit", arguments.memory_limit >= 0),
        ("--cpu-requests", arguments.cpu_requests != 1000),
        ("--enable-profiling", arguments.enable_profiling),
        ("--disable-controller-warmup", !arguments.disable_controller_warmup),
        ("--disable-cluster-state-observability", arguments.disable_cluster_state_observability),
        ("--log-error-output-paths", arguments.log_error_output_paths != "stderr"),
        ("--ignore-dra-requests", !arguments.ignore_dra_requests),
    ];
    given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
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
        preference_policy,
        preference_price,
        min_values_policy,
        scheduler_config,
        feature_gates,
        aws_feature_gates,
        legacy_node_repair,
        kube_client_qps,
        kube_client_burst,
        metrics_port,
        health_probe_port,
        agent_port,
        agent_address,
        agent_health_port,
        agent_identity_certificates,
        disable_leader_election,
        leader_election_name,
        leader_election_namespace,
        log_level,
        log_output_paths,
        // See `ineffective`.
        log_error_output_paths: _,
        ignore_dra_requests: _,
        karpenter_service: _,
        memory_limit: _,
        cpu_requests: _,
        enable_profiling: _,
        disable_controller_warmup: _,
        disable_cluster_state_observability: _,
    } = arguments;
    if agent_port.is_some() && cloud == CloudName::Kwok {
        return Err(Failure::Run(RunError::NoAgents));
    }
    let agents = match agent_port {
        Some(port) => {
            let (address, certificates) = (agent_address.as_deref(), agent_identity_certificates.as_deref());
            Some(of_agents(port, agent_health_port, address, certificates)?)
        }
        None => None,
    };
    let ParsedGates { gates, mut warnings } =
        gates_of("--feature-gates", FeatureGates::parse(&feature_gates.join(",")))?;
    let ParsedGates { gates: aws_gates, warnings: of_aws } =
        gates_of("--aws-feature-gates", parse_aws_gates(&aws_feature_gates.join(",")))?;
    warnings.extend(of_aws);
    warnings.extend(run_warnings::off(aws_gates));
    warnings.extend(run_warnings::unused_reboots(cloud, &gates, aws_gates, legacy_node_repair));
    let cloud = match cloud {
        CloudName::Kwok => CloudOptions::Kwok { types: instance_types_file_path },
        CloudName::Aws => CloudOptions::Aws(Box::new(of_ec2(ec2, aws_gates)?)),
    };
    let default_spread = match &scheduler_config {
        Some(file) => manifest::read_scheduler_config(file)?,
        None => DefaultSpread::default(),
    };
    let packing = model::Options {
        preferences: match preference_policy {
            PreferencePolicy::Respect => model::PreferencePolicy::Respect,
            PreferencePolicy::Ignore => model::PreferencePolicy::Ignore,
        },
        preference_price: preference_price_of(&preference_price)?,
        min_values: match min_values_policy {
            MinValuesPolicy::Strict => model::MinValuesPolicy::Strict,
            MinValuesPolicy::BestEffort => model::MinValuesPolicy::BestEffort,
        },
        reserved_capacity: gates.reserved_capacity,
        ..model::Options::default()
    };
    if let Some(price) = max_hourly_price.filter(|price| !price.is_finite() || *price < 0.0) {
        return Err(Failure::Usage(format!(
            "`--max-hourly-price`: `{price}` is not a price\n\nhint: write USD per hour, such as `12.50`"
        )));
    }
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
        disruption: disrupt::Settings {
            options: packing,
            repair: disrupt::Repair::of(gates.node_repair, legacy_node_repair),
            static_capacity: gates.static_capacity,
            terminate_first: disrupt::TerminateFirst {
                drift: gates.terminate_first_drift,
                repair: gates.terminate_first_repair,
            },
            spot_to_spot: gates.spot_to_spot_consolidation,
            move_price: move_price_of(&payback.price)?,
            payback: payback_of(&payback)?,
            ..disrupt::Settings::default()
        },
        timing: Timing::default(),
        snapshot: snapshot::Settings {
            gates,
            default_spread,
            legacy_node_repair,
            reboot_for_repair: aws_gates.reboot_for_repair,
        },
        reads_selectors: scheduler_config.is_some(),
        wait_for_unschedulable_mark,
        nominates: !disable_nominations,
        caps: Caps { launches_per_minute: max_launches_per_minute, hourly_price: max_hourly_price },
        agents,
    };
    let writer = writer(&log_output_paths, dry_run)?;
    let directives = if log_level.contains(['=', ',']) { log_level.clone() } else { format!("{log_level},{QUIET}") };
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        Failure::Usage(format!("`--log-level`: `{log_level}`: {error}\n\nhint: use `debug`, `info`, `warn` or `error`"))
    })?;
    Ok((options, Log { filter, writer, warnings }))
}

/// Returns the writer of the log for paths that are separated by commas, as Karpenter's chart joins them.
fn writer(paths: &str, dry_run: bool) -> Result<BoxMakeWriter, Failure> {
    let wrong = |path: &str, reason: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "`--log-output-paths`: logs cannot be written to `{path}`: {reason}\n\nhint: use `stdout`, `stderr` or a file"
        ))
    };
    let mut writers: Option<BoxMakeWriter> = None;
    for path in paths.split(',').map(str::trim).filter(|path| !path.is_empty()) {
        let writer = match path {
            // stdout is used for the reports.
            "stdout" if dry_run => BoxMakeWriter::new(io::stderr),
            "stdout" => BoxMakeWriter::new(io::stdout),
            "stderr" => BoxMakeWriter::new(io::stderr),
            file => {
                let file = OpenOptions::new().create(true).append(true).open(file);
                BoxMakeWriter::new(Mutex::new(file.map_err(|error| wrong(path, &error))?))
            }
        };
        writers = Some(match writers {
            None => writer,
            Some(before) => BoxMakeWriter::new(before.and(writer)),
        });
    }
    writers.ok_or_else(|| wrong(paths, &"there is no path"))
}

/// Converts the options of EC2.
fn of_ec2(arguments: Ec2Arguments, gates: AwsFeatureGates) -> Result<ec2::Options, Failure> {
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
    if enable_zonal_shift {
        return usage(
            "`--enable-zonal-shift`: zonal shifts are not supported yet\n\nhint: leave `--enable-zonal-shift` and \
             ENABLE_ZONAL_SHIFT out; take the zone out of the EC2NodeClass's subnets during a shift"
                .to_owned(),
        );
    }
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
        only_reads: false,
    })
}

/// Converts the options of the server for agents.
fn of_agents(
    port: u16,
    health_port: u16,
    address: Option<&str>,
    certificates: Option<&Path>,
) -> Result<agents::Options, Failure> {
    let address = address.unwrap_or_default();
    let address = address.parse().map_err(|fault| {
        Failure::Usage(format!(
            "`--agent-address`: `{address}`: {fault}\n\nhint: write where nodes reach the port of `--agent-port`, as \
             `muster.example.com:9443`"
        ))
    })?;
    let of_aws = Certificates::of_aws().map_err(|error| Failure::Internal(error.to_string()))?;
    let certificates = match certificates {
        None => of_aws,
        Some(path) => {
            let wrong = |why: &dyn std::fmt::Display| {
                Failure::Usage(format!("`--agent-identity-certificates`: `{}`: {why}", path.display()))
            };
            let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
            of_aws.and(Certificates::read(&text).map_err(|error| wrong(&error))?)
        }
    };
    let (port, health_port) = (Port::Number(port), Port::Number(health_port));
    Ok(agents::Options {
        port,
        health_port,
        address,
        certificates,
        rotation: agents::Rotation::default(),
        documents: super::DOCUMENTS,
    })
}

fn is_url(text: &str) -> bool {
    let is_http = |scheme: Option<&str>| matches!(scheme, Some("http" | "https"));
    text.parse::<http::Uri>().is_ok_and(|url| is_http(url.scheme_str()) && url.host().is_some())
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
mod tests {
    use clap::Parser;

    use super::super::arguments::{Arguments, Command};
    use super::*;

    fn typed(arguments: &[&str]) -> RunArguments {
        let all = ["muster", "run"].iter().chain(arguments);
        match Arguments::try_parse_from(all).unwrap().command {
            Command::Run(arguments) => *arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_are_karpenters() {
        let (options, _) = settings(typed(&[
            "--cloud=kwok",
            "--batch-max-duration=1m30s",
            "--kube-client-qps=20",
            "--disable-leader-election",
            "--leader-election-namespace=karpenter",
            "--feature-gates=ReservedCapacity=false",
            "--max-hourly-price=10",
        ]))
        .unwrap();
        assert_eq!(options.window, Lengths { idle: Duration::from_secs(1), max: Duration::from_secs(90) });
        assert_eq!((options.pace, options.lease, options.namespace.as_str()), ((20, 300), None, "karpenter"));
        assert!(!options.packing.reserved_capacity && options.nominates);
        assert_eq!(options.caps.hourly_price, Some(10.0));
    }

    #[test]
    fn what_has_no_effect_is_known() {
        let arguments = typed(&["--memory-limit=1073741824", "--enable-profiling=true", "--cpu-requests=1000"]);
        assert_eq!(ineffective(&arguments), ["--memory-limit", "--enable-profiling"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let failure = |arguments: &[&str]| {
            let failure = settings(typed(arguments)).map(|_| ()).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            failure.to_string()
        };
        insta::assert_snapshot!(failure(&["--cloud=kwok", "--batch-idle-duration=soon"]), @r"
        `--batch-idle-duration`: `soon` is not a duration

        hint: write it as `10s` or `1m30s`
        ");
        let agents = ["--cloud=kwok", "--agent-port=9443", "--agent-address=a:9443"];
        insta::assert_snapshot!(failure(&agents), @r"
        `--agent-port` is for `--cloud aws` only: nodes of `--cloud kwok` cannot prove which instance they are

        hint: leave `--agent-port` and AGENT_PORT out
        ");
        insta::assert_snapshot!(failure(&["--cloud=kwok", "--log-output-paths=stdout,/nowhere/x"]), @r"
        `--log-output-paths`: logs cannot be written to `/nowhere/x`: No such file or directory (os error 2)

        hint: use `stdout`, `stderr` or a file
        ");
    }

    #[test]
    fn the_log_goes_to_each_of_its_paths() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let paths = format!("stderr,{}", file.path().display());
        let all = writer(&paths, false).unwrap();
        let mut log = tracing_subscriber::fmt::MakeWriter::make_writer(&all);
        io::Write::write_all(&mut log, b"line\n").unwrap();
        drop(log);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "line\n");
        assert!(writer(" , ", false).is_err());
    }

    #[test]
    fn what_is_not_built_is_a_warning() {
        let gates = "--feature-gates=TerminateFirstDrift=true,Drift=true,NodeRepair=true";
        let arguments = ["--cloud=kwok", gates, "--aws-feature-gates=DRAEFA=true"];
        let (options, log) = settings(typed(&arguments)).unwrap();
        assert!(options.snapshot.gates.terminate_first_drift && options.snapshot.gates.node_repair);
        let [unknown, off] = &log.warnings[..] else { panic!("{:?}", log.warnings) };
        assert!(unknown.starts_with("`--feature-gates`: gate `Drift` is not known"), "{unknown}");
        assert!(off.starts_with("gate `DRAEFA` is on and has no effect"), "{off}");
    }

    #[test]
    fn reboots_need_repair_and_machines() {
        for (arguments, why) in [
            (["--cloud=kwok", "--feature-gates=NodeRepair=true"], "nodes that KWOK simulates have nothing to reboot"),
            #[cfg(feature = "ec2")]
            (["--cluster-name=shop", "--feature-gates="], "it needs the gate `NodeRepair` of `--feature-gates`"),
            #[cfg(feature = "ec2")]
            (["--cluster-name=shop", "--legacy-node-repair"], "`--legacy-node-repair` replaces nodes only"),
        ] {
            let arguments = [arguments[0], arguments[1], "--aws-feature-gates=RebootForRepair=true"];
            let (_, log) = settings(typed(&arguments)).unwrap();
            let expected = format!("gate `RebootForRepair` is on and has no effect: {why}");
            assert_eq!(log.warnings, [expected]);
        }
    }

    #[cfg(not(feature = "ec2"))]
    #[test]
    fn without_ec2_it_says_where_to_get_it() {
        let failure = settings(typed(&["--cloud=aws", "--cluster-name=shop"])).map(|_| ()).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        insta::assert_snapshot!(failure, @r"
        `--cloud aws` is not part of this build of the program

        hint: take the container image, or build with `cargo build --release --package muster-controller --features ec2`
        ");
    }

    #[cfg(feature = "ec2")]
    #[test]
    fn options_of_ec2_are_karpenters() {
        let (options, log) = settings(typed(&[
            "--cluster-name=shop",
            "--cluster-endpoint=https://shop.example.com",
            "--isolated-vpc",
            "--reserved-enis=1",
            "--vm-memory-overhead-percent=0",
            "--disable-dry-run=true",
            "--subnet-refresh-interval=5m",
            "--ami-refresh-interval=10m",
            "--security-group-refresh-interval=6m",
            "--aws-feature-gates=NodeClassCEL=true,DRAEFA=true",
            "--interruption-queue=shop",
        ]))
        .unwrap();
        assert_eq!(log.warnings.len(), 1, "{:?}", log.warnings);
        let CloudOptions::Aws(of_ec2) = options.cloud else { panic!("{:?}", options.cloud) };
        let expected = ec2::Options {
            endpoint: Some("https://shop.example.com".to_owned()),
            queue: Some("shop".to_owned()),
            is_isolated: true,
            reserved_enis: 1,
            vm_memory_overhead: 0.0,
            tries_launches: false,
            gates: AwsFeatureGates { node_class_cel: true, dra_efa: true, ..AwsFeatureGates::NONE },
            look_up_every: Duration::from_secs(300),
            ..ec2::Options::of("shop")
        };
        assert_eq!(*of_ec2, expected);
    }

    #[cfg(feature = "ec2")]
    #[test]
    fn what_is_wrong_about_ec2_is_named() {
        let failure = |arguments: &[&str]| {
            let failure = settings(typed(arguments)).map(|_| ()).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            failure.to_string()
        };
        insta::assert_snapshot!(failure(&[]), @r"
        `--cluster-name` is required with `--cloud aws`

        hint: give the name of the EKS cluster, or set CLUSTER_NAME
        ");
        insta::assert_snapshot!(failure(&["--enable-zonal-shift"]), @r"
        `--enable-zonal-shift`: zonal shifts are not supported yet

        hint: leave `--enable-zonal-shift` and ENABLE_ZONAL_SHIFT out; take the zone out of the EC2NodeClass's subnets during a shift
        ");
        insta::assert_snapshot!(failure(&["--cluster-name=shop", "--cluster-endpoint=shop"]), @r"
        `--cluster-endpoint`: `shop` is not a URL

        hint: write it as `https://…`, as `aws eks describe-cluster` does
        ");
        insta::assert_snapshot!(failure(&["--cluster-name=shop", "--vm-memory-overhead-percent=7.5"]), @r"
        `--vm-memory-overhead-percent`: `7.5` is not a fraction of the memory

        hint: write a fraction from 0 to below 1, such as `0.075`
        ");
        let agents = ["--cluster-name=shop", "--agent-port=9443", "--agent-address=https://muster:9443"];
        insta::assert_snapshot!(failure(&agents), @r"
        `--agent-address`: `https://muster:9443`: it is not `host:port`

        hint: write where nodes reach the port of `--agent-port`, as `muster.example.com:9443`
        ");
        insta::assert_snapshot!(failure(&["--cluster-name=shop", "--interruption-queue=https://sqs/shop"]), @r"
        `--interruption-queue`: `https://sqs/shop` is not the name of a queue

        hint: write the queue's name, not its URL or ARN: letters, digits, `-`, `_` and `.`, 80 at most
        ");
        insta::assert_snapshot!(failure(&["--cluster-name=shop", "--ami-refresh-interval=10s"]), @r"
        `--ami-refresh-interval`: `10s` is too short

        hint: `1m` is the shortest
        ");
    }
}
