//! The socket as its clients see it.

use hyper_util::rt::TokioIo;
use muster_proto::health::HealthCheckRequest;
use muster_proto::health::HealthListRequest;
use muster_proto::health::health_check_response::ServingStatus;
use muster_proto::health::health_client::HealthClient;
use muster_proto::muster::admission_client::AdmissionClient;
use muster_proto::muster::{AdmitKubeletRequest, AdmitKubeletResponse};
use tokio::sync::{mpsc, watch};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use super::endpoint;
use super::socket::{self, Statuses};

async fn channel(folder: &std::path::Path) -> Channel {
    let folder = folder.to_owned();
    let connect = service_fn(move |_: Uri| {
        let folder = folder.clone();
        async move { endpoint::connect(&folder).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://agent").connect_with_connector(connect).await.unwrap()
}

fn statuses(of: ServingStatus) -> Statuses {
    Statuses::from([(String::new(), ServingStatus::Serving), ("agent.Kubelet".to_owned(), of)])
}

#[tokio::test]
async fn health_is_checked_listed_and_watched() {
    let folder = tempfile::tempdir().unwrap();
    let (statuses_tx, statuses_rx) = watch::channel(statuses(ServingStatus::Unknown));
    let (asked_tx, _asked_rx) = mpsc::channel(1);
    let server = tokio::spawn(socket::serve(endpoint::bind(folder.path()).unwrap(), statuses_rx, asked_tx));
    let mut client = HealthClient::new(channel(folder.path()).await);
    let request = |name: &str| HealthCheckRequest { service: name.to_owned() };

    let status = client.check(request("")).await.unwrap().into_inner().status();
    assert_eq!(status, ServingStatus::Serving);
    let unknown = client.check(request("agent.Other")).await.unwrap_err();
    assert_eq!((unknown.code(), unknown.message()), (tonic::Code::NotFound, "no health name `agent.Other`"));
    let all = client.list(HealthListRequest {}).await.unwrap().into_inner().statuses;
    assert_eq!(all.len(), 2);

    let mut other = client.watch(request("agent.Other")).await.unwrap().into_inner();
    assert_eq!(other.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    let mut changes = client.watch(request("agent.Kubelet")).await.unwrap().into_inner();
    assert_eq!(changes.message().await.unwrap().unwrap().status(), ServingStatus::Unknown);
    // The same again is no change, and nothing is sent for it.
    statuses_tx.send_replace(statuses(ServingStatus::Unknown));
    statuses_tx.send_replace(statuses(ServingStatus::Serving));
    assert_eq!(changes.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    server.abort();
}

#[tokio::test]
async fn the_kubelet_is_answered_by_whoever_decides() {
    let folder = tempfile::tempdir().unwrap();
    let (_statuses_tx, statuses_rx) = watch::channel(Statuses::new());
    let (asked_tx, mut asked_rx) = mpsc::channel(1);
    let server = tokio::spawn(socket::serve(endpoint::bind(folder.path()).unwrap(), statuses_rx, asked_tx));
    let mut client = AdmissionClient::new(channel(folder.path()).await);
    let answer = AdmitKubeletResponse { admitted: false, code: "KA17".to_owned(), message: "swap is on".to_owned() };
    let asked = async {
        let asked: socket::Asked = asked_rx.recv().await.unwrap();
        asked.send(answer.clone()).unwrap();
    };
    let (response, ()) = tokio::join!(client.admit_kubelet(AdmitKubeletRequest {}), asked);
    assert_eq!(response.unwrap().into_inner(), answer);
    drop(asked_rx);
    let gone = client.admit_kubelet(AdmitKubeletRequest {}).await.unwrap_err();
    assert_eq!(gone.code(), tonic::Code::Unavailable);
    server.abort();
}

#[cfg(unix)]
#[test]
fn only_root_may_connect_and_a_left_socket_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    for _ in 0..2 {
        let _listener = endpoint::bind(folder.path()).unwrap();
        let mode = std::fs::metadata(folder.path().join(endpoint::FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[cfg(windows)]
#[tokio::test]
async fn a_pipe_outlives_clients_that_say_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_statuses_tx, statuses_rx) = watch::channel(statuses(ServingStatus::Serving));
    let (asked_tx, _asked_rx) = mpsc::channel(1);
    assert!(endpoint::connect(folder.path()).await.is_err(), "nobody serves it");
    let server = tokio::spawn(socket::serve(endpoint::bind(folder.path()).unwrap(), statuses_rx, asked_tx));
    for _ in 0..20 {
        drop(endpoint::connect(folder.path()).await.unwrap());
    }
    let mut client = HealthClient::new(channel(folder.path()).await);
    let listed = client.list(HealthListRequest {}).await.unwrap().into_inner();
    assert_eq!(listed.statuses.len(), 2);
    server.abort();
}
