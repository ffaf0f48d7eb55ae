//! What the cloud controller manager of EKS does to a new Node: until it has, nothing that does not tolerate it runs there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::watcher::{Config, watcher};
use kube::runtime::{WatchStreamExt, watcher::Error as WatchError};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::error::Result;
use crate::imds::Instance;

/// What a kubelet with `--cloud-provider=external` puts on its Node.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// A running cloud controller. Dropping it ends it.
#[derive(Debug)]
pub struct CloudController {
    known: Arc<Mutex<BTreeMap<String, Instance>>>,
    nodes: Api<Node>,
    watch: JoinHandle<()>,
}

impl CloudController {
    /// Initializes the Nodes of the cluster that `client` reaches, as they come.
    pub fn start(client: Client) -> Self {
        let known = Arc::<Mutex<BTreeMap<String, Instance>>>::default();
        let instances = Arc::clone(&known);
        let nodes: Api<Node> = Api::all(client);
        let own = nodes.clone();
        let watch = tokio::spawn(async move {
            let changes = watcher(nodes.clone(), Config::default()).default_backoff().applied_objects();
            let done = changes.try_for_each(|node| initialize(&nodes, node, &instances)).await;
            // A watcher with a back-off only ends with an error that it will not try again.
            drop(done);
        });
        Self { known, nodes: own, watch }
    }

    /// Tells it of an instance, by the name of its Node.
    pub fn learn(&self, instance: &Instance) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(instance.host_name.clone(), instance.clone());
    }

    /// Tells it that the instance with the Node `name` is no more: it deletes the Node.
    ///
    /// # Errors
    /// What the API server said, unless there is no such Node.
    pub async fn forget(&self, name: &str) -> Result<()> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        match self.nodes.delete(name, &DeleteParams::default()).await {
            // One that never joined has none.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }
}

impl Drop for CloudController {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

async fn initialize(
    nodes: &Api<Node>,
    node: Node,
    known: &Mutex<BTreeMap<String, Instance>>,
) -> Result<(), WatchError> {
    let name = node.name_any();
    let Some(instance) = known.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned() else {
        return Ok(());
    };
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    if taints.iter().all(|taint| taint.key != UNINITIALIZED) {
        return Ok(());
    }
    let rest: Vec<_> = taints.into_iter().filter(|taint| taint.key != UNINITIALIZED).collect();
    let patch = json!({
        "metadata": {
            // Another writer of the taints makes this fail; its change brings the Node here again.
            "resourceVersion": node.resource_version(),
            "labels": {
                "node.kubernetes.io/instance-type": instance.instance_type,
                "topology.k8s.aws/zone-id": instance.zone_id,
                "topology.kubernetes.io/region": instance.region,
                "topology.kubernetes.io/zone": instance.zone,
            },
        },
        "spec": {"taints": rest},
    });
    let _comes_again_if_it_fails = nodes.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    Ok(())
}
