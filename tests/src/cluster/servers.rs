//! The servers of a control plane: what each is started with, and why.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde_json::json;

use super::options::{Network, Options};
use super::pki::{self, Pair, Pki};
use crate::error::Result;
use crate::process::Program;
use crate::programs;

/// Requests per second that scheduler and controllers may make, and the burst. Their defaults of 50 and 20 are for a
/// large cluster that is shared; with them a thousand pods take over a minute.
const REQUESTS: (&str, &str) = ("300", "600");

/// Growth of a heap, in percent, between two collections of garbage. Most of what a server allocates it allocates when
/// it starts, and it lives for a minute.
const HEAP_GROWTH: &str = "400";

/// Files and addresses that the servers share.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) folder: &'a Path,
    pub(super) logs: &'a Path,
    pub(super) pki: &'a Pki,
    /// What the API server shows to whoever asks for no name.
    pub(super) dated: Option<Pair>,
    pub(super) options: &'a Options,
    pub(super) port: u16,
}

impl Layout<'_> {
    /// A server as `NAME-PART`, in the network of the control plane.
    fn program(&self, part: &str, path: PathBuf) -> Program {
        let program = Program::new(format!("{}-{part}", self.options.name), path).in_folder(self.folder);
        let program = program.env("GOGC", HEAP_GROWTH);
        match self.options.network.namespace() {
            Some(namespace) => program.in_network(namespace),
            None => program,
        }
    }

    /// A socket, not a port: nobody else can reach it, so it needs no certificates, and no port can be taken.
    pub(super) fn etcd_socket(&self) -> PathBuf {
        self.folder.join("etcd.sock")
    }

    fn etcd_url(&self) -> String {
        format!("unix://{}", self.etcd_socket().display())
    }

    /// No fsync: what it holds is thrown away, and on a slow disk it would be most of the start.
    pub(super) fn etcd(&self) -> Result<Program> {
        let peers = format!("unix://{}", self.folder.join("peers.sock").display());
        Ok(self
            .program("etcd", programs::path("etcd")?)
            .flag("data-dir", self.folder.join("etcd"))
            .flag("listen-client-urls", self.etcd_url())
            .flag("advertise-client-urls", self.etcd_url())
            .flag("listen-peer-urls", &peers)
            .flag("initial-advertise-peer-urls", &peers)
            .flag("initial-cluster", format!("default={peers}"))
            .arg("--unsafe-no-fsync")
            .flag("log-level", "warn"))
    }

    pub(super) fn api_server(&self) -> Result<Program> {
        let Options { name: _, network, audit, token_webhook, ahead: _, node_grace: _, has_controllers: _ } =
            self.options;
        let named = self.pki.server();
        let server = self.dated.as_ref().unwrap_or(&named);
        let kubelet = self.pki.client("kubelet-client", "kube-apiserver-kubelet-client", Some("system:masters"))?;
        let address = network.address().to_string();
        let mut program = self
            .program("kube-apiserver", programs::path("kube-apiserver")?)
            .flag("etcd-servers", self.etcd_url())
            .flag("bind-address", &address)
            .flag("advertise-address", &address)
            .flag("secure-port", self.port.to_string())
            .flag("tls-cert-file", &server.certificate)
            .flag("tls-private-key-file", &server.key)
            .flag("client-ca-file", self.pki.ca())
            .flag("service-cluster-ip-range", "10.96.0.0/16")
            .flag("service-account-issuer", "https://kubernetes.default.svc.cluster.local")
            .flag("service-account-key-file", self.pki.tokens_public())
            .flag("service-account-signing-key-file", self.pki.tokens_key())
            .flag("authorization-mode", "Node,RBAC")
            .flag("enable-admission-plugins", "NodeRestriction")
            .arg("--enable-bootstrap-token-auth")
            .flag("anonymous-auth", "false")
            .flag("kubelet-client-certificate", &kubelet.certificate)
            .flag("kubelet-client-key", &kubelet.key)
            // A node's name does not resolve anywhere.
            .flag("kubelet-preferred-address-types", "InternalIP")
            // It refuses to publish a loopback address for the service `kubernetes`, and complains for ever.
            .flag("endpoint-reconciler-type", "none");
        if self.dated.is_some() {
            let pair = format!("{},{}:{}", named.certificate.display(), named.key.display(), pki::NAME);
            program = program.flag("tls-sni-cert-key", pair);
        }
        if *audit {
            let policy = self.folder.join("audit-policy.json");
            let rules = json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}]);
            fs::write(&policy, json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}).to_string())?;
            program = program
                .flag("audit-policy-file", policy)
                .flag("audit-log-path", self.logs.join(format!("{}-audit.log", self.options.name)));
        }
        if let Some(url) = token_webhook {
            let config = self.folder.join("token-webhook.json");
            let text = json!({
                "apiVersion": "v1", "kind": "Config",
                "clusters": [{"name": "webhook", "cluster": {"server": url}}],
                "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": ""}}],
                "current-context": "webhook",
            });
            fs::write(&config, text.to_string())?;
            program = program
                .flag("authentication-token-webhook-config-file", config)
                .flag("authentication-token-webhook-version", "v1");
        }
        Ok(program)
    }

    pub(super) fn scheduler(&self, kubeconfig: &Path) -> Result<Program> {
        self.client("kube-scheduler", kubeconfig)
    }

    pub(super) fn controllers(&self, kubeconfig: &Path) -> Result<Program> {
        let program = self
            .client("kube-controller-manager", kubeconfig)?
            // Each controller with its own rights, as in production.
            .arg("--use-service-account-credentials")
            .flag("service-account-private-key-file", self.pki.tokens_key())
            .flag("root-ca-file", self.pki.ca())
            .flag("cluster-signing-cert-file", self.pki.ca())
            .flag("cluster-signing-key-file", self.pki.ca_key());
        Ok(match self.options.node_grace {
            Some(grace) => program.flag("node-monitor-grace-period", format!("{}ms", grace.as_millis())),
            None => program,
        })
    }

    /// One that only talks to the API server: alone, so it elects no leader, and it serves nothing itself.
    fn client(&self, part: &str, kubeconfig: &Path) -> Result<Program> {
        Ok(self
            .program(part, programs::path(part)?)
            .flag("kubeconfig", kubeconfig)
            .flag("leader-elect", "false")
            .flag("secure-port", "0")
            .flag("kube-api-qps", REQUESTS.0)
            .flag("kube-api-burst", REQUESTS.1))
    }

    /// Leads from the machine's loopback into the namespace, for clients out here. Both programs come with systemd; the
    /// first listens and becomes the second when somebody calls.
    pub(super) fn relay(&self, port: u16) -> Option<Program> {
        let Network::Namespace { name, address } = &self.options.network else { return None };
        let program = Program::new(format!("{}-relay", self.options.name), "systemd-socket-activate")
            .arg(format!("--listen=127.0.0.1:{port}"))
            .args(["--", "nsenter", &format!("--net=/run/netns/{name}"), "--"])
            .args(["/lib/systemd/systemd-socket-proxyd", &format!("{address}:{}", self.port)]);
        Some(program)
    }
}
