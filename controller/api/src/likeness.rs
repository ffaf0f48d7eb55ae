//! Suggestions for unknown names, by similarity.

/// Returns the candidates that are similar to `name`, most similar first: those within a few edits relative to the
/// length of the name, then those that have it as a prefix.
pub fn similar<'a>(candidates: impl Iterator<Item = &'a str>, name: &str) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let letters = name.chars().count();
    // A quarter of the letters: `wieght` matches `weight`, but `minValues` does not match `values`.
    let most = (letters / 4).max(1);
    let measured = candidates.enumerate().filter_map(|(at, candidate)| {
        let other = candidate.to_lowercase();
        // A larger difference in length implies more edits, so they need not be counted.
        let comparable = candidate.chars().count().abs_diff(letters) <= most;
        let edits = comparable.then(|| strsim::damerau_levenshtein(&other, &lower)).filter(|edits| *edits <= most);
        // For instance, `subnetSelector` was renamed to `subnetSelectorTerms`. Shorter prefixes are ambiguous.
        let continues = letters >= 4 && other.starts_with(&lower);
        match edits {
            Some(edits) => Some((edits, candidate, at)),
            None => continues.then_some((usize::MAX, candidate, at)),
        }
    });
    let mut measured: Vec<(usize, &str, usize)> = measured.collect();
    // Equal distances are ordered by name; prefix matches keep the order of the candidates.
    measured.sort_by(|a, b| {
        let as_near = if a.0 == usize::MAX { a.2.cmp(&b.2) } else { a.1.cmp(b.1) };
        a.0.cmp(&b.0).then(as_near)
    });
    measured.into_iter().map(|(_, candidate, _)| candidate).collect()
}

/// Returns the most similar of the candidates, if any is [`similar`].
///
/// ```
/// use muster_api::likeness::nearest_of;
///
/// assert_eq!(nearest_of(["limits", "weight"].into_iter(), "wieght"), Some("weight"));
/// assert_eq!(nearest_of(["limits", "weight"].into_iter(), "template"), None);
/// ```
pub fn nearest_of<'a>(candidates: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    similar(candidates, name).into_iter().next()
}
