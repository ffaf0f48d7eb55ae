//! Parser for scripts in YAML or JSON. Errors have field and line.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::likeness::nearest_of;
use muster_api::{DurationError, Span};
use muster_cloud::CapacityType;
use muster_manifest::{Decoded, Fault, Field, InputError, Source, kind_named, kinds, read_own, refuse_own, shorten};

use super::super::api::Path;
use super::super::objects::{OF_DEVICES, OWN, has_namespace, path_for};
use super::super::world::{Meant, ReportedFault};
use super::{Deed, Reference, Script};

/// Kinds that can be scaled.
const SCALED: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];
/// Maximum length of a day and of all durations in it: a year.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// Years in which a day may start, so that all its timestamps are valid in the API.
const YEARS: std::ops::Range<i16> = 1970..2970;
/// `kind` of a script.
const KIND: &str = "Simulation";

/// Kinds of events, in the order of the documentation.
const DEEDS: [&str; 12] = [
    "scale",
    "apply",
    "patch",
    "delete",
    "deleteAll",
    "runOut",
    "refuse",
    "misregister",
    "interrupt",
    "condition",
    "publishImage",
    "stop",
];

/// A script with the positions of its events in the file.
#[derive(Debug)]
pub struct Written {
    /// The script.
    pub script: Script,
    source: Source,
    /// Position in the file of each event, in time order.
    numbers: Vec<usize>,
}

/// Parses the script in `source`.
///
/// # Errors
/// Returns the first error of the script.
pub fn read(source: Source) -> Result<Written, InputError> {
    let (script, numbers) = read_own(&source, KIND, script)?;
    Ok(Written { script, source, numbers })
}

// === impl Written ===

impl Written {
    /// Returns the path of an event, for messages.
    pub fn event(&self, number: usize) -> String {
        format!("spec.events[{}]", self.numbers.get(number).unwrap_or(&number))
    }

    /// Returns the name of the script's file.
    pub fn file(&self) -> &str {
        &self.source.name
    }

    /// Returns an error of the script for a fault of an event.
    pub fn refuse(&self, number: usize, fault: Fault) -> InputError {
        let path = format!("{}.{}", self.event(number), fault.path);
        refuse_own(&self.source, KIND, Fault { path, ..fault })
    }
}

/// Rejects unknown keys, which would be without effect.
fn only(field: &Field<'_>, known: &[&str]) -> Decoded<()> {
    let Some((key, _)) = field.entries()?.into_iter().find(|(key, _)| !known.contains(key)) else { return Ok(()) };
    let all = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    let hint = match nearest_of(known.iter().copied(), key) {
        Some(nearest) => format!("did you mean `{nearest}`? There are {all}"),
        None => format!("there are {all}"),
    };
    Err(field.fault_at(key, "is not known", hint))
}

fn script(root: &Field<'_>) -> Decoded<(Script, Vec<usize>)> {
    only(root, &["apiVersion", "kind", "metadata", "spec"])?;
    let spec = root.require("spec")?;
    only(&spec, &["start", "length", "latencies", "runs", "events"])?;
    let start =
        spec.read("start", moment)?.unwrap_or_else(|| Timestamp::from_second(1_767_592_800).unwrap_or_default());
    let length = spec.read("length", lasting)?.unwrap_or(Duration::from_secs(24 * 3600));
    let mut script = Script::quiet(start, length);
    if let Some(latencies) = spec.get("latencies")? {
        only(&latencies, &["boot", "join", "ready", "startupTaint", "podStart", "podEnd", "detach", "end", "job"])?;
        let habits = &mut script.habits;
        for (key, place) in [
            ("boot", &mut script.boot),
            ("join", &mut habits.join),
            ("ready", &mut habits.ready),
            ("startupTaint", &mut habits.startup_taint),
            ("podStart", &mut habits.pod_start),
            ("podEnd", &mut habits.pod_end),
            ("detach", &mut habits.detach),
            ("end", &mut script.end),
            ("job", &mut habits.job),
        ] {
            if let Some(read) = latencies.read(key, span)? {
                *place = read;
            }
        }
    }
    if let Some(runs) = spec.get("runs")? {
        for (name, field) in runs.entries()? {
            let path = name.split_once('/').map_or_else(|| Path::new("default", name), |(n, name)| Path::new(n, name));
            script.runs.insert(path, span(field)?);
        }
    }
    let mut number = 0..;
    let mut events: Vec<(usize, Duration, Deed)> = spec.list("events", |field| {
        let (at, deed) = event(&field, length)?;
        Ok((number.next().unwrap_or_default(), at, deed))
    })?;
    events.sort_by_key(|(_, at, _)| *at);
    let numbers = events.iter().map(|(number, ..)| *number).collect();
    script.deeds = events.into_iter().map(|(_, at, deed)| (at, deed)).collect();
    Ok((script, numbers))
}

fn event(field: &Field<'_>, length: Duration) -> Decoded<(Duration, Deed)> {
    let known: Vec<&str> = ["at"].into_iter().chain(DEEDS).collect();
    only(field, &known)?;
    let at = span(field.require("at")?)?;
    if at >= length {
        let problem = format!("comes when the day is over: it is {} long", Span(length));
        return Err(field.fault_at("at", problem, "move the event, or write a longer `spec.length`"));
    }
    let deeds: Vec<Deed> = [
        field.read("scale", scale)?,
        field.read("apply", apply)?,
        field.read("patch", patch)?,
        field.read("delete", delete)?,
        field.read("deleteAll", delete_all)?,
        field.read("runOut", run_out)?,
        field.read("refuse", refuse)?,
        field.read("misregister", misregister)?,
        field.read("interrupt", interrupt)?,
        field.read("condition", condition)?,
        field.read("publishImage", publish)?,
        field.read("stop", stop)?,
    ]
    .into_iter()
    .flatten()
    .collect();
    match <[Deed; 1]>::try_from(deeds) {
        Ok([deed]) => Ok((at, deed)),
        Err(none) if none.is_empty() => {
            let all = DEEDS.map(|key| format!("`{key}`")).join(", ");
            Err(field.fault("says when, but not what happens", format!("add one of {all}")))
        }
        Err(_) => Err(field.fault("says more than one thing that happens", "write one event for each")),
    }
}

fn scale(field: Field<'_>) -> Decoded<Deed> {
    only(&field, &["kind", "namespace", "name", "replicas"])?;
    let kind = field.require("kind")?;
    if !SCALED.contains(&kind.text()?) {
        let hint = format!("name one of {}", SCALED.map(|kind| format!("`{kind}`")).join(", "));
        return Err(kind.fault(format!("is `{}`, which cannot be scaled", shorten(kind.text()?)), hint));
    }
    Ok(Deed::Scale(reference(&field)?, field.require("replicas")?.count()?))
}

fn apply(field: Field<'_>) -> Decoded<Deed> {
    field.require("apiVersion")?.text()?;
    known_kind(&field)?;
    field.require("metadata")?.require("name")?.text()?;
    Ok(Deed::Apply(field.json()))
}

fn patch(field: Field<'_>) -> Decoded<Deed> {
    only(&field, &["kind", "namespace", "name", "set"])?;
    let what = reference(&field)?;
    if OWN.contains(&what.kind.as_str()) {
        let problem = format!("is `{}`, which cannot be changed: the day makes its own", what.kind);
        return Err(field.fault_at("kind", problem, "change the NodePool or the NodeClass that it comes of"));
    }
    let set = field.require("set")?;
    for (key, field) in set.entries()? {
        match key {
            "apiVersion" | "kind" | "status" => {
                let why = if key == "status" { "is for the cluster to say" } else { "says what the object is" };
                return Err(field.fault(format!("{why}, and cannot be set"), "set what is in `spec`"));
            }
            "metadata" => only(&field, &["labels", "annotations"])?,
            _ => {}
        }
    }
    Ok(Deed::Patch(what, set.json()))
}

fn delete(field: Field<'_>) -> Decoded<Deed> {
    only(&field, &["kind", "namespace", "name"])?;
    let what = reference(&field)?;
    if matches!(what.kind.as_str(), "CSINode" | "VolumeAttachment") {
        let problem = format!("is `{}`, which comes and goes with its node", what.kind);
        return Err(field.fault_at("kind", problem, "delete the Node, or the pod that uses the volume"));
    }
    Ok(Deed::Delete(what))
}

fn delete_all(field: Field<'_>) -> Decoded<Deed> {
    if field.boolean()? {
        return Ok(Deed::DeleteAll);
    }
    Err(field.fault("can only be true", "leave the event out, or write `deleteAll: true`"))
}

fn run_out(field: Field<'_>) -> Decoded<Deed> {
    only(&field, &["instanceType", "zone", "capacityType", "for"])?;
    Ok(Deed::RunOut(meant(&field)?, lasting(field.require("for")?)?))
}

fn refuse(field: Field<'_>) -> Decoded<Deed> {
    only(&field, &["launches", "for"])?;
    let launches = field.read("launches", some)?.unwrap_or(1);
    Ok(Deed::Refuse(launches, lasting(field.require("for")?)?))
}

fn misregister(field: Field<'_>) -> Decoded<Deed> {
    only(&field, &["launches", "code"])?;
    let launches = field.read("launches", some)?.unwrap_or(1);
    let code = field.require("code")?;
    let text = code.text()?;
    let verdict = muster_bootstrap::verdicts::find(text).ok_or_else(|| {
        let problem = format!("is `{}`, which is not the code of a verdict", shorten(text));
        code.fault(problem, "take one of docs/verdicts.md, such as `KA07`")
    })?;
    Ok(Deed::Misregister(launches, verdict.code))
}

fn interrupt(field: Field<'_>) -> Decoded<Deed> {
    only(&field, &["instanceType", "zone", "nodes"])?;
    let nodes = field.read("nodes", some)?.unwrap_or(1);
    Ok(Deed::Interrupt(Meant { capacity_type: Some(CapacityType::Spot), ..meant(&field)? }, nodes))
}

fn condition(field: Field<'_>) -> Decoded<Deed> {
    only(&field, &["instanceType", "zone", "capacityType", "nodes", "type", "status", "reason"])?;
    let nodes = field.read("nodes", some)?.unwrap_or(1);
    let kind = field.require("type")?;
    if kind.text()? == "Ready" {
        return Err(kind.fault("is `Ready`, which the kubelets of the day set", "name another condition of Nodes"));
    }
    let status = field.read("status", |status| match status.text()? {
        text @ ("True" | "False" | "Unknown") => Ok(text.to_owned()),
        text => {
            let problem = format!("is `{}`, which is not a status", shorten(text));
            Err(status.fault(problem, "write `\"True\"`, `\"False\"` or `Unknown`"))
        }
    })?;
    let fault = ReportedFault {
        kind: kind.text()?.to_owned(),
        status: status.unwrap_or_else(|| "False".to_owned()),
        reason: field.read("reason", |reason| reason.text().map(str::to_owned))?.unwrap_or_default(),
    };
    Ok(Deed::ReportFault(meant(&field)?, nodes, fault))
}

fn publish(field: Field<'_>) -> Decoded<Deed> {
    if field.boolean()? {
        return Ok(Deed::Publish);
    }
    Err(field.fault("can only be true", "leave the event out, or write `publishImage: true`"))
}

fn stop(field: Field<'_>) -> Decoded<Deed> {
    only(&field, &["afterWrites", "for"])?;
    let writes = field.read("afterWrites", |count| count.count())?.unwrap_or(0);
    Ok(Deed::Stop(u64::from(writes), field.read("for", span)?.unwrap_or(Duration::from_secs(20))))
}

/// Parses a number of at least one: zero would make the event a no-op.
fn some(field: Field<'_>) -> Decoded<u32> {
    match field.crowd()? {
        0 => Err(field.fault("is 0, so nothing would happen", "write 1 or more, or leave the event out")),
        count => Ok(count),
    }
}

/// Returns the `kind` of the referenced object; it must be known.
fn known_kind(field: &Field<'_>) -> Decoded<String> {
    let kind = field.require("kind")?;
    let text = kind.text()?;
    if OF_DEVICES.contains(&text) {
        let problem = format!("is `{text}`, and the simulated scheduler allocates no devices");
        return Err(kind.fault(problem, "leave the event out: `muster plan` takes claims into account"));
    }
    if kind_named(text).is_some() {
        return Ok(text.to_owned());
    }
    let names = || kinds().map(|known| known.kind).filter(|kind| !OWN.contains(kind) && !OF_DEVICES.contains(kind));
    let hint = match nearest_of(names(), text) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("a day is played with {}", names().collect::<Vec<_>>().join(", ")),
    };
    Err(kind.fault(format!("is `{}`, which is not a kind that the simulator supports", shorten(text)), hint))
}

fn reference(field: &Field<'_>) -> Decoded<Reference> {
    let kind = known_kind(field)?;
    let name = field.require("name")?.text()?;
    let namespace = field.get("namespace")?;
    if let Some(namespace) = namespace.filter(|_| !has_namespace(&kind)) {
        return Err(namespace.fault(format!("is given, and a {kind} is in none"), "leave it out"));
    }
    let namespace = namespace.map(|namespace| namespace.text()).transpose()?;
    Ok(Reference { path: path_for(&kind, namespace, name), kind })
}

fn meant(field: &Field<'_>) -> Decoded<Meant> {
    let text = |key: &str| field.read(key, |field| field.text().map(str::to_owned));
    let capacity_type = field.read("capacityType", |field| {
        let text = field.text()?;
        text.parse::<CapacityType>().map_err(|error| field.fault(error.to_string(), "leave it out for any"))
    })?;
    Ok(Meant { instance_type: text("instanceType")?, zone: text("zone")?, capacity_type })
}

fn span(field: Field<'_>) -> Decoded<Duration> {
    let text = shorten(field.text()?);
    let too_long = || field.fault(format!("is `{text}`, which is longer than a year"), "write at most `8784h`");
    match field.text()?.parse::<Span>() {
        Ok(Span(length)) if length <= LONGEST => Ok(length),
        Ok(_) | Err(DurationError::TooLong(_)) => Err(too_long()),
        Err(DurationError::Malformed(_)) => {
            Err(field.fault(format!("is `{text}`, which is not a duration"), "write it as `90s`, `15m` or `1h30m`"))
        }
    }
}

/// Parses a non-zero duration.
fn lasting(field: Field<'_>) -> Decoded<Duration> {
    match span(field)? {
        Duration::ZERO => Err(field.fault("is zero", "write it as `90s`, `15m` or `1h30m`")),
        length => Ok(length),
    }
}

fn moment(field: Field<'_>) -> Decoded<Timestamp> {
    let text = shorten(field.text()?);
    let moment: Timestamp = field.text()?.parse().map_err(|_| {
        field.fault(format!("is `{text}`, which is not a time"), "write it in RFC 3339, such as `2026-01-05T06:00:00Z`")
    })?;
    if !YEARS.contains(&moment.to_zoned(jiff::tz::TimeZone::UTC).year()) {
        let hint = format!("write one from {} to {}", YEARS.start, YEARS.end - 1);
        return Err(field.fault(format!("is `{text}`, in a year that no day begins in"), hint));
    }
    Ok(moment)
}
