//! Documents of Muster itself: a file with one object of a kind that API servers do not know.

use super::document::{Origin, each_object};
use super::error::{InputError, Place};
use super::field::{Decoded, Fault, Field, Unknown};
use super::source::Source;
use super::tree::Tree;

/// Version of all of them.
const API_VERSION: &str = "muster.dev/v1";

/// Reads the only object of `kind` in `source`. An unknown field is an error, because it was meant to have an effect.
///
/// # Errors
/// The first problem of the object.
pub fn read_own<T>(source: &Source, kind: &str, read: impl Fn(&Field<'_>) -> Decoded<T>) -> Result<T, InputError> {
    let mut found = None;
    each_object(source, &mut |tree, origin| {
        let text = |key: &str| tree.get(key).and_then(Tree::text).unwrap_or_default();
        if (text("apiVersion"), text("kind")) != (API_VERSION, kind) {
            return Err(InputError::NotAnObject {
                place: origin.place("kind"),
                reason: format!("this is not kind {kind} of {API_VERSION}"),
                hint: format!("begin with `apiVersion: {API_VERSION}` and `kind: {kind}`"),
            });
        }
        if found.is_some() {
            return Err(InputError::NotAnObject {
                place: origin.place(""),
                reason: format!("a second {kind}"),
                hint: "leave one in the file".to_owned(),
            });
        }
        let unknown = Unknown::default();
        let read = read(&Field::root(tree, &unknown)).map_err(|fault| refuse(kind, origin, *fault))?;
        if let Some(field) = unknown.into_fields().into_iter().next() {
            let hint = match field.nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "remove it".to_owned(),
            };
            return Err(refuse(kind, origin, Fault { path: field.path, problem: "is not known".to_owned(), hint }));
        }
        found = Some(read);
        Ok(())
    })?;
    found.ok_or_else(|| InputError::File {
        file: source.name.clone(),
        reason: format!("it holds no {kind}"),
        hint: format!("begin with `apiVersion: {API_VERSION}` and `kind: {kind}`"),
    })
}

fn refuse(kind: &str, origin: &Origin<'_>, fault: Fault) -> InputError {
    InputError::Field {
        place: origin.place(&fault.path),
        object: kind.to_owned(),
        field: fault.path,
        problem: fault.problem,
        hint: fault.hint,
    }
}

/// Returns the error for a fault that was found after the object of `kind` in `source` was read.
pub fn refuse_own(source: &Source, kind: &str, fault: Fault) -> InputError {
    let mut place = None;
    // It was read before, so it can be read again; otherwise only its file is known.
    let _read_before = each_object(source, &mut |_, origin| {
        place.get_or_insert_with(|| origin.place(&fault.path));
        Ok(())
    });
    let place = place.unwrap_or_else(|| Box::new(Place { file: source.name.clone(), ..Place::default() }));
    let Fault { path: field, problem, hint } = fault;
    InputError::Field { place, object: kind.to_owned(), field, problem, hint }
}
