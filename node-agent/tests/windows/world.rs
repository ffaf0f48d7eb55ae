//! The node's surroundings: instance metadata, an API server, a service control manager, and the files of an image.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use muster_bootstrap::Family;
use muster_bootstrap::agent_config::AgentConfig;
use muster_bootstrap::userdata::to_base64;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tokio::sync::watch;
use windows_service::service::{
    Service, ServiceAccess, ServiceErrorControl, ServiceInfo, ServiceStartType, ServiceState, ServiceType,
};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};

/// The node's name.
pub(crate) const NAME: &str = "ip-10-0-0-1.ec2.internal";
const SCRIPT: &str = r"C:\Program Files\Amazon\EKS\Start-EKSBootstrap.ps1";

pub(crate) struct World {
    folder: tempfile::TempDir,
    metadata: u16,
    api_port: u16,
    api: Option<watch::Sender<bool>>,
    issuer: CertifiedIssuer<'static, KeyPair>,
    manager: ServiceManager,
}

/// What a command said.
pub(crate) struct Said(Output);

impl Said {
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().unwrap()
    }

    pub(crate) fn success(self) -> String {
        let stderr = String::from_utf8_lossy(&self.0.stderr).into_owned();
        assert!(self.0.status.success(), "{:?}: {stderr}", self.0.status);
        String::from_utf8(self.0.stdout).unwrap()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        assert!(
            std::env::var_os("MUSTER_SCRATCH_WINDOWS").is_some(),
            "this test changes the services of its Windows\n\nhint: run images/check-windows"
        );
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let api_port = free_port();
        let agent = "apiVersion: muster.dev/v1\nkind: AgentConfig\nspec: {expect: {taints: ['karpenter.sh/unregistered:NoExecute']}}\n";
        let script = format!(
            "<powershell>\n& \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\" -EKSClusterName 'shop' \
             -APIServerEndpoint 'https://localhost:{api_port}' -Base64ClusterCA '{}' \
             -KubeletExtraArgs '--register-with-taints=\"karpenter.sh/unregistered:NoExecute\"'\n</powershell>\n",
            to_base64(issuer.pem().as_bytes())
        );
        let user_data = AgentConfig::read(agent).unwrap().put(Family::Windows2022, &script).unwrap();
        fs::create_dir_all(Path::new(SCRIPT).parent().unwrap()).unwrap();
        fs::write(SCRIPT, "# The image's.\n").unwrap();
        let manager = ServiceManager::local_computer(
            None::<&str>,
            ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE,
        )
        .unwrap();
        let metadata = serve_metadata(user_data);
        Self { folder: tempfile::tempdir().unwrap(), metadata, api_port, api: None, issuer, manager }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn agent(&self, words: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster-agent"));
        command.args(words).arg("--run-dir").arg(self.path("run"));
        if words[0] == "service" {
            command.arg("--log-dir").arg(self.path("logs"));
            command.args(["--metadata-endpoint", &format!("http://127.0.0.1:{}", self.metadata)]);
        }
        Said(command.output().unwrap())
    }

    /// What the service says, if it has said anything.
    pub(crate) fn status(&self) -> Option<Value> {
        let said = self.agent(&["status", "-o", "json"]);
        serde_json::from_slice(&said.0.stdout).ok()
    }

    pub(crate) fn service(&self, name: &str, access: ServiceAccess) -> Option<Service> {
        self.manager.open_service(name, access).ok()
    }

    pub(crate) fn state(&self, name: &str) -> Option<ServiceState> {
        self.service(name, ServiceAccess::QUERY_STATUS)?.query_status().ok().map(|it| it.current_state)
    }

    /// What Start-EKSBootstrap.ps1 does: files, and a service that has not started.
    pub(crate) fn make_kubelet(&self) -> Service {
        let config = json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "healthzPort": free_port(), "clusterDNS": ["10.100.0.10"]});
        fs::write(self.path("kubelet-config.json"), config.to_string()).unwrap();
        fs::write(self.path("ca.crt"), self.issuer.pem()).unwrap();
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "kubelet",
            "clusters": [{"name": "kubernetes", "cluster": {
                "server": format!("https://localhost:{}", self.api_port), "certificate-authority": self.path("ca.crt")}}],
            "contexts": [{"name": "kubelet", "context": {"cluster": "kubernetes", "user": "kubelet"}}],
            "users": [{"name": "kubelet", "user": {"token": "t"}}]});
        fs::write(self.path("kubeconfig"), kubeconfig.to_string()).unwrap();
        let host = std::env::current_exe().unwrap().parent().unwrap().join(r"..\examples\windows-service-host.exe");
        let file = |name: &str| self.path(name).display().to_string();
        let arguments = [
            "kubelet".to_owned(),
            r"C:\Program Files\kubernetes\kubelet.exe".to_owned(),
            "--cloud-provider=external".to_owned(),
            format!("--config={}", file("kubelet-config.json")),
            format!("--kubeconfig={}", file("kubeconfig")),
            format!("--hostname-override={NAME}"),
            "--register-with-taints=karpenter.sh/unregistered:NoExecute".to_owned(),
        ];
        let info = ServiceInfo {
            name: "kubelet".into(),
            display_name: "kubelet".into(),
            service_type: ServiceType::OWN_PROCESS,
            start_type: ServiceStartType::OnDemand,
            error_control: ServiceErrorControl::Normal,
            executable_path: host,
            launch_arguments: arguments.into_iter().map(Into::into).collect(),
            dependencies: Vec::new(),
            account_name: None,
            account_password: None,
        };
        self.manager.create_service(&info, ServiceAccess::START | ServiceAccess::STOP | ServiceAccess::DELETE).unwrap()
    }

    pub(crate) fn start_api_server(&mut self) {
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2999, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        let (stop_tx, stop_rx) = watch::channel(false);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.api_port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let config = Arc::new(config);
        std::thread::spawn(move || {
            while !*stop_rx.borrow() {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (config, stop_rx) = (Arc::clone(&config), stop_rx.clone());
                        std::thread::spawn(move || serve_api(stream, config, &stop_rx));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        });
        self.api = Some(stop_tx);
    }

    pub(crate) fn stop_api_server(&mut self) {
        self.api.take().unwrap().send(true).unwrap();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.api_port)).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Instance metadata of a node of Windows.
fn serve_metadata(user_data: String) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let user_data = user_data.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                while let Some(path) = request(&mut reader) {
                    let body = match path.as_str() {
                        "/latest/api/token" => "token".to_owned(),
                        "/latest/dynamic/instance-identity/document" => {
                            r#"{"instanceId":"i-0123456789abcdef0","instanceType":"m5.large","availabilityZone":"us-east-1a","region":"us-east-1"}"#
                                .to_owned()
                        }
                        "/latest/meta-data/iam/info" => "{}".to_owned(),
                        "/latest/meta-data/local-ipv4" => "10.0.0.1".to_owned(),
                        "/latest/meta-data/local-hostname" => NAME.to_owned(),
                        "/latest/meta-data/network/interfaces/macs" => "02:00:00:00:00:01/".to_owned(),
                        "/latest/meta-data/network/interfaces/macs/02:00:00:00:00:01/vpc-ipv4-cidr-blocks" => {
                            "10.0.0.0/16".to_owned()
                        }
                        "/latest/user-data" => user_data.clone(),
                        _ => {
                            let _gone = reader.get_mut().write_all(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n");
                            continue;
                        }
                    };
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    if reader.get_mut().write_all(head.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// The path of the next request without a body, or with one that comes in the same piece.
fn request(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).ok()? == 0 || header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    Some(path)
}

fn serve_api(stream: TcpStream, config: Arc<ServerConfig>, stop: &watch::Receiver<bool>) {
    stream.set_nonblocking(false).unwrap();
    let Ok(connection) = ServerConnection::new(config) else { return };
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    while let Some(path) = request(&mut reader) {
        let node = json!({"metadata": {"name": NAME, "labels": {"kubernetes.io/os": "windows"}},
            "spec": {"providerID": "aws:///us-east-1a/i-0123456789abcdef0"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                       "capacity": {"vpc.amazonaws.com/PrivateIPv4Address": "9"}}});
        if path.contains("watch=true") {
            let event = format!("{}\n", json!({"type": "ADDED", "object": node}));
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
            let _gone = reader.get_mut().write_all(format!("{head}{event}").as_bytes());
            let _gone = reader.get_mut().flush();
            while !*stop.borrow() {
                std::thread::sleep(Duration::from_millis(20));
            }
            return;
        }
        let body = match path.as_str() {
            "/version" => json!({"gitVersion": "v1.34.1"}),
            "/apis/authentication.k8s.io/v1/selfsubjectreviews" => json!({"status": {"userInfo": {
                "username": format!("system:node:{NAME}"), "groups": ["system:nodes", "eks:kube-proxy-windows"]}}}),
            _ => node,
        };
        let body = body.to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if reader.get_mut().write_all(head.as_bytes()).and_then(|()| reader.get_mut().flush()).is_err() {
            return;
        }
    }
}
