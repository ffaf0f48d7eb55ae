//! A client for a real API server, on a line that can be cut.

use std::io;

use futures::{StreamExt, TryStreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

/// What happens to the requests of a client.
#[derive(Debug)]
pub(crate) struct Meddler {
    orders: watch::Sender<Orders>,
}

#[derive(Debug, Clone, Default)]
struct Orders {
    /// Nobody answers.
    away: bool,
    /// Number of times that all answers that were under way have been cut off.
    cuts: u64,
    /// Whatever version a watch begins at is too old.
    expired: bool,
}

impl Meddler {
    /// A client like `real`, and who meddles with it.
    pub(crate) fn new(real: &Client) -> (Client, Self) {
        let orders = watch::Sender::new(Orders::default());
        let (real, receiver) = (real.clone(), orders.subscribe());
        let service = tower::service_fn(move |request| answer(real.clone(), receiver.clone(), request));
        (Client::new(service, "default"), Self { orders })
    }

    /// Cuts off every answer that is under way, in the middle of a line maybe.
    pub(crate) fn cut(&self) {
        self.orders.send_modify(|orders| orders.cuts += 1);
    }

    /// The API server goes away, or comes back.
    pub(crate) fn away(&self, away: bool) {
        self.orders.send_modify(|orders| orders.away = away);
    }

    /// From now on every version is too old to watch from, or no longer.
    pub(crate) fn expire(&self, expired: bool) {
        self.orders.send_modify(|orders| orders.expired = expired);
    }
}

async fn answer(
    real: Client,
    mut orders: watch::Receiver<Orders>,
    request: http::Request<Body>,
) -> io::Result<http::Response<UnsyncBoxBody<Bytes, io::Error>>> {
    let Orders { away, cuts, expired } = orders.borrow_and_update().clone();
    if away {
        return Err(io::Error::other("nobody answers"));
    }
    if expired && request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        // As the API server puts it when the watch has begun already.
        let line = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;
        let body = Full::new(Bytes::from(format!("{line}\n"))).map_err(|never| match never {});
        return Ok(http::Response::new(body.boxed_unsync()));
    }
    let response = real.send(request).await.map_err(io::Error::other)?;
    let (parts, body) = response.into_parts();
    let cut = async move {
        let _ = orders.wait_for(|orders| orders.away || orders.cuts != cuts).await;
    };
    let data = body.into_data_stream().take_until(Box::pin(cut));
    let frames = data.map_ok(Frame::data).map_err(io::Error::other);
    Ok(http::Response::from_parts(parts, StreamBody::new(frames).boxed_unsync()))
}
