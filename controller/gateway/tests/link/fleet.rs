//! Orders of operators, and who watches.

use std::sync::Arc;
use std::time::Duration;

use muster_gateway::{Limits, Question, Row, Rows, Verb};
use muster_proto::muster::fleet_client::FleetClient;
use muster_proto::muster::{
    LaunchRequest, ListRequest, NodeChange, Order, PlanRequest, TerminateRequest, WatchRequest,
};
use prost_types::Struct;
use tonic::Code;

use crate::operators::{anonymous, with};
use crate::world::{TOKENS, World};

fn order(pool: &str) -> Option<Order> {
    Some(Order { node_pool: pool.to_owned(), count: 2, ..Order::default() })
}

fn launch(pool: &str, id: &str) -> LaunchRequest {
    LaunchRequest { request_id: id.to_owned(), order: order(pool) }
}

fn rows(names: &[&str]) -> Option<Arc<Rows>> {
    let row = |name: &&str| ((*name).into(), Arc::new(Row { pool: None, document: Struct::default() }));
    Some(Arc::new(names.iter().map(row).collect()))
}

#[tokio::test]
async fn an_order_is_somebodys_and_takes_a_right_of_its_own() {
    let world = World::start().await;
    let mut client = FleetClient::new(anonymous(&world).await);
    client.plan(with(TOKENS[0], PlanRequest { order: order("general"), ..PlanRequest::default() })).await.unwrap();
    client.launch(with(TOKENS[0], launch("general", "a-1"))).await.unwrap();
    let claim = TerminateRequest { node_claim: "general-abc".to_owned(), uid: "u".to_owned() };
    assert_eq!(client.terminate(with(TOKENS[0], claim)).await.unwrap().into_inner().uid, "u");
    client.list(with(TOKENS[0], ListRequest { node_pool: "general".to_owned() })).await.unwrap();
    let denied = client.launch(with(TOKENS[1], launch("general", "a-2"))).await.unwrap_err();
    assert_eq!(denied.message(), "you may not `post` the non-resource URL `/muster.v1.Fleet/Launch`");
    world.memory.state(|state| {
        assert_eq!(state.ordered, ["ann plans general", "ann launches general as a-1", "ann ends general-abc"]);
        assert_eq!(state.questions, [Question::Nodes(Some("general".to_owned()))]);
        let reviewed: Vec<(Verb, &str)> = state.reviewed.iter().map(|(verb, path)| (*verb, path.as_str())).collect();
        assert_eq!(
            reviewed,
            [
                (Verb::Get, "/muster.v1.Fleet/Plan"),
                (Verb::Post, "/muster.v1.Fleet/Launch"),
                (Verb::Delete, "/muster.v1.Fleet/Terminate"),
                (Verb::Get, "/muster.v1.Fleet/List"),
                (Verb::Post, "/muster.v1.Fleet/Launch"),
            ]
        );
    });
}

#[tokio::test]
async fn why_an_order_is_not_carried_out_is_a_code_and_a_message() {
    let world = World::start().await;
    let mut client = FleetClient::new(anonymous(&world).await);
    for (request, code, message) in [
        (launch("general", ""), Code::InvalidArgument, "request_id: is missing"),
        (LaunchRequest { order: None, ..launch("general", "a") }, Code::InvalidArgument, "order: is missing"),
        (launch("a/b", "a"), Code::InvalidArgument, "order.node_pool: not a valid name"),
        (launch("odd", "a"), Code::InvalidArgument, "order.requests[cpu]: `x` is no quantity"),
        (launch("full", "a"), Code::ResourceExhausted, "the limit is reached"),
        (launch("paused", "a"), Code::FailedPrecondition, "launches are paused"),
        (launch("taken", "a"), Code::AlreadyExists, "it was another order"),
    ] {
        let refused = client.launch(with(TOKENS[0], request)).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (code, message));
    }
    let nameless = client.terminate(with(TOKENS[0], TerminateRequest::default())).await.unwrap_err();
    assert_eq!(nameless.message(), "node_claim: is missing");
    let mut long = launch("general", "a");
    long.order.as_mut().unwrap().requests = [("x".repeat(70 * 1024), "1".to_owned())].into();
    assert_eq!(client.launch(with(TOKENS[0], long)).await.unwrap_err().code(), Code::OutOfRange);
}

#[tokio::test]
async fn a_watch_tells_all_and_what_changes_until_the_replica_ends() {
    let world = World::start().await;
    let mut client = FleetClient::new(anonymous(&world).await);
    world.memory.state(|state| state.rows.send_replace(rows(&["a", "b"])));
    let mut watch = client.watch(with(TOKENS[0], WatchRequest::default())).await.unwrap().into_inner();
    let mut next = async || {
        let answer = watch.message().await?.unwrap();
        Ok::<_, tonic::Status>((answer.change(), answer.key))
    };
    let told = |change, key: &str| (change, key.to_owned());
    assert_eq!(next().await.unwrap(), told(NodeChange::Added, "a"));
    assert_eq!(next().await.unwrap(), told(NodeChange::Added, "b"));
    assert_eq!(next().await.unwrap(), told(NodeChange::AllTold, ""));
    world.memory.state(|state| state.rows.send_replace(rows(&["b"])));
    assert_eq!(next().await.unwrap(), told(NodeChange::Deleted, "a"));
    let ended = async { next().await.unwrap_err().code() };
    let (ended, _memory) = tokio::join!(ended, world.stop());
    assert_eq!(ended, Code::Unavailable);
}

#[tokio::test]
async fn so_many_watch_and_no_more() {
    let world = World::with(Limits { watches: 1, ..Limits::default() }).await;
    let mut client = FleetClient::new(anonymous(&world).await);
    let held = client.watch(with(TOKENS[0], WatchRequest::default())).await.unwrap();
    let refused = client.watch(with(TOKENS[0], WatchRequest::default())).await.err().unwrap();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    drop(held);
    // The gateway hears of it by its connection.
    while client.watch(with(TOKENS[0], WatchRequest::default())).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_watch_outlives_the_time_of_strangers_and_not_that_of_its_connection() {
    let (stranger_age, age) = (Duration::from_secs(2), Duration::from_secs(4));
    let world = World::with(Limits { stranger_age, age, ..Limits::default() }).await;
    let begun = std::time::Instant::now();
    let mut client = FleetClient::new(anonymous(&world).await);
    let mut watch = client.watch(with(TOKENS[0], WatchRequest::default())).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().change(), NodeChange::AllTold);
    let ended = watch.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable, "{ended}");
    assert!(begun.elapsed() >= age, "{:?}", begun.elapsed());
}
