//! Claims that a command has marked.

use std::hash::Hasher;

use muster_api::{NodeClaim, annotations};
use muster_manifest::snapshot::Mark;
use rustc_hash::FxHasher;

/// Returns true if the claim has a mark, even an unreadable one.
#[must_use]
pub fn is_marked(claim: &NodeClaim) -> bool {
    text(claim).is_some()
}

/// Returns the claim's mark; `None` if it has none or an unreadable one.
#[must_use]
pub fn mark_of(claim: &NodeClaim) -> Option<Mark> {
    Mark::read(text(claim)?)
}

fn text(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(annotations::DISRUPTION).map(String::as_str)
}

/// Returns a hash of `parts` with ten letters and digits.
pub(super) fn short<'p>(parts: impl IntoIterator<Item = &'p str>) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut hasher = FxHasher::default();
    for part in parts {
        hasher.write(part.as_bytes());
        hasher.write_u8(0xff);
    }
    let mut rest = hasher.finish();
    let mut digits = Vec::with_capacity(10);
    for _ in 0..10 {
        digits.push(char::from(DIGITS[(rest % 36) as usize]));
        rest /= 36;
    }
    digits.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_tell_parts_apart() {
        assert_eq!(short(["a", "b"]), short(["a", "b"]));
        assert_ne!(short(["a", "b"]), short(["ab"]));
        assert!(short(["x"]).len() == 10 && short([]).bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
