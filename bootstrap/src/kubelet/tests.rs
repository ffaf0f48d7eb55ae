use serde_json::{Map, json};

use super::arguments::{ArgumentFaultKind, FlagSet, parse};
use super::flags::{self, Known};
use super::version::Minor;
use super::{config, gates, labels, taints};

fn taint_fault(text: &str) -> String {
    taints::flag_value(text).unwrap_err().to_string()
}

#[test]
fn taints_are_read_as_the_kubelet_reads_them() {
    let read = |text: &str| taints::flag_value(text).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(read("a=b:NoSchedule,a:NoExecute"), ["a=b:NoSchedule", "a:NoExecute"]);
    assert_eq!(read("a=:NoSchedule"), ["a:NoSchedule"]);
    assert_eq!(read(""), [""; 0]);
    assert_eq!(read("a:NoSchedule-,b-"), [""; 0]);
    assert_eq!(taint_fault("b@d-"), "invalid taint spec: b@d-, its key or value is not that of a label");
    assert_eq!(taint_fault("a=b-"), "invalid taint spec: a=b-, its key or value is not that of a label");
    assert_eq!(taint_fault("a:noschedule-"), "invalid taint effect: noschedule, unsupported taint effect");
    assert_eq!(taint_fault("a=b"), "invalid taint spec: a=b");
    assert_eq!(taint_fault("a=b:noschedule"), "invalid taint effect: noschedule, unsupported taint effect");
    assert_eq!(taint_fault("\"k:NoExecute\""), "invalid taint effect: NoExecute\", unsupported taint effect");
    assert_eq!(taint_fault("a=b:c:NoSchedule"), "invalid taint spec: a=b:c:NoSchedule");
    assert_eq!(taint_fault("a=b:NoSchedule,"), "invalid taint spec: ");
    assert!(taint_fault("a=b:NoSchedule,a=c:NoSchedule").starts_with("duplicated taints"));
}

#[test]
fn labels_that_a_kubelet_may_not_give_itself() {
    for key in
        ["node-role.kubernetes.io/worker", "kubernetes.io/cluster/x", "a.k8s.io/b", "node-restriction.kubernetes.io/a"]
    {
        assert!(labels::is_restricted(key), "{key}");
    }
    for key in [
        "karpenter.sh/nodepool",
        "node.kubernetes.io/x",
        "a.kubelet.kubernetes.io/x",
        "topology.kubernetes.io/zone",
        "x",
    ] {
        assert!(!labels::is_restricted(key), "{key}");
    }
}

#[test]
fn flags_come_and_go_with_versions() {
    assert!(matches!(flags::look_up("pod-infra-container-image", Some(Minor(34))), Known::Yes(_)));
    assert!(matches!(
        flags::look_up("pod-infra-container-image", Some(Minor(35))),
        Known::Gone { since: Minor(35), .. }
    ));
    assert!(matches!(flags::look_up("container-runtime", Some(Minor(30))), Known::Gone { since: Minor(27), .. }));
    assert!(matches!(flags::look_up("fail-cgroupv1", Some(Minor(30))), Known::NotYet { since: Minor(31) }));
    assert_eq!(flags::look_up("improve-speed", Some(Minor(30))), Known::No);
    assert_eq!(flags::nearest("maxPods", Some(Minor(34))), Some("max-pods"));
    assert_eq!(flags::removed_in("cloud-config"), Some(Minor(34)));
}

#[test]
fn gates_lock_and_go() {
    assert_eq!(gates::fault("SystemdWatchdog", false, Some(Minor(35))), Some(gates::GateFault::Locked { to: true }));
    assert_eq!(gates::fault("SystemdWatchdog", false, Some(Minor(34))), None);
    assert_eq!(gates::fault("NoSuchGate", true, None), Some(gates::GateFault::Unknown));
    assert_eq!(gates::fault("RotateKubeletServerCertificate", true, Some(Minor(37))), None);
}

#[test]
fn arguments_are_parsed_as_pflag_does() {
    let parsed = parse(
        &[
            "--max-pods",
            "5",
            "--v=2",
            "--node_labels=a=b",
            "--node-labels=c=d",
            "--register-node",
            "false",
            "--max-pods",
        ],
        &|_| false,
        &FlagSet::default(),
    );
    assert_eq!(parsed.last("max-pods").unwrap().value, "5");
    assert_eq!(parsed.map("node-labels").into_iter().collect::<Vec<_>>().len(), 2);
    assert_eq!(parsed.last("register-node").unwrap().value, "true");
    let kinds: Vec<_> = parsed.faults.iter().map(|fault| fault.kind.clone()).collect();
    assert_eq!(kinds, [ArgumentFaultKind::Positional, ArgumentFaultKind::NoValue]);
}

fn faults(argument: &str) -> Vec<ArgumentFaultKind> {
    parse(&[argument], &|_| false, &FlagSet::default()).faults.into_iter().map(|fault| fault.kind).collect()
}

#[test]
fn values_are_judged_as_the_kubelet_judges_them() {
    let label = |text: &str| vec![ArgumentFaultKind::Label(text.to_owned())];
    let number = || vec![ArgumentFaultKind::Value("it must be a whole number of 32 bits".to_owned())];
    for (argument, kinds) in [
        ("-v2", Vec::new()),
        ("-v=2", Vec::new()),
        ("-vx", number()),
        ("-verbose=2", vec![ArgumentFaultKind::OneDash]),
        ("--node-labels=a=b, spot", Vec::new()),
        ("--node-labels=spot,bad=has/slash", label("bad=has/slash")),
        ("--node-labels=spot,b@d", label("b@d")),
        ("--max-pods=0x20", Vec::new()),
        ("--max-pods=040", Vec::new()),
        ("--max-pods=1_0", Vec::new()),
        ("--max-pods=-1", Vec::new()),
        ("--max-pods=08", number()),
        ("--max-pods=0x", number()),
        ("--max-pods=1__0", number()),
        ("--max-pods=3000000000", number()),
    ] {
        assert_eq!(faults(argument), kinds, "{argument}");
    }
    let verbosity = parse(&["-v2"], &|_| false, &FlagSet::default());
    assert_eq!(verbosity.last("v").unwrap().value, "2");
}

#[test]
fn flags_replace_fields_of_the_configuration() {
    for (arguments, field, value) in [
        (
            &["--kube-reserved=cpu=1", "--kube-reserved=memory=1Gi"][..],
            "kubeReserved",
            json!({"cpu": "1", "memory": "1Gi"}),
        ),
        (&["--eviction-hard=a<1", "--eviction-hard=b<2,a<3"][..], "evictionHard", json!({"a": "3", "b": "2"})),
        (&["--cluster-dns=10.0.0.1", "--cluster-dns=10.0.0.2"][..], "clusterDNS", json!(["10.0.0.1", "10.0.0.2"])),
        (&["--cgroup-driver=cgroupfs", "--cgroup-driver=systemd"][..], "cgroupDriver", json!("systemd")),
        (&["--max-pods=0x20"][..], "maxPods", json!(32)),
        (&["--protect-kernel-defaults=false"][..], "protectKernelDefaults", json!(false)),
        (&["--resolv-conf=/run/a"][..], "resolvConf", json!("/run/a")),
        // The other fields that the checks of a machine read.
        (&["--fail-swap-on=false"][..], "failSwapOn", json!(false)),
        (&["--fail-cgroupv1=false"][..], "failCgroupV1", json!(false)),
        (&["--port=1"][..], "port", json!(1)),
        (&["--healthz-port=1"][..], "healthzPort", json!(1)),
        (&["--topology-manager-policy=restricted"][..], "topologyManagerPolicy", json!("restricted")),
        (&["--topology-manager-policy-options=a=b"][..], "topologyManagerPolicyOptions", json!({"a": "b"})),
        (&["--enforce-node-allocatable=pods"][..], "enforceNodeAllocatable", json!(["pods"])),
        (&["--system-reserved-cgroup=/a"][..], "systemReservedCgroup", json!("/a")),
        (&["--kube-reserved-cgroup=/a"][..], "kubeReservedCgroup", json!("/a")),
    ] {
        let parsed = parse(arguments, &|_| false, &FlagSet::default());
        assert!(parsed.faults.is_empty(), "{arguments:?}");
        let config = Map::from_iter([(field.to_owned(), json!("of the file"))]);
        assert_eq!(config::with_flags(&config, &parsed).get(field), Some(&value), "{arguments:?}");
    }
}

#[test]
fn the_flags_of_a_binary_are_read_off_its_help() {
    let help = "  -h, --help   help for kubelet\n      --max-pods int32   Number\n  -v, --v Level   number\n";
    assert_eq!(flags::of_help(help).into_iter().collect::<Vec<_>>(), ["help", "max-pods", "v"]);
}

#[test]
fn durations_and_quantities() {
    assert_eq!(config::duration("1m30s"), Some(90_000_000_000));
    assert_eq!(config::duration("1.5h"), Some(5_400_000_000_000));
    assert_eq!(config::duration("-2ms"), Some(-2_000_000));
    for text in ["", "5", "1x", "s", ".s", "1..5s", "99999999999999999999h"] {
        assert_eq!(config::duration(text), None, "{text}");
    }
    assert_eq!(config::quantity("100Mi"), Some(104_857_600.0));
    for text in ["", "Mi", "abc", "1ki", "--1", "nan", "inf"] {
        assert_eq!(config::quantity(text), None, "{text}");
    }
}
