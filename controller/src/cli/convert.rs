//! `muster convert`: manifests of earlier APIs as manifests of v1.

use std::collections::BTreeMap;
use std::io::{Write, stdin};
use std::path::PathBuf;

use muster_manifest::convert::{Conversion, Note, convert, converts};
use muster_manifest::{self as manifest, Raw};
use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;
use super::output::{DataFormat, write_document, yaml};
use super::palette::Palette;

/// Document of `-o json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversionDocument {
    api_version: &'static str,
    kind: &'static str,
    converted: usize,
    objects: Vec<Value>,
    notes: Vec<NoteDocument>,
}

#[derive(Serialize)]
struct NoteDocument {
    object: String,
    field: String,
    message: String,
}

/// Reads `files`, converts old API versions, and prints all objects. The outer error means that nothing was printed,
/// the inner one is the verdict on the printed objects.
pub(crate) fn print(
    out: &mut dyn Write,
    files: &[PathBuf],
    format: DataFormat,
    stderr: Palette,
) -> Result<Result<(), Failure>, Failure> {
    let Raw { objects, unknown } = manifest::read_raw(files, &mut stdin().lock(), converts)?;
    let Conversion { objects, mut notes, converted } = convert(objects);
    let refused = refusals(&objects);
    let is_refused = !refused.is_empty();
    notes.extend(refused);
    match format {
        DataFormat::Yaml => {
            for object in &objects {
                out.write_all(b"---\n")?;
                out.write_all(yaml(object)?.as_bytes())?;
            }
            say(&notes, stderr);
        }
        DataFormat::Json => {
            let notes =
                notes.into_iter().map(|Note { object, field, message }| NoteDocument { object, field, message });
            let document = ConversionDocument {
                api_version: "muster.dev/v1",
                kind: "Conversion",
                converted,
                objects,
                notes: notes.collect(),
            };
            write_document(out, &document, DataFormat::Json)?;
        }
    }
    say_unknown(&unknown, stderr);
    let answer = "v1 rejects some of the converted objects, as the notes say\n\nhint: correct the fields named before applying them";
    Ok(if is_refused { Err(Failure::No(answer.to_owned())) } else { Ok(()) })
}

/// Returns notes on the objects that the CRDs of v1 would reject.
fn refusals(objects: &[Value]) -> Vec<Note> {
    let refusal = |object: &Value| {
        let text = |way: &str| object.pointer(way).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("/apiVersion"), "karpenter.sh/v1" | "karpenter.k8s.aws/v1") {
            return None;
        }
        let fault = manifest::refusal(object)?;
        Some(Note {
            object: format!("{} `{}`", text("/kind"), text("/metadata/name")),
            field: fault.path,
            message: format!("v1 refuses it: {}", fault.problem),
        })
    };
    objects.iter().filter_map(refusal).collect()
}

/// Prints one line for each unknown kind.
fn say_unknown(unknown: &BTreeMap<String, usize>, palette: Palette) {
    let mut stderr = std::io::stderr().lock();
    for (kind, count) in unknown {
        let objects = if *count == 1 { "object" } else { "objects" };
        // stderr may be closed.
        let _closed = writeln!(stderr, "{}: did not convert {count} {objects} of kind {kind}", palette.advice("note"));
    }
}

fn say(notes: &[Note], palette: Palette) {
    let mut stderr = std::io::stderr().lock();
    for Note { object, field, message } in notes {
        let of = if field.is_empty() { object.clone() } else { format!("{object}, `{field}`") };
        // stderr may be closed.
        let _closed = writeln!(stderr, "{}: {of}: {message}", palette.advice("note"));
    }
}
