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
