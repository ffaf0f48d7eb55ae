//! Manifests, and what an API server with our CRDs would say to them.

mod buffers;
mod claims;
mod classes;
mod classes_more;
mod general;
mod overlays;
mod pools;
mod pools_more;
mod robust;

use muster_api::validation::{Checked, check};
use serde_json::{Value, json};

/// A table of cases: what is changed in a valid manifest, and the error that this gives, as the beginning of its path
/// and some words of its message. `OK` expects none.
type Table<'a> = &'a [(Value, &'a str, &'a str)];

/// Stands for the path of an error when there is to be none.
const OK: &str = "OK";

/// Checks that each change of `base` gives its error, or none.
fn check_table(base: &Value, table: Table<'_>) {
    assert_eq!(check(base).errors, [], "the base is valid");
    for (patch, path, words) in table {
        let mut manifest = base.clone();
        merge(&mut manifest, patch);
        let Checked { errors, .. } = check(&manifest);
        if *path == OK {
            assert_eq!(errors, [], "{patch}");
            continue;
        }
        let is_expected = errors.iter().any(|error| error.path == *path && error.message.contains(words));
        assert!(is_expected, "{patch}\n  expected {path}: {words}\n  got {errors:#?}");
    }
}

/// JSON merge patch: objects are merged, null removes, everything else replaces.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}
