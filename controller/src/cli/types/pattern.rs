//! Name patterns with `*` and `?`, like those of shells.

/// Returns the reason why a pattern cannot match: a character that no type name has, because type names are label
/// values. `None` if it may match.
pub(in crate::cli) fn fault(pattern: &str) -> Option<String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.*?".contains(c);
    match pattern.chars().find(|c| !is_known(*c)) {
        Some(other) => Some(format!("`{}` does not occur in names of instance types", other.escape_debug())),
        None if pattern.is_empty() => Some("it is empty".to_owned()),
        None => None,
    }
}

/// Returns true if `name` matches one of `patterns`, ignoring case.
pub(super) fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| matches(pattern.to_ascii_lowercase().as_bytes(), name.to_ascii_lowercase().as_bytes()))
}

/// Matches in time linear in the product of both lengths: after a mismatch only the last `*` is retried.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                last_star = Some((at, read));
                at += 1;
            }
            Some(&expected) if expected == b'?' || expected == name[read] => {
                at += 1;
                read += 1;
            }
            _ => match last_star {
                Some((star, tried)) => {
                    last_star = Some((star, tried + 1));
                    at = star + 1;
                    read = tried + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&rest| rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_no_name_matches_none() {
        for pattern in ["m7g.*", "M?g.large", "*", "c-4x_amd64"] {
            assert_eq!(fault(pattern), None, "{pattern}");
        }
        for (pattern, why) in
            [("[", "`[`"), ("m[57].*", "`[`"), ("m7g large", "` `"), ("m7g\n", "`\\n`"), ("", "empty")]
        {
            assert!(fault(pattern).is_some_and(|fault| fault.contains(why)), "{pattern}");
        }
    }

    #[test]
    fn stars_and_question_marks() {
        let cases = [
            ("m7g.*", "m7g.large", true),
            ("m7g.*", "m7gd.large", false),
            ("m?g.large", "m7g.large", true),
            ("*.metal*", "c7g.metal", true),
            ("*.24xlarge", "m7i.metal-24xl", false),
            ("M7G.LARGE", "m7g.large", true),
            ("*x*x*", "p5.48xlarge", false),
            ("", "m7g.large", false),
            ("*", "", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches_any(&[pattern.to_owned()], name), expected, "{pattern} {name}");
        }
    }
}
