//! Moments that no suite can be made to meet: the lease is on its way for long, or at the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::service_fn;

use super::*;
use crate::edge::Fence;

/// An API server that keeps one Lease, and answers the first write when it is told to.
#[derive(Default)]
struct Server {
    lease: Mutex<Option<Value>>,
    has_written: Notify,
    may_answer: Notify,
    /// True if no further request is answered.
    is_silent: AtomicBool,
}

impl Server {
    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        if self.is_silent.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let is_first = request.method() == Method::POST;
        if request.method() != Method::GET {
            let sent = request.into_body().collect_bytes().await.unwrap();
            let mut lease: Value = serde_json::from_slice(&sent).unwrap();
            lease["metadata"]["resourceVersion"] = json!(if is_first { "1" } else { "2" });
            *self.lease.lock().unwrap() = Some(lease);
        }
        if is_first {
            self.has_written.notify_one();
            self.may_answer.notified().await;
        }
        let there = self.lease.lock().unwrap().clone();
        let status = if there.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
        let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
        let body = there.unwrap_or(missing).to_string();
        Response::builder().status(status).body(Body::from(body.into_bytes())).unwrap()
    }

    fn holder(&self) -> Value {
        self.lease.lock().unwrap().as_ref().unwrap()["spec"]["holderIdentity"].clone()
    }
}

/// Has a candidate stand at this server, until `stopped`. Returns its fence as well.
fn stand(server: &Arc<Server>, stopped: watch::Receiver<bool>) -> (JoinHandle<()>, Fence) {
    let asked = Arc::clone(server);
    let service = service_fn(move |request| {
        let server = Arc::clone(&asked);
        async move { Ok::<_, std::convert::Infallible>(server.answer(request).await) }
    });
    let client = Client::new(service, "default");
    let (gate, fence) = Fence::closed();
    (tokio::spawn(Candidate::new(client, "kube-system", "lease", "we").stand(gate, stopped)), fence)
}

#[tokio::test]
async fn a_lease_that_is_on_its_way_at_the_end_is_given_up() {
    let server = Arc::new(Server::default());
    let (stop, stopped) = watch::channel(false);
    let (stands, _fence) = stand(&server, stopped);
    server.has_written.notified().await;
    assert_eq!(server.holder(), "we");
    stop.send(true).unwrap();
    tokio::task::yield_now().await;
    server.may_answer.notify_one();
    stands.await.unwrap();
    assert_eq!(server.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_long_on_its_way_is_held_from_when_it_was_requested() {
    let server = Arc::new(Server::default());
    let (_stop, stopped) = watch::channel(false);
    let begun = Instant::now();
    let (_stands, mut fence) = stand(&server, stopped);
    server.has_written.notified().await;
    tokio::time::advance(Duration::from_secs(8)).await;
    server.may_answer.notify_one();
    assert!(fence.opened().await);
    // It is not renewed.
    server.is_silent.store(true, Ordering::Relaxed);
    fence.closes().await;
    assert_eq!(begun.elapsed(), RENEW_DEADLINE);
}
