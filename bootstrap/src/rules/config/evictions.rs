//! Eviction thresholds, grace periods and minimum reclaims.
//!
//! Source: `pkg/kubelet/eviction/helpers.go`, the same in 1.29 to 1.37.

use serde_json::Value;

use super::Whole;
use crate::finding::Findings;
use crate::kubelet::config::{duration, quantity};
use crate::likeness;
use crate::verdicts;

/// Valid signals. Source: `signalToResource` in `pkg/kubelet/eviction/helpers.go`.
const SIGNALS: [&str; 9] = [
    "memory.available",
    "allocatableMemory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
];

/// Judges the four maps.
pub(super) fn check(whole: &Whole<'_>, findings: &mut Findings) {
    for field in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"] {
        for (signal, value) in whole.values.get(field).and_then(Value::as_object).into_iter().flatten() {
            let Some(text) = value.as_str() else { continue };
            let wrong = if !SIGNALS.contains(&signal.as_str()) {
                let meant = likeness::nearest(signal, SIGNALS).map(|it| format!("; did you mean `{it}`?"));
                Some(format!("`{field}` does not have the signal `{signal}`{}", meant.unwrap_or_default()))
            } else if field == "evictionSoftGracePeriod" {
                duration(text)
                    .is_none_or(|it| it < 0)
                    .then(|| format!("`{text}` of `{field}` is not a duration such as `1m30s`"))
            } else if !is_threshold(text, field == "evictionMinimumReclaim") {
                Some(format!("`{text}` of `{field}` is neither an amount above zero nor a share such as 10%"))
            } else if field == "evictionSoft" && !has_grace(whole, signal) {
                Some(format!("`evictionSoft` of `{signal}` needs an `evictionSoftGracePeriod`"))
            } else {
                None
            };
            if let Some(message) = wrong {
                whole.refuse(&verdicts::KA14, field, message, findings);
            }
        }
    }
}

/// Returns true for a valid quantity or percentage. A minimum reclaim may exceed 100%, and may be zero as a quantity
/// but not as a percentage.
fn is_threshold(text: &str, is_reclaimed: bool) -> bool {
    match text.strip_suffix('%').map(|share| share.trim_end_matches('%').parse::<f64>()) {
        Some(share) => share.is_ok_and(|share| if is_reclaimed { share > 0.0 } else { (0.0..=100.0).contains(&share) }),
        None if is_reclaimed => quantity(text).is_some_and(|amount| amount >= 0.0),
        None => quantity(text).is_some_and(|amount| amount > 0.0),
    }
}

fn has_grace(whole: &Whole<'_>, signal: &str) -> bool {
    whole.values.get("evictionSoftGracePeriod").is_some_and(|periods| periods.get(signal).is_some())
}
