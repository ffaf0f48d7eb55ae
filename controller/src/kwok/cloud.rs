//! KWOK cloud: creates, reads and deletes Nodes.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, Client};
use muster_api::KwokNodeClass;
use muster_cloud::{Cloud, CloudError, Instance, InstanceState, LaunchError, LaunchRequest, Launched};
use muster_scheduling::model::Catalogue;
use tokio::time::{Instant, sleep};

use super::{SCHEME, node};

/// Maximum number of attempts to create a Node that the API server rejects. Karpenter's provider gives up, too; the
/// claim then ends because its Node never registers.
const MOST_TRIES: u32 = 4;
/// Delay between attempts.
const BETWEEN: Duration = Duration::from_secs(2);
/// Cache duration for the registration delay of a class.
const CURRENT: Duration = Duration::from_secs(2);

/// Cloud whose instances are Nodes.
#[derive(Clone)]
pub struct Kwok {
    client: Client,
    catalogue: Catalogue,
    /// Launched Nodes that do not exist yet, by provider ID. Lost when the process ends: their claims are then deleted,
    /// because their instances are not found. Locked briefly.
    coming: Arc<Mutex<BTreeMap<String, Instance>>>,
    /// Registration delays of classes, and when they were read. Locked briefly.
    delays: Arc<Mutex<BTreeMap<String, (Duration, Instant)>>>,
}

// === impl Kwok ===

impl Kwok {
    /// Creates the cloud, which creates Nodes of these types with `client`.
    #[must_use]
    pub fn new(client: Client, catalogue: Catalogue) -> Self {
        Self { client, catalogue, coming: Arc::default(), delays: Arc::default() }
    }

    /// Returns the instance types that every NodePool may launch.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    async fn start(&self, request: &LaunchRequest) -> Result<Launched, LaunchError> {
        let planned = self.plan(request)?;
        let not_made = |error: &kube::Error| LaunchError::of_request(transient(error));
        let expected = node::instance(&planned).ok_or_else(foreign)?;
        // A repeated launch returns the result of the first one, even if the request differs.
        if let Some(coming) = self.coming().get(&expected.provider_id) {
            return Ok(launched(coming.clone()));
        }
        let delay = self.delay(&request.class.name).await.map_err(|error| not_made(&error))?;
        if !delay.is_zero()
            && let Some(there) = self.nodes().get_opt(&name(&planned)).await.map_err(|error| not_made(&error))?
        {
            return node::instance(&there).map(launched).ok_or_else(foreign);
        }
        if delay.is_zero() {
            match self.nodes().create(&PostParams::default(), &planned).await {
                Ok(made) => return node::instance(&made).map(launched).ok_or_else(foreign),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let there = self.nodes().get(&name(&planned)).await.map_err(|error| not_made(&error))?;
                    return node::instance(&there).map(launched).ok_or_else(foreign);
                }
                // An admission policy may accept the Node later; otherwise it never registers, and the claim reports
                // that.
                Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {}
                Err(error) => return Err(not_made(&error)),
            }
        }
        let coming = Instance { state: InstanceState::Pending, launched_at: now(), ..expected };
        let id = coming.provider_id.clone();
        let is_new = self.coming().insert(id.clone(), coming.clone()).is_none();
        if is_new {
            let kwok = self.clone();
            tokio::spawn(async move { kwok.make_later(&id, &planned, delay).await });
        }
        Ok(launched(coming))
    }

    fn plan(&self, request: &LaunchRequest) -> Result<Node, LaunchError> {
        let bought = request.alternatives.iter().find_map(|one| {
            let kind = self.catalogue.types().iter().find(|kind| *kind.name == *one.offering.instance_type)?;
            Some(node::node(request, kind, one))
        });
        bought.ok_or_else(|| LaunchError::outcome(CloudError::NoCapacity { refused: Vec::new() }))
    }

    /// Creates the Node after `delay`, unless the instance has been terminated meanwhile.
    async fn make_later(&self, id: &str, planned: &Node, delay: Duration) {
        sleep(delay).await;
        for _ in 0..MOST_TRIES {
            if !self.coming().contains_key(id) {
                return;
            }
            match self.nodes().create(&PostParams::default(), planned).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 409 => break,
                Err(error) => tracing::warn!(node = %name(planned), %error, "the Node was not created"),
            }
            sleep(BETWEEN).await;
        }
        let was_terminated = self.coming().remove(id).is_none();
        // The termination may have looked for the Node before it existed.
        if was_terminated
            && let Err(error) = self.end(id).await
            && !error.is_not_found()
        {
            tracing::warn!(node = %name(planned), %error, "the Node of a terminated instance was not deleted");
        }
    }

    async fn delay(&self, class: &str) -> kube::Result<Duration> {
        let known = self.delays.lock().unwrap_or_else(PoisonError::into_inner).get(class).copied();
        if let Some((delay, _)) = known.filter(|(_, asked)| asked.elapsed() < CURRENT) {
            return Ok(delay);
        }
        let classes: Api<KwokNodeClass> = Api::all(self.client.clone());
        let found = classes.get_opt(class).await?;
        let delay = found.and_then(|class| class.spec.node_registration_delay);
        let delay = delay.filter(|delay| !delay.is_negative()).map_or(Duration::ZERO, Duration::from);
        let asked = (delay, Instant::now());
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).insert(class.to_owned(), asked);
        Ok(delay)
    }

    async fn look(&self, id: &str) -> Result<Instance, CloudError> {
        let not_found = || CloudError::NotFound { what: id.to_owned() };
        if let Some(coming) = self.coming().get(id) {
            return Ok(coming.clone());
        }
        let name = id.strip_prefix(SCHEME).ok_or_else(not_found)?;
        let node = self.nodes().get_opt(name).await.map_err(|error| transient(&error))?;
        node.filter(is_alive).and_then(|node| node::instance(&node)).ok_or_else(not_found)
    }

    async fn look_at_all(&self) -> Result<Vec<Instance>, CloudError> {
        let all = ListParams::default().labels(&format!("{}={}", node::FAKE.0, node::FAKE.1));
        let mut found = self.coming().clone();
        let nodes = self.nodes().list(&all).await.map_err(|error| transient(&error))?;
        for instance in nodes.iter().filter(|node| is_alive(node)).filter_map(node::instance) {
            found.insert(instance.provider_id.clone(), instance);
        }
        Ok(found.into_values().collect())
    }

    async fn end(&self, id: &str) -> Result<(), CloudError> {
        let not_found = || CloudError::NotFound { what: id.to_owned() };
        let was_coming = self.coming().remove(id).is_some();
        let name = id.strip_prefix(SCHEME).ok_or_else(not_found)?;
        let node = self.nodes().get_opt(name).await.map_err(|error| transient(&error))?;
        let Some(node) = node.filter(is_alive) else {
            return if was_coming { Ok(()) } else { Err(not_found()) };
        };
        let this_one = Preconditions { uid: node.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(this_one), ..DeleteParams::default() };
        match self.nodes().delete(name, &parameters).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Err(not_found()),
            Err(error) => Err(transient(&error)),
        }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn coming(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Instance>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns false for a Node that is being deleted: it counts as terminated.
fn is_alive(node: &Node) -> bool {
    node.metadata.deletion_timestamp.is_none()
}

fn launched(instance: Instance) -> Launched {
    Launched { instance, refused: Vec::new() }
}

fn foreign() -> LaunchError {
    LaunchError::of_request(CloudError::Transient { message: "the Node that was made has no provider ID".to_owned() })
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

fn transient(error: &kube::Error) -> CloudError {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            CloudError::Unauthorized { action: "nodes".to_owned(), message: status.message.clone() }
        }
        kube::Error::Api(status) if status.code == 429 => CloudError::Throttled { operation: "nodes".to_owned() },
        kube::Error::Api(status) => CloudError::Transient { message: status.message.clone() },
        other => CloudError::Transient { message: other.to_string() },
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge: when an instance was launched")]
fn now() -> Timestamp {
    Timestamp::now()
}

impl Cloud for Kwok {
    fn launch(&self, request: &LaunchRequest) -> impl Future<Output = Result<Launched, LaunchError>> + Send {
        self.start(request)
    }

    fn get(&self, provider_id: &str) -> impl Future<Output = Result<Instance, CloudError>> + Send {
        self.look(provider_id)
    }

    fn list(&self) -> impl Future<Output = Result<Vec<Instance>, CloudError>> + Send {
        self.look_at_all()
    }

    /// Returns none: these Nodes have no console.
    fn console(&self, _: &str) -> impl Future<Output = Result<Option<String>, CloudError>> + Send {
        std::future::ready(Ok(None))
    }

    fn terminate(&self, provider_id: &str) -> impl Future<Output = Result<(), CloudError>> + Send {
        self.end(provider_id)
    }

    /// Fails: `Class::reboots_instances` is false for these classes, so reboots are never requested.
    fn reboot(&self, provider_id: &str) -> impl Future<Output = Result<(), CloudError>> + Send {
        let message = format!("`{provider_id}` is simulated and cannot be rebooted");
        std::future::ready(Err(CloudError::Transient { message }))
    }

    /// Does nothing: `Class::tags_instances` is false for these classes, so tags are never requested.
    fn tag(&self, _: &str, _: &BTreeMap<String, String>) -> impl Future<Output = Result<(), CloudError>> + Send {
        std::future::ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::sync::Notify;
    use tower::service_fn;

    use super::*;
    use crate::kwok::instance_types;

    /// An API server that keeps one Node, and creates it when it is told to.
    #[derive(Default)]
    struct Server {
        node: Mutex<Option<Value>>,
        was_asked: Notify,
        may_create: Notify,
    }

    impl Server {
        async fn answer(&self, request: Request<Body>) -> Response<Body> {
            let method = request.method().clone();
            if method == Method::POST {
                let sent = request.into_body().collect_bytes().await.unwrap();
                self.was_asked.notify_one();
                self.may_create.notified().await;
                *self.node.lock().unwrap() = Some(serde_json::from_slice(&sent).unwrap());
            }
            let mut node = self.node.lock().unwrap();
            let there = if method == Method::DELETE { node.take() } else { node.clone() };
            let status = if there.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            let missing = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
            let body = there.unwrap_or(missing).to_string();
            Response::builder().status(status).body(Body::from(body.into_bytes())).unwrap()
        }
    }

    #[tokio::test]
    async fn an_instance_that_is_terminated_while_its_node_is_created_leaves_no_node() {
        let server = Arc::new(Server::default());
        let asked = Arc::clone(&server);
        let service = service_fn(move |request| {
            let server = Arc::clone(&asked);
            async move { Ok::<_, std::convert::Infallible>(server.answer(request).await) }
        });
        let kwok = Kwok::new(Client::new(service, "default"), instance_types().into());
        let planned = kwok.plan(&node::tests::request("u-1")).unwrap();
        let instance = node::instance(&planned).unwrap();
        let id = instance.provider_id.clone();
        kwok.coming().insert(id.clone(), instance);
        let maker = (kwok.clone(), id.clone());
        let making = tokio::spawn(async move { maker.0.make_later(&maker.1, &planned, Duration::ZERO).await });
        server.was_asked.notified().await;
        assert_eq!(kwok.end(&id).await, Ok(()));
        server.may_create.notify_one();
        making.await.unwrap();
        assert_eq!(*server.node.lock().unwrap(), None);
    }
}
