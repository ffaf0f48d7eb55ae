//! Messages of EventBridge on the interruption queue.
//!
//! ```text
//!   body ──► Envelope ─┬─ no JSON object, or a detail without its fields ─► Malformed
//!                      ├─ another kind, state or service ─────────────────► Other
//!                      └─ instance IDs ───────────────────────────────────► Notice
//! ```
//!
//! Sources: EC2 User Guide, "Spot Instance interruption notices", "EC2 instance rebalance recommendations", "Instance
//! state changes" and "Interruptible Capacity Reservations"; AWS Health User Guide, "Amazon EventBridge schema". The
//! kinds are those that Karpenter reads, and like Karpenter's only version 0 of the envelope is known.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::Timestamp;
use muster_cloud::{Content, Notice, NoticeKind};
use serde::Deserialize;
use serde_json::Value;

/// Maximum size of a body in bytes: that of a message of SQS.
pub const LONGEST: usize = 1024 * 1024;
/// Maximum length of an instance ID; EC2's have 19 characters.
const LONGEST_ID: usize = 64;

/// Event as EventBridge sends it.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    version: String,
    #[serde(default)]
    source: String,
    #[serde(default, rename = "detail-type")]
    detail_type: String,
    #[serde(default)]
    time: String,
    #[serde(default)]
    detail: Value,
}

/// Detail of an event about one instance.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct OfInstance {
    instance_id: String,
}

/// Detail of a state change.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct StateChange {
    instance_id: String,
    state: String,
}

/// Detail of an event of AWS Health.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HealthEvent {
    service: String,
    event_type_category: String,
    #[serde(default)]
    status_code: Option<String>,
    #[serde(default)]
    affected_entities: Vec<Entity>,
}

/// A resource that an event of AWS Health is about.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entity {
    #[serde(default)]
    entity_value: String,
}

/// Reads the body of a message.
#[must_use]
pub fn read(body: &str) -> Content {
    if body.trim().is_empty() {
        return Content::Other;
    }
    if body.len() > LONGEST {
        return Content::Malformed(format!("it has {} bytes, and a message has {LONGEST} at most", body.len()));
    }
    // Through a map: an array of no elements would be read as an event without fields.
    let envelope = serde_json::from_str::<serde_json::Map<String, Value>>(body);
    let envelope: Envelope = match envelope.and_then(|fields| serde_json::from_value(Value::Object(fields))) {
        Ok(envelope) => envelope,
        Err(error) => return Content::Malformed(format!("it is not an event of EventBridge: {error}")),
    };
    let found = match (envelope.version.as_str(), envelope.source.as_str(), envelope.detail_type.as_str()) {
        ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning") => {
            of_instance(&envelope.detail, NoticeKind::SpotInterrupted)
        }
        ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation") => {
            of_instance(&envelope.detail, NoticeKind::RebalanceRecommendation)
        }
        ("0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            of_instance(&envelope.detail, NoticeKind::CapacityReservationInterrupted)
        }
        ("0", "aws.ec2", "EC2 Instance State-change Notification") => state_change(&envelope.detail),
        ("0", "aws.health", "AWS Health Event") => health_event(&envelope.detail),
        _ => Ok(None),
    };
    let (kind, ids) = match found {
        Ok(Some(found)) => found,
        Ok(None) => return Content::Other,
        Err(error) => return Content::Malformed(format!("the detail of `{}`: {error}", envelope.detail_type)),
    };
    let ids: BTreeSet<String> = ids.into_iter().filter(|id| is_id(id)).collect();
    if ids.is_empty() {
        return Content::Malformed(format!("the detail of `{}` names no instance", envelope.detail_type));
    }
    let given_at: Option<Timestamp> = envelope.time.parse().ok();
    Content::Notice(Notice { kind, instances: ids.into_iter().collect(), given_at })
}

/// Kind of a notice and the instances that it names; `None` if the event is not a notice.
type Found = Result<Option<(NoticeKind, Vec<String>)>, serde_json::Error>;

fn of_instance(detail: &Value, kind: NoticeKind) -> Found {
    let OfInstance { instance_id } = OfInstance::deserialize(detail)?;
    Ok(Some((kind, vec![instance_id])))
}

fn state_change(detail: &Value) -> Found {
    let StateChange { instance_id, state } = StateChange::deserialize(detail)?;
    let kind = match state.as_str() {
        "stopping" | "stopped" => NoticeKind::InstanceStopped,
        "shutting-down" | "terminated" => NoticeKind::InstanceTerminated,
        _ => return Ok(None),
    };
    Ok(Some((kind, vec![instance_id])))
}

/// Reads an event of AWS Health. Only scheduled changes of EC2 are notices, and not those that are over.
fn health_event(detail: &Value) -> Found {
    let event = HealthEvent::deserialize(detail)?;
    let is_over = event.status_code.as_deref() == Some("closed");
    if event.service != "EC2" || event.event_type_category != "scheduledChange" || is_over {
        return Ok(None);
    }
    // An entity is an instance ID, or an ARN that ends with it.
    let id = |entity: Entity| entity.entity_value.rsplit('/').next().map(str::to_owned);
    Ok(Some((NoticeKind::ScheduledChange, event.affected_entities.into_iter().filter_map(id).collect())))
}

fn is_id(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.len() <= LONGEST_ID && text.bytes().all(is_inner)
}
