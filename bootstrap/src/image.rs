//! A machine as an image under construction: what must not be in it, and what must.
//!
//! The agent looks; this decides. AL2023 is meant: other families have other places, and none that anyone builds alike.

use crate::finding::Findings;
use crate::place::Place;
use crate::question::Arch;
use crate::verdicts::{self, Verdict};

/// What a node leaves behind when it has joined, and the verdict on it.
/// Source: aws/eks-hybrid, `internal/node`; systemd, machine-id(5); kubelet, `pkg/kubelet/cm`.
pub const LEFTOVERS: [(&str, &str); 12] = [
    ("/etc/machine-id", "every instance would have the same machine id"),
    ("/etc/eks/kubelet/environment", "the arguments of another node's kubelet"),
    ("/etc/kubernetes/kubelet/config.json", "the configuration of another node's kubelet"),
    ("/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf", "the configuration of another node's kubelet"),
    ("/etc/kubernetes/pki/ca.crt", "the certificate authority of another node's cluster"),
    ("/var/lib/kubelet/kubeconfig", "the credentials of another node"),
    ("/var/lib/kubelet/pki/kubelet-client-current.pem", "the client certificate of another node"),
    ("/var/lib/kubelet/pki/kubelet-server-current.pem", "the serving certificate of another node"),
    ("/var/lib/cloud/instance", "cloud-init takes the boot for a second one, and runs nothing that is run once"),
    ("/run/nodeadm/init", "nodeadm has run"),
    (CPU_STATE, "the kubelet exits if its policy is another one now"),
    (MEMORY_STATE, "the kubelet exits if its policy is another one now"),
];
const CPU_STATE: &str = "/var/lib/kubelet/cpu_manager_state";
const MEMORY_STATE: &str = "/var/lib/kubelet/memory_manager_state";

/// Programs that a node needs.
pub const BINARIES: [&str; 5] =
    ["/usr/bin/kubelet", "/usr/bin/containerd", "/usr/bin/nodeadm", "/usr/sbin/runc", CREDENTIAL_PROVIDER];
const CREDENTIAL_PROVIDER: &str = "/etc/eks/image-credential-provider/ecr-credential-provider";

/// Drivers of accelerators, each with the program that comes with it.
/// Source: amazon-eks-ami, AL2023 accelerated images; AWS Neuron documentation.
pub const DRIVERS: [(&str, &str); 2] = [("nvidia", "/usr/bin/nvidia-smi"), ("neuron", "/opt/aws/neuron/bin/neuron-ls")];

/// The version in what a program prints of itself: `containerd github.com/containerd/containerd/v2 2.0.5 …`, or `2.0.5`.
#[must_use]
pub fn program_version(text: &str) -> Option<&str> {
    let is_version = |word: &&str| word.trim_start_matches('v').starts_with(|it: char| it.is_ascii_digit());
    text.split_whitespace().find(is_version).map(|word| word.trim_start_matches('v'))
}

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Which of [`LEFTOVERS`] are there and not empty.
    pub leftovers: Vec<&'static str>,
    /// Each of [`BINARIES`]: absent, or there, with its architecture if its header tells one.
    pub binaries: Vec<(&'static str, Option<Option<Arch>>)>,
    /// Which of [`DRIVERS`] it has.
    pub drivers: Vec<&'static str>,
    /// Programs of [`BINARIES`] that are there and cannot be executed: the path, and why.
    pub refused: Vec<(&'static str, String)>,
}

/// Judges an image.
pub(crate) fn check(image: &Image, arch: Option<Arch>, findings: &mut Findings) {
    for (path, consequence) in LEFTOVERS.iter().filter(|(path, _)| image.leftovers.contains(path)) {
        let verdict: &'static Verdict =
            if [CPU_STATE, MEMORY_STATE].contains(path) { &verdicts::KA20 } else { &verdicts::UD26 };
        findings.add_with_fix(verdict, format!("`{path}` is left over: {consequence}"), &fix(path), place(path), "");
    }
    for (path, why) in &image.refused {
        findings.add(&verdicts::UD13, format!("`{path}` cannot be executed"), place(path), why);
    }
    for (path, found) in &image.binaries {
        match found {
            None if *path == CREDENTIAL_PROVIDER => {
                findings.add(&verdicts::KA25, format!("`{path}` is missing"), place(path), "");
            }
            None if image.refused.iter().any(|(refused, _)| refused == path) => {}
            None => findings.add(&verdicts::KA36, format!("`{path}` is missing"), place(path), ""),
            Some(found) => {
                if let (Some(found), Some(wanted)) = (found, arch) {
                    architecture(*found, wanted, path, findings);
                }
            }
        }
    }
}

/// Judges whether the drivers are there that something asks for: each with who asks.
pub(crate) fn drivers(image: &Image, wanted: &[(&'static str, String)], findings: &mut Findings) {
    for (driver, asker) in wanted.iter().filter(|(driver, _)| !image.drivers.contains(driver)) {
        let program = DRIVERS.iter().find(|(name, _)| name == driver).map_or("", |(_, program)| program);
        let message = format!("`{asker}` needs driver `{driver}`, and the image does not have it");
        findings.add(&verdicts::GP01, message, place(program), "not there");
    }
}

/// Judges the architecture of one program.
pub(crate) fn architecture(found: Arch, wanted: Arch, path: &str, findings: &mut Findings) {
    if found != wanted {
        let message = format!("`{path}` is built for {found}, and the instances are {wanted}");
        findings.add(&verdicts::KA24, message, place(path), "");
    }
}

fn fix(path: &str) -> String {
    match path {
        "/etc/machine-id" => {
            "empty the file (`truncate -s 0 /etc/machine-id`) as the last step of the build".to_owned()
        }
        "/var/lib/cloud/instance" => "run `cloud-init clean` as the last step of the build".to_owned(),
        _ => format!("remove `{path}` as the last step of the build, or build from an image that never joined"),
    }
}

fn place(path: &str) -> Place {
    Place { source: path.into(), line: None }
}
