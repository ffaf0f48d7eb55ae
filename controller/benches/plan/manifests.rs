//! Objects of Kubernetes as JSON, one at a time.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

const IMAGE: &str = "example.invalid/app:1";

/// Label of a node's zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of a node's own name.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

/// A `List` that is written while it is made: a hundred thousand pods do not have to be in memory at once.
pub(crate) struct List<W> {
    out: W,
    is_empty: bool,
}

impl<W: Write> List<W> {
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(br#"{"apiVersion":"v1","kind":"List","items":["#)?;
        Ok(Self { out, is_empty: true })
    }

    pub(crate) fn push(&mut self, object: &Value) -> io::Result<()> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.write_all(b",\n")?;
        }
        Ok(serde_json::to_writer(&mut self.out, object)?)
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"]}\n")?;
        self.out.flush()
    }
}

/// What a pod asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) millicores: u32,
    pub(crate) mebibytes: u32,
}

/// A pod; `spec` is what it says beside its one container, `extended` what it asks for beside cpu and memory.
pub(crate) fn pod(name: &str, size: Size, labels: &Value, extended: &Value, spec: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": pod_spec(size, extended, spec),
    })
}

/// The `spec` of [`pod`].
pub(crate) fn pod_spec(size: Size, extended: &Value, spec: &Value) -> Value {
    let mut requests = object(extended);
    requests.insert("cpu".to_owned(), format!("{}m", size.millicores).into());
    requests.insert("memory".to_owned(), format!("{}Mi", size.mebibytes).into());
    let mut spec = object(spec);
    spec.insert("containers".to_owned(), json!([{"name": "app", "image": IMAGE, "resources": {"requests": requests}}]));
    spec.into()
}

/// The entries of `value`; nothing but an object is passed here.
fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// An entry of `requirements`.
pub(crate) fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

/// Spread over `key`, at most one apart.
pub(crate) fn spread(key: &str, labels: &Value, when_unsatisfiable: &str) -> Value {
    json!([{
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when_unsatisfiable,
        "labelSelector": {"matchLabels": labels},
    }])
}

/// A term of pod affinity or anti-affinity.
pub(crate) fn pod_term(key: &str, labels: &Value) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": labels}})
}

/// Never two on one node.
pub(crate) fn apart(labels: &Value) -> Value {
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [pod_term(HOSTNAME, labels)]}})
}
