//! Validation and decoding of one object, the same for files and for the results of patches.

use serde::de::Deserialize;
use serde_json::Value;

use super::field::{Decoded, Fault, Field, Unknown, UnknownField};
use super::judge::judge;
use super::object::{self, Object};
use super::tree::{Tree, shorten};
use super::version::{self, KnownKind};

/// Decoded object with its warnings.
#[derive(Debug)]
pub struct Inspected {
    /// Decoded object.
    pub object: Object,
    /// Warnings about selector terms that are ignored, each with the path of the empty field.
    pub(crate) ignored: Vec<(String, String)>,
    /// Unknown fields.
    pub unknown: Vec<UnknownField>,
    /// Reason why it would be stored but never become ready.
    pub(crate) never_ready: Option<String>,
}

/// Inspects an object of a known kind, like the reader of files.
///
/// # Errors
/// The first problem of the object.
pub fn inspect(object: &Value) -> Decoded<Inspected> {
    let fault = |path: &str, problem: String, hint: String| Box::new(Fault { path: path.to_owned(), problem, hint });
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let known = version::known_kind(api_version, kind).ok_or_else(|| {
        let hint = match version::kind_named(kind) {
            Some(known) if known.group.is_empty() => format!("{kind} is of `v1`"),
            Some(known) => format!("{kind} is of the group `{}`", known.group),
            None => {
                let names = version::kinds().map(|known| known.kind);
                muster_api::likeness::nearest_of(names, kind)
                    .map_or_else(|| "leave the object out".to_owned(), |nearest| format!("did you mean `{nearest}`?"))
            }
        };
        fault("kind", format!("`{}` of `{}` is not supported", shorten(kind), shorten(api_version)), hint)
    })?;
    known.check_version(api_version).map_err(|supported| {
        let problem = format!("`{}` is not supported; `{supported}` is", shorten(api_version));
        fault("apiVersion", problem, version::hint(api_version, supported))
    })?;
    // A JSON value always converts to a tree.
    decoded(known, &Tree::deserialize(object).unwrap_or(Tree::Null)).map_err(|(first, _)| Box::new(first))
}

/// Validates and decodes an object of a known kind and version.
///
/// # Errors
/// The first problem, and all others that were found.
pub(super) fn decoded(known: &KnownKind, tree: &Tree<'_>) -> Result<Inspected, (Fault, Vec<Fault>)> {
    let alone = |fault: Box<Fault>| (*fault, Vec::new());
    if !known.ours {
        let unknown = Unknown::default();
        let object = object::decode(known.kind, &Field::root(tree, &unknown)).map_err(alone)?;
        return Ok(Inspected { object, ignored: Vec::new(), unknown: unknown.into_fields(), never_ready: None });
    }
    let judgement = judge(&tree.to_json());
    let mut refusals = judgement.refusals.into_iter();
    if let Some(first) = refusals.next() {
        return Err((first, refusals.collect()));
    }
    // Already validated: unknown fields were reported with the names of the whole schema.
    let completed = Tree::deserialize(&judgement.completed).unwrap_or(Tree::Null);
    let root = Unknown::default();
    let never_ready = judgement.never_ready;
    let object =
        object::decode_ours(known.kind, &Field::root(&completed, &root), &judgement.completed, never_ready.clone())
            .map_err(alone)?;
    Ok(Inspected { object, ignored: judgement.ignored, unknown: judgement.unknown, never_ready })
}
