//! Names that look alike: what an unknown one may have been meant to be.

/// Candidates that `name` may have been meant to be, the likeliest first: those that take few edits for the length of the
/// name, then those that continue it.
pub fn similar<'a>(candidates: impl Iterator<Item = &'a str>, name: &str) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let letters = name.chars().count();
    // A quarter of the letters: `wieght` is near `weight`, but `minValues` is not near `values`.
    let most = (letters / 4).max(1);
    let measured = candidates.enumerate().filter_map(|(at, candidate)| {
        let other = candidate.to_lowercase();
        // What differs more in length differs by more edits: no need to count them.
        let comparable = candidate.chars().count().abs_diff(letters) <= most;
        let edits = comparable.then(|| strsim::damerau_levenshtein(&other, &lower)).filter(|edits| *edits <= most);
        // `subnetSelector` has become `subnetSelectorTerms`. Shorter beginnings say too little.
        let continues = letters >= 4 && other.starts_with(&lower);
        match edits {
            Some(edits) => Some((edits, candidate, at)),
            None => continues.then_some((usize::MAX, candidate, at)),
        }
    });
    let mut measured: Vec<(usize, &str, usize)> = measured.collect();
    // Those that are as near by name; those that continue the name in their own order.
    measured.sort_by(|a, b| {
        let as_near = if a.0 == usize::MAX { a.2.cmp(&b.2) } else { a.1.cmp(b.1) };
        a.0.cmp(&b.0).then(as_near)
    });
    measured.into_iter().map(|(_, candidate, _)| candidate).collect()
}

/// The likeliest of [`similar`] ones.
pub fn nearest_of<'a>(candidates: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    similar(candidates, name).into_iter().next()
}
