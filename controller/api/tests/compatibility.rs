//! `docs/karpenter-1.15.tsv` says what Muster does with each name of Karpenter 1.15. Names that are built exist in the
//! program.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

const TABLE: &str = include_str!("../../../docs/karpenter-1.15.tsv");

/// States in which the program has the name.
const BUILT: [&str; 2] = ["as Karpenter", "partly"];

/// The rows of one kind: name and state.
fn rows(kind: &str) -> BTreeMap<&'static str, &'static str> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let rows = rows.map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kind, name, state, _note] = fields[..] else { panic!("`{line}` does not have four fields") };
        assert!(["as Karpenter", "partly", "no effect", "refused", "not built"].contains(&state), "{line}");
        (kind, name, state)
    });
    rows.filter(|row| row.0 == kind).map(|(_, name, state)| (name, state)).collect()
}

fn source(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}

/// The values of the text constants in a file of this crate, by name.
fn constants(file: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(source("api/src").join(file)).unwrap();
    let joined = text.replace("=\n", "=");
    let lines = joined.lines().filter_map(|line| line.trim().strip_prefix("pub const "));
    let pairs = lines.filter_map(|line| {
        let (name, rest) = line.split_once(": &str =")?;
        Some((name.to_owned(), rest.trim().trim_end_matches(';').trim_matches('"').to_owned()))
    });
    pairs.collect()
}

/// Adds the paths of a schema's fields. Requirements, taints and values of maps are one field; so is what is below a
/// field of a status.
fn fields(kind: &str, node: &Value, path: &str, all: &mut BTreeSet<String>) {
    let children = |node: &Value| node["properties"].as_object().cloned().unwrap_or_default();
    let is_of_status = path.starts_with("status.");
    let items = &node["items"];
    let is_one = ["requirements", "taints", "startupTaints"].iter().any(|name| path.ends_with(name));
    if !is_of_status && !is_one && items.is_object() && !children(items).is_empty() {
        children(items).iter().for_each(|(name, child)| fields(kind, child, &format!("{path}[].{name}"), all));
    } else if !is_of_status && !items.is_object() && !children(node).is_empty() {
        children(node).iter().for_each(|(name, child)| fields(kind, child, &format!("{path}.{name}"), all));
    } else {
        all.insert(format!("{kind} {path}"));
    }
}

#[test]
fn every_field_has_a_row() {
    let mut all = BTreeSet::new();
    for definition in muster_api::crds() {
        let definition = serde_json::to_value(definition).unwrap();
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        if kind == "KWOKNodeClass" {
            continue;
        }
        let version =
            definition["spec"]["versions"].as_array().unwrap().iter().find(|it| it["storage"] == true).unwrap();
        let properties = &version["schema"]["openAPIV3Schema"]["properties"];
        for top in ["spec", "status"] {
            if properties[top].is_object() {
                fields(&kind, &properties[top], top, &mut all);
            }
        }
    }
    let told: BTreeSet<String> = rows("field").into_keys().map(ToOwned::to_owned).collect();
    assert_eq!(told.difference(&all).collect::<Vec<_>>(), Vec::<&String>::new(), "rows without a field");
    assert_eq!(all.difference(&told).collect::<Vec<_>>(), Vec::<&String>::new(), "fields without a row");
}

#[test]
fn every_name_has_a_row() {
    for (kind, file) in [("annotation", "annotations.rs"), ("label", "labels.rs"), ("taint", "taints.rs")] {
        let told = rows(kind);
        let finalizers = rows("finalizer");
        let is_karpenters = |text: &&String| text.contains("karpenter.sh/") || text.contains("karpenter.k8s.aws/");
        let constants: BTreeSet<String> = constants(file).into_values().filter(|text| is_karpenters(&text)).collect();
        for name in &constants {
            let has_row = told.contains_key(name.as_str()) || finalizers.contains_key(name.as_str());
            assert!(has_row, "`{name}` of {file} has no row of kind `{kind}`");
        }
        let known = constants.iter().map(String::as_str).collect::<BTreeSet<&str>>();
        for name in told.iter().filter(|(name, state)| name.contains("karpenter") && BUILT.contains(state)) {
            assert!(known.contains(name.0), "`{}` is told as built, and {file} does not have it", name.0);
        }
    }
}

#[test]
fn conditions_that_are_told_exist() {
    let known: BTreeSet<String> = constants("conditions.rs").into_values().collect();
    for (name, state) in rows("condition") {
        let (_, condition) = name.split_once(' ').unwrap();
        assert!(known.contains(condition) || state == "not built", "`{name}` is told as {state}, and there is none");
    }
}

/// Adds the text of all sources below a folder, without tests.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, text);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let whole = fs::read_to_string(&path).unwrap();
            text.push_str(whole.split("#[cfg(test)]\nmod tests {").next().unwrap());
        }
    }
}

#[test]
fn events_are_told_as_published_if_they_are() {
    let mut text = String::new();
    for folder in ["src", "stages/src", "manifest/src"] {
        sources(&source(folder), &mut text);
    }
    let constants = constants("events.rs");
    for (name, state) in rows("event") {
        let constant = constants.iter().find(|(_, value)| *value == name).map(|(constant, _)| constant);
        let is_used = constant.is_some_and(|constant| {
            let path = format!("events::{constant}");
            let named = |at: usize| {
                !text[at + path.len()..].starts_with(|char: char| char.is_ascii_alphanumeric() || char == '_')
            };
            text.match_indices(&path).any(|(at, _)| named(at))
        });
        assert_eq!(is_used, BUILT.contains(&state), "event `{name}` is told as `{state}` in docs/karpenter-1.15.tsv");
    }
}
