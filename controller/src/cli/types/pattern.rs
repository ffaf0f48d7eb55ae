//! Names with `*` and `?`, as shells match them.

/// Whether `name` matches one of `patterns`; case does not count.
pub(super) fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| matches(pattern.to_ascii_lowercase().as_bytes(), name.to_ascii_lowercase().as_bytes()))
}

/// Linear in the product of both lengths: after a mismatch only the last `*` is worth another try.
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
