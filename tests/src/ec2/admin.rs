//! The proxy's own HTTP path, for people and for other processes: JSON below `/_muster`.
//!
//! | path | method | |
//! |---|---|---|
//! | `/calls` | GET | the record |
//! | `/instances` | GET | what runs |
//! | `/faults` | GET, POST, DELETE | rules: list, add, take all away |
//! | `/faults/{id}` | DELETE | take one away |
//! | `/clock` | GET, POST `{"hold": true, "advanceSeconds": 60}` | the clock |
//! | `/spot` | POST `{"instanceType": "m5.large", "zone": "us-east-1a", "price": 0.05, "depth": 3}` | the market |
//! | `/interrupt/{instance}` | POST | EC2 takes a spot instance back |

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::faults::{Faults, Rule, RuleId};
use super::notices;
use super::record::Call;
use super::shared::Shared;

type Proxy = State<Arc<Shared>>;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/calls", get(calls))
        .route("/instances", get(instances))
        .route("/faults", get(rules).post(add_rule).delete(lift_all))
        .route("/faults/{id}", delete(lift))
        .route("/clock", get(time).post(move_clock))
        .route("/spot", post(market))
        .route("/interrupt/{instance}", post(interrupt))
}

async fn calls(State(shared): Proxy) -> Json<Vec<Call>> {
    Json(shared.state().record.clone())
}

async fn instances(State(shared): Proxy) -> Json<Value> {
    let state = shared.state();
    Json(state.instances.running().map(|instance| json!(instance)).collect())
}

async fn rules(State(shared): Proxy) -> Json<Value> {
    let state = shared.state();
    Json(state.rules.iter().map(|(id, rule, matched)| json!({ "id": id, "rule": rule, "matched": matched })).collect())
}

async fn add_rule(State(shared): Proxy, Json(rule): Json<Rule>) -> (StatusCode, Json<Value>) {
    let id = Faults { shared }.set(rule);
    (StatusCode::CREATED, Json(json!({ "id": id })))
}

async fn lift(State(shared): Proxy, Path(id): Path<u32>) -> StatusCode {
    Faults { shared }.lift(RuleId(id));
    StatusCode::NO_CONTENT
}

async fn lift_all(State(shared): Proxy) -> StatusCode {
    Faults { shared }.lift_all();
    StatusCode::NO_CONTENT
}

async fn time(State(shared): Proxy) -> Json<Value> {
    Json(json!({ "now": shared.clock.now() }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Move {
    hold: bool,
    advance_seconds: u64,
}

async fn move_clock(State(shared): Proxy, Json(by): Json<Move>) -> Json<Value> {
    if by.hold {
        shared.clock.hold();
    }
    shared.clock.advance(Duration::from_secs(by.advance_seconds));
    time(State(shared)).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pool {
    instance_type: String,
    zone: String,
    price: Option<f64>,
    depth: Option<u32>,
}

async fn market(State(shared): Proxy, Json(pool): Json<Pool>) -> StatusCode {
    let now = shared.clock.now();
    let mut state = shared.state();
    if let Some(price) = pool.price {
        state.market.set_price(&pool.instance_type, &pool.zone, now, price);
    }
    if let Some(depth) = pool.depth {
        state.market.set_depth(&pool.instance_type, &pool.zone, depth);
    }
    StatusCode::NO_CONTENT
}

async fn interrupt(State(shared): Proxy, Path(id): Path<String>) -> (StatusCode, String) {
    let instance = shared.state().instances.get(&id).map(|kept| Arc::clone(&kept.instance));
    let Some(instance) = instance else { return (StatusCode::NOT_FOUND, format!("no instance `{id}`")) };
    match notices::take_back(&shared, &instance).await {
        Ok(()) => (StatusCode::NO_CONTENT, String::new()),
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{}: {}", error.code, error.message)),
    }
}
