//! A machine image under construction: files that it must contain, and files that it must not.
//!
//! The agent inspects the machine; this module judges. It covers AL2023 and Windows: other families have other paths,
//! and no common way of building images.

use crate::arch::Arch;
use crate::finding::Findings;
use crate::place::Place;
use crate::verdicts::{self, Verdict};

/// Paths that are checked on an operating system.
#[derive(Debug, PartialEq, Eq)]
pub struct Places {
    /// Files that remain on a node that has joined, each with its consequence.
    pub leftovers: &'static [(&'static str, &'static str)],
    /// Programs that a node needs.
    pub binaries: &'static [&'static str],
    /// Drivers of accelerators, each with a program that is installed with it.
    pub drivers: &'static [(&'static str, &'static str)],
    /// The program in `binaries` that gives the kubelet access to images.
    credential_provider: &'static str,
}

/// Paths of AL2023. Sources: aws/eks-hybrid, `internal/node`; systemd, machine-id(5); kubelet, `pkg/kubelet/cm`;
/// amazon-eks-ami, AL2023 accelerated images; AWS Neuron documentation.
pub static LINUX: Places = Places {
    leftovers: &[
        ("/etc/machine-id", "every instance would have the same machine id"),
        ("/etc/eks/kubelet/environment", "the arguments of another node's kubelet"),
        ("/etc/kubernetes/kubelet/config.json", "the configuration of another node's kubelet"),
        ("/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf", "the configuration of another node's kubelet"),
        ("/etc/kubernetes/pki/ca.crt", "the certificate authority of another node's cluster"),
        ("/var/lib/kubelet/kubeconfig", "the credentials of another node"),
        ("/var/lib/kubelet/pki/kubelet-client-current.pem", "the client certificate of another node"),
        ("/var/lib/kubelet/pki/kubelet-server-current.pem", "the serving certificate of another node"),
        ("/var/lib/cloud/instance", "cloud-init treats the boot as a second one, and does not run what runs only once"),
        ("/run/nodeadm/init", "nodeadm has run"),
        (CPU_STATE, "the kubelet exits if its policy is another one now"),
        (MEMORY_STATE, "the kubelet exits if its policy is another one now"),
    ],
    binaries: &["/usr/bin/kubelet", "/usr/bin/containerd", "/usr/bin/nodeadm", "/usr/sbin/runc", LINUX_PROVIDER],
    drivers: &[("nvidia", "/usr/bin/nvidia-smi"), ("neuron", "/opt/aws/neuron/bin/neuron-ls")],
    credential_provider: LINUX_PROVIDER,
};

/// Paths of Windows Server. Sources: EKS images of Windows, Start-EKSBootstrap.ps1; amazon-eks-ami,
/// log-collector-script/windows; NVIDIA driver documentation.
pub static WINDOWS: Places = Places {
    leftovers: &[
        (r"C:\ProgramData\kubernetes\kubeconfig", "the credentials of another node"),
        (r"C:\ProgramData\kubernetes\kubelet-config.json", "the configuration of another node's kubelet"),
        (r"C:\ProgramData\Amazon\EKS\cluster_ca.crt", "the certificate authority of another node's cluster"),
        (r"C:\ProgramData\Amazon\EKS\cni\config\vpc-bridge.conf", "the network of another node's pods"),
        (r"C:\var\lib\kubelet\pki\kubelet-client-current.pem", "the client certificate of another node"),
        (r"C:\var\lib\kubelet\pki\kubelet-server-current.pem", "the serving certificate of another node"),
        (r"C:\var\lib\kubelet\cpu_manager_state", "the kubelet exits if its policy is another one now"),
        (r"C:\var\lib\kubelet\memory_manager_state", "the kubelet exits if its policy is another one now"),
    ],
    binaries: &[
        r"C:\Program Files\Amazon\EKS\Start-EKSBootstrap.ps1",
        r"C:\Program Files\Amazon\EKS\EKS-WindowsServiceHost.exe",
        r"C:\Program Files\Amazon\EKS\aws-iam-authenticator.exe",
        r"C:\Program Files\kubernetes\kubelet.exe",
        r"C:\Program Files\kubernetes\kube-proxy.exe",
        r"C:\Program Files\containerd\containerd.exe",
        WINDOWS_PROVIDER,
    ],
    drivers: &[("nvidia", r"C:\Windows\System32\nvidia-smi.exe")],
    credential_provider: WINDOWS_PROVIDER,
};

const CPU_STATE: &str = "/var/lib/kubelet/cpu_manager_state";
const MEMORY_STATE: &str = "/var/lib/kubelet/memory_manager_state";
const LINUX_PROVIDER: &str = "/etc/eks/image-credential-provider/ecr-credential-provider";
const WINDOWS_PROVIDER: &str = r"C:\Program Files\Amazon\EKS\credential-providers\ecr-credential-provider.exe";

/// Returns the version in the version output of a program: `containerd github.com/containerd/containerd/v2 2.0.5 …`, or
/// `2.0.5`.
///
/// ```
/// use muster_bootstrap::image::program_version;
///
/// assert_eq!(program_version("Kubernetes v1.34.1"), Some("1.34.1"));
/// ```
#[must_use]
pub fn program_version(text: &str) -> Option<&str> {
    let is_version = |word: &&str| word.trim_start_matches('v').starts_with(|it: char| it.is_ascii_digit());
    text.split_whitespace().find(is_version).map(|word| word.trim_start_matches('v'))
}

/// State of the machine, as inspected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Paths that were checked; `None` means those of Linux.
    pub places: Option<&'static Places>,
    /// Entries of [`Places::leftovers`] that exist and are not empty.
    pub leftovers: Vec<&'static str>,
    /// Each of [`Places::binaries`]: `None` if absent, otherwise its architecture if the file header states it.
    pub binaries: Vec<(&'static str, Option<Option<Arch>>)>,
    /// Entries of [`Places::drivers`] that are installed.
    pub drivers: Vec<&'static str>,
    /// Programs of [`Places::binaries`] that exist but cannot be executed: path and reason.
    pub refused: Vec<(&'static str, String)>,
}

impl Image {
    /// Returns the paths that were checked; those of Linux by default.
    #[must_use]
    pub fn places(&self) -> &'static Places {
        self.places.unwrap_or(&LINUX)
    }
}

/// Judges an image.
pub(crate) fn check(image: &Image, arch: Option<Arch>, findings: &mut Findings) {
    let places = image.places();
    for (path, consequence) in places.leftovers.iter().filter(|(path, _)| image.leftovers.contains(path)) {
        let verdict: &'static Verdict =
            if path.ends_with("_manager_state") { &verdicts::KA20 } else { &verdicts::UD26 };
        findings.add_with_fix(verdict, format!("`{path}` is left over: {consequence}"), &fix(path), place(path), "");
    }
    for (path, why) in &image.refused {
        findings.add(&verdicts::UD13, format!("`{path}` cannot be executed"), place(path), why);
    }
    for (path, found) in &image.binaries {
        match found {
            None if *path == places.credential_provider => {
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

/// Checks that the required drivers are installed; `wanted` has each driver and the name of what requires it. A driver
/// that does not exist for the operating system is reported as such, not as missing from the image.
pub(crate) fn drivers(image: &Image, wanted: &[(&'static str, String)], findings: &mut Findings) {
    for (driver, asker) in wanted.iter().filter(|(driver, _)| !image.drivers.contains(driver)) {
        match image.places().drivers.iter().find(|(name, _)| name == driver) {
            Some((_, program)) => {
                let message = format!("`{asker}` needs driver `{driver}`, and the image does not have it");
                findings.add(&verdicts::GP01, message, place(program), "not there");
            }
            None => {
                let message = format!("`{asker}` needs driver `{driver}`, which is not on this platform");
                findings.add(&verdicts::GP01, message, place("image"), "");
            }
        }
    }
}

/// Checks the architecture of one program.
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
