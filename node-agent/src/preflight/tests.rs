//! Every verdict that a preflight of a node can come to: a healthy node, one thing changed, and the code that follows. The
//! healthy node is the mended case of all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_bootstrap::finding::Severity;
use muster_bootstrap::userdata::to_base64;

use super::credentials::{Caller, OwnNode};
use super::identity::Instance;
use super::machine::{Disk, INOTIFY, KERNEL};
use super::way::TlsFault;
use super::*;
use crate::devices::catalogue::Function;
use crate::watch::node_object::NodeObject;

const NAME: &str = "ip-10-0-0-1.ec2.internal";

pub(crate) fn user_data(agent: &str) -> Vec<u8> {
    let authority = to_base64(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    let node = format!(
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: shop\n    apiServerEndpoint: \
         https://a.example\n    certificateAuthority: {authority}\n    cidr: 10.100.0.0/16\n  kubelet:\n    config:\n      \
         registerWithTaints:\n      - {{key: karpenter.sh/unregistered, effect: NoExecute}}\n"
    );
    format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: \
         application/node.eks.aws\n\n{node}\n--//\nContent-Type: application/muster.dev\n\n{agent}\n--//--\n"
    )
    .into_bytes()
}

const AGENT: &str = "apiVersion: muster.dev/v1\nkind: AgentConfig\nspec:\n  expect:\n    taints: \
                     ['karpenter.sh/unregistered:NoExecute']\n    resources: {nvidia.com/gpu: 1}\n";

pub(crate) fn healthy() -> Facts {
    let now: Timestamp = "2026-11-21T20:00:00Z".parse().unwrap();
    let config = r#"{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","protectKernelDefaults":true,
        "registerWithTaints":[{"key":"karpenter.sh/unregistered","effect":"NoExecute"}],"resolvConf":"/run/resolv.conf"}"#;
    let room = Disk { size: 20 << 30, free: 15 << 30 };
    Facts {
        now,
        family: Some(Family::Al2023),
        arch: Some(Arch::Amd64),
        metadata: Metadata::Answers(Box::new(Instance {
            id: "i-1".to_owned(),
            instance_type: "g5.xlarge".to_owned(),
            zone: "us-east-1a".to_owned(),
            region: "us-east-1".to_owned(),
            address: "10.0.0.1".to_owned(),
            host_name: NAME.to_owned(),
            has_role: Some(true),
            user_data: Some(user_data(AGENT)),
            interfaces: 1,
            profile: Some("arn:aws:iam::111122223333:instance-profile/shop".to_owned()),
            cluster_of_tags: Some("shop".to_owned()),
            has_ipv6: Some(false),
            vpc_networks: vec!["10.0.0.0/16".to_owned()],
        })),
        flags: FlagSet { version: "1.36".parse().ok(), of_binary: None },
        kubelet_arch: Some((Arch::Amd64, "/usr/bin/kubelet".to_owned())),
        command: Some((
            "the kubelet's command line".to_owned(),
            [
                "--cloud-provider=external".to_owned(),
                "--config=/etc/kubernetes/kubelet/config.json".to_owned(),
                format!("--hostname-override={NAME}"),
                "--kubeconfig=/var/lib/kubelet/kubeconfig".to_owned(),
            ]
            .to_vec(),
        )),
        config: vec![File { name: "/etc/kubernetes/kubelet/config.json".to_owned(), text: config.to_owned() }],
        missing: Vec::new(),
        has_proxy: false,
        machine: Machine {
            host_name: NAME.to_owned(),
            boot_id: "b".to_owned(),
            swaps: "Filename Type Size Used Priority\n".to_owned(),
            has_unified_cgroups: true,
            kernel: KERNEL.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            disks: BTreeMap::from([("/var/lib/kubelet".to_owned(), room)]),
            ports: BTreeSet::from([22]),
            containerd_config: Some("version = 3\n[plugins.\"io.containerd.cri.v1.runtime\"]\n".to_owned()),
            containerd_version: Some("2.0.5".to_owned()),
            uptime: 20,
            numa_nodes: 1,
            control_groups: BTreeSet::from(["system.slice".to_owned()]),
            links: BTreeMap::from([("ens5".to_owned(), "configured".to_owned())]),
            refused: BTreeMap::new(),
            pod_table: None,
        },
        way: Some(Way::Open { to: "a.example:443".to_owned(), clock: Some((now, now)), version: None }),
        standing: Some(known(NAME, "system:nodes", OwnNode::Absent)),
        devices: Sightings {
            functions: vec![Function {
                vendor: "10de".to_owned(),
                device: "2237".to_owned(),
                class: "030200".to_owned(),
                driver: Some("nvidia".to_owned()),
            }],
            files: vec!["nvidia0".to_owned()],
            ..Sightings::default()
        },
        sandbox: Some(containerd::Sandbox::Present),
        units: vec![Unit { name: "containerd".to_owned(), exists: true, ..Unit::default() }],
        has_joined: false,
        is_kubelet_active: false,
        is_bootstrapped: true,
    }
}

fn known(name: &str, group: &str, node: OwnNode) -> CredentialCheck {
    let groups = vec![group.to_owned(), "system:authenticated".to_owned()];
    CredentialCheck::Known { user: format!("system:node:{name}"), groups, version: Some("v1.36.1".to_owned()), node }
}

fn node(provider_id: &str) -> OwnNode {
    let node = NodeObject { name: NAME.to_owned(), provider_id: provider_id.to_owned(), ..NodeObject::default() };
    OwnNode::Present(Box::new(node))
}

/// Nothing is wrong with these.
pub(crate) fn facts() -> Facts {
    healthy()
}

/// The API server shows the instance's own Node.
pub(crate) fn register(facts: &mut Facts) {
    facts.standing = Some(known(NAME, "system:nodes", node("aws:///us-east-1a/i-1")));
}

fn instance(facts: &mut Facts) -> &mut Instance {
    match &mut facts.metadata {
        Metadata::Answers(instance) => instance,
        other => panic!("{other:?}"),
    }
}

/// The preflight of a healthy node with one thing changed, for tests of what follows from it.
pub(crate) fn examined(change: impl FnOnce(&mut Facts)) -> Preflight {
    let mut facts = healthy();
    change(&mut facts);
    examine(&facts)
}

/// The same with another command line of the kubelet.
pub(crate) fn examined_with(command: Option<(String, Vec<String>)>) -> Preflight {
    examined(|facts| (facts.command, facts.is_bootstrapped) = (command, false))
}

type Change = fn(&mut Facts);

/// What changes, and the verdict that it leads to.
pub(super) const CASES: &[(&str, Change)] = &[
    ("ID01", |it| {
        (it.metadata, it.standing) = (Metadata::Silent("no answer for 1.5 s".to_owned()), None);
    }),
    ("ID02", |it| (it.metadata, it.standing) = (Metadata::Off, None)),
    ("ID04", |it| {
        it.standing = Some(CredentialCheck::Exec { command: "aws".to_owned(), error: "exit code 253".to_owned() });
        instance(it).has_role = Some(false);
    }),
    ("ID12", |it| {
        let theirs = "2026-11-21T19:50:00Z".parse().unwrap();
        it.way = Some(Way::Open { to: "a.example:443".to_owned(), clock: Some((theirs, it.now)), version: None });
    }),
    ("ID12", |it| it.way = Some(tls(TlsFault::Time("certificate not valid yet".to_owned())))),
    ("ID13", |it| refused(it, Some(Caller::Refused("AccessDenied: denied by a policy".to_owned())))),
    ("AU01", |it| refused(it, Some(Caller::Known("arn:aws:sts::111122223333:assumed-role/shop/i-1".to_owned())))),
    ("AU02", |it| {
        refused(it, Some(Caller::Known("arn:aws:sts::111122223333:assumed-role/shop/i-1".to_owned())));
        instance(it).profile = Some("arn:aws:iam::111122223333:instance-profile/eks/nodes/shop".to_owned());
    }),
    ("NW07", |it| {
        refused(it, None);
        instance(it).cluster_of_tags = Some("warehouse".to_owned());
    }),
    ("NW10", |it| drop(it.machine.links.insert("ens6".to_owned(), "failed".to_owned()))),
    ("NW10", |it| {
        it.machine.uptime = 90;
        it.machine.links.insert("ens6".to_owned(), "configuring".to_owned());
    }),
    ("NW11", |it| replace_user_data(it, "10.100.0.0/16", "fd00:10::/108")),
    ("WN09", |it| {
        (it.family, it.command, it.config) = (Some(Family::Windows2022), None, Vec::new());
        instance(it).user_data = None;
    }),
    ("WN10", |it| {
        it.family = Some(Family::Windows2022);
        it.command = None;
        instance(it).user_data = Some(
            b"<powershell>\n& 'C:\\Start-EKSBootstrap.ps1' -EKSClusterName shop -APIServerEndpoint https://a.example \
              -Base64ClusterCA 'TEE=' -ServiceCIDR 10.0.128.0/20\n</powershell>"
                .to_vec(),
        );
    }),
    ("UD13", |it| drop(it.machine.refused.insert("/usr/bin/nodeadm".to_owned(), "mode 0644".to_owned()))),
    ("UD21", |it| {
        (it.family, it.command) = (Some(Family::Al2), None);
        it.machine.pod_table = Some("m5.large 29\nm5.xlarge 58\n".to_owned());
        instance(it).user_data = Some(b"#!/bin/bash\n/etc/eks/bootstrap.sh shop\n".to_vec());
    }),
    ("UD09", |it| {
        it.machine.containerd_version = Some("1.7.27".to_owned());
        it.flags.version = "1.34".parse().ok();
        replace_user_data(it, "spec:\n", "spec:\n  containerd: {config: 'version = 3'}\n");
    }),
    ("KA21", |it| {
        it.machine.numa_nodes = 32;
        it.config[0].text = it.config[0].text.replacen('{', r#"{"topologyManagerPolicy":"best-effort","#, 1);
    }),
    ("KA22", |it| {
        let wanted = r#"{"enforceNodeAllocatable":["pods","kube-reserved"],"kubeReservedCgroup":"/runtime","#;
        it.config[0].text = it.config[0].text.replacen('{', wanted, 1);
    }),
    ("CN07", |it| add(it, "--max-pods=110")),
    ("CN09", |it| {
        instance(it).user_data = Some(user_data(&AGENT.replace("nvidia.com/gpu", "vpc.amazonaws.com/pod-eni")));
        it.devices.instance_type = Some("t3.large".to_owned());
    }),
    ("CR04", |it| sandbox(it, "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5")),
    ("CR05", |it| sandbox(it, "localhost/kubernetes/pause:latest")),
    ("CR08", |it| {
        it.machine.containerd_config = Some(
            "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".containerd]\ndefault_runtime_name = \"nvidia\"\n"
                .to_owned(),
        );
    }),
    ("GP15", |it| {
        let switch =
            Function { device: "22a3".to_owned(), class: "068000".to_owned(), ..it.devices.functions[0].clone() };
        it.devices.functions.push(switch);
    }),
    ("UD03", |it| {
        it.command = None;
        instance(it).user_data = None;
    }),
    ("UD03", |it| {
        it.command = None;
        instance(it).user_data = Some(b"#!/bin/sh\necho\n".to_vec());
    }),
    // A script of a custom image may write a NodeConfig of its own.
    ("UD03", |it| {
        it.command = None;
        instance(it).user_data = Some(b"#!/bin/sh\nnodeadm init -c file:///etc/node.yaml\n".to_vec());
    }),
    // The kubelet is configured, whatever has done that.
    ("UD03", |it| instance(it).user_data = Some(b"#!/bin/sh\necho\n".to_vec())),
    ("UD31", |it| {
        instance(it).user_data = Some(user_data("apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: {mod: native}\n"))
    }),
    ("KA01", |it| add(it, "--container-runtime=remote")),
    ("KA04", |it| add(it, "c=d:NoSchedule")),
    ("KA07", |it| add(it, "--register-with-taints=a=b:NoSchedule")),
    ("KA08", |it| add(it, "--register-with-taints=a=b:NoSchedule")),
    ("KA11", |it| it.config[0].text = "{".to_owned()),
    ("KA17", |it| it.machine.swaps.push_str("/swapfile file 524284 0 -2\n")),
    ("KA18", |it| it.machine.has_unified_cgroups = false),
    ("KA19", |it| drop(it.machine.kernel.insert("vm/overcommit_memory".to_owned(), "0".to_owned()))),
    ("KA23", |it| it.missing.push("/var/lib/kubelet/kubeconfig".to_owned())),
    ("KA23", |it| it.standing = Some(CredentialCheck::Kubeconfig("/k".to_owned(), "not a kubeconfig".to_owned()))),
    ("KA24", |it| it.kubelet_arch = Some((Arch::Arm64, "/usr/bin/kubelet".to_owned()))),
    ("KA26", |it| it.machine.ports.extend([10_250])),
    ("KA27", |it| drop(it.machine.kernel.insert(INOTIFY.to_owned(), "128".to_owned()))),
    ("UD19", |it| {
        (it.family, it.command) = (Some(Family::Al2), None);
        instance(it).user_data = None;
    }),
    ("UD28", |it| way(it, tls(TlsFault::Authority("there is no certificate in it".to_owned())))),
    ("KA28", |it| it.flags.version = "1.37".parse().ok()),
    ("KA32", |it| it.missing.push("/run/resolv.conf".to_owned())),
    ("KA32", |it| {
        add(it, "--resolv-conf=/run/mine.conf");
        it.missing.push("/run/mine.conf".to_owned());
    }),
    ("CR01", |it| it.machine.containerd_config = Some("version = 3\n[plugins".to_owned())),
    ("CR01", |it| it.machine.containerd_config = Some("version = 2\n[plugins.cri]\n".to_owned())),
    ("CR11", |it| it.machine.disks.extend([("/var/lib/kubelet".to_owned(), Disk { size: 20 << 30, free: 1 << 20 })])),
    ("CR13", |it| it.machine.containerd_version = Some("1.7.27".to_owned())),
    ("NW01", |it| way(it, Way::Unknown { host: "a.example".to_owned(), error: "no such host".to_owned() })),
    ("NW02", |it| way(it, Way::Silent { to: "a.example:443".to_owned(), after: Duration::from_millis(1500) })),
    ("NW03", |it| way(it, Way::Refused { to: "a.example:443".to_owned(), error: "connection refused".to_owned() })),
    ("NW04", |it| way(it, tls(TlsFault::Issuer))),
    ("NW05", |it| way(it, tls(TlsFault::Name("certificate is valid for b.example".to_owned())))),
    ("NW06", |it| way(it, no_proxy())),
    ("NW13", |it| way(it, Way::Odd { to: "a.example:443".to_owned(), error: "503 Service Unavailable".to_owned() })),
    ("NW08", |it| it.standing = Some(CredentialCheck::Busy("429 Too Many Requests".to_owned()))),
    ("AU01", |it| it.standing = Some(CredentialCheck::Unauthorized(None))),
    ("AU04", |it| it.standing = Some(known(NAME, "everyone", OwnNode::Absent))),
    ("AU07", |it| it.standing = Some(known("i-1", "system:nodes", OwnNode::Absent))),
    ("AU10", |it| {
        it.standing = Some(CredentialCheck::Exec { command: "aws".to_owned(), error: "not found".to_owned() })
    }),
    ("AU11", |it| it.standing = Some(CredentialCheck::ExecVersion("client.authentication.k8s.io/v1alpha1".to_owned()))),
    ("AU13", |it| it.standing = Some(known(NAME, "system:nodes", node("aws:///us-east-1a/i-0")))),
    ("GP17", |it| it.devices = Sightings::default()),
    ("GP01", |it| {
        it.devices.files.clear();
        it.devices.functions[0].driver = None;
    }),
    ("GP11", |it| it.devices.files.clear()),
];

/// What lies next to each fault and is none.
const RIGHT: &[(&str, Change)] = &[
    ("AU01", |it| instance(it).profile = Some("arn:aws:iam::111122223333:instance-profile/eks/nodes/shop".to_owned())),
    ("NW07", |it| instance(it).cluster_of_tags = None),
    ("NW10", |it| drop(it.machine.links.insert("ens6".to_owned(), "configuring".to_owned()))),
    ("NW11", |it| {
        instance(it).has_ipv6 = Some(true);
        replace_user_data(it, "10.100.0.0/16", "fd00:10::/108");
    }),
    ("WN10", |it| instance(it).vpc_networks = vec!["10.100.0.0/16".to_owned()]),
    ("UD21", |it| it.machine.pod_table = Some("m5.large 29\n".to_owned())),
    ("KA21", |it| {
        it.machine.numa_nodes = 32;
        let wanted = r#"{"topologyManagerPolicy":"best-effort","topologyManagerPolicyOptions":{"max-allowable-numa-nodes":"32"},"#;
        it.config[0].text = it.config[0].text.replacen('{', wanted, 1);
    }),
    ("KA22", |it| {
        let wanted = r#"{"enforceNodeAllocatable":["system-reserved"],"systemReservedCgroup":"/system","#;
        it.config[0].text = it.config[0].text.replacen('{', wanted, 1);
    }),
    ("KA19", |it| {
        add(it, "--protect-kernel-defaults=false");
        it.machine.kernel.insert("vm/overcommit_memory".to_owned(), "0".to_owned());
    }),
    ("CR04", |it| {
        sandbox(it, "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/pause:3.5");
    }),
    ("CR05", |it| {
        sandbox(it, "localhost/kubernetes/pause:latest");
        it.sandbox = Some(containerd::Sandbox::Present);
    }),
    ("CR08", |it| {
        let config = "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".containerd]\ndefault_runtime_name = \"nvidia\"\n\
                      [plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.nvidia]\n";
        it.machine.containerd_config = Some(config.to_owned());
    }),
    ("GP15", |it| {
        let switch =
            Function { device: "22a3".to_owned(), class: "068000".to_owned(), ..it.devices.functions[0].clone() };
        it.devices.functions.push(switch);
        let active = "active".to_owned();
        it.units.push(Unit { name: "nvidia-fabricmanager".to_owned(), exists: true, active, ..Unit::default() });
    }),
];

fn refused(facts: &mut Facts, caller: Option<Caller>) {
    facts.standing = Some(CredentialCheck::Unauthorized(caller));
}

fn replace_user_data(facts: &mut Facts, from: &str, to: &str) {
    let text = String::from_utf8(user_data(AGENT)).unwrap();
    assert!(text.contains(from), "{text}");
    instance(facts).user_data = Some(text.replacen(from, to, 1).into_bytes());
}

/// A node whose containerd lacks the image of pod sandboxes that its configuration names.
fn sandbox(facts: &mut Facts, image: &str) {
    let config =
        format!("version = 3\n[plugins.\"io.containerd.cri.v1.images\".pinned_images]\nsandbox = \"{image}\"\n");
    facts.machine.containerd_config = Some(config);
    facts.sandbox = Some(containerd::Sandbox::Absent);
}

fn tls(fault: TlsFault) -> Way {
    Way::Tls { to: "a.example:443".to_owned(), fault }
}

fn way(facts: &mut Facts, way: Way) {
    (facts.way, facts.standing) = (Some(way), None);
}

fn add(facts: &mut Facts, argument: &str) {
    if let Some((_, arguments)) = &mut facts.command {
        arguments.push(argument.to_owned());
    }
}

fn shown(preflight: &Preflight) -> String {
    let lines = preflight.findings.iter().map(|it| {
        let evidence = it.evidence.as_ref().map(|it| format!(" [{}: {}]", it.place, it.text)).unwrap_or_default();
        format!("{} {}: {}{evidence}", it.severity, it.verdict.code, it.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_healthy_node_has_nothing_to_hear() {
    let preflight = examine(&healthy());
    assert_eq!(shown(&preflight), "");
    assert_eq!(preflight.node_name.as_deref(), Some(NAME));
    assert_eq!(preflight.required_taints, [Taint::unregistered()]);
}

#[test]
fn each_fault_has_its_verdict() {
    let mut told = String::new();
    for (code, change) in CASES {
        let mut facts = healthy();
        change(&mut facts);
        let preflight = examine(&facts);
        assert!(preflight.findings.iter().any(|it| it.verdict.code == *code), "{code}:\n{}", shown(&preflight));
        told.push_str(&format!("{code}\n{}\n\n", shown(&preflight)));
    }
    insta::assert_snapshot!(told);
}

#[test]
fn what_lies_next_to_a_fault_is_none() {
    for (code, change) in RIGHT {
        let mut facts = healthy();
        change(&mut facts);
        assert_eq!(shown(&examine(&facts)), "", "beside {code}");
    }
}

/// What breaks a node, the code, words of the fix that is told, and what these words say, done.
const MENDED: &[(&str, Change, &str, Change)] = &[
    (
        "KA24",
        |it| (it.arch, it.kubelet_arch) = (Some(Arch::Amd64), Some((Arch::Arm64, "/usr/bin/kubelet".to_owned()))),
        "use the build for the architecture of the instances",
        |it| it.kubelet_arch = Some((Arch::Amd64, "/usr/bin/kubelet".to_owned())),
    ),
    (
        "AU01",
        |it| refused(it, Some(Caller::Known("arn:aws:sts::111122223333:assumed-role/shop/i-1".to_owned()))),
        "add an access entry of type EC2_LINUX (Windows: EC2_WINDOWS) for `arn:aws:iam::111122223333:role/shop`",
        |it| it.standing = Some(known(NAME, "system:nodes", OwnNode::Absent)),
    ),
    (
        "ID04",
        |it| {
            it.standing = Some(CredentialCheck::Exec { command: "aws".to_owned(), error: "exit code 253".to_owned() });
            instance(it).has_role = Some(false);
        },
        "set `spec.role` or `spec.instanceProfile` of the EC2NodeClass",
        |it| {
            instance(it).has_role = Some(true);
            it.standing = Some(known(NAME, "system:nodes", OwnNode::Absent));
        },
    ),
    (
        "NW02",
        |it| way(it, Way::Silent { to: "a.example:443".to_owned(), after: Duration::from_millis(1500) }),
        "allow port 443 from the node's security group to the cluster's",
        |it| {
            it.way = Some(Way::Open { to: "a.example:443".to_owned(), clock: Some((it.now, it.now)), version: None });
            it.standing = Some(known(NAME, "system:nodes", OwnNode::Absent));
        },
    ),
    (
        "UD03",
        |it| {
            it.command = None;
            instance(it).user_data = None;
        },
        "add a part with `Content-Type: application/node.eks.aws` that holds a NodeConfig",
        |it| instance(it).user_data = Some(user_data(AGENT)),
    ),
    (
        "KA07",
        |it| add(it, "--register-with-taints=a=b:NoSchedule"),
        "set all taints in one place: in one `--register-with-taints` flag",
        |it| {
            it.command.iter_mut().for_each(|(_, arguments)| drop(arguments.pop()));
            add(it, "--register-with-taints=a=b:NoSchedule,karpenter.sh/unregistered:NoExecute");
        },
    ),
];

#[test]
fn the_fix_that_is_told_makes_the_case_pass() {
    for (code, fault, words, remedy) in MENDED {
        let mut facts = healthy();
        fault(&mut facts);
        let broken = examine(&facts);
        let told = broken.findings.iter().find(|it| it.verdict.code == *code).unwrap();
        assert_eq!(told.severity, Severity::Error, "{code}");
        assert!(told.fix.contains(words), "{code}: {}", told.fix);
        remedy(&mut facts);
        assert!(examine(&facts).fatal().is_none(), "{code}, mended:\n{}", shown(&examine(&facts)));
    }
}

#[test]
fn nothing_is_wrong_with_an_old_control_group_that_the_kubelet_accepts() {
    let mut facts = healthy();
    facts.machine.has_unified_cgroups = false;
    facts.config[0].text = facts.config[0].text.replacen('{', r#"{"failCgroupV1":false,"#, 1);
    let found = examine(&facts).findings;
    assert_eq!(found.iter().map(|it| (it.verdict.code, it.severity)).collect::<Vec<_>>(), [("KA18", Severity::Info)]);
}

#[test]
fn what_the_bootstrap_has_yet_to_write_is_not_missing() {
    let mut facts = healthy();
    (facts.command, facts.config, facts.is_bootstrapped) = (None, Vec::new(), false);
    facts.missing.push("/etc/eks/kubelet/environment".to_owned());
    assert_eq!(shown(&examine(&facts)), "", "judged by the user data alone");
}

#[test]
fn a_kubelet_that_runs_has_its_ports_and_its_node() {
    let mut facts = healthy();
    facts.is_kubelet_active = true;
    facts.machine.ports.extend([10_250, 10_248]);
    facts.standing = Some(known(NAME, "system:nodes", node("aws:///us-east-1a/i-1")));
    assert_eq!(shown(&examine(&facts)), "");
}

#[test]
fn who_the_api_server_knows_does_without_metadata() {
    let mut facts = healthy();
    facts.metadata = Metadata::Silent("no answer".to_owned());
    let found = examine(&facts);
    assert!(found.fatal().is_none(), "{}", shown(&found));
}

#[test]
fn a_full_disk_does_not_hold_back_who_makes_room() {
    let mut facts = healthy();
    facts.machine.disks.insert("/var/lib/containerd".to_owned(), Disk { size: 20 << 30, free: 0 });
    assert_eq!(examine(&facts).fatal().map(|it| it.verdict.code), Some("CR11"));
    facts.has_joined = true;
    let found = examine(&facts);
    assert!(found.fatal().is_none(), "{}", shown(&found));
    assert!(found.findings.iter().any(|it| it.verdict.code == "CR11"));
}

#[test]
fn a_node_without_a_provider_is_a_stranger_only_to_who_has_none_yet() {
    let mut facts = healthy();
    facts.standing = Some(known(NAME, "system:nodes", node("")));
    let codes = |facts: &Facts| examine(facts).findings.iter().map(|it| it.verdict.code).collect::<Vec<_>>();
    assert_eq!(codes(&facts), ["AU13"]);
    facts.has_joined = true;
    assert_eq!(codes(&facts), Vec::<&str>::new());
}

#[test]
fn the_own_node_is_told_from_that_of_another_instance() {
    let mut facts = healthy();
    assert!(!facts.has_own_node());
    facts.standing = Some(known(NAME, "system:nodes", node("aws:///us-east-1a/i-0")));
    assert!(!facts.has_own_node());
    facts.standing = Some(known(NAME, "system:nodes", node("aws:///us-east-1a/i-1")));
    assert!(facts.has_own_node());
    facts.metadata = Metadata::Silent("no answer".to_owned());
    assert!(!facts.has_own_node(), "whose it is cannot be known");
}

#[test]
fn a_kubelet_behind_a_proxy_is_not_held_by_a_way_that_it_does_not_go() {
    let mut facts = healthy();
    facts.way = Some(Way::Silent { to: "10.0.0.1:443".to_owned(), after: Duration::from_secs(2) });
    facts.standing = None;
    assert_eq!(examine(&facts).fatal().map(|it| it.verdict.code), Some("NW02"));
    facts.has_proxy = true;
    let found = examine(&facts);
    assert!(found.fatal().is_none() && found.findings.iter().any(|it| it.verdict.code == "NW02"), "{}", shown(&found));
}

fn no_proxy() -> Way {
    let error = "proxy.example:3128: connection refused".to_owned();
    Way::Proxy { by: "proxy.example:3128".to_owned(), to: "a.example:443".to_owned(), error }
}

#[test]
fn a_proxy_that_does_not_lead_to_the_api_server_is_an_error_and_its_own() {
    let found = way::check(&no_proxy(), healthy().now);
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!((finding.verdict.code, finding.severity), ("NW06", Severity::Error));
    assert_eq!(finding.message, "the proxy `proxy.example:3128` does not lead to `a.example:443`");
}
