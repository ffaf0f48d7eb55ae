//! Default script: load rises and falls, and each kind of failure happens once.

use std::time::Duration;

use jiff::Timestamp;
use muster_cloud::CapacityType;
use serde_json::{Value, json};

use super::super::api::Path;
use super::super::world::Meant;
use super::{Deed, Reference, Script};

/// 2026-01-05T06:00:00Z, a Monday, so that schedules for working days are active.
const START: i64 = 1_767_592_800;

const fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3600)
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// Returns the default day for `objects`: Deployments start at half their size, double at noon, and shrink in the
/// evening.
pub fn default_day(objects: &[Value]) -> Script {
    let start = Timestamp::from_second(START).unwrap_or_default();
    let mut script = Script::quiet(start, hours(24));
    let text = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let mut scale = |at: Duration, share: (u64, u64)| {
        for object in of_kind("Deployment") {
            let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
            let name = text(object, "/metadata/name").unwrap_or_default();
            let namespace = text(object, "/metadata/namespace").unwrap_or_else(|| "default".to_owned());
            let reference = Reference { kind: "Deployment".to_owned(), path: Path::new(namespace, name) };
            let wanted = (replicas * share.0).div_ceil(share.1);
            script.deeds.push((at, Deed::Scale(reference, u32::try_from(wanted).unwrap_or(u32::MAX))));
        }
    };
    scale(Duration::ZERO, (1, 2));
    scale(hours(2), (1, 1));
    scale(hours(6), (2, 1));
    scale(hours(11), (1, 1));
    scale(hours(14), (1, 2));
    script.deeds.push((hours(2), Deed::Refuse(1, minutes(45))));
    script.deeds.push((hours(6), Deed::Misregister(1, "KA07")));
    let spot = Meant { capacity_type: Some(CapacityType::Spot), ..Meant::default() };
    script.deeds.push((hours(19), Deed::Interrupt(spot, 1)));
    script.deeds.push((hours(11), Deed::Stop(6, Duration::from_secs(30))));
    for class in of_kind("EC2NodeClass") {
        let path = Path::bare(text(class, "/metadata/name").unwrap_or_default());
        let reference = Reference { kind: "EC2NodeClass".to_owned(), path };
        let tags = json!({"spec": {"tags": {"rolled-out": "2026-01-06"}}});
        script.deeds.push((hours(18), Deed::Patch(reference, tags)));
    }
    script.deeds.sort_by_key(|(at, deed)| (*at, matches!(deed, Deed::Scale(..))));
    script
}
