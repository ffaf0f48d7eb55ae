//! RPCs for operators' orders, validated and passed on, and for lists and watches of nodes.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures::Stream;
use muster_proto::muster::fleet_server::Fleet;
use muster_proto::muster::{
    LaunchRequest, LaunchResponse, ListRequest, ListResponse, Order, PlanRequest, PlanResponse, TerminateRequest,
    TerminateResponse, WatchRequest, WatchResponse,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Response, Status};

use crate::operators::{Caller, Operators, Question, Turns, caller, name, name_or_none};
use crate::rows::watched;

/// Maximum number of nodes per order: they are decided on together, and each is a write.
const MOST_NODES: u32 = 100;
/// Maximum number of entries of a list or map: the limit of the NodePool CRD for requirements.
const MOST_ENTRIES: usize = 100;
/// Maximum length of a request ID.
const LONGEST_ID: usize = 128;
/// Maximum length of an object's UID; those of Kubernetes have 36 characters.
const LONGEST_UID: usize = 64;

/// Implements the Fleet RPCs.
pub(crate) struct Orders<S> {
    sources: Arc<S>,
    turns: Turns,
    watches: Watches,
}

/// Places of watches. One user has at most half of them, so that there is one for others.
#[derive(Debug, Clone)]
struct Watches {
    places: Arc<Semaphore>,
    of_user: usize,
    /// Number of watches by user. Held briefly, never across an await.
    users: Arc<Mutex<HashMap<String, usize>>>,
}

/// Place of a watch, which is free once this is dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    user: String,
    users: Arc<Mutex<HashMap<String, usize>>>,
    _place: OwnedSemaphorePermit,
}

impl Watches {
    fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(most)), of_user: most.div_ceil(2), users: Arc::default() }
    }

    fn take(&self, user: String) -> Option<Watching> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.get(&user).is_some_and(|count| *count >= self.of_user) {
            return None;
        }
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        *users.entry(user.clone()).or_default() += 1;
        Some(Watching { user, users: Arc::clone(&self.users), _place: place })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.user);
            }
        }
    }
}

impl<S: Operators> Orders<S> {
    /// Creates the service with at most `watches` concurrent watches.
    pub(crate) fn new(sources: Arc<S>, turns: Turns, watches: usize) -> Self {
        Self { sources, turns, watches: Watches::new(watches) }
    }
}

fn invalid(field: &str, what: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("{field}: {what}"))
}

/// Checks the bounds of an order. Names and amounts are resolved later, where the NodePools are known.
fn order(order: Option<Order>) -> Result<Order, Status> {
    let order = order.ok_or_else(|| invalid("order", "is missing"))?;
    let Order { node_pool, count, requests, requirements } = order;
    let node_pool = name(node_pool, "order.node_pool")?;
    if !(1..=MOST_NODES).contains(&count) {
        return Err(invalid("order.count", format_args!("is {count}, and must be 1 to {MOST_NODES}")));
    }
    for (field, length) in [("order.requests", requests.len()), ("order.requirements", requirements.len())] {
        if length > MOST_ENTRIES {
            return Err(invalid(field, format_args!("has {length} entries, and {MOST_ENTRIES} are the most")));
        }
    }
    Ok(Order { node_pool, count, requests, requirements })
}

/// Checks a request's ID, which becomes part of annotations.
fn request_id(text: String) -> Result<String, Status> {
    if text.is_empty() {
        return Err(invalid("request_id", "is missing"));
    }
    let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/".contains(&byte);
    if text.len() <= LONGEST_ID && text.bytes().all(is_one) {
        return Ok(text);
    }
    Err(invalid("request_id", format_args!("must be 1 to {LONGEST_ID} letters, digits and `-._:/`")))
}

#[tonic::async_trait]
impl<S: Operators> Fleet for Orders<S> {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let by = caller(request.extensions())?.name;
        let PlanRequest { order: wanted, request_id: id } = request.into_inner();
        let id = if id.is_empty() { id } else { request_id(id)? };
        let request = PlanRequest { order: Some(order(wanted)?), request_id: id };
        let sources = Arc::clone(&self.sources);
        let answer = self.turns.work(async move { sources.plan(request, by).await }).await?;
        Ok(Response::new(answer))
    }

    async fn launch(&self, request: Request<LaunchRequest>) -> Result<Response<LaunchResponse>, Status> {
        let by = caller(request.extensions())?.name;
        let LaunchRequest { request_id: id, order: wanted } = request.into_inner();
        let request = LaunchRequest { request_id: request_id(id)?, order: Some(order(wanted)?) };
        Ok(Response::new(self.sources.launch(request, by).await?))
    }

    async fn terminate(&self, request: Request<TerminateRequest>) -> Result<Response<TerminateResponse>, Status> {
        let by = caller(request.extensions())?.name;
        let TerminateRequest { node_claim, uid } = request.into_inner();
        let node_claim = name(node_claim, "node_claim")?;
        if uid.len() > LONGEST_UID || !uid.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid("uid", "this is no UID"));
        }
        Ok(Response::new(self.sources.terminate(TerminateRequest { node_claim, uid }, by).await?))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let question = Question::Nodes(name_or_none(request.into_inner().node_pool, "node_pool")?);
        let sources = Arc::clone(&self.sources);
        let document = self.turns.work(async move { sources.answer(question).await }).await?;
        Ok(Response::new(ListResponse { document: Some(document) }))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let Caller { name: user, ending } = caller(request.extensions())?;
        let pool = name_or_none(request.into_inner().node_pool, "node_pool")?;
        let Some(place) = self.watches.take(user) else {
            return Err(Status::resource_exhausted("too many watch at once: try again"));
        };
        Ok(Response::new(Box::pin(watched(self.sources.rows(), pool, ending, place))))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_proto::muster::Requirement;

    use super::*;

    fn ordered(change: impl FnOnce(&mut Order)) -> Result<Order, String> {
        let mut wanted = Order { node_pool: "general".to_owned(), count: 2, ..Order::default() };
        change(&mut wanted);
        order(Some(wanted)).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn an_order_has_its_bounds() {
        assert!(ordered(|_| {}).is_ok());
        assert_eq!(order(None).unwrap_err().message(), "order: is missing");
        assert_eq!(ordered(|order| order.node_pool.clear()).unwrap_err(), "order.node_pool: is missing");
        assert_eq!(ordered(|order| order.count = 0).unwrap_err(), "order.count: is 0, and must be 1 to 100");
        assert_eq!(ordered(|order| order.count = 101).unwrap_err(), "order.count: is 101, and must be 1 to 100");
        let many: BTreeMap<String, String> = (0..101).map(|at| (format!("r{at}"), "1".to_owned())).collect();
        let refused = ordered(|order| order.requests = many).unwrap_err();
        assert_eq!(refused, "order.requests: has 101 entries, and 100 are the most");
        let refused = ordered(|order| order.requirements = vec![Requirement::default(); 101]).unwrap_err();
        assert_eq!(refused, "order.requirements: has 101 entries, and 100 are the most");
    }

    #[test]
    fn a_user_has_half_of_the_watches() {
        let watches = Watches::new(4);
        let take = |user: &str| watches.take(user.to_owned());
        let of_ann = [take("ann").unwrap(), take("ann").unwrap()];
        assert!(take("ann").is_none());
        let _of_ben = [take("ben").unwrap(), take("ben").unwrap()];
        assert!(take("eve").is_none(), "all are taken");
        drop(of_ann);
        assert!(take("eve").is_some());
        assert_eq!(watches.users.lock().unwrap().len(), 1, "nothing is kept of who has gone");
    }

    #[test]
    fn an_id_says_nothing_but_itself() {
        assert_eq!(request_id("a-1/b:2_c.3".to_owned()).unwrap(), "a-1/b:2_c.3");
        for other in [String::new(), "a b".to_owned(), "ä".to_owned(), "a\n".to_owned(), "a".repeat(129)] {
            assert!(request_id(other.clone()).unwrap_err().message().starts_with("request_id: "), "{other:?}");
        }
    }
}
