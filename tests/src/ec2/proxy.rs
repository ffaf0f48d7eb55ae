//! The way of a call through the proxy.
//!
//! ```text
//!  read ─► signature ─► rules, token buckets ─► wait ─► cut? error? ─► work (once per client token) ─► change ─► wait ─► cut? ─► answer
//!                                                                       │  fleet, services: here
//!                                                                       └─ the rest: moto
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::response::IntoResponse;
use http_body_util::BodyExt;
use jiff::Timestamp;
use tokio::time::Instant;

use super::answer::{Answer, ApiError, Cut};
use super::clock::later;
use super::faults::{self, CallFault, Verdict};
use super::record::Call;
use super::request::Request;
use super::shared::Shared;
use super::{alter, fleet, launch, residents, services, signature};

/// What goes back: an answer, or nothing and the connection closes.
type Outcome = Option<Answer>;

/// Every call that is not for `/_muster` comes here.
pub(super) async fn serve(State(shared): State<Arc<Shared>>, request: axum::extract::Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return cut() };
    let request = Request::read(parts, body.to_bytes().to_vec());
    // As on a real server, the work goes on when the caller hangs up.
    let work = tokio::spawn(handle(shared, request));
    work.await.unwrap_or_else(|_| cut())
}

fn cut() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(Cut);
    response
}

async fn handle(shared: Arc<Shared>, request: Request) -> Response<Body> {
    let begun = Instant::now();
    let mut call = begin(&shared, &request);
    let verdict = judge(&shared, &request, &call.identity);
    call.faults = verdict.ids();
    let outcome = answer(&shared, &request, &verdict, &call.request_id).await;
    call.status = outcome.as_ref().map(|answer| answer.status);
    call.error = outcome.as_ref().and_then(Answer::error_code);
    call.took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let request_id = call.request_id.clone();
    end(&shared, call);
    outcome.map_or_else(cut, |answer| answer.into_response(&request_id))
}

/// Puts the call on record: it has come, its answer is not known yet.
fn begin(shared: &Shared, request: &Request) -> Call {
    let at = shared.clock.now();
    let mut state = shared.state();
    let request_id = state.request_id();
    let call = Call {
        sequence: state.record.len() + 1,
        at,
        took_ms: 0,
        service: request.service.clone(),
        region: request.region.clone(),
        action: request.action.clone(),
        parameters: request.parameters.to_value(),
        identity: state.identities.name(&request.access_key),
        user_agent: request.user_agent.clone(),
        status: None,
        error: None,
        request_id,
        faults: Vec::new(),
    };
    state.record.push(call.clone());
    drop(state);
    shared.recorded.send_modify(|changes| *changes += 1);
    call
}

fn end(shared: &Shared, call: Call) {
    {
        let mut state = shared.state();
        let at = call.sequence - 1;
        if let Some(kept) = state.record.get_mut(at) {
            *kept = call;
        }
    }
    shared.recorded.send_modify(|changes| *changes += 1);
}

fn judge(shared: &Shared, request: &Request, identity: &str) -> Verdict {
    let now = shared.clock.now();
    let mut state = shared.state();
    let mut verdict = state.rules.on_call(&request.service, &request.action, identity);
    if request.service == "ec2" {
        let taken = state
            .buckets
            .as_mut()
            .map(|buckets| buckets.take(now, &request.region, &request.action, &request.parameters));
        if taken == Some(false) {
            verdict.faults.push((faults::RuleId(0), CallFault::Throttled));
        }
    }
    verdict
}

async fn answer(shared: &Shared, request: &Request, verdict: &Verdict, request_id: &str) -> Outcome {
    let (before, after) = verdict.delays();
    shared.clock.sleep(before).await;
    if verdict.has(&CallFault::CutBefore) {
        return None;
    }
    let result = match refuse(shared, request, verdict) {
        Some(error) => Err(error),
        None => work_once(shared, request, request_id).await,
    };
    let answer = result.unwrap_or_else(|error| error.answer(request.protocol(), request_id));
    let mut answer = alter::shuffle(answer, verdict);
    if let Some(ahead) = verdict.skew() {
        answer.headers.push(("date".to_owned(), http_date(later(Timestamp::now(), ahead))));
    }
    shared.clock.sleep(after).await;
    if verdict.has(&CallFault::CutAfter) { None } else { Some(answer) }
}

/// Why the call is not even looked at.
fn refuse(shared: &Shared, request: &Request, verdict: &Verdict) -> Option<ApiError> {
    let now = shared.clock.now();
    let (known, arn) = {
        let state = shared.state();
        (state.identities.of_key(&request.access_key).cloned(), state.identities.arn(&request.access_key))
    };
    // Against the machine's clock, which is the one that callers sign by.
    let off = verdict.skew().and_then(|ahead| signature::check_age(request, Timestamp::now(), ahead).err());
    let forged = known.and_then(|credentials| signature::check(request, &credentials, now).err());
    off.or(forged)
        .or_else(|| verdict.error(&request.service, &request.iam_action(), &arn))
        .or_else(|| alter::unseen(shared, request))
}

/// As `Thu, 01 Jan 1970 00:00:00 GMT`.
fn http_date(time: Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A call with a client token does its work once, however often it comes.
async fn work_once(shared: &Shared, request: &Request, request_id: &str) -> Result<Answer, ApiError> {
    let token = request.parameters.text("ClientToken").filter(|_| request.service == "ec2");
    let Some(token) = token else { return work(shared, request, request_id).await };
    let key = (request.action.clone(), token.to_owned());
    let slot = Arc::clone(shared.state().tokens.entry(key).or_default());
    let mut slot = slot.lock().await;
    match &*slot {
        Some((parameters, answer)) if *parameters == request.parameters => return Ok(answer.clone()),
        Some(_) => return Err(faults::token_reused()),
        None => {}
    }
    let answer = work(shared, request, request_id).await?;
    if answer.status < 400 {
        *slot = Some((request.parameters.clone(), answer.clone()));
    }
    Ok(answer)
}

async fn work(shared: &Shared, request: &Request, request_id: &str) -> Result<Answer, ApiError> {
    if let Some(answer) = services::answer(shared, request, request_id) {
        return answer;
    }
    if let Some(answer) = residents::answer(shared, request, request_id).await {
        return answer;
    }
    let answer = match (request.service.as_str(), request.action.as_str()) {
        ("ec2", "CreateFleet") => return fleet::create(shared, request, request_id).await,
        ("ec2", "RunInstances") => launch::run_instances(shared, request).await?,
        _ => shared.moto.forward(&shared.client, &shared.account, request).await?,
    };
    if answer.status >= 400 {
        return Ok(answer);
    }
    Ok(alter::success(shared, request, answer, request_id))
}

/// What the connection does with a response: sends it, or closes because of [`Cut`].
pub(super) fn or_close(response: Result<Response<Body>, Infallible>) -> Result<Response<Body>, CutConnection> {
    let response = response.into_response();
    if response.extensions().get::<Cut>().is_some() { Err(CutConnection) } else { Ok(response) }
}

/// Told to hyper, which then closes the connection without a byte.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut by a rule")]
pub(super) struct CutConnection;
