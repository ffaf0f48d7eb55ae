//! What the agent answers to those who may ask it: health, reflection in both versions, and the question of the kubelet's unit.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;

use muster_proto::AGENT_DESCRIPTORS;
use muster_proto::health::health_check_response::ServingStatus;
use muster_proto::health::health_server::{Health, HealthServer};
use muster_proto::health::{HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse};
use muster_proto::muster::admission_server::{Admission, AdmissionServer};
use muster_proto::muster::{AdmitKubeletRequest, AdmitKubeletResponse};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::endpoint::Incoming;

/// The status of every health name.
pub type Statuses = BTreeMap<String, ServingStatus>;

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

/// Health, as the last report has it.
struct HealthOf(watch::Receiver<Statuses>);

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for HealthOf {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let name = request.into_inner().service;
        let status = self.0.borrow().get(&name).copied();
        status
            .map(|status| Response::new(response(status)))
            .ok_or_else(|| Status::not_found(format!("no health name `{name}`")))
    }

    async fn list(&self, _: Request<HealthListRequest>) -> Result<Response<HealthListResponse>, Status> {
        let statuses: HashMap<String, HealthCheckResponse> =
            self.0.borrow().iter().map(|(name, status)| (name.clone(), response(*status))).collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let name = request.into_inner().service;
        let of_name = move |all: Statuses| all.get(&name).copied().unwrap_or(ServingStatus::ServiceUnknown);
        let mut last = None;
        // The protocol says: now, and whenever it changes.
        let changes = WatchStream::new(self.0.clone()).map(of_name).filter_map(move |status| {
            let is_new = last.replace(status) != Some(status);
            is_new.then(|| Ok(response(status)))
        });
        Ok(Response::new(Box::pin(changes)))
    }
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
