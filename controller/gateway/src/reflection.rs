//! Server reflection (`grpc.reflection`), in both versions that clients use.
//!
//! ```text
//!  plaintext port ──────────────────────────────────────────────┐
//!                                                               ▼
//!  port for agents ─► rules: operators only ─► Bounded ─► tonic-reflection ◄── DESCRIPTORS
//!                                                 └─ limits of streams, time and bytes; requests end with the answers
//! ```

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::{Stream, unfold};
use futures::{FutureExt, StreamExt};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyStream, StreamBody};
use hyper::body::{Bytes, Frame};
use muster_proto::CONTROLLER_DESCRIPTORS;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::{Duration, Instant, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic_reflection::pb;
use tonic_reflection::server::{Builder, Error, v1, v1alpha};
use tower::Service;

use crate::operators::{Caller, caller};

/// Encoded file descriptor sets of all services of a replica, reflection included.
pub const DESCRIPTORS: [&[u8]; 3] =
    [CONTROLLER_DESCRIPTORS, pb::v1::FILE_DESCRIPTOR_SET, pb::v1alpha::FILE_DESCRIPTOR_SET];
/// Maximum size of a request in bytes: a name.
const QUESTION: usize = 4 * 1024;
/// Lifetime of a stream. grpcurl keeps one open for as long as its call lasts, and opens another for its next request.
const LONGEST: Duration = Duration::from_mins(1);
/// Maximum size of a stream's answers in bytes: thirty times all descriptors.
const MOST: usize = 1024 * 1024;

/// Service of reflection v1.
type V1<T> = v1::ServerReflectionServer<T>;
/// Service of reflection v1alpha.
type V1Alpha<T> = v1alpha::ServerReflectionServer<T>;

/// Returns the services of both versions, without limits or authorization.
pub(crate) fn reflection() -> Result<(V1<impl v1::ServerReflection>, V1Alpha<impl v1alpha::ServerReflection>), Error> {
    let builder = || {
        let builder = Builder::configure().include_reflection_service(false);
        DESCRIPTORS.into_iter().fold(builder, Builder::register_encoded_file_descriptor_set)
    };
    let (v1, v1alpha) = (builder().build_v1()?, builder().build_v1alpha()?);
    Ok((v1.max_decoding_message_size(QUESTION), v1alpha.max_decoding_message_size(QUESTION)))
}

/// Reflection for operators, with limits.
#[derive(Debug, Clone)]
pub(crate) struct Bounded<S> {
    inner: S,
    /// Shared by the streams of both versions.
    places: Arc<Semaphore>,
}

/// Held by a stream of answers: its permit, and a sender that ends the requests when it is dropped.
type Held = (OwnedSemaphorePermit, oneshot::Sender<Infallible>);

impl<S> Bounded<S> {
    /// Takes a permit of `places` for each stream.
    pub(crate) const fn new(inner: S, places: Arc<Semaphore>) -> Self {
        Self { inner, places }
    }

    /// Returns the permit of a new stream, and the receiver that signals the end of its connection.
    fn begin(&self, request: &Request<Body>) -> Result<(OwnedSemaphorePermit, watch::Receiver<bool>), Status> {
        let Caller { ending, .. } = caller(request.extensions())?;
        let place = Arc::clone(&self.places).try_acquire_owned();
        place
            .map(|place| (place, ending))
            .map_err(|_| Status::resource_exhausted("too many ask at once what there is: try again"))
    }
}

impl<S: NamedService> NamedService for Bounded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (place, ending) = match self.begin(&request) {
            Ok(begun) => begun,
            Err(status) => return std::future::ready(Ok(status.into_http())).boxed(),
        };
        let (answering, answered) = oneshot::channel();
        // Requests are not read after the answers have ended.
        let questions = |body| Body::new(StreamBody::new(BodyStream::new(body).take_until(answered)));
        let answers = self.inner.call(request.map(questions));
        let held = (place, answering);
        let bounded = |body| Body::new(StreamBody::new(bounded(BodyStream::new(body), ending, held)));
        async { Ok(answers.await?.map(bounded)) }.boxed()
    }
}

/// Stream of answers between two frames.
struct Answering<F> {
    frames: F,
    ending: watch::Receiver<bool>,
    until: Instant,
    told: usize,
    _held: Held,
}

/// Returns the frames of a stream of answers within its limits, and the status if a limit is exceeded.
fn bounded<F>(
    frames: F,
    ending: watch::Receiver<bool>,
    held: Held,
) -> impl Stream<Item = Result<Frame<Bytes>, Status>> + Send
where
    F: Stream<Item = Result<Frame<Bytes>, Status>> + Send + Unpin,
{
    let begun = Answering { frames, ending, until: Instant::now() + LONGEST, told: 0, _held: held };
    unfold(Some(begun), |answering| async {
        let mut answering = answering?;
        match answering.next().await {
            Ok(frame) => Some((frame?, Some(answering))),
            Err(status) => {
                let mut trailers = HeaderMap::new();
                let written = status.add_header(&mut trailers).map(|()| Frame::trailers(trailers));
                Some((written, None))
            }
        }
    })
}

impl<F: Stream<Item = Result<Frame<Bytes>, Status>> + Unpin> Answering<F> {
    /// Returns the next frame, `None` after the last one, or the status of a stream whose time or size is used up.
    async fn next(&mut self) -> Result<Option<Result<Frame<Bytes>, Status>>, Status> {
        if self.told > MOST {
            return Err(Status::resource_exhausted("this stream was told enough: ask on another"));
        }
        let frame = tokio::select! {
            biased;
            _ = self.ending.wait_for(|ending| *ending) => {
                return Err(Status::unavailable("the connection is to end: ask again"));
            }
            () = sleep_until(self.until) => {
                return Err(Status::resource_exhausted("this stream has lasted long enough: ask on another"));
            }
            frame = self.frames.next() => frame,
        };
        let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref().map(Bytes::len));
        self.told += bytes.unwrap_or_default();
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::stream;
    use tonic::Code;

    use super::*;

    struct Fixture {
        ending: watch::Sender<bool>,
        places: Arc<Semaphore>,
    }

    impl Fixture {
        fn new() -> Self {
            Self { ending: watch::channel(false).0, places: Arc::new(Semaphore::new(1)) }
        }

        fn held(&self) -> (Held, oneshot::Receiver<Infallible>) {
            let (answering, answered) = oneshot::channel();
            ((Arc::clone(&self.places).try_acquire_owned().unwrap(), answering), answered)
        }

        /// Returns the final status of a stream, its bytes and its duration.
        async fn last(
            &self,
            frames: impl Stream<Item = Result<Frame<Bytes>, Status>> + Send + Unpin,
        ) -> (Code, usize, Duration) {
            let ((held, answered), begun) = (self.held(), Instant::now());
            let mut stream = pin!(bounded(frames, self.ending.subscribe(), held));
            let (mut code, mut bytes) = (Code::Ok, 0);
            while let Some(frame) = stream.next().await {
                let frame = frame.unwrap();
                bytes += frame.data_ref().map_or(0, Bytes::len);
                let status = frame.trailers_ref().and_then(Status::from_header_map);
                code = status.map_or(code, |status| status.code());
            }
            assert!(answered.await.is_err(), "the questions have ended");
            assert_eq!(self.places.available_permits(), 1, "nothing is held");
            (code, bytes, begun.elapsed())
        }
    }

    fn frame(bytes: usize) -> Result<Frame<Bytes>, Status> {
        Ok(Frame::data(vec![0; bytes].into()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_by_itself_or_when_it_has_lasted_or_told_enough() {
        let ground = Fixture::new();
        let few = stream::iter([frame(5), frame(6)]);
        assert_eq!(ground.last(few).await, (Code::Ok, 11, Duration::ZERO));
        let silent = stream::iter([frame(5)]).chain(stream::pending());
        assert_eq!(ground.last(silent).await, (Code::ResourceExhausted, 5, LONGEST));
        let endless = stream::iter(std::iter::repeat_with(|| frame(MOST / 4)));
        assert_eq!(ground.last(endless).await, (Code::ResourceExhausted, MOST / 4 * 5, Duration::ZERO));
        ground.ending.send_replace(true);
        let more = stream::iter([frame(5)]);
        assert_eq!(ground.last(more).await, (Code::Unavailable, 0, Duration::ZERO));
    }
}
