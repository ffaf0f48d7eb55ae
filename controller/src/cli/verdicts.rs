//! `muster verdicts`: agents' verdicts on nodes that cannot join, also on nodes that are gone, and their last logs.

mod document;
mod text;

use std::collections::BTreeSet;
use std::io::{Write, stdin};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::ConfigMap;
use muster_api::likeness;
use muster_manifest::{self as manifest, Manifests};
use muster_stages::archive::{BUNDLE, Record, RecordLabel, is_slot};
use serde::Serialize;

use self::document::{VerdictDetails, VerdictsDocument};
use super::failure::Failure;
use super::inputs::{read_cluster_with_records, report};
use super::output::{Format, write_document};
use super::palette::Palette;
use super::progress::Progress;
use super::settings::VerdictsSettings;

/// Maximum number of similar names in the hint of an unknown name.
const SIMILAR: usize = 3;
/// Number of namespaces that are named if there is more than one.
const NAMED: usize = 5;

/// Record of a node, with its logs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    record: Record,
    bundle: Option<String>,
}

/// Prints the verdicts that `settings` select.
pub(crate) fn print(
    out: &mut dyn Write,
    settings: &VerdictsSettings,
    progress: &mut Progress,
    palette: Palette,
    stderr: Palette,
) -> Result<(), Failure> {
    let VerdictsSettings { name, cluster, namespace, files, now, format } = settings;
    let (mut manifests, mut maps) = match cluster {
        Some(cluster) => read_cluster_with_records(cluster, namespace.as_deref(), progress)?,
        None => (Manifests::default(), Vec::new()),
    };
    if cluster.is_none() {
        (manifests, maps) = read_files(files)?;
    }
    progress.clear();
    report(&manifests, &[], stderr);
    check_namespaces(&maps, cluster.is_some())?;
    let shown = shown(&manifests, maps, name.as_deref())?;
    match (format, &shown) {
        (Format::Table, Shown::All(document)) => out.write_all(text::list(document, *now, palette).as_bytes())?,
        (Format::Table, Shown::One(details)) => out.write_all(text::one(details, *now, palette).as_bytes())?,
        (Format::Data(format), _) => write_document(out, &shown, *format)?,
    }
    Ok(())
}

/// All verdicts, or one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Shown {
    /// All verdicts.
    All(VerdictsDocument),
    /// One verdict, with its logs.
    One(Box<VerdictDetails>),
}

/// Returns the verdicts of NodeClaims and of the records in `maps`; or the one on `name`.
///
/// # Errors
/// No verdict has this name.
pub(crate) fn shown(manifests: &Manifests, maps: Vec<ConfigMap>, name: Option<&str>) -> Result<Shown, Failure> {
    let kept: Vec<Kept> = maps.into_iter().filter_map(Kept::read).collect();
    let document = VerdictsDocument::new(manifests, &kept);
    let Some(name) = name else { return Ok(Shown::All(document)) };
    let mut named = document.named(name);
    let Some(verdict) = named.next() else { return Err(not_found(name, &document)) };
    let bundle = verdict.kept.and_then(|index| kept.get(index)?.bundle.as_deref());
    Ok(Shown::One(Box::new(VerdictDetails::new(verdict.clone(), named.count(), bundle))))
}

/// Returns an error if there are records in several namespaces. The controller uses one, but any user who may write
/// ConfigMaps can fake records elsewhere, so the user must select the namespace.
fn check_namespaces(maps: &[ConfigMap], of_cluster: bool) -> Result<(), Failure> {
    let kept = maps.iter().filter(|map| Kept::is_record(map));
    let namespaces: BTreeSet<&str> = kept.map(|map| map.metadata.namespace.as_deref().unwrap_or("default")).collect();
    if namespaces.len() <= 1 {
        return Ok(());
    }
    let names: Vec<String> = namespaces.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    let more = match namespaces.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let hint = match of_cluster {
        true => "give the namespace of the controller with `--namespace NAME`",
        false => "leave out the ConfigMaps of all namespaces but the controller's",
    };
    let names = names.join(", ");
    Err(Failure::Usage(format!("verdicts are kept in more than one namespace: {names}{more}\n\nhint: {hint}")))
}

/// Reads the objects of files, and the ConfigMaps among them.
fn read_files(files: &[PathBuf]) -> Result<(Manifests, Vec<ConfigMap>), Failure> {
    let (mut manifests, objects) = manifest::read_with_raw(files, &mut stdin().lock(), &|_| Ok(()))?;
    manifests.ignored.remove("ConfigMap");
    let maps = objects.into_iter().filter(|object| object["kind"] == "ConfigMap" && object["apiVersion"] == "v1");
    Ok((manifests, maps.filter_map(|object| serde_json::from_value(object).ok()).collect()))
}

fn not_found(name: &str, document: &VerdictsDocument) -> Failure {
    let known = document.names();
    let similar = likeness::similar(known.iter().map(String::as_str), name).into_iter().take(SIMILAR);
    let names: Vec<String> = similar.map(|other| format!("`{other}`")).collect();
    let hint = if names.is_empty() {
        "`muster verdicts` lists all, by NodeClaim".to_owned()
    } else {
        format!("did you mean {}?", names.join(", "))
    };
    Failure::Usage(format!("there is no verdict on a NodeClaim or node `{name}` in the input\n\nhint: {hint}"))
}

// === impl Kept ===

impl Kept {
    /// Returns true if a ConfigMap is a slot of the controller, by name and label.
    fn is_record(map: &ConfigMap) -> bool {
        let label = map.metadata.labels.as_ref().and_then(|labels| labels.get(RecordLabel::KEY));
        label.is_some_and(|value| value == RecordLabel::VALUE) && map.metadata.name.as_deref().is_some_and(is_slot)
    }

    fn read(map: ConfigMap) -> Option<Self> {
        if !Self::is_record(&map) {
            return None;
        }
        let record = Record::read(&map.metadata)?;
        Some(Self { record, bundle: map.data.and_then(|mut data| data.remove(BUNDLE)) })
    }
}
