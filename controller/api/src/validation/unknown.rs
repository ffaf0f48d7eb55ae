//! What an unknown field may have been meant to be.

use super::schema::Node;

/// The known name that is nearest to `name`: of a field beside it, else of one with that very name elsewhere in the
/// object, which is given with its path.
pub(super) fn nearest(root: &Node, node: &Node, name: &str) -> Option<String> {
    nearest_of(node.properties.keys().map(String::as_str), name)
        .map(str::to_owned)
        .or_else(|| elsewhere(root, name, String::new()))
}

/// The candidate that takes the fewest edits, if they are few for the length of the name; else one that continues it.
pub(super) fn nearest_of<'a>(candidates: impl Iterator<Item = &'a str> + Clone, name: &str) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let letters = name.chars().count();
    // A quarter of the letters: `wieght` is near `weight`, but `minValues` is not near `values`.
    let most = (letters / 4).max(1);
    let by_edits = candidates
        .clone()
        .map(|candidate| (strsim::damerau_levenshtein(&candidate.to_lowercase(), &lower), candidate))
        .filter(|(edits, _)| *edits <= most)
        .min()
        .map(|(_, candidate)| candidate);
    // `subnetSelector` has become `subnetSelectorTerms`. Shorter beginnings say too little.
    let mut continued = candidates.filter(|candidate| letters >= 4 && candidate.to_lowercase().starts_with(&lower));
    by_edits.or_else(|| continued.next())
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
