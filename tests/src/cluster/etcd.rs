//! Contents of the etcd of a control plane: read, and set back.
//!
//! The API server learns of it as of any other change, and tells whoever watches; so caches follow. Finalizers hold
//! nothing, since nobody is asked. Memory of controllers that no object shows is not set back: the node lifecycle
//! controller, for one, tells of Nodes that have gone up to five seconds later.
//!
//! Three calls are all that is needed. The crate `etcd-client` makes its code when it is built, which takes `protoc`: a
//! program that the tests of this workspace do without.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::error::{Error, Result};

/// All objects.
const OBJECTS: (&[u8], &[u8]) = (b"/registry/", b"/registry0");

/// Objects that servers write again and again, and those that the API server makes of definitions at some time.
const ITS_OWN: [&[u8]; 3] =
    [b"/registry/apiregistration.k8s.io/", b"/registry/leases/kube-system/apiserver-", b"/registry/masterleases/"];

/// Objects for which controllers make others. They go first, or those would be made again.
const MAKERS: [&[u8]; 8] = [
    b"/registry/cronjobs/",
    b"/registry/daemonsets/",
    b"/registry/deployments/",
    b"/registry/jobs/",
    b"/registry/namespaces/",
    b"/registry/replicasets/",
    b"/registry/statefulsets/",
    b"/registry/controllers/",
];

/// Largest answer: the definitions of Karpenter alone are more than the four megabytes that tonic allows.
const LARGEST: usize = 256 << 20;

/// Objects whose change leaves traces in the API server or in controllers: what they were cannot be had back.
const LASTING: [&[u8]; 2] = [b"/registry/apiextensions.k8s.io/", b"/registry/namespaces/"];

/// Messages: deleted, and not put back.
const EVENTS: &[u8] = b"/registry/events/";

/// Interval between looks.
const EVERY: Duration = Duration::from_millis(100);

/// Number of equal looks after which a new control plane has made what it makes by itself.
const MADE: usize = 15;

/// Number of equal looks after which nobody writes on: what a test had asked for when it ended has been done.
const SETTLED: usize = 5;

/// Longest time until servers come to rest.
const AT_REST: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
    #[prost(bool, tag = "8")]
    keys_only: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "3")]
    mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct PutResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
struct DeleteRangeResponse {}

/// Objects in an etcd: revision and bytes, by key.
#[derive(Debug, Clone, Default)]
pub struct Contents(BTreeMap<Vec<u8>, (i64, Vec<u8>)>);

/// A connection to an etcd. It lives as long as the runtime that it was made in.
#[derive(Debug)]
pub(super) struct Etcd {
    grpc: Grpc<Channel>,
}

impl Etcd {
    /// Connects to the etcd with this socket.
    pub(super) async fn at(socket: &Path) -> Result<Self> {
        let socket: PathBuf = socket.to_owned();
        let connect = service_fn(move |_uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector(connect).await;
        let channel = channel.map_err(std::io::Error::other)?;
        Ok(Self { grpc: Grpc::new(channel).max_decoding_message_size(LARGEST) })
    }

    /// Reads everything, once the servers have made what they make by themselves.
    ///
    /// # Errors
    /// [`Error::Deadline`] if they do not come to rest.
    pub(super) async fn contents(&mut self) -> Result<Contents> {
        let end = Instant::now() + AT_REST;
        let (mut before, mut equal) = (self.revisions().await?, 0);
        while equal < MADE {
            if Instant::now() > end {
                let seen = format!("{} objects, and more to come", before.len());
                return Err(Error::Deadline { what: "etcd is at rest".to_owned(), waited: AT_REST, seen });
            }
            sleep(EVERY).await;
            let now = self.revisions().await?;
            equal = if now == before { equal + 1 } else { 0 };
            before = now;
        }
        let all = self.range(false).await?.into_iter().filter(|one| !one.key.starts_with(EVENTS));
        Ok(Contents(all.map(|one| (one.key, (one.mod_revision, one.value))).collect()))
    }

    /// Makes everything as it was, and waits until it stays so. `contents` learns the new revisions.
    ///
    /// # Errors
    /// [`Error::Deadline`] if a server goes on writing, [`Error::Missing`] if a definition or a namespace was changed.
    pub(super) async fn set_back(&mut self, contents: &mut Contents) -> Result<()> {
        let end = Instant::now() + AT_REST;
        let mut equal = 0;
        while equal < SETTLED {
            let changed = contents.changed(&self.revisions().await?);
            equal = if changed.is_empty() { equal + 1 } else { 0 };
            let in_words = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
            let is_lasting = |key: &&Vec<u8>| LASTING.iter().any(|prefix| key.starts_with(prefix));
            if let Some(key) = changed.iter().filter(is_lasting).find(|key| contents.0.contains_key(*key)) {
                return Err(Error::Missing {
                    what: format!("`{}` is no longer what it was", in_words(key)),
                    hint: "give the test that changes it servers of its own".to_owned(),
                });
            }
            if Instant::now() > end {
                let seen = changed.iter().map(in_words).collect::<Vec<_>>().join(", ");
                return Err(Error::Deadline { what: "etcd is as it was".to_owned(), waited: AT_REST, seen });
            }
            for key in changed {
                self.restore(key, contents).await?;
            }
            sleep(EVERY).await;
        }
        Ok(())
    }

    /// Makes an object as it was.
    async fn restore(&mut self, key: Vec<u8>, contents: &mut Contents) -> Result<()> {
        match contents.0.get_mut(&key) {
            Some((revision, value)) => {
                let put = PutRequest { key, value: value.clone() };
                let done: PutResponse = self.call("/etcdserverpb.KV/Put", put).await?;
                *revision = done.header.unwrap_or_default().revision;
            }
            None => {
                let request = DeleteRangeRequest { key };
                let _gone: DeleteRangeResponse = self.call("/etcdserverpb.KV/DeleteRange", request).await?;
            }
        }
        Ok(())
    }

    /// Revision of each object.
    async fn revisions(&mut self) -> Result<BTreeMap<Vec<u8>, i64>> {
        let all = self.range(true).await?;
        Ok(all.into_iter().map(|one| (one.key, one.mod_revision)).collect())
    }

    async fn range(&mut self, keys_only: bool) -> Result<Vec<KeyValue>> {
        let (key, range_end) = (OBJECTS.0.to_vec(), OBJECTS.1.to_vec());
        let found: RangeResponse =
            self.call("/etcdserverpb.KV/Range", RangeRequest { key, range_end, keys_only }).await?;
        let is_its_own = |one: &KeyValue| ITS_OWN.iter().any(|prefix| one.key.starts_with(prefix));
        Ok(found.kvs.into_iter().filter(|one| !is_its_own(one)).collect())
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.grpc.ready().await.map_err(std::io::Error::other)?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = self.grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(path), codec).await;
        Ok(answer.map_err(std::io::Error::other)?.into_inner())
    }
}

impl Contents {
    /// Returns the keys that were added, changed or removed; those of makers first.
    fn changed(&self, now: &BTreeMap<Vec<u8>, i64>) -> Vec<Vec<u8>> {
        let differs = |(key, revision): &(&Vec<u8>, &i64)| self.0.get(*key).is_none_or(|(known, _)| known != *revision);
        let there = now.iter().filter(differs).map(|(key, _)| key);
        let gone = self.0.keys().filter(|key| !now.contains_key(*key));
        let mut all: Vec<Vec<u8>> = there.chain(gone).cloned().collect();
        all.sort_by_key(|key| !MAKERS.iter().any(|prefix| key.starts_with(prefix)));
        all
    }
}
