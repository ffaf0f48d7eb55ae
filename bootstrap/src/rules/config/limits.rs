//! Values that the kubelet refuses: single values by the table of limits, and pairs of values.
//!
//! Source: `pkg/kubelet/apis/config/validation/validation.go`, and `pkg/kubelet/apis/config/v1beta1/defaults.go` for
//! the defaults of absent fields.

use serde_json::Value;

use super::Whole;
use crate::finding::{Findings, Severity};
use crate::kubelet::config::duration;
use crate::kubelet::limits;
use crate::kubelet::version::Minor;
use crate::verdicts;

/// Judges every value, then the pairs.
pub(super) fn check(whole: &Whole<'_>, version: Option<Minor>, findings: &mut Findings) {
    let gate = |name: &str| whole.gate(name, version);
    for refusal in limits::refusals(version, &|path| whole.at(path), &gate) {
        let (place, text) = whole.place(refusal.path);
        // Some versions may accept it, and the version is unknown.
        let severity = if refusal.is_certain { Severity::Error } else { Severity::Warning };
        findings.add_as(severity, &verdicts::KA14, refusal.message, place, text);
    }
    images(whole, findings);
    shutdown(whole, version, findings);
    swap(whole, version, findings);
    managers(whole, findings);
    if whole.is_set("systemCgroups") && whole.values.contains_key("cgroupRoot") && !whole.is_set("cgroupRoot") {
        whole.refuse(&verdicts::KA14, "systemCgroups", "`systemCgroups` needs `cgroupRoot`", findings);
    }
    if whole.boolean("enableSystemLogQuery") == Some(true) && whole.boolean("enableSystemLogHandler") == Some(false) {
        let message = "`enableSystemLogQuery` needs `enableSystemLogHandler`";
        whole.refuse(&verdicts::KA14, "enableSystemLogQuery", message, findings);
    }
    if whole.family.is_windows() {
        for field in ["singleProcessOOMKill", "userNamespaces", "defaultPodSysctls"] {
            if whole.values.get(field).is_some_and(|value| !value.is_null()) {
                whole.refuse(&verdicts::KA14, field, format!("`{field}` is not supported on Windows"), findings);
            }
        }
    }
}

fn images(whole: &Whole<'_>, findings: &mut Findings) {
    let (high, low) = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent");
    // The kubelet's defaults are 85 and 80.
    let (start, stop) = (whole.number(high).unwrap_or(85), whole.number(low).unwrap_or(80));
    if stop >= start {
        let message = format!("image garbage collection would stop at {stop} % and start at {start} %");
        let field = if whole.values.contains_key(low) { low } else { high };
        whole.refuse(&verdicts::KA14, field, message, findings);
    }
    let age = |field: &str| whole.text(field).and_then(duration).filter(|age| *age != 0);
    // The default of `imageMinimumGCAge` is two minutes.
    if let Some(oldest) = age("imageMaximumGCAge").filter(|age| *age > 0)
        && oldest <= age("imageMinimumGCAge").unwrap_or(120_000_000_000)
    {
        let message = "`imageMaximumGCAge` must be longer than `imageMinimumGCAge`, which is 2m where it is not set";
        whole.refuse(&verdicts::KA14, "imageMaximumGCAge", message, findings);
    }
    if whole.boolean("serializeImagePulls") == Some(true)
        && whole.number("maxParallelImagePulls").is_some_and(|it| it > 1)
    {
        let message = "`maxParallelImagePulls` above 1 needs `serializeImagePulls: false`";
        whole.refuse(&verdicts::KA14, "maxParallelImagePulls", message, findings);
    }
    let list = "preloadedImagesVerificationAllowlist";
    let policy = "NeverVerifyAllowlistedImages";
    if !whole.items(list).is_empty() && whole.text("imagePullCredentialsVerificationPolicy") != Some(policy) {
        let message = format!("`{list}` needs `imagePullCredentialsVerificationPolicy: {policy}`");
        whole.refuse(&verdicts::KA14, list, message, findings);
    }
}

fn shutdown(whole: &Whole<'_>, version: Option<Minor>, findings: &mut Findings) {
    let (all, critical) = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods");
    let grace = |field: &str| whole.text(field).and_then(duration).unwrap_or(0);
    // From 1.34 on, nodeadm sets the longer one if the document does not.
    let is_known =
        whole.values.contains_key(all) || whole.is_complete() || version.is_some_and(|version| version < Minor(34));
    if is_known && grace(critical) > grace(all) {
        let message = format!("`{critical}` is longer than `{all}`");
        whole.refuse(&verdicts::KA14, critical, message, findings);
    }
    if !whole.items("shutdownGracePeriodByPodPriority").is_empty() && (grace(all) > 0 || grace(critical) > 0) {
        let message = format!("`shutdownGracePeriodByPodPriority` and `{all}` exclude each other");
        whole.refuse(&verdicts::KA14, "shutdownGracePeriodByPodPriority", message, findings);
    }
}

/// Reports a swap behavior without effect: with `failSwapOn`, the default, the kubelet refuses a machine with swap.
fn swap(whole: &Whole<'_>, version: Option<Minor>, findings: &mut Findings) {
    let field = "memorySwap.swapBehavior";
    let behavior = whole.at(field).and_then(Value::as_str);
    if behavior == Some("LimitedSwap")
        && whole.boolean("failSwapOn") != Some(false)
        && whole.gate("NodeSwap", version) != Some(false)
    {
        let message =
            "`LimitedSwap` has no effect: with `failSwapOn`, the default, the kubelet refuses to run with swap";
        let fix = "also set `failSwapOn: false`";
        findings.add_with_fix_as(Severity::Warning, &verdicts::KA14, message, fix, whole.place(field));
    }
}

/// Checks the policies of the CPU and memory managers. Options require a policy other than the default, `none`.
fn managers(whole: &Whole<'_>, findings: &mut Findings) {
    let options = "cpuManagerPolicyOptions";
    let has_options = whole.values.get(options).and_then(Value::as_object).is_some_and(|it| !it.is_empty());
    if has_options && whole.text("cpuManagerPolicy").is_none_or(|policy| matches!(policy, "" | "none")) {
        let message = format!("`{options}` needs `cpuManagerPolicy: static`");
        whole.refuse(&verdicts::KA14, options, message, findings);
    }
    if whole.family.is_windows() && whole.text("memoryManagerPolicy") == Some("Static") {
        let message = "`memoryManagerPolicy: Static` is not supported on Windows";
        whole.refuse(&verdicts::KA14, "memoryManagerPolicy", message, findings);
    }
    if !whole.family.is_windows() && whole.text("memoryManagerPolicy") == Some("BestEffort") {
        let message = "`memoryManagerPolicy: BestEffort` is for Windows only";
        whole.refuse(&verdicts::KA14, "memoryManagerPolicy", message, findings);
    }
}
