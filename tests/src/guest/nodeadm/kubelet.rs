//! The kubelet's files.

use anyhow::{Context, Result};
use fs_err as fs;
use serde_json::{Value, json};

use super::config::Config;
use super::write;

const CONFIG: &str = "/etc/kubernetes/kubelet/config.json";
const DROP_INS: &str = "/etc/kubernetes/kubelet/config.json.d";
const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";
const KUBECONFIG: &str = "/var/lib/kubelet/kubeconfig";

/// What the identity document and the metadata say.
pub(super) struct Instance {
    pub(super) id: String,
    pub(super) zone: String,
    pub(super) region: String,
    pub(super) address: String,
    pub(super) host_name: String,
    pub(super) instance_type: String,
}

pub(super) fn configure(config: &Config, instance: &Instance) -> Result<()> {
    write(AUTHORITY, &config.authority()?)?;
    write(KUBECONFIG, &kubeconfig(config, instance).to_string())?;
    let max_pods = max_pods(&instance.instance_type)?;
    write(CONFIG, &format!("{:#}", defaults(config, instance, max_pods)?))?;
    let mut flags = vec![
        "--cloud-provider=external".to_owned(),
        format!("--config={CONFIG}"),
        format!("--hostname-override={}", instance.host_name),
        format!("--kubeconfig={KUBECONFIG}"),
        format!("--node-ip={}", instance.address),
    ];
    if !config.kubelet.config.is_empty() {
        let mut own = config.kubelet.config.clone();
        own.insert("kind".to_owned(), json!("KubeletConfiguration"));
        own.insert("apiVersion".to_owned(), json!("kubelet.config.k8s.io/v1beta1"));
        write(&format!("{DROP_INS}/40-nodeadm.conf"), &format!("{:#}", Value::Object(own)))?;
        flags.push(format!("--config-dir={DROP_INS}"));
    }
    flags.extend(config.kubelet.flags.iter().cloned());
    // One line, unquoted: what systemd makes of it is the user's to know.
    write("/etc/eks/kubelet/environment", &format!("NODEADM_KUBELET_ARGS={}\n", flags.join(" ")))
}

fn kubeconfig(config: &Config, instance: &Instance) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes", "cluster": {
            "certificate-authority": AUTHORITY,
            "server": config.cluster.api_server_endpoint,
        }}],
        "contexts": [{"name": "kubelet", "context": {"cluster": "kubernetes", "user": "kubelet"}}],
        "current-context": "kubelet",
        "users": [{"name": "kubelet", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "aws",
            "args": ["eks", "get-token", "--cluster-name", config.cluster.name, "--region", instance.region],
        }}}],
    })
}

fn defaults(config: &Config, instance: &Instance, max_pods: u64) -> Result<Value> {
    Ok(json!({
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "address": "0.0.0.0",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true, "cacheTTL": "2m0s"},
            "x509": {"clientCAFile": AUTHORITY},
        },
        "authorization": {"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"}},
        "cgroupDriver": "systemd",
        "cgroupRoot": "/",
        "clusterDomain": "cluster.local",
        "clusterDNS": [dns(&config.cluster.cidr)?],
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
        "featureGates": {"RotateKubeletServerCertificate": true},
        "hairpinMode": "hairpin-veth",
        "kubeReserved": {"cpu": "70m", "ephemeral-storage": "1Gi", "memory": format!("{}Mi", 255 + 11 * max_pods)},
        "logging": {"verbosity": 2},
        "maxPods": max_pods,
        "protectKernelDefaults": true,
        "providerID": format!("aws:///{}/{}", instance.zone, instance.id),
        "readOnlyPort": 0,
        "serializeImagePulls": false,
        // The world's host has control groups of version 1, which Kubernetes takes only when it is told to; and no
        // controller of a world approves serving certificates, so the kubelet signs its own.
        "failCgroupV1": false,
        "serverTLSBootstrap": false,
        "tlsCipherSuites": ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
    }))
}

/// The tenth address of the service network.
fn dns(cidr: &str) -> Result<String> {
    let (address, _) =
        cidr.split_once('/').with_context(|| format!("{cidr} is not a valid IP Address. error: no prefix"))?;
    let address: std::net::Ipv4Addr =
        address.parse().with_context(|| format!("{cidr} is not a valid IP Address. error:"))?;
    Ok(std::net::Ipv4Addr::from_bits(address.to_bits() + 10).to_string())
}

/// The image's table, as `m5.large 29`.
fn max_pods(instance_type: &str) -> Result<u64> {
    let table = fs::read_to_string("/etc/eks/eni-max-pods.txt")?;
    let line = table.lines().find_map(|line| line.strip_prefix(instance_type)?.strip_prefix(' '));
    Ok(line.and_then(|pods| pods.trim().parse().ok()).unwrap_or(110))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_is_the_tenth_address() {
        assert_eq!(dns("10.100.0.0/16").unwrap(), "10.100.0.10");
        assert_eq!(dns("172.20.0.0/16").unwrap(), "172.20.0.10");
        assert_eq!(dns("nonsense/16").unwrap_err().to_string(), "nonsense/16 is not a valid IP Address. error:");
    }
}
