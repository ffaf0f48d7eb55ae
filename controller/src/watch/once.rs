//! Single read of a cluster, for commands that run once.

use kube::Client;
use muster_manifest::Intake;
use muster_stages::state::Kind;
use serde::Deserialize;

use super::connection::connect;
use super::error::{ClusterError, root_cause};
use super::kinds::{DEVICES, RESOURCE_SLICES, RESOURCES, Resource, SELECTING, TEMPLATES};

/// Page size: the number of objects that `kubectl` requests.
const PAGE: u32 = 500;

/// Parameters of a read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Question<'q> {
    /// Context of the kubeconfig; none selects the current one, or the pod's service account.
    pub context: Option<&'q str>,
    /// Kinds to read.
    pub scope: Scope,
}

/// Set of kinds to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// All kinds that decisions about pods and nodes depend on.
    #[default]
    All,
    /// NodeClasses only.
    NodeClasses,
    /// Nodes, NodeClaims, NodePools and NodeClasses.
    Nodes,
    /// PodTemplates and workloads, to which CapacityBuffers refer.
    Templates,
    /// Services and owners of pods, whose selectors the default topology spread of a scheduler configuration uses.
    Selecting,
    /// DeviceClasses, claims and ResourceSlices.
    Devices,
}

impl Scope {
    fn resources(self) -> impl Iterator<Item = &'static Resource> {
        let all = RESOURCES.iter().filter(move |it| match self {
            Self::All => true,
            Self::NodeClasses => it.is_node_class(),
            Self::Templates | Self::Selecting | Self::Devices => false,
            Self::Nodes => matches!(it.kind, Kind::Node | Kind::NodeClaim | Kind::NodePool) || it.is_node_class(),
        });
        all.chain(match self {
            Self::Templates => TEMPLATES,
            Self::Selecting => SELECTING,
            Self::Devices => DEVICES,
            Self::All | Self::NodeClasses | Self::Nodes => &[],
        })
        .chain((self == Self::Devices).then_some(&RESOURCE_SLICES))
    }
}

/// Reads all objects in scope into `intake`, and reports progress.
///
/// # Errors
/// Fails if the kubeconfig cannot be used, if the server does not respond or denies access, or if an object is invalid.
pub async fn read_once(
    question: Question<'_>,
    intake: &mut Intake,
    progress: &mut dyn FnMut(&str),
) -> Result<(), ClusterError> {
    let Question { context, scope } = question;
    let client = connect(context).await?;
    for resource in scope.resources() {
        let mut seen = 0;
        progress(&format!("reading {}", resource.plural));
        let mut pages = Pages::new(*resource);
        while let Some(page) = pages.next(&client).await? {
            intake.text(&format!("cluster/{}.json", resource.plural), page)?;
            seen += 1;
            if seen > 1 {
                progress(&format!("reading {}: page {seen}", resource.plural));
            }
        }
        if pages.is_unknown {
            intake.say(format!("the cluster does not know the kind `{}`", resource.name()));
        }
    }
    Ok(())
}

/// Pages of one kind, read one after another.
struct Pages {
    resource: Resource,
    /// Token for the next page; none after the last.
    after: Option<String>,
    is_unknown: bool,
}

/// Metadata of a list.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
}

#[derive(Deserialize, Default)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    after: Option<String>,
}

impl Pages {
    const fn new(resource: Resource) -> Self {
        Self { resource, after: Some(String::new()), is_unknown: false }
    }

    async fn next(&mut self, client: &Client) -> Result<Option<String>, ClusterError> {
        let Some(after) = self.after.take() else { return Ok(None) };
        let path = self.resource.page(PAGE, &after);
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|error| self.failed(&kube::Error::HttpError(error)))?;
        let text = match client.request_text(request).await {
            Ok(text) => text,
            Err(kube::Error::Api(status)) if status.code == 404 && self.resource.optional => {
                self.is_unknown = true;
                return Ok(None);
            }
            Err(error) => return Err(self.failed(&error)),
        };
        let list: List = serde_json::from_str(&text).map_err(|error| self.failed(&kube::Error::SerdeError(error)))?;
        self.after = list.metadata.after.filter(|token| !token.is_empty());
        Ok(Some(text))
    }

    fn failed(&self, error: &kube::Error) -> ClusterError {
        let name = self.resource.name();
        let (why, hint) = match error {
            kube::Error::Api(status) => match status.code {
                401 => (
                    "the API server does not know this user".to_owned(),
                    "renew the credentials of the kubeconfig's user, and try `kubectl auth whoami`".to_owned(),
                ),
                403 => (status.message.clone(), format!("grant the user `list` on `{name}` in all namespaces")),
                410 => {
                    ("the cluster changed faster than it could be read".to_owned(), "try again in a moment".to_owned())
                }
                404 => (
                    "the API server does not know this kind".to_owned(),
                    "check that the server is a Kubernetes API server, not older than 1.29".to_owned(),
                ),
                _ => {
                    (status.message.clone(), "look at the API server's health: `kubectl get --raw /readyz`".to_owned())
                }
            },
            other => (root_cause(other), "check the network to the API server with `kubectl version`".to_owned()),
        };
        ClusterError::Server { reason: format!("cannot list `{name}`: {why}"), hint }
    }
}
