//! Operators order nodes, with tokens of the real API server: what is launched, what is not, and by whom.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_proto::muster::fleet_client::FleetClient;
use muster_proto::muster::{
    LaunchRequest, LaunchResponse, ListRequest, NodeChange, Order, PlanRequest, PlanResponse, TerminateRequest,
    WatchRequest,
};
use muster_tests::cluster::Cluster;
use muster_tests::{Ground as Stage, on_site_for, wait};
use serde_json::json;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use super::MOST;
use super::asked::{text, with};
use super::ground::{Ground, has, instance_of};
use super::grpcurl::{self, ByHand};
use super::stolen::{connect, connect_to};

/// A Lease that nobody but the test has.
const LEASE: &str = "held-elsewhere";

fn order(count: u32) -> Option<Order> {
    let requests = [("cpu".to_owned(), "1".to_owned()), ("memory".to_owned(), "2Gi".to_owned())].into();
    Some(Order { node_pool: "ordered".to_owned(), count, requests, requirements: Vec::new() })
}

fn launch(id: &str, count: u32) -> LaunchRequest {
    LaunchRequest { request_id: id.to_owned(), order: order(count) }
}

/// A token for the controller, of a user who may do this to all RPCs.
async fn operator(cluster: &Cluster, name: &str, verbs: &str) -> String {
    cluster.kubectl(&["create", "serviceaccount", name, "-n", "default"]).await.unwrap();
    let verbs = format!("--verb={verbs}");
    let role = ["create", "clusterrole", name, &verbs, "--non-resource-url=/muster.v1.Fleet/*"];
    cluster.kubectl(&role).await.unwrap();
    let (role, account) = (format!("--clusterrole={name}"), format!("--serviceaccount=default:{name}"));
    cluster.kubectl(&["create", "clusterrolebinding", name, &role, &account]).await.unwrap();
    cluster.kubectl(&["create", "token", name, "-n", "default", "--audience=muster.dev"]).await.unwrap()
}

/// Follows a watch until `is_there`, of the phases that it has told by key.
async fn follow(
    watch: &mut Streaming<muster_proto::muster::WatchResponse>,
    phases: &mut BTreeMap<String, String>,
    is_there: impl Fn(&BTreeMap<String, String>) -> bool,
) {
    let told = async {
        while !is_there(phases) {
            let said = watch.message().await.unwrap().unwrap();
            match (said.change(), said.node) {
                (NodeChange::Deleted, _) => drop(phases.remove(&said.key)),
                (_, Some(node)) => drop(phases.insert(said.key, text(&node, "phase").to_owned())),
                (change, None) => assert_eq!(change, NodeChange::AllTold),
            }
        }
    };
    let in_time = tokio::time::timeout(MOST, told).await;
    assert!(in_time.is_ok(), "{phases:?}");
}

fn names(answer: &LaunchResponse) -> BTreeSet<String> {
    answer.nodes.iter().map(|node| node.node_claim.clone()).collect()
}

fn plan() -> PlanRequest {
    PlanRequest { order: order(2), request_id: "a-1".to_owned() }
}

/// The plan of two nodes, with their price.
async fn plan_of_two(client: &FleetClient<Channel>, looks: &str) -> PlanResponse {
    // The class has to be looked up, and RBAC sees the binding by its own watch.
    let planned = wait::until_some("the order can be planned", MOST, || {
        let (mut client, request) = (client.clone(), with(looks, plan()));
        async move { Ok(client.plan(request).await.ok().filter(|plan| plan.get_ref().refusal.is_none())) }
    });
    let planned = planned.await.unwrap().into_inner();
    let cheapest = &planned.nodes[0].offerings[0];
    assert_eq!((planned.nodes.len(), cheapest.instance_type.as_str()), (2, "m5.large"));
    assert!((planned.hourly_price - 2.0 * cheapest.hourly_price).abs() < 1e-9 && planned.hourly_price > 0.0);
    planned
}

/// Somebody else leads: nothing is done by the replica that stands by. Returns the health of both.
async fn who_stands_by_launches_nothing(ground: &Ground<'_>, authority: &str, (token, looks): (&str, &str)) -> String {
    let leases: Api<Lease> = Api::namespaced(ground.cluster().client(), "kube-system");
    let held = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE},
        "spec": {"holderIdentity": "elsewhere_1", "leaseDurationSeconds": 3600,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    leases.create(&kube::api::PostParams::default(), &serde_json::from_value(held).unwrap()).await.unwrap();
    let (mut stand_by, at, health_port) = ground.stand_by(LEASE).await;
    let mut other = FleetClient::new(connect_to(ground, at, None, authority).await);
    let elsewhere = other.launch(with(token, launch("a-1", 2))).await.unwrap_err();
    assert_eq!(elsewhere.code(), Code::Unavailable, "{elsewhere}");
    assert!(elsewhere.message().contains("`elsewhere_1`"), "{elsewhere}");
    other.plan(with(looks, plan())).await.unwrap();
    let none: Vec<DynamicObject> = ground.claims().list(&kube::api::ListParams::default()).await.unwrap().items;
    assert!(none.is_empty(), "{none:?}");
    let elsewhere = grpcurl::health(health_port).await;
    let leads = grpcurl::health(ground.health_port()).await;
    stand_by.shutdown().await;
    format!("# leads\n{leads}\n# stands by\n{elsewhere}")
}

/// Two nodes, and the same two however often they are ordered; no more than the limit allows.
async fn the_same_two_are_launched(
    client: &mut FleetClient<Channel>,
    token: &str,
    planned: &PlanResponse,
) -> LaunchResponse {
    let launched = client.launch(with(token, launch("a-1", 2))).await.unwrap().into_inner();
    assert_eq!((names(&launched).len(), launched.nodes[0].existed), (2, false));
    assert!(launched.nodes.iter().all(|node| !node.uid.is_empty()), "{launched:?}");
    let planned_names: BTreeSet<String> = planned.nodes.iter().map(|node| node.node_claim.clone()).collect();
    assert_eq!(planned_names.len(), 2);
    let again = client.launch(with(token, launch("a-1", 2))).await.unwrap().into_inner();
    assert_eq!(names(&again), names(&launched));
    assert!(again.nodes.iter().all(|node| node.existed), "{again:?}");
    let taken = client.launch(with(token, launch("a-1", 1))).await.unwrap_err();
    assert_eq!(taken.code(), Code::AlreadyExists, "{taken}");
    let full = client.launch(with(token, launch("a-2", 1))).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted, "{full}");
    assert!(full.message().contains("limit"), "{full}");
    launched
}

#[test]
fn nodes_are_ordered_and_ended_by_whoever_may() {
    on_site_for(MOST * 5, "link", Stage::Cluster, async |case| {
        let ground = Ground::new(case, ()).await;
        let cluster = ground.cluster();
        // An m5.large has two cores: there is room for two of them.
        ground.offer("ordered", "m5.large", |pool| pool["spec"]["limits"] = json!({"cpu": "4"})).await;
        ground.serves().await;
        let secrets: Api<Secret> = Api::namespaced(cluster.client(), "kube-system");
        let authority = secrets.get("muster-agents").await.unwrap().data.unwrap()["ca.crt"].0.clone();
        let authority = String::from_utf8(authority).unwrap();
        let token = operator(cluster, "orders", "get,post,delete").await;
        let looks = operator(cluster, "looks", "get").await;
        let mut client = FleetClient::new(connect(&ground, None, &authority).await);

        let planned = plan_of_two(&client, &looks).await;
        let denied = client.launch(with(&looks, launch("a-1", 2))).await.unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied, "{denied}");
        let none: Vec<DynamicObject> = ground.claims().list(&kube::api::ListParams::default()).await.unwrap().items;
        assert!(none.is_empty(), "nothing is written by a plan: {none:?}");

        let mut watching = FleetClient::new(connect(&ground, None, &authority).await);
        let request = with(&looks, WatchRequest { node_pool: "ordered".to_owned() });
        let mut watch = watching.watch(request).await.unwrap().into_inner();

        let health = who_stands_by_launches_nothing(&ground, &authority, (&token, &looks)).await;
        insta::assert_snapshot!(health);
        let by_hand = ByHand::new(&ground, &authority).await;
        by_hand.is_told_what_there_is_if_they_may().await;

        let launched = the_same_two_are_launched(&mut client, &token, &planned).await;

        let ready = |all: &[DynamicObject]| all.len() == 2 && all.iter().all(|claim| has(claim, "Initialized", "True"));
        let claims = ground.all_claims("what was ordered is initialized", ready).await;
        for claim in &claims {
            assert!(names(&launched).contains(&claim.name_any()));
            assert_eq!(claim.annotations()["muster.dev/requested-by"], "system:serviceaccount:default:orders");
            assert_eq!(claim.annotations()["muster.dev/request"], "a-1");
        }
        let mut phases = BTreeMap::new();
        follow(&mut watch, &mut phases, |phases| phases.len() == 2 && phases.values().all(|phase| phase == "Ready"))
            .await;
        // Who has no certificate, and was not heard of for two minutes before a token, was shown out.
        let mut client: FleetClient<Channel> = FleetClient::new(connect(&ground, None, &authority).await);
        let listed = client.list(with(&looks, ListRequest { node_pool: "ordered".to_owned() })).await.unwrap();
        let listed = listed.into_inner().document.unwrap();
        assert_eq!(text(&listed, "kind"), "Nodes");
        let unknown = client.list(with(&looks, ListRequest { node_pool: "orderd".to_owned() })).await.unwrap_err();
        assert_eq!(unknown.code(), Code::NotFound, "{unknown}");
        assert!(unknown.message().contains("did you mean `ordered`?"), "{unknown}");

        by_hand.sees_nodes(&claims).await;

        // One goes: the one that is meant.
        let (gone, stays) = (&claims[0], &claims[1]);
        let end = |uid: &str| TerminateRequest { node_claim: gone.name_any(), uid: uid.to_owned() };
        let code = |answer: Result<_, Status>| answer.map(|_: tonic::Response<_>| ()).unwrap_err().code();
        let another = client.terminate(with(&token, end(&stays.uid().unwrap()))).await;
        assert_eq!(code(another), Code::FailedPrecondition);
        assert_eq!(code(client.terminate(with(&looks, end(""))).await), Code::PermissionDenied);
        let ended = client.terminate(with(&token, end(&gone.uid().unwrap()))).await.unwrap().into_inner();
        assert_eq!((ended.uid, ended.was_terminating), (gone.uid().unwrap(), false));
        ground.all_claims("one is left", |all| all.len() == 1 && all[0].uid() == stays.uid()).await;
        ground.bridge.gone(&instance_of(gone), MOST).await.unwrap();
        follow(&mut watch, &mut phases, |phases| phases.len() == 1).await;
        assert!(phases.contains_key(&format!("nodeclaim/{}", stays.name_any())), "{phases:?}");
        drop(by_hand);
        ground.clear().await;
    });
}
