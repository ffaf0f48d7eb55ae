//! Serialization of a script, so that a failed simulation can be repeated.

use std::time::Duration;

use muster_api::Span;
use serde_json::{Map, Value, json};

use super::super::world::{Habits, Meant, ReportedFault};
use super::{Deed, Reference, Script};

// === impl Script ===

impl Script {
    /// Returns the document that [`super::read`] parses.
    pub fn document(&self) -> Value {
        let events: Vec<Value> = self.deeds.iter().map(|(at, deed)| event(*at, deed)).collect();
        let mut spec = json!({
            "start": self.start.to_string(),
            "length": span(self.length),
            "latencies": latencies(self),
            "events": events,
        });
        if !self.runs.is_empty() {
            let runs: Map<String, Value> =
                self.runs.iter().map(|(path, length)| (path.to_string(), span(*length).into())).collect();
            spec["runs"] = Value::Object(runs);
        }
        json!({"apiVersion": "muster.dev/v1", "kind": "Simulation", "spec": spec})
    }
}

fn span(length: Duration) -> String {
    Span(length).to_string()
}

fn latencies(script: &Script) -> Value {
    let Habits { join, ready, startup_taint, pod_start, pod_end, detach, job } = script.habits;
    json!({
        "boot": span(script.boot),
        "join": span(join),
        "ready": span(ready),
        "startupTaint": span(startup_taint),
        "podStart": span(pod_start),
        "podEnd": span(pod_end),
        "detach": span(detach),
        "end": span(script.end),
        "job": span(job),
    })
}

fn event(at: Duration, deed: &Deed) -> Value {
    let (key, what) = match deed {
        Deed::Scale(of, replicas) => ("scale", with(of, "replicas", (*replicas).into())),
        Deed::Apply(object) => ("apply", object.clone()),
        Deed::Patch(of, set) => ("patch", with(of, "set", set.clone())),
        Deed::Delete(of) => ("delete", named(of)),
        Deed::DeleteAll => ("deleteAll", true.into()),
        Deed::RunOut(meant, lasts) => {
            let mut what = offerings(meant);
            what["for"] = span(*lasts).into();
            ("runOut", what)
        }
        Deed::Refuse(launches, lasts) => ("refuse", json!({"launches": launches, "for": span(*lasts)})),
        Deed::Misregister(launches, code) => ("misregister", json!({"launches": launches, "code": code})),
        Deed::Interrupt(meant, nodes) => {
            let mut what = offerings(&Meant { capacity_type: None, ..meant.clone() });
            what["nodes"] = (*nodes).into();
            ("interrupt", what)
        }
        Deed::Publish => ("publishImage", true.into()),
        Deed::ReportFault(meant, nodes, ReportedFault { kind, status, reason }) => {
            let mut what = offerings(meant);
            what["nodes"] = (*nodes).into();
            what["type"] = kind.clone().into();
            what["status"] = status.clone().into();
            what["reason"] = reason.clone().into();
            ("condition", what)
        }
        Deed::Stop(writes, away) => ("stop", json!({"afterWrites": writes, "for": span(*away)})),
    };
    json!({"at": span(at), key: what})
}

fn named(of: &Reference) -> Value {
    let mut what = json!({"kind": of.kind, "name": of.path.name});
    if !of.path.namespace.is_empty() {
        what["namespace"] = of.path.namespace.clone().into();
    }
    what
}

fn with(of: &Reference, key: &str, value: Value) -> Value {
    let mut what = named(of);
    what[key] = value;
    what
}

fn offerings(meant: &Meant) -> Value {
    let mut what = json!({});
    let mut set = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            what[key] = value.into();
        }
    };
    set("instanceType", meant.instance_type.clone());
    set("zone", meant.zone.clone());
    set("capacityType", meant.capacity_type.map(|kind| kind.to_string()));
    what
}
