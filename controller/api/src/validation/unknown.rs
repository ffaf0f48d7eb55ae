//! Suggestions for unknown fields.

use super::schema::Node;
use crate::likeness::nearest_of;

/// Returns the most similar sibling field, else the path of a field with exactly that name elsewhere in the object.
pub(super) fn nearest(root: &Node, node: &Node, name: &str) -> Option<String> {
    nearest_of(node.properties.keys().map(String::as_str), name)
        .map(str::to_owned)
        .or_else(|| elsewhere(root, name, String::new()))
}

fn elsewhere(node: &Node, name: &str, path: String) -> Option<String> {
    let below = |field: &str| if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
    let children = || node.properties.iter().filter(|(field, _)| !path.is_empty() || *field != "status");
    if !path.is_empty() && node.properties.contains_key(name) {
        return Some(below(name));
    }
    let within_fields = children().find_map(|(field, child)| elsewhere(child, name, below(field)));
    within_fields.or_else(|| elsewhere(node.items.as_deref()?, name, format!("{path}[]")))
}
