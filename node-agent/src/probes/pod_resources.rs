//! Queries the kubelet for allocatable devices, over its PodResources socket.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use muster_proto::pod_resources::AllocatableResourcesRequest;
use muster_proto::pod_resources::pod_resources_lister_client::PodResourcesListerClient;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns the number of healthy devices per resource; `None` while the kubelet does not serve the API.
pub async fn healthy() -> Option<BTreeMap<String, u64>> {
    timeout(PATIENCE, ask()).await.ok()?
}

async fn ask() -> Option<BTreeMap<String, u64>> {
    // The URL is required but unused: the connector opens the socket.
    let endpoint = Endpoint::try_from("http://kubelet").ok()?;
    let connect = service_fn(|_: Uri| async { UnixStream::connect(SOCKET).await.map(TokioIo::new) });
    let channel = endpoint.connect_with_connector(connect).await.ok()?;
    let mut client = PodResourcesListerClient::new(channel);
    let answer = client.get_allocatable_resources(AllocatableResourcesRequest {}).await.ok()?.into_inner();
    let mut counts = BTreeMap::new();
    for devices in answer.devices {
        *counts.entry(devices.resource_name).or_default() += devices.device_ids.len() as u64;
    }
    Some(counts)
}
