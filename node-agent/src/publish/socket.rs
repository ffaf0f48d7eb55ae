//! What the agent answers to those who may ask it: health, reflection in both versions, and the question of the kubelet's unit.

use muster_proto::AGENT_DESCRIPTORS;
use muster_proto::answer::HealthOf;
use muster_proto::health::health_server::HealthServer;
use muster_proto::muster::admission_server::{Admission, AdmissionServer};
use muster_proto::muster::{AdmitKubeletRequest, AdmitKubeletResponse};
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::endpoint::Incoming;

pub use muster_proto::answer::Statuses;

/// A kubelet that wants to start, and who waits for the answer.
pub type Asked = oneshot::Sender<AdmitKubeletResponse>;

/// Serves until nobody can come any more.
///
/// # Errors
/// The descriptors are broken, or the transport.
pub async fn serve(
    incoming: Incoming,
    statuses: watch::Receiver<Statuses>,
    asked_tx: mpsc::Sender<Asked>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let describe =
        || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(AGENT_DESCRIPTORS);
    Server::builder()
        .add_service(HealthServer::new(HealthOf(statuses)))
        .add_service(AdmissionServer::new(AdmissionBy(asked_tx)))
        .add_service(describe().build_v1()?)
        .add_service(describe().build_v1alpha()?)
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

/// Asks whoever decides.
struct AdmissionBy(mpsc::Sender<Asked>);

#[tonic::async_trait]
impl Admission for AdmissionBy {
    async fn admit_kubelet(&self, _: Request<AdmitKubeletRequest>) -> Result<Response<AdmitKubeletResponse>, Status> {
        let (answer_tx, answer_rx) = oneshot::channel();
        let gone = || Status::unavailable("the agent is ending");
        self.0.send(answer_tx).await.map_err(|_| gone())?;
        answer_rx.await.map(Response::new).map_err(|_| gone())
    }
}
