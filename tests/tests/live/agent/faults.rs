//! What can be wrong with a machine before its kubelet starts, as a table: the code that must name it, and what is done.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use muster_bootstrap::agent_config::{AgentSpec, Expectation};
use muster_tests::cluster::Cluster;
use muster_tests::imds::Instance;
use muster_tests::instances::user_data::NodeConfig;
use muster_tests::machine::Spec;
use serde_json::{Value, json};

use super::{UNREGISTERED, replaced, user_data};

/// One fault.
pub(crate) struct Fault {
    /// The code that must name it.
    pub(crate) code: &'static str,
    /// It, in words, for the table.
    pub(crate) what: &'static str,
    /// What is done.
    pub(crate) cause: Cause,
}

/// What is done to a machine that would be well without.
pub(crate) enum Cause {
    /// A flag of the kubelet in its user data.
    Flag(&'static str),
    /// A piece of its user data is another one: of the [`Ground`], what and by what.
    UserData(fn(&Ground) -> (String, String)),
    /// A setting of the kubelet in its user data.
    Setting(fn() -> Value),
    /// Its instance is another one.
    Instance(fn(&mut Instance)),
    /// Its hardware or its image is another one.
    Machine(fn(&mut Spec)),
    /// A script of its user data does it, while the agent watches, before containerd and the kubelet start.
    Script(&'static str),
    /// It must offer a resource.
    Resource(&'static str),
    /// Its role has no access entry.
    NoAccess,
    /// There is a Node of its name, of another instance.
    StaleNode,
    /// Nothing.
    None,
}

/// What a healthy machine's user data are made of.
pub(crate) struct Ground<'c> {
    pub(crate) cluster: &'c Cluster,
    pub(crate) endpoint: String,
    pub(crate) authority: String,
}

/// In the order of the stages of a boot.
pub(crate) const FAULTS: &[Fault] = &[
    Fault { code: "UD03", what: "no user data", cause: Cause::Instance(|it| it.user_data = None) },
    Fault {
        code: "UD05",
        what: "a NodeConfig of another kind",
        cause: Cause::UserData(|_| ("\"kind\": \"NodeConfig\"".to_owned(), "\"kind\": \"Nodeconfig\"".to_owned())),
    },
    Fault { code: "ID02", what: "metadata turned off", cause: Cause::Instance(|it| it.options.enabled = false) },
    Fault { code: "ID04", what: "no role", cause: Cause::Instance(|it| it.role = None) },
    Fault { code: "AU01", what: "a role without an access entry", cause: Cause::NoAccess },
    Fault { code: "AU07", what: "a name that is not the role's", cause: Cause::Flag("--hostname-override=other") },
    Fault { code: "AU13", what: "a stale Node of the same name", cause: Cause::StaleNode },
    Fault { code: "KA01", what: "a flag that is gone", cause: Cause::Flag("--container-runtime=remote") },
    Fault { code: "KA02", what: "a flag that never was", cause: Cause::Flag("--max-podz=20") },
    Fault {
        code: "KA03",
        what: "a taint with an effect that is none",
        cause: Cause::Flag("--register-with-taints=a=b:Never"),
    },
    Fault {
        code: "KA07",
        what: "the taint `karpenter.sh/unregistered` is not there",
        cause: Cause::Setting(|| json!({"registerWithTaints": []})),
    },
    Fault {
        code: "KA08",
        what: "a taint lost to a second list",
        cause: Cause::Flag("--register-with-taints=a=b:NoSchedule"),
    },
    Fault {
        code: "KA09",
        what: "a label that nodes may not set",
        cause: Cause::Flag("--node-labels=kubernetes.io/a=b"),
    },
    Fault {
        code: "KA10",
        what: "a feature gate that is none",
        cause: Cause::Setting(|| json!({"featureGates": {"NoSuchGate": true}})),
    },
    Fault {
        code: "KA12",
        what: "a drop-in that is no JSON",
        cause: Cause::Script(
            "mkdir -p /etc/kubernetes/kubelet/config.json.d; echo '{\"kind\":' >/etc/kubernetes/kubelet/config.json.d/90-own.conf",
        ),
    },
    Fault { code: "KA17", what: "swap", cause: Cause::Machine(|it| it.shape.swap_mib = 512) },
    Fault {
        code: "KA19",
        what: "a kernel setting",
        cause: Cause::Machine(|it| drop(it.shape.kernel.insert("vm/overcommit_memory".to_owned(), "0".to_owned()))),
    },
    Fault {
        code: "KA24",
        what: "an image for ARM64 on x86_64",
        cause: Cause::Machine(|it| it.files.push((for_arm64(), PathBuf::from("/usr/bin/kubelet")))),
    },
    Fault {
        code: "KA26",
        what: "somebody listens on the kubelet's port",
        cause: Cause::Script(
            "systemd-run --unit=squatter socat TCP-LISTEN:10250,fork PIPE; until ss -ltn | grep -q :10250; do :; done",
        ),
    },
    Fault {
        code: "KA32",
        what: "`resolvConf` leads nowhere",
        cause: Cause::Setting(|| json!({"resolvConf": "/etc/resolv.none"})),
    },
    Fault {
        code: "CR01",
        what: "containerd's configuration is broken",
        cause: Cause::Script("echo '[plugins' >>/etc/containerd/config.toml"),
    },
    Fault {
        code: "CR11",
        what: "the disk full",
        cause: Cause::Script(
            "mount -o remount,size=$(( $(df --output=used -k /var/lib/kubelet | tail -n 1) + 64 ))k /var/lib/kubelet",
        ),
    },
    Fault {
        code: "NW01",
        what: "the API server's name has no address",
        cause: Cause::UserData(|it| (it.endpoint.clone(), "https://nobody.example".to_owned())),
    },
    Fault {
        code: "NW02",
        what: "the API server does not answer",
        cause: Cause::UserData(|it| (it.endpoint.clone(), format!("https://{BLACK_HOLE}:6443"))),
    },
    Fault {
        code: "NW03",
        what: "the API server's address refuses",
        cause: Cause::UserData(|it| (it.endpoint.clone(), "https://192.0.2.1:1".to_owned())),
    },
    Fault {
        code: "NW04",
        what: "a certificate authority of another cluster",
        cause: Cause::UserData(|it| (it.authority.clone(), stranger())),
    },
    Fault { code: "GP17", what: "a GPU is expected, and there is none", cause: Cause::Resource("nvidia.com/gpu") },
];

/// An address from which nothing comes back: the world drops what is sent there.
pub(crate) const BLACK_HOLE: &str = "192.0.2.66";

impl<'c> Ground<'c> {
    pub(crate) fn of(cluster: &'c Cluster) -> Self {
        let endpoint = cluster.inside().unwrap().to_owned();
        Self { cluster, endpoint, authority: STANDARD.encode(cluster.authority().unwrap()) }
    }

    /// User data in which a cause is, if it is one of user data.
    pub(crate) fn with(&self, cause: &Cause) -> Vec<u8> {
        let mut config = NodeConfig {
            taints: json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]),
            ..NodeConfig::default()
        };
        let mut expect = Expectation { taints: vec![UNREGISTERED.to_owned()], ..Expectation::default() };
        match cause {
            Cause::Setting(of) => config.config = of(),
            Cause::Script(script) => config.script = format!("set -e\n{script}\ndate -u +%FT%T.%NZ >/run/fault"),
            Cause::Resource(name) => drop(expect.resources.insert((*name).to_owned(), 1)),
            _ => {}
        }
        let data = user_data(self.cluster, &config, AgentSpec { expect, ..AgentSpec::default() });
        match cause {
            Cause::Flag(flag) => replaced(&data, "\"flags\": [", &format!("\"flags\": [\"{flag}\",")),
            Cause::UserData(of) => {
                let (from, to) = of(self);
                replaced(&data, &from, &to)
            }
            _ => data,
        }
    }
}

/// A certificate authority that has signed nothing.
fn stranger() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    STANDARD.encode(parameters.self_signed(&key).unwrap().pem())
}

/// A program for ARM64, as far as its header goes, which is as far as anyone here comes with it.
fn for_arm64() -> PathBuf {
    const MACHINE_AARCH64: [u8; 2] = [0xB7, 0];
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    header.extend([2, 0]);
    header.extend(MACHINE_AARCH64);
    header.resize(64, 0);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubelet-for-arm64");
    fs::write(&path, header).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}
