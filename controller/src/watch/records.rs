//! Reads the records of nodes that failed to join the cluster.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use muster_stages::archive::{RecordLabel, SLOTS};

use super::connection::connect;
use super::error::{ClusterError, root_cause};

/// Maximum number of objects read. Any user may set the label, and a bundle may be as large as a ConfigMap.
const MOST: usize = 5 * SLOTS;

/// Reads all ConfigMaps with the label, sorted by name, from one namespace or from all; `context` is that of the
/// kubeconfig. The caller must check whether they belong to the controller.
///
/// # Errors
/// Fails if the kubeconfig cannot be used, if the server does not respond or denies access, or if there are far more
/// objects than the controller writes.
pub async fn read_records(context: Option<&str>, namespace: Option<&str>) -> Result<Vec<ConfigMap>, ClusterError> {
    let client = connect(context).await?;
    let maps: Api<ConfigMap> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let label = format!("{}={}", RecordLabel::KEY, RecordLabel::VALUE);
    let most = u32::try_from(MOST).unwrap_or(u32::MAX);
    let found = maps.list(&ListParams::default().labels(&label).limit(most)).await;
    let found = found.map_err(|error| failed(&error, namespace))?;
    if found.metadata.continue_.is_some_and(|token| !token.is_empty()) {
        let hint = match namespace {
            Some(namespace) => {
                format!("remove those in namespace `{namespace}` that are not called `muster-verdict-…`")
            }
            None => "give the namespace of the controller with `--namespace`".to_owned(),
        };
        let reason =
            format!("more than {MOST} `configmaps` have the label `{label}`, and the controller keeps {SLOTS}");
        return Err(ClusterError::Server { reason, hint });
    }
    Ok(found.items)
}

fn failed(error: &kube::Error, namespace: Option<&str>) -> ClusterError {
    let (why, hint) = match error {
        kube::Error::Api(status) if status.code == 403 => {
            let hint = match namespace {
                Some(namespace) => format!("grant the user `list` on `configmaps` in namespace `{namespace}`"),
                None => "give the namespace of the controller with `--namespace`: `list` on `configmaps` is needed there only"
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
