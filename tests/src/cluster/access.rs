//! A cluster as those see it who use it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::process::Command;

use super::START;
use super::kubeconfig::{self, Proof};
use super::pki::Pki;
use super::slow::{Delays, SlowServer};
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::{programs, random, wait};

/// The group of nodes that bring the bootstrap token.
const BOOTSTRAPPERS: &str = "system:bootstrappers:muster";

/// A cluster to use: ours, or one that was given. Cloning it is cheap.
#[derive(Clone)]
pub struct Cluster {
    place: Arc<Place>,
    client: Client,
}

/// What another process has to know to use the same cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Place {
    /// Of an administrator.
    pub kubeconfig: PathBuf,
    /// Of our control plane; none for a cluster that was given.
    pub own: Option<OwnPlace>,
}

/// What only a control plane of ours has.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnPlace {
    /// With its files.
    pub folder: PathBuf,
    /// The API server's address for those out here.
    pub outside: String,
    /// And for what runs in its network.
    pub inside: String,
    /// The identifier and the secret of [`Cluster::bootstrap_token`].
    bootstrap: (String, String),
}

/// Somebody with rights of their own.
#[derive(Clone)]
pub struct Identity {
    /// For programs.
    pub kubeconfig: PathBuf,
    /// For our own calls.
    pub client: Client,
}

impl Cluster {
    /// The cluster of a control plane of ours.
    pub(super) async fn new(folder: &Path, pki: &Pki, outside: &str, inside: &str) -> Result<Self> {
        let kubeconfig = folder.join("admin.kubeconfig");
        let pair = pki.client("admin", "admin", Some("system:masters"))?;
        kubeconfig::write(&kubeconfig, outside, &pki.ca(), &Proof::Certificate(&pair))?;
        let own = OwnPlace {
            folder: folder.to_owned(),
            outside: outside.to_owned(),
            inside: inside.to_owned(),
            bootstrap: (random::text(3)?, random::text(8)?),
        };
        Self::at(Place { kubeconfig, own: Some(own) }).await
    }

    /// The cluster that another process has described.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn at(place: Place) -> Result<Self> {
        let client = kubeconfig::client(&place.kubeconfig).await?;
        Ok(Self { place: Arc::new(place), client })
    }

    /// The cluster that [`super::GIVEN`] names, if it names one.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn given() -> Result<Option<Self>> {
        match kubeconfig::given() {
            Some(kubeconfig) => Ok(Some(Self::at(Place { kubeconfig, own: None }).await?)),
            None => Ok(None),
        }
    }

    /// What another process has to know.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// As administrator.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Of an administrator, for those out here.
    pub fn kubeconfig(&self) -> &Path {
        &self.place.kubeconfig
    }

    /// The API server's address for what runs in its network, as `https://192.0.2.1:6443`.
    ///
    /// # Errors
    /// When the cluster is not ours.
    pub fn inside(&self) -> Result<&str> {
        Ok(&self.own()?.inside)
    }

    /// The authority's certificate, in PEM.
    ///
    /// # Errors
    /// When the cluster is not ours.
    pub fn authority(&self) -> Result<String> {
        Ok(fs::read_to_string(self.pki()?.ca())?)
    }

    /// What a new kubelet proves itself with, as `abcdef.0123456789abcdef`. A secret in the cluster, as kubeadm makes it.
    ///
    /// # Errors
    /// When the cluster is not ours.
    pub fn bootstrap_token(&self) -> Result<String> {
        let (id, secret) = &self.own()?.bootstrap;
        Ok(format!("{id}.{secret}"))
    }

    /// Runs kubectl as administrator and gives what it wrote.
    ///
    /// # Errors
    /// [`Error::Command`] with its own words when it does not end with success.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        match &self.place.own {
            Some(own) => kubectl(self.kubeconfig(), &own.folder, arguments).await,
            None => kubectl(self.kubeconfig(), tempfile::tempdir()?.path(), arguments).await,
        }
    }

    /// Somebody with a client certificate: `user`, in at most one group, with no rights but those that RBAC gives.
    ///
    /// # Errors
    /// When the cluster is not ours.
    pub async fn user(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        let own = self.own()?;
        let file = user.replace([':', '/'], "-");
        let pki = self.pki()?;
        let pair = pki.client(&file, user, group)?;
        let kubeconfig = own.folder.join(format!("{file}.kubeconfig"));
        kubeconfig::write(&kubeconfig, &own.outside, &pki.ca(), &Proof::Certificate(&pair))?;
        Ok(Identity { client: kubeconfig::client(&kubeconfig).await?, kubeconfig })
    }

    /// A service account with a token of an hour, made if it is not there: how a controller runs with exactly the rights
    /// that its own manifests give it.
    ///
    /// # Errors
    /// When the cluster is not ours, or the namespace does not exist.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<Identity> {
        let own = self.own()?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        create(&accounts, &from(json!({"metadata": {"name": name}}))?).await?;
        let request: TokenRequest = from(json!({"spec": {"expirationSeconds": 3600}}))?;
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        let token = answer.status.and_then(|status| status.token).unwrap_or_default();
        let kubeconfig = own.folder.join(format!("{namespace}-{name}.kubeconfig"));
        kubeconfig::write(&kubeconfig, &own.outside, &self.pki()?.ca(), &Proof::Token(&token))?;
        Ok(Identity { client: kubeconfig::client(&kubeconfig).await?, kubeconfig })
    }

    /// A way to the API server that can be cut, for clients out here.
    ///
    /// # Errors
    /// When the cluster is not ours.
    pub async fn wire(&self) -> Result<Wire> {
        Wire::to(&self.own()?.outside).await
    }

    /// Whether the API server says that it is ready.
    pub(super) async fn is_ready(&self) -> bool {
        let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
        self.client.request_text(request).await.is_ok()
    }

    /// Waits until the controllers have made the service account of a new namespace: before that no pod is admitted.
    ///
    /// # Errors
    /// [`Error::Deadline`].
    pub async fn can_create_pods(&self, namespace: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        wait::until(accounts, "default", START, "the controllers have made a service account", |_| true).await?;
        Ok(())
    }

    /// Lets kubelets in that bring the bootstrap token: they may ask for a certificate, get it, and renew it.
    pub(super) async fn admit_nodes(&self) -> Result<()> {
        let (id, secret) = &self.own()?.bootstrap;
        let secrets: Api<Secret> = Api::namespaced(self.client(), "kube-system");
        let token = json!({
            "metadata": {"name": format!("bootstrap-token-{id}")},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": id, "token-secret": secret, "auth-extra-groups": BOOTSTRAPPERS,
                "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
            },
        });
        create(&secrets, &from(token)?).await?;
        let signing = "system:certificates.k8s.io:certificatesigningrequests";
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client());
        for (name, role, group) in [
            ("muster:nodes-ask", "system:node-bootstrapper", BOOTSTRAPPERS),
            ("muster:nodes-get", &format!("{signing}:nodeclient"), BOOTSTRAPPERS),
            ("muster:nodes-renew", &format!("{signing}:selfnodeclient"), "system:nodes"),
        ] {
            let binding = json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
            });
            create(&bindings, &from(binding)?).await?;
        }
        Ok(())
    }

    fn own(&self) -> Result<&OwnPlace> {
        self.place.own.as_ref().ok_or_else(|| Error::Missing {
            what: format!("the cluster of `{}` is not ours, and this needs its keys", self.place.kubeconfig.display()),
            hint: format!("unset `{}` to use a control plane that the tests start", super::GIVEN),
        })
    }

    fn pki(&self) -> Result<Pki> {
        Ok(Pki::at(&self.own()?.folder.join("pki")))
    }
}

impl Identity {
    /// The same, going by this wire.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read or written.
    pub async fn through(&self, wire: &Wire) -> Result<Self> {
        let kubeconfig = self.kubeconfig.with_extension("wired.kubeconfig");
        kubeconfig::redirect(&self.kubeconfig, &kubeconfig, &wire.url())?;
        Ok(Self { client: kubeconfig::client(&kubeconfig).await?, kubeconfig })
    }

    /// A slow way to the API server as this identity, and a kubeconfig for it.
    ///
    /// # Errors
    /// When a port cannot be bound, or the file cannot be written.
    pub async fn slowed(&self, delays: Delays) -> Result<(SlowServer, PathBuf)> {
        let server = SlowServer::of(self.client.clone(), delays).await?;
        let kubeconfig = self.kubeconfig.with_extension("slow.kubeconfig");
        kubeconfig::redirect(&self.kubeconfig, &kubeconfig, &server.url())?;
        Ok((server, kubeconfig))
    }

    /// Runs kubectl as this identity and gives what it wrote.
    ///
    /// # Errors
    /// [`Error::Command`] with its own words when it does not end with success.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        // Beside the kubeconfig, which lies in the world.
        kubectl(&self.kubeconfig, self.kubeconfig.parent().unwrap_or(Path::new("/")), arguments).await
    }
}

impl std::fmt::Debug for OwnPlace {
    /// Without the secret of the bootstrap token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { folder, outside, inside, bootstrap: _ } = self;
        let mut shown = f.debug_struct("OwnPlace");
        shown.field("folder", folder).field("outside", outside).field("inside", inside).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Cluster {
    /// Without the secret of the bootstrap token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("kubeconfig", &self.place.kubeconfig).finish_non_exhaustive()
    }
}

/// The process ends with the future: nothing of it is left, so it is not in the ledger. What it learns of the server it
/// keeps in `folder`, not in the home of whoever runs the tests, and that person's preferences are not asked.
async fn kubectl(kubeconfig: &Path, folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(programs::path("kubectl")?);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--cache-dir").arg(folder.join("kubectl"));
    command.args(arguments).env_remove("KUBECONFIG").env("KUBERC", "off").kill_on_drop(true);
    // It ends before what it allocates is worth collecting.
    command.env("GOGC", "off");
    let output = command.stdin(std::process::Stdio::null()).output().await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Command {
        command: format!("kubectl {}", arguments.join(" ")),
        answer: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// Makes an object; one that is there already stays as it is.
async fn create<K>(api: &Api<K>, object: &K) -> Result<()>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    match api.create(&PostParams::default(), object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn from<K: DeserializeOwned>(value: serde_json::Value) -> Result<K> {
    Ok(serde_json::from_value(value).map_err(std::io::Error::from)?)
}
