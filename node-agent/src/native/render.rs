//! Renders a node's files from its user data. Pure.
//!
//! Source: nodeadm of awslabs/amazon-eks-ami, release v20260714: `internal/kubelet`, `internal/containerd`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use muster_bootstrap::kubelet::version::Minor;
use muster_bootstrap::report::Effective;
use muster_bootstrap::userdata::base64;
use serde_json::{Map, Value, json};

use crate::preflight::identity::Instance;

const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";
const KUBECONFIG: &str = "/var/lib/kubelet/kubeconfig";
const CONFIG: &str = "/etc/kubernetes/kubelet/config.json";
const DROP_INS: &str = "/etc/kubernetes/kubelet/config.json.d";
const DROP_IN: &str = "/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf";
const ENVIRONMENT: &str = "/etc/eks/kubelet/environment";
pub(super) const CONTAINERD: &str = "/etc/containerd/config.toml";
const PROVIDER_CONFIG: &str = "/etc/eks/image-credential-provider/config.json";
const PROVIDER_FOLDER: &str = "/etc/eks/image-credential-provider";
/// Image credential provider for ECR.
pub(super) const CREDENTIAL_PROVIDER: &str = "/etc/eks/image-credential-provider/ecr-credential-provider";

/// Facts about the machine that are not in the user data.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    pub(super) processors: usize,
    pub(super) minor: Option<Minor>,
    /// Maximum number of pods of the instance type, from the image's table.
    pub(super) pods_of_type: Option<u64>,
    /// Template of containerd's configuration in the image.
    pub(super) containerd_template: Option<String>,
    pub(super) has_credential_provider: bool,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) text: String,
    pub(super) mode: u32,
}

/// Reason why the files cannot be written from the user data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RenderFault {
    /// A required setting is missing: its name.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The certificate authority is not base64.
    #[error("the certificate authority is not base64")]
    Authority,
    /// The service CIDR is not a network.
    #[error("`{0}` is not a network")]
    Network(String),
}

/// Returns the files in the order to write them. The environment file is last: the kubelet's unit fails without it.
///
/// # Errors
/// A required setting is missing in the user data, or invalid.
pub(super) fn files(effective: &Effective, instance: &Instance, machine: &Machine) -> Result<Vec<File>, RenderFault> {
    let needed = |value: &Option<String>, what| value.clone().ok_or(RenderFault::Missing(what));
    let cluster = needed(&effective.cluster_name, "the cluster's name")?;
    let endpoint = needed(&effective.endpoint, "the API server's endpoint")?;
    let authority = needed(&effective.certificate_authority, "the certificate authority")?;
    let cidr = needed(&effective.service_cidr, "the service CIDR")?;
    let authority = base64(authority.trim().as_bytes()).and_then(|it| String::from_utf8(it).ok());
    let authority = authority.ok_or(RenderFault::Authority)?;
    let dns = dns(&cidr).ok_or_else(|| RenderFault::Network(cidr.clone()))?;
    let pods = machine.pods_of_type.unwrap_or(110);
    let own = own_settings(effective);
    let mut files = Vec::new();
    let mut add = |path, text: String, mode| files.push(File { path, text, mode });
    add(AUTHORITY, authority, 0o644);
    add(KUBECONFIG, pretty(&kubeconfig(&cluster, &endpoint, &instance.region)), 0o644);
    add(CONFIG, pretty(&defaults(instance, dns, pods, machine)), 0o644);
    if !own.is_empty() {
        let mut document = own;
        document.insert("apiVersion".to_owned(), json!("kubelet.config.k8s.io/v1beta1"));
        document.insert("kind".to_owned(), json!("KubeletConfiguration"));
        add(DROP_IN, pretty(&Value::Object(document)), 0o644);
    }
    if machine.has_credential_provider {
        add(PROVIDER_CONFIG, pretty(&credential_provider(machine.minor)), 0o644);
    }
    if let Some(template) = &machine.containerd_template {
        add(CONTAINERD, template.clone(), 0o644);
    }
    let has_own = files.iter().any(|file| file.path == DROP_IN);
    let mut arguments = vec![
        "--cloud-provider=external".to_owned(),
        format!("--config={CONFIG}"),
        format!("--hostname-override={}", instance.host_name),
        format!("--kubeconfig={KUBECONFIG}"),
        format!("--node-ip={}", instance.address),
    ];
    if has_own {
        arguments.push(format!("--config-dir={DROP_INS}"));
    }
    if machine.has_credential_provider {
        arguments.push(format!("--image-credential-provider-bin-dir={PROVIDER_FOLDER}"));
        arguments.push(format!("--image-credential-provider-config={PROVIDER_CONFIG}"));
    }
    // Quote each argument, so that the kubelet gets exactly what was judged.
    arguments.extend(effective.kubelet_args.iter().map(|argument| quoted(argument)));
    files.push(File {
        path: ENVIRONMENT,
        text: format!("NODEADM_KUBELET_ARGS={}\n", arguments.join(" ")),
        mode: 0o644,
    });
    Ok(files)
}

/// Quotes an argument so that it survives the environment file and systemd's word splitting.
fn quoted(argument: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_=.,:/@+%~<>".contains(char);
    if argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    // The environment file removes one level of backslashes; word splitting removes a second one and the quotes.
    let inner = argument.replace('\\', r"\\\\").replace('"', r#"\\""#);
    format!("\"{inner}\"")
}

/// Returns the kubelet settings of the user data.
fn own_settings(effective: &Effective) -> Map<String, Value> {
    effective.kubelet_config.clone()
}

fn kubeconfig(cluster: &str, endpoint: &str, region: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes", "cluster": {"certificate-authority": AUTHORITY, "server": endpoint}}],
        "contexts": [{"name": "kubelet", "context": {"cluster": "kubernetes", "user": "kubelet"}}],
        "current-context": "kubelet",
        "users": [{"name": "kubelet", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "aws",
            "args": ["eks", "get-token", "--cluster-name", cluster, "--region", region],
        }}}],
    })
}

fn defaults(instance: &Instance, dns: IpAddr, pods: u64, machine: &Machine) -> Value {
    let is_at_least = |minor: u8| machine.minor.is_none_or(|it| it.0 >= minor);
    let mut gates = json!({"RotateKubeletServerCertificate": true});
    if is_at_least(33) {
        gates["DynamicResourceAllocation"] = json!(true);
    }
    if is_at_least(34) {
        gates["MutableCSINodeAllocatableCount"] = json!(true);
    }
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true, "cacheTTL": "2m0s"},
            "x509": {"clientCAFile": AUTHORITY},
        },
        "authorization": {"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"}},
        "cgroupDriver": "systemd",
        "cgroupRoot": "/",
        "clusterDNS": [dns],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
        "featureGates": gates,
        "hairpinMode": "hairpin-veth",
        "kubeReserved": {
            "cpu": format!("{}m", reserved_millicores(machine.processors)),
            "ephemeral-storage": "1Gi",
            "memory": format!("{}Mi", 11 * pods + 255),
        },
        "kubeReservedCgroup": "/runtime",
        "logging": {"verbosity": 2},
        "maxPods": pods,
        "protectKernelDefaults": true,
        "providerID": format!("aws:///{}/{}", instance.zone, instance.id),
        "readOnlyPort": 0,
        "serializeImagePulls": false,
        "serverTLSBootstrap": true,
        "systemReservedCgroup": "/system",
        "tlsCipherSuites": [
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
            "TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_GCM_SHA384",
        ],
    });
    if machine.minor.is_some_and(|it| it.0 >= 34) {
        config["shutdownGracePeriod"] = json!("2m30s");
        config["shutdownGracePeriodCriticalPods"] = json!("30s");
    }
    config
}

/// Returns the CPU reservation: 6 % of the first core, 1 % of the second, 0.5 % of each of the next two, 0.25 % of the
/// others.
fn reserved_millicores(processors: usize) -> usize {
    let share = |from: usize, to: usize, tenths: usize| processors.min(to).saturating_sub(from) * tenths;
    // In quarters of a millicore: 60, 10, 5, 2.5 millicores per core.
    (share(0, 1, 240) + share(1, 2, 40) + share(2, 4, 20) + share(4, usize::MAX, 10)) / 4
}

fn credential_provider(minor: Option<Minor>) -> Value {
    let mut images = vec![
        "*.dkr.ecr.*.amazonaws.com",
        "*.dkr.ecr.*.amazonaws.com.cn",
        "*.dkr.ecr-fips.*.amazonaws.com",
        "*.dkr.ecr.*.c2s.ic.gov",
        "*.dkr.ecr.*.sc2s.sgov.gov",
    ];
    if minor.is_none_or(|it| it.0 >= 32) {
        images.push("ecr-public.aws.com");
    }
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [{
            "name": "ecr-credential-provider",
            "matchImages": images,
            "defaultCacheDuration": "12h",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        }],
    })
}

/// Returns the address of the cluster's DNS service: the service network's address plus 10.
fn dns(cidr: &str) -> Option<IpAddr> {
    let (address, prefix) = cidr.split_once('/')?;
    prefix.parse::<u8>().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(address) => Some(Ipv4Addr::from_bits(address.to_bits().checked_add(10)?).into()),
        IpAddr::V6(address) => Some(Ipv6Addr::from_bits(address.to_bits().checked_add(10)?).into()),
    }
}

/// Returns the maximum number of pods from the image's table, whose lines look like `m5.large 29`.
pub(super) fn pods_of_type(table: &str, instance_type: &str) -> Option<u64> {
    table
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == instance_type)?
        .1
        .trim()
        .parse()
        .ok()
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_bootstrap::userdata::{UserData, to_base64};
    use muster_bootstrap::words::systemd::{environment_file, last, split_value};
    use muster_bootstrap::{BootstrapInput, validate};

    fn instance() -> Instance {
        Instance {
            id: "i-1".to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            region: "us-east-1".to_owned(),
            address: "10.0.0.1".to_owned(),
            host_name: "ip-10-0-0-1.ec2.internal".to_owned(),
            ..Instance::default()
        }
    }

    fn rendered(kubelet: &str) -> Vec<File> {
        let authority = to_base64(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
        let text = format!(
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {{name: shop, apiServerEndpoint: \
             'https://a.example', certificateAuthority: {authority}, cidr: 10.100.0.0/16}}\n  kubelet: {kubelet}\n"
        );
        let input = BootstrapInput {
            user_data: Some(UserData::read(text.as_bytes(), "user-data")),
            ..BootstrapInput::default()
        };
        let machine = Machine {
            processors: 2,
            minor: "1.34".parse().ok(),
            pods_of_type: pods_of_type("m5.2xlarge 58\nm5.large 29\n", "m5.large"),
            containerd_template: Some("version = 3\n".to_owned()),
            has_credential_provider: true,
        };
        files(&validate(&input).effective, &instance(), &machine).unwrap()
    }

    #[test]
    fn the_files_are_those_of_nodeadm() {
        let files = rendered(
            "{config: {registerWithTaints: [{key: a, effect: NoSchedule}]}, flags: ['--node-labels=\"a=b\"']}",
        );
        let shown = files.iter().map(|file| format!("== {} {:o}\n{}", file.path, file.mode, file.text));
        insta::assert_snapshot!(shown.collect::<String>());
    }

    #[test]
    fn processors_are_reserved_as_by_nodeadm() {
        // From the golden files of nodeadm: m5.large 70m, 4 vCPUs 80m, 8 vCPUs 90m, 96 vCPUs 310m.
        for (processors, reserved) in [(1, 60), (2, 70), (4, 80), (8, 90), (96, 310)] {
            assert_eq!(reserved_millicores(processors), reserved, "{processors}");
        }
    }

    #[test]
    fn arguments_reach_the_kubelet_as_they_are() {
        for argument in [
            "--v=2",
            "--a=b c",
            "--a=\"b\"",
            "--a='b'",
            r"--a=\b",
            r"--a=\\",
            r#"--a=\"x y\" '"#,
            "--a=$HOME ${X} %H",
            "--a=b;c#d",
            "--a=ä é",
        ] {
            let file = format!("ARGS=--first {} --last\n", quoted(argument));
            let variables = environment_file(&file);
            let words = split_value(&last(&variables, "ARGS").unwrap().value);
            let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
            assert_eq!(texts, ["--first", argument, "--last"], "{file}");
        }
    }
}
