//! gRPC health service of the agent and of the controller. It serves statuses that other code updates.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;

use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use crate::health::health_check_response::ServingStatus;
use crate::health::health_server::Health;
use crate::health::{HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse};

/// Serving status by health name.
pub type Statuses = BTreeMap<String, ServingStatus>;

/// Health service that answers from the current statuses.
#[derive(Debug, Clone)]
pub struct HealthOf(pub watch::Receiver<Statuses>);

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
        // The protocol requires the current status first, then every change.
        let changes = WatchStream::new(self.0.clone()).map(of_name).filter_map(move |status| {
            let is_new = last.replace(status) != Some(status);
            is_new.then(|| Ok(response(status)))
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
