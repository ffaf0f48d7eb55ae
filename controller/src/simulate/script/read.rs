//! Reads a script: YAML or JSON, and what is wrong with it is named with its field and line.

use std::time::Duration;

use jiff::Timestamp;
use muster_api::Span;
use muster_cloud::CapacityType;

use super::super::api::Path;
use super::super::world::Meant;
use super::{Deed, Reference, Script};
use crate::manifest::{Decoded, Field, InputError, Source, read_own};

/// Kinds that can be scaled.
const SCALED: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];
/// No day is longer: a year.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Reads the script in `source`.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn read(source: &Source) -> Result<Script, InputError> {
    read_own(source, "Simulation", script)
}

fn script(root: &Field<'_>) -> Decoded<Script> {
    root.only(&["apiVersion", "kind", "metadata", "spec"]);
    let spec = root.require("spec")?;
    spec.only(&["start", "length", "latencies", "runs", "events"]);
    let start =
        spec.read("start", moment)?.unwrap_or_else(|| Timestamp::from_second(1_767_592_800).unwrap_or_default());
    let length = spec.read("length", span)?.unwrap_or(Duration::from_secs(24 * 3600));
    if length > LONGEST {
        return Err(spec.fault_at("length", "is longer than a year", "write at most `8784h`"));
    }
    let mut script = Script::quiet(start, length);
    if let Some(latencies) = spec.get("latencies")? {
        latencies.only(&["boot", "join", "ready", "startupTaint", "podStart", "podEnd", "detach", "end", "job"]);
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
    script.deeds = spec.list("events", event)?;
    script.deeds.sort_by_key(|(at, _)| *at);
    Ok(script)
}

fn event(field: Field<'_>) -> Decoded<(Duration, Deed)> {
    field.only(&[
        "at",
        "scale",
        "apply",
        "patch",
        "delete",
        "deleteAll",
        "runOut",
        "refuse",
        "misregister",
        "interrupt",
        "stop",
    ]);
    let at = span(field.require("at")?)?;
    let deeds: Vec<Deed> = [
        field.read("scale", scale)?,
        field.read("apply", apply)?,
        field.read("patch", patch)?,
        field.read("delete", |field| Ok(Deed::Delete(reference(&field)?)))?,
        field.read("deleteAll", |field| field.boolean())?.filter(|said| *said).map(|_| Deed::DeleteAll),
        field.read("runOut", run_out)?,
        field.read("refuse", refuse)?,
        field.read("misregister", misregister)?,
        field.read("interrupt", interrupt)?,
        field.read("stop", stop)?,
    ]
    .into_iter()
    .flatten()
    .collect();
    match <[Deed; 1]>::try_from(deeds) {
        Ok([deed]) => Ok((at, deed)),
        Err(none) if none.is_empty() => Err(field.fault(
            "says when, but not what happens",
            "add one of `scale`, `apply`, `patch`, `delete`, `deleteAll`, `runOut`, `refuse`, `misregister`, `interrupt`, `stop`",
        )),
        Err(_) => Err(field.fault("says more than one thing that happens", "write one event for each")),
    }
}

fn scale(field: Field<'_>) -> Decoded<Deed> {
    field.only(&["kind", "namespace", "name", "replicas"]);
    let what = reference(&field)?;
    if !SCALED.contains(&what.kind.as_str()) {
        let hint = format!("name one of {}", SCALED.join(", "));
        return Err(field.fault_at("kind", format!("`{}` cannot be scaled", what.kind), hint));
    }
    Ok(Deed::Scale(what, field.require("replicas")?.crowd()?))
}

fn apply(field: Field<'_>) -> Decoded<Deed> {
    field.require("apiVersion")?.text()?;
    field.require("kind")?.text()?;
    field.require("metadata")?.require("name")?.text()?;
    Ok(Deed::Apply(field.json()))
}

fn patch(field: Field<'_>) -> Decoded<Deed> {
    field.only(&["kind", "namespace", "name", "set"]);
    let set = field.require("set")?;
    set.entries()?;
    Ok(Deed::Patch(reference(&field)?, set.json()))
}

fn run_out(field: Field<'_>) -> Decoded<Deed> {
    field.only(&["instanceType", "zone", "capacityType", "for"]);
    Ok(Deed::RunOut(meant(&field)?, span(field.require("for")?)?))
}

fn refuse(field: Field<'_>) -> Decoded<Deed> {
    field.only(&["launches", "for"]);
    let launches = field.read("launches", |count| count.crowd())?.unwrap_or(1);
    Ok(Deed::Refuse(launches, span(field.require("for")?)?))
}

fn misregister(field: Field<'_>) -> Decoded<Deed> {
    field.only(&["launches", "code"]);
    let launches = field.read("launches", |count| count.crowd())?.unwrap_or(1);
    let code = field.require("code")?;
    let text = code.text()?;
    let verdict = muster_bootstrap::verdicts::find(text).ok_or_else(|| {
        code.fault(format!("`{text}` is no code of a verdict"), "take one of docs/verdicts.md, such as `KA07`")
    })?;
    Ok(Deed::Misregister(launches, verdict.code))
}

fn interrupt(field: Field<'_>) -> Decoded<Deed> {
    field.only(&["instanceType", "zone", "nodes"]);
    let nodes = field.read("nodes", |count| count.crowd())?.unwrap_or(1);
    Ok(Deed::Interrupt(Meant { capacity_type: Some(CapacityType::Spot), ..meant(&field)? }, nodes))
}

fn stop(field: Field<'_>) -> Decoded<Deed> {
    field.only(&["afterWrites", "for"]);
    let writes = field.read("afterWrites", |count| count.count())?.unwrap_or(0);
    Ok(Deed::Stop(u64::from(writes), field.read("for", span)?.unwrap_or(Duration::from_secs(20))))
}

fn reference(field: &Field<'_>) -> Decoded<Reference> {
    let kind = field.require("kind")?.text()?.to_owned();
    let name = field.require("name")?.text()?;
    let namespace = field.read("namespace", |field| field.text().map(str::to_owned))?;
    let is_bare = ["NodePool", "EC2NodeClass", "KWOKNodeClass", "NodeClaim", "Node", "NodeOverlay"];
    let path = if is_bare.contains(&kind.as_str()) {
        Path::bare(name)
    } else {
        Path::new(namespace.unwrap_or_else(|| "default".to_owned()), name)
    };
    Ok(Reference { kind, path })
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
    let text = field.text()?;
    text.parse::<Span>()
        .map(|span| span.0)
        .map_err(|_| field.fault(format!("`{text}` is not a duration"), "write it as `90s`, `15m` or `1h30m`"))
}

fn moment(field: Field<'_>) -> Decoded<Timestamp> {
    let text = field.text()?;
    text.parse().map_err(|_| {
        field.fault(format!("`{text}` is not a moment"), "write it in RFC 3339, such as `2026-01-05T06:00:00Z`")
    })
}
