//! What the controller keeps in a cluster of nodes that could not become any.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;

use super::connection::connect;
use super::error::{ClusterError, root_cause};
use crate::archive::RecordLabel;

/// Reads all of it, in the order of names; `context` is that of the kubeconfig, and no namespace is all of them.
///
/// # Errors
/// A kubeconfig that cannot be used, a server that does not answer or refuses.
pub async fn read_records(context: Option<&str>, namespace: Option<&str>) -> Result<Vec<ConfigMap>, ClusterError> {
    let client = connect(context).await?;
    let maps: Api<ConfigMap> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let label = format!("{}={}", RecordLabel::KEY, RecordLabel::VALUE);
    // No more than a few dozen: they are not read page by page.
    let found = maps.list(&ListParams::default().labels(&label)).await;
    Ok(found.map_err(|error| failed(&error, namespace))?.items)
}

fn failed(error: &kube::Error, namespace: Option<&str>) -> ClusterError {
    let (why, hint) = match error {
        kube::Error::Api(status) if status.code == 403 => {
            let hint = match namespace {
                Some(namespace) => format!("grant the user `list` on `configmaps` in namespace `{namespace}`"),
                None => "say with `--namespace` where the controller runs: `list` on `configmaps` is needed there only"
                    .to_owned(),
            };
            (status.message.clone(), hint)
        }
        kube::Error::Api(status) => {
            (status.message.clone(), "look at the API server's health: `kubectl get --raw /readyz`".to_owned())
        }
        other => (root_cause(other), "check the network to the API server with `kubectl version`".to_owned()),
    };
    ClusterError::Server { reason: format!("cannot list `configmaps`: {why}"), hint }
}
