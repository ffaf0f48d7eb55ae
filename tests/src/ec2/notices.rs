//! What EC2 tells EventBridge: state changes, spot interruptions, rebalance recommendations. moto's EventBridge carries them
//! to the queues that rules name.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::ApiError;
use super::instances::{Event, Events, Instance, StateReason};
use super::request::Request;
use super::shared::Shared;

/// Maximum number of events in one call, as with EventBridge.
const MOST_ENTRIES: usize = 10;

/// Announces what happens to instances for as long as the proxy lives.
pub(super) async fn announce(shared: Arc<Shared>, mut events: Events) {
    while let Some(event) = events.next().await {
        // Nobody listens: no need to ask moto.
        if !shared.state().has_event_rules {
            continue;
        }
        let (instance, states) = match &event {
            Event::Launched(instance) => (instance, ["pending", "running"]),
            Event::Ended { instance, .. } => (instance, ["shutting-down", "terminated"]),
        };
        let entries = states.map(|state| {
            let detail = json!({ "instance-id": instance.id, "state": state });
            entry(&shared, instance, "EC2 Instance State-change Notification", &detail)
        });
        // As on EventBridge, what cannot be delivered is lost.
        let _ = send(&shared, &instance.region, &entries).await;
    }
}

/// Two minutes' notice that EC2 takes spot instances of a region back.
pub(super) async fn spot_interruptions(
    shared: &Shared,
    region: &str,
    instances: &[Arc<Instance>],
) -> Result<(), ApiError> {
    for some in instances.chunks(MOST_ENTRIES) {
        let warning = |instance: &Arc<Instance>| {
            let detail = json!({ "instance-id": instance.id, "instance-action": "terminate" });
            entry(shared, instance, "EC2 Spot Instance Interruption Warning", &detail)
        };
        send(shared, region, &some.iter().map(warning).collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// The instance may be taken back before long.
pub(super) async fn rebalance(shared: &Shared, instance: &Instance) -> Result<(), ApiError> {
    let detail = json!({ "instance-id": instance.id });
    let entry = entry(shared, instance, "EC2 Instance Rebalance Recommendation", &detail);
    send(shared, &instance.region, &[entry]).await
}

/// Two minutes' notice that the owner of a capacity reservation takes the instance's capacity back.
pub(super) async fn reservation_interruption(shared: &Shared, instance: &Instance) -> Result<(), ApiError> {
    let detail = json!({ "instance-id": instance.id, "instance-action": "terminate" });
    let entry = entry(shared, instance, "EC2 Capacity Reservation Instance Interruption Warning", &detail);
    send(shared, &instance.region, &[entry]).await
}

/// EC2 takes the instance back.
pub(super) async fn take_back(shared: &Shared, instance: &Instance) -> Result<(), ApiError> {
    let like = Request::unsigned("ec2", &instance.region, None, &[], Vec::new());
    shared.end(&like, &instance.id, StateReason::spot_interruption()).await
}

fn entry(shared: &Shared, instance: &Instance, kind: &str, detail: &Value) -> Value {
    let Instance { region, id, .. } = instance;
    json!({
        "Source": "aws.ec2",
        "DetailType": kind,
        "Detail": detail.to_string(),
        "Resources": [format!("arn:aws:ec2:{region}:{}:instance/{id}", shared.account)],
        "Time": shared.clock.now().as_second(),
    })
}

async fn send(shared: &Shared, region: &str, entries: &[Value]) -> Result<(), ApiError> {
    let body = json!({ "Entries": entries }).to_string().into_bytes();
    let target = [("x-amz-target", "AWSEvents.PutEvents")];
    let request = Request::unsigned("events", region, Some("application/x-amz-json-1.1"), &target, body);
    let answer = shared.moto.forward(&shared.client, &shared.account, &request).await?;
    let failed =
        serde_json::from_slice::<Value>(&answer.body).ok().and_then(|body| body.get("FailedEntryCount")?.as_u64());
    match (answer.error_code(), failed) {
        (None, None | Some(0)) => Ok(()),
        (code, _) => {
            Err(ApiError::new(500, code.as_deref().unwrap_or("FailedEntry"), "EventBridge did not take the event"))
        }
    }
}
