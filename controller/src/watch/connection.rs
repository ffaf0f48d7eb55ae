//! Kubernetes clients from a kubeconfig or from a pod's service account.

use std::time::Duration;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::error::{ClusterError, root_cause};

/// `kubectl`'s connect timeout, plus time for a credential plugin.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Read timeout: a server that is silent this long during a page of 500 objects is considered unresponsive.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates a client for `context` of the kubeconfig, by default its current context; without a kubeconfig, for the
/// pod's service account.
pub(super) async fn connect(context: Option<&str>) -> Result<Client, ClusterError> {
    let mut config = config(context).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    client(config)
}

/// Creates a client for [`super::follow`], without read timeout: [`super::follow`] sets a deadline on each request, and
/// other users of the client must do so too.
///
/// # Errors
/// Fails if the kubeconfig cannot be used.
pub async fn connect_to_follow(context: Option<&str>) -> Result<Client, ClusterError> {
    let mut config = config(context).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = None;
    // Callers have their own retry delays, and an eviction rejected by a budget (429) is a result.
    config.default_retry = false;
    client(config)
}

fn client(config: Config) -> Result<Client, ClusterError> {
    Client::try_from(config).map_err(|error| ClusterError::Kubeconfig {
        reason: format!("no client can be made from the kubeconfig: {}", root_cause(&error)),
        hint: "check its certificates and its proxy with `kubectl config view`".to_owned(),
    })
}

async fn config(context: Option<&str>) -> Result<Config, ClusterError> {
    let Some(name) = context else {
        let of_file = Config::from_kubeconfig(&KubeConfigOptions::default()).await;
        // A pod has a service account instead of a kubeconfig.
        return of_file.or_else(|error| Config::incluster().map_err(|_| unusable(&error)));
    };
    let kubeconfig = Kubeconfig::read().map_err(|error| unusable(&error))?;
    if !kubeconfig.contexts.iter().any(|it| it.name == name) {
        let mut known: Vec<&str> = kubeconfig.contexts.iter().map(|it| it.name.as_str()).collect();
        known.sort_unstable();
        let hint = match known.as_slice() {
            [] => "it has none: set KUBECONFIG to another file".to_owned(),
            known => format!("it has `{}`", known.join("`, `")),
        };
        return Err(ClusterError::Kubeconfig { reason: format!("the kubeconfig has no context `{name}`"), hint });
    }
    let options = KubeConfigOptions { context: Some(name.to_owned()), cluster: None, user: None };
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| unusable(&error))
}

fn unusable(error: &KubeconfigError) -> ClusterError {
    let (reason, hint) = match error {
        KubeconfigError::ReadConfig(cause, path) => (
            format!("cannot read the kubeconfig `{}`: {cause}", path.display()),
            "set KUBECONFIG to the file that kubectl uses",
        ),
        KubeconfigError::CurrentContextNotSet => (
            "the kubeconfig has no current context".to_owned(),
            "name one with `--context`, or choose it with `kubectl config use-context`",
        ),
        other => (format!("the kubeconfig cannot be used: {other}"), "check it with `kubectl config view`"),
    };
    ClusterError::Kubeconfig { reason, hint: hint.to_owned() }
}
