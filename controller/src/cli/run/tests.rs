use clap::Parser;

use super::super::arguments::{Arguments, Command};
use super::log::writer;
use super::*;
#[cfg(feature = "ec2")]
use crate::ec2;

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
    assert_eq!(ineffective(&arguments.ineffective), ["--memory-limit", "--enable-profiling"]);
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
    assert_eq!(off, "gate `DRAEFA` is on and has no effect: it needs `--ignore-dra-requests=false`");
    assert_eq!(options.snapshot.devices, DeviceSettings { allocates: false, nvidia: false, efa: true });
    let arguments = [arguments[0], "--ignore-dra-requests=false", arguments[2]];
    let (options, log) = settings(typed(&arguments)).unwrap();
    assert_eq!(options.snapshot.devices, DeviceSettings { allocates: true, nvidia: false, efa: true });
    assert_eq!(log.warnings, Vec::<String>::new());
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
        "--enable-zonal-shift",
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
        zonal_shifts_every: Some(ec2::ZONAL_SHIFTS_EVERY),
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
