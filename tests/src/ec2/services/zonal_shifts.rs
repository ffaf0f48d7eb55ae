//! The Application Recovery Controller, as far as a cluster's zonal shifts go: an operator starts, prolongs and cancels
//! them, AWS starts and ends autoshifts, and who may asks what is in effect. moto knows none of it.
//!
//! Of several shifts of a resource, one is applied: the operator's last one, or else the autoshift.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::answer::{Answer, ApiError};
use super::super::clock::later;
use super::super::request::Request;
use super::super::shared::Shared;

/// Knowledge of ARC.
#[derive(Debug, Default)]
pub(in crate::ec2) struct Shifts {
    /// ARNs of the registered resources.
    managed: BTreeSet<String>,
    /// In the order of their beginning.
    shifts: Vec<Shift>,
    /// Zones that AWS has shifted traffic away from, with the beginning.
    autoshifts: BTreeMap<String, Timestamp>,
    /// Answer in place of JSON.
    garbage: Option<String>,
    count: u32,
}

#[derive(Debug, Clone)]
struct Shift {
    id: String,
    resource: String,
    zone: String,
    comment: String,
    began: Timestamp,
    expires: Timestamp,
}

impl Shifts {
    pub(in crate::ec2) fn register(&mut self, arn: String) {
        self.managed.insert(arn);
    }

    pub(in crate::ec2) fn deregister(&mut self, arn: &str) {
        self.managed.remove(arn);
        self.shifts.retain(|shift| shift.resource != arn);
    }

    /// Starts a shift of every registered resource.
    pub(in crate::ec2) fn begin(&mut self, zone: &str, began: Timestamp, lasts: Duration) {
        for resource in self.managed.clone() {
            self.start(resource, zone.to_owned(), String::new(), began, lasts);
        }
    }

    fn start(&mut self, resource: String, zone: String, comment: String, began: Timestamp, lasts: Duration) -> &Shift {
        self.count += 1;
        let id = format!("{:08x}-0000-4000-8000-000000000000", self.count);
        let expires = later(began, lasts.try_into().unwrap_or_default());
        self.shifts.push(Shift { id, resource, zone, comment, began, expires });
        &self.shifts[self.shifts.len() - 1]
    }

    /// Cancels the shifts away from the zone.
    pub(in crate::ec2) fn cancel(&mut self, zone: &str) {
        self.shifts.retain(|shift| shift.zone != zone);
    }

    pub(in crate::ec2) fn autoshift(&mut self, zone: &str, began: Option<Timestamp>) {
        match began {
            Some(began) => drop(self.autoshifts.insert(zone.to_owned(), began)),
            None => drop(self.autoshifts.remove(zone)),
        }
    }

    pub(in crate::ec2) fn say(&mut self, garbage: Option<&str>) {
        self.garbage = garbage.map(str::to_owned);
    }

    fn of<'s>(&'s self, arn: &'s str, now: Timestamp) -> impl DoubleEndedIterator<Item = &'s Shift> {
        self.shifts.iter().filter(move |shift| shift.resource == arn && now < shift.expires)
    }

    fn resource(&self, arn: &str, now: Timestamp) -> Value {
        let applied = self.of(arn, now).next_back();
        let shifts = self.of(arn, now).map(|shift| {
            let mut one = described(shift);
            one["appliedStatus"] = status(applied.is_some_and(|applied| applied.id == shift.id));
            one["shiftType"] = json!("ZONAL_SHIFT");
            one
        });
        let autoshifts = self.autoshifts.iter().map(|(zone, began)| {
            json!({"appliedStatus": status(applied.is_none()), "awayFrom": zone, "startTime": seconds(*began)})
        });
        let away =
            applied.map(|shift| shift.zone.as_str()).or_else(|| self.autoshifts.keys().next().map(String::as_str));
        let weight = |zone: &str| if away == Some(zone) { 0.0 } else { 1.0 };
        let weights: Value = (1..=6)
            .map(|number| format!("use1-az{number}"))
            .map(|zone| {
                let weight = weight(&zone);
                (zone, Value::from(weight))
            })
            .collect();
        json!({
            "arn": arn, "name": arn.rsplit('/').next(), "appliedWeights": weights,
            "zonalShifts": shifts.collect::<Vec<_>>(), "autoshifts": autoshifts.collect::<Vec<_>>(),
            "zonalAutoshiftStatus": if self.autoshifts.is_empty() { "DISABLED" } else { "ENABLED" },
        })
    }
}

fn status(is_applied: bool) -> Value {
    json!(if is_applied { "APPLIED" } else { "NOT_APPLIED" })
}

fn seconds(time: Timestamp) -> f64 {
    time.as_millisecond() as f64 / 1000.0
}

fn described(shift: &Shift) -> Value {
    let Shift { id, resource, zone, comment, began, expires } = shift;
    json!({
        "zonalShiftId": id, "resourceIdentifier": resource, "awayFrom": zone, "comment": comment,
        "startTime": seconds(*began), "expiryTime": seconds(*expires),
    })
}

pub(super) fn answer(shared: &Shared, request: &Request) -> Result<Answer, ApiError> {
    let now = shared.clock.now();
    let mut state = shared.state();
    let shifts = &mut state.shifts;
    let asked = |name: &str| request.parameters.json.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let body = match request.action.as_str() {
        "GetManagedResource" => {
            let arn = managed(shifts, asked("resourceIdentifier"))?;
            match &shifts.garbage {
                Some(garbage) => return Ok(written(garbage.clone())),
                None => shifts.resource(&arn, now),
            }
        }
        "StartZonalShift" => {
            let arn = managed(shifts, asked("resourceIdentifier"))?;
            let lasts = lasting(&asked("expiresIn"))?;
            shown(shifts.start(arn, asked("awayFrom"), asked("comment"), now, lasts), "ACTIVE")
        }
        "CancelZonalShift" => {
            let id = asked("zonalShiftId");
            let at = shifts.shifts.iter().position(|shift| shift.id == id).ok_or_else(|| missing(&id))?;
            shown(&shifts.shifts.remove(at), "CANCELED")
        }
        "UpdateZonalShift" => {
            let (id, lasts) = (asked("zonalShiftId"), lasting(&asked("expiresIn"))?);
            let shift = shifts.shifts.iter_mut().find(|shift| shift.id == id).ok_or_else(|| missing(&id))?;
            shift.expires = later(now, lasts.try_into().unwrap_or_default());
            shown(shift, "ACTIVE")
        }
        other => return Err(ApiError::new(400, "ValidationException", format!("{other} is not emulated"))),
    };
    Ok(written(body.to_string()))
}

fn shown(shift: &Shift, status: &str) -> Value {
    let mut one = described(shift);
    one["status"] = json!(status);
    one
}

fn written(body: String) -> Answer {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Answer { status: 200, headers, body: body.into_bytes() }
}

/// The resource, if it is registered.
fn managed(shifts: &Shifts, arn: String) -> Result<String, ApiError> {
    if shifts.managed.contains(&arn) {
        return Ok(arn);
    }
    Err(ApiError::new(403, "AccessDeniedException", format!("Resource {arn} is not a managed resource")))
}

fn missing(id: &str) -> ApiError {
    ApiError::new(404, "ResourceNotFoundException", format!("no zonal shift {id}"))
}

/// Reads `30m` or `2h`.
fn lasting(text: &str) -> Result<Duration, ApiError> {
    let invalid = || ApiError::new(400, "ValidationException", format!("expiresIn `{text}` is no duration"));
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(invalid)?;
    let number: u64 = number.parse().map_err(|_| invalid())?;
    match unit {
        "m" => Ok(Duration::from_secs(number * 60)),
        "h" => Ok(Duration::from_secs(number * 3600)),
        _ => Err(invalid()),
    }
}

/// ARC names its actions by method and path; what is not listed is recorded as `GET /path`.
pub(in crate::ec2) fn action(method: &Method, path: &str) -> String {
    let segments = path.split('/').filter(|segment| !segment.is_empty()).collect::<Vec<_>>();
    match (method.as_str(), segments.as_slice()) {
        ("GET", ["managedresources", _]) => "GetManagedResource".to_owned(),
        ("POST", ["zonalshifts"]) => "StartZonalShift".to_owned(),
        ("PATCH", ["zonalshifts", _]) => "UpdateZonalShift".to_owned(),
        ("DELETE", ["zonalshifts", _]) => "CancelZonalShift".to_owned(),
        (method, _) => format!("{method} {path}"),
    }
}

/// The body, and what stands in the path.
pub(in crate::ec2) fn parameters(body: &[u8], path: &str) -> Value {
    let mut json = serde_json::from_slice(body).unwrap_or_else(|_| json!({}));
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    if let (Some(kind), Some(name), Value::Object(json)) = (segments.next(), segments.next(), &mut json) {
        let key = if kind == "managedresources" { "resourceIdentifier" } else { "zonalShiftId" };
        let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned();
        json.insert(key.to_owned(), name.into());
    }
    json
}
