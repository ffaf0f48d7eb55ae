//! The kubelet's configuration: files, drop-ins, and the flags that override them.
//!
//! Source: `cmd/kubelet/app/server.go`: the file, then the drop-ins in lexical order (JSON merge: lists are replaced),
//! then the flags; feature gates are merged.

use serde_json::{Map, Value, json};

use super::arguments::{Parsed, boolean, integer};
use crate::place::Source;
use crate::tree::{self, Tree};
use crate::verdicts::{self, Verdict};

/// A document of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// Content of the document.
    pub(crate) tree: Tree,
    /// Location of the document.
    pub(crate) source: Source,
    /// Form of the document.
    pub(crate) form: Form,
}

/// Form of a configuration document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A field of another document, which does not need `apiVersion` and `kind`.
    Field,
    /// The file of `--config`.
    File,
    /// A file in the folder of `--config-dir`.
    DropIn,
}

impl Form {
    /// Returns the form of a file: the first one is the main file, unless it is named like a drop-in (`.conf`).
    pub(crate) fn of(index: usize, name: &str) -> Self {
        if index > 0 || name.ends_with(".conf") { Self::DropIn } else { Self::File }
    }

    /// Returns the verdict for a file that the kubelet cannot read: it logs `failed to load kubelet config file` for
    /// the file, and `failed to merge kubelet configs` for a drop-in.
    pub(crate) fn unreadable(self) -> &'static Verdict {
        match self {
            Self::DropIn => &verdicts::KA12,
            Self::Field | Self::File => &verdicts::KA11,
        }
    }
}

/// Merges the layers; later ones override earlier ones.
pub(crate) fn merged(layers: &[Layer]) -> Map<String, Value> {
    let mut whole = Value::Object(Map::new());
    for layer in layers.iter().filter(|layer| layer.tree.is_map()) {
        tree::merge(&mut whole, layer.tree.to_json());
    }
    let mut whole = tree::object(whole);
    whole.remove("kind");
    whole.remove("apiVersion");
    whole
}

/// Flags that replace a field, with the field and the form of the value. Only flags that a rule reads are listed.
const OVER: [(&str, &str, Shape); 52] = [
    ("allowed-unsafe-sysctls", "allowedUnsafeSysctls", Shape::List),
    ("cgroup-root", "cgroupRoot", Shape::Text),
    ("container-log-max-files", "containerLogMaxFiles", Shape::Number),
    ("container-log-max-size", "containerLogMaxSize", Shape::Text),
    ("cpu-cfs-quota-period", "cpuCFSQuotaPeriod", Shape::Text),
    ("cpu-manager-policy", "cpuManagerPolicy", Shape::Text),
    ("cpu-manager-policy-options", "cpuManagerPolicyOptions", Shape::Map),
    ("eviction-minimum-reclaim", "evictionMinimumReclaim", Shape::Map),
    ("healthz-port", "healthzPort", Shape::Number),
    ("kube-api-burst", "kubeAPIBurst", Shape::Number),
    ("kube-api-qps", "kubeAPIQPS", Shape::Number),
    ("max-open-files", "maxOpenFiles", Shape::Number),
    ("memory-manager-policy", "memoryManagerPolicy", Shape::Text),
    ("node-status-max-images", "nodeStatusMaxImages", Shape::Number),
    ("oom-score-adj", "oomScoreAdj", Shape::Number),
    ("port", "port", Shape::Number),
    ("protect-kernel-defaults", "protectKernelDefaults", Shape::Bool),
    ("read-only-port", "readOnlyPort", Shape::Number),
    ("registry-burst", "registryBurst", Shape::Number),
    ("registry-qps", "registryPullQPS", Shape::Number),
    ("resolv-conf", "resolvConf", Shape::Text),
    ("runonce", "runOnce", Shape::Bool),
    ("serialize-image-pulls", "serializeImagePulls", Shape::Bool),
    ("system-cgroups", "systemCgroups", Shape::Text),
    ("tls-cipher-suites", "tlsCipherSuites", Shape::List),
    ("tls-min-version", "tlsMinVersion", Shape::Text),
    ("topology-manager-policy-options", "topologyManagerPolicyOptions", Shape::Map),
    ("enforce-node-allocatable", "enforceNodeAllocatable", Shape::List),
    ("cluster-dns", "clusterDNS", Shape::List),
    ("eviction-hard", "evictionHard", Shape::Evictions),
    ("eviction-soft", "evictionSoft", Shape::Evictions),
    ("eviction-soft-grace-period", "evictionSoftGracePeriod", Shape::Map),
    ("fail-cgroupv1", "failCgroupV1", Shape::Bool),
    ("fail-swap-on", "failSwapOn", Shape::Bool),
    ("cgroup-driver", "cgroupDriver", Shape::Text),
    ("cgroups-per-qos", "cgroupsPerQOS", Shape::Bool),
    ("event-burst", "eventBurst", Shape::Number),
    ("event-qps", "eventRecordQPS", Shape::Number),
    ("hairpin-mode", "hairpinMode", Shape::Text),
    ("image-gc-high-threshold", "imageGCHighThresholdPercent", Shape::Number),
    ("image-gc-low-threshold", "imageGCLowThresholdPercent", Shape::Number),
    ("kube-reserved", "kubeReserved", Shape::Map),
    ("kube-reserved-cgroup", "kubeReservedCgroup", Shape::Text),
    ("max-pods", "maxPods", Shape::Number),
    ("pods-per-core", "podsPerCore", Shape::Number),
    ("provider-id", "providerID", Shape::Text),
    ("register-node", "registerNode", Shape::Bool),
    ("reserved-cpus", "reservedSystemCPUs", Shape::Text),
    ("system-reserved", "systemReserved", Shape::Map),
    ("system-reserved-cgroup", "systemReservedCgroup", Shape::Text),
    ("topology-manager-policy", "topologyManagerPolicy", Shape::Text),
    ("topology-manager-scope", "topologyManagerScope", Shape::Text),
];

#[derive(Clone, Copy)]
enum Shape {
    Text,
    Bool,
    Number,
    List,
    Map,
    Evictions,
}

impl Shape {
    /// Returns true if repeated flags accumulate; otherwise the last one counts. Source: `Set` of component-base's
    /// `MapStringString`, which clears the map at its first call only, and of pflag's `stringSlice`.
    const fn accumulates(self) -> bool {
        matches!(self, Self::List | Self::Map | Self::Evictions)
    }
}

/// Returns every flag of [`OVER`] with the field that it overrides, and true if repeated flags accumulate.
pub(crate) fn over() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    OVER.iter().map(|(flag, field, shape)| (*flag, *field, shape.accumulates()))
}

/// Returns the flag that overrides a field.
pub(crate) fn flag_of(field: &str) -> Option<&'static str> {
    OVER.iter().find(|(_, over, _)| *over == field).map(|(flag, ..)| *flag)
}

/// Returns the configuration with the flags applied.
pub(crate) fn with_flags(config: &Map<String, Value>, flags: &Parsed) -> Map<String, Value> {
    let mut whole = config.clone();
    for (flag, field, form) in OVER {
        let Some(last) = flags.last(flag) else { continue };
        let text = if form.accumulates() {
            flags.all(flag).map(|given| given.value.as_str()).collect::<Vec<_>>().join(",")
        } else {
            last.value.clone()
        };
        let split = |by: char| {
            let pair =
                |pair: &str| pair.split_once(by).map(|(key, value)| (key.trim().to_owned(), json!(value.trim())));
            Value::Object(text.split(',').filter_map(pair).collect())
        };
        let value = match form {
            Shape::Text => json!(text),
            Shape::Bool => boolean(&text).map_or(Value::Null, Value::Bool),
            Shape::Number => integer(&text).map_or(Value::Null, Value::from),
            Shape::List => json!(text.split(',').filter(|item| !item.is_empty()).collect::<Vec<_>>()),
            Shape::Map => split('='),
            Shape::Evictions => split('<'),
        };
        if !value.is_null() {
            whole.insert(field.to_owned(), value);
        }
    }
    whole
}

/// Parses a Go duration, in nanoseconds.
pub(crate) fn duration(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_i128;
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|char: char| char.is_ascii_digit() || char == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 || fraction.contains('.') {
            return None;
        }
        total = total.checked_add(whole.parse::<i128>().unwrap_or(0).checked_mul(unit)?)?;
        // A fraction beyond the eighteenth digit is less than a nanosecond in any unit.
        let fraction: String = fraction.chars().take(18).collect();
        if !fraction.is_empty() {
            let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
            total = total.checked_add(fraction.parse::<i128>().ok()?.checked_mul(unit)? / scale)?;
        }
        rest = after;
    }
    // Go durations have 64 bits.
    i64::try_from(total).is_ok().then_some(sign * total)
}

/// Suffixes of a quantity.
const SUFFIXES: [&str; 15] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "m", "k", "M", "G", "T", "P", "E"];

/// Parses a Kubernetes quantity as a number; `None` if the text is not a quantity.
pub(crate) fn quantity(text: &str) -> Option<f64> {
    let (number, factor) = match SUFFIXES.iter().find_map(|suffix| Some((text.strip_suffix(suffix)?, *suffix))) {
        Some((number, suffix)) => (number, factor(suffix)),
        None => (text, 1.0),
    };
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    let is_plain = digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+'))
        && digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if !is_plain {
        return None;
    }
    number.parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| value * factor)
}

fn factor(suffix: &str) -> f64 {
    match suffix {
        "Ki" => 1024.0,
        "Mi" => 1024.0_f64.powi(2),
        "Gi" => 1024.0_f64.powi(3),
        "Ti" => 1024.0_f64.powi(4),
        "Pi" => 1024.0_f64.powi(5),
        "Ei" => 1024.0_f64.powi(6),
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        _ => 1e18,
    }
}
