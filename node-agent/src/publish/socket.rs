//! The agent's gRPC API: health, reflection (v1 and v1alpha) and admission of the kubelet.

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

/// Request of a kubelet that is about to start: the channel for its answer.
pub type Asked = oneshot::Sender<AdmitKubeletResponse>;

/// Serves until `incoming` ends.
///
/// # Errors
/// The descriptors are invalid, or the transport failed.
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

/// Forwards requests to the supervisor.
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
