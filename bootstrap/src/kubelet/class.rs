//! Kubelet settings of an EC2NodeClass, which the API server stores as they are: what the kubelet reads, and what the
//! bootstrap of each AMI family hands to it.

use serde_json::{Map, Value};

use super::config::{duration, quantity};
use super::expression::{Expression, ExpressionError};
use super::schema::{FieldFault, FieldFaultKind, KUBELET};
use crate::family::Family;
use crate::tree;

/// Fields that every bootstrap hands to the kubelet.
const BY_EVERY_FAMILY: [&str; 12] = [
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
];
/// Resources that may be reserved.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
/// Signals of thresholds.
const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
/// Maps of reserved resources.
pub const RESERVATIONS: [&str; 2] = ["kubeReserved", "systemReserved"];

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassFaultKind {
    /// The kubelet does not have the field, or refuses its value.
    Invalid,
    /// The bootstrap of the family does not hand the field to the kubelet.
    Unsupported,
    /// A text is neither a value nor an expression.
    Expression,
}

/// A fault in the kubelet settings of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassFault {
    /// Kind of the fault.
    pub kind: ClassFaultKind,
    /// Path of the field below `spec.kubelet`, as steps.
    pub path: Vec<String>,
    /// Description in one line. Names the field and the value.
    pub message: String,
}

/// Returns the faults of settings under a family, in the order of the fields.
///
/// ```
/// use muster_bootstrap::Family;
/// use muster_bootstrap::kubelet::class::faults;
/// use serde_json::json;
///
/// let settings = json!({"maxPods": "min(110, max_pods)", "cpuManagerPolicy": "static"});
/// let settings = settings.as_object().unwrap();
/// assert!(faults(settings, Family::Al2023).is_empty());
/// let [fault] = &faults(settings, Family::Bottlerocket)[..] else { panic!() };
/// assert_eq!(fault.path, ["cpuManagerPolicy"]);
/// ```
#[must_use]
pub fn faults(settings: &Map<String, Value>, family: Family) -> Vec<ClassFault> {
    let mut judge = Judge { settings, faults: Vec::new() };
    judge.fields();
    judge.numbers();
    for field in RESERVATIONS {
        judge.reserved(field);
    }
    for field in ["evictionHard", "evictionSoft"] {
        judge.thresholds(field);
    }
    judge.grace_periods();
    judge.supported(family);
    judge.faults
}

/// Returns the texts that are expressions, each with its path: `maxPods`, and reserved resources that are not
/// quantities.
pub fn expressions(settings: &Map<String, Value>) -> impl Iterator<Item = (Vec<&str>, &str)> {
    let of_pods = settings.get("maxPods").and_then(Value::as_str).map(|text| (vec!["maxPods"], text));
    let of_resources = RESERVATIONS.into_iter().flat_map(move |field| {
        let all = settings.get(field).and_then(Value::as_object).into_iter().flatten();
        all.filter_map(move |(resource, value)| {
            let text = value.as_str().filter(|text| quantity(text).is_none())?;
            Some((vec![field, resource.as_str()], text))
        })
    });
    of_pods.into_iter().chain(of_resources)
}

struct Judge<'a> {
    settings: &'a Map<String, Value>,
    faults: Vec<ClassFault>,
}

impl<'a> Judge<'a> {
    fn fault(&mut self, kind: ClassFaultKind, path: &[&str], message: String) {
        let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
        // The first fault of a field explains the others.
        if !self.faults.iter().any(|fault| fault.path == path) {
            self.faults.push(ClassFault { kind, path, message });
        }
    }

    fn invalid(&mut self, path: &[&str], message: String) {
        self.fault(ClassFaultKind::Invalid, path, message);
    }

    fn map(&self, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.settings.get(field).and_then(Value::as_object).into_iter().flatten()
    }

    /// Judges names and types by the table of the kubelet's fields.
    fn fields(&mut self) {
        let mut plain = self.settings.clone();
        if plain.get("maxPods").is_some_and(Value::is_string) {
            plain.remove("maxPods");
        }
        // JSON is YAML.
        let text = Value::Object(plain).to_string();
        let Ok(tree) = tree::yaml(&text) else { return };
        for FieldFault { path, kind, .. } in KUBELET.check(&tree, None) {
            let message = match kind {
                FieldFaultKind::Unknown { nearest } => {
                    let meant = nearest.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
                    format!("no kubelet reads field `{path}`{meant}")
                }
                FieldFaultKind::Type { wanted, found } => format!("field `{path}` must be {wanted}, not {found}"),
                // Neither occurs: no version is given, and the keys of an object are distinct.
                FieldFaultKind::OtherVersion { .. } | FieldFaultKind::Twice => continue,
            };
            let steps = steps(self.settings, &path);
            self.invalid(&steps.iter().map(String::as_str).collect::<Vec<_>>(), message);
        }
        if self.settings.contains_key("registerWithTaints") {
            let message = "`registerWithTaints` is set by the controller: write `taints` in the NodePool".to_owned();
            self.invalid(&["registerWithTaints"], message);
        }
    }

    fn numbers(&mut self) {
        for (field, most) in [
            ("maxPods", i64::from(i32::MAX)),
            ("podsPerCore", i64::from(i32::MAX)),
            ("evictionMaxPodGracePeriod", i64::from(i32::MAX)),
            ("imageGCHighThresholdPercent", 100),
            ("imageGCLowThresholdPercent", 100),
        ] {
            if let Some(number) = self.settings.get(field).and_then(Value::as_i64)
                && !(0..=most).contains(&number)
            {
                self.invalid(&[field], format!("`{field}` is {number}, but must be from 0 to {most}"));
            }
        }
        let percent = |field: &str| self.settings.get(field).and_then(Value::as_i64);
        if let (Some(high), Some(low)) = (percent("imageGCHighThresholdPercent"), percent("imageGCLowThresholdPercent"))
            && high <= low
        {
            let message = "`imageGCHighThresholdPercent` must be above `imageGCLowThresholdPercent`".to_owned();
            self.invalid(&["imageGCHighThresholdPercent"], message);
        }
        if let Some(text) = self.settings.get("maxPods").and_then(Value::as_str)
            && let Err(error) = Expression::compile(text)
        {
            self.expression(&["maxPods"], text, &error);
        }
    }

    fn expression(&mut self, path: &[&str], text: &str, error: &ExpressionError) {
        let message = format!("`{}` of `{}` {error}", shortened(text), path.join("."));
        self.fault(ClassFaultKind::Expression, path, message);
    }

    fn reserved(&mut self, field: &str) {
        for (resource, value) in self.map(field) {
            let path = [field, resource.as_str()];
            if !RESERVABLE.contains(&resource.as_str()) {
                let known = RESERVABLE.join("`, `");
                self.invalid(&path, format!("`{field}` cannot reserve `{resource}`, only `{known}`"));
                continue;
            }
            let Some(text) = value.as_str() else { continue };
            match quantity(text) {
                Some(amount) if amount < 0.0 || text.starts_with('-') => {
                    self.invalid(&path, format!("`{text}` of `{field}.{resource}` may not be negative"));
                }
                Some(_) => {}
                None => {
                    if let Err(error) = Expression::compile(text) {
                        self.expression(&path, text, &error);
                    }
                }
            }
        }
    }

    fn thresholds(&mut self, field: &str) {
        for (signal, value) in self.map(field) {
            let path = [field, signal.as_str()];
            if !self.has_signal(&path) {
                continue;
            }
            let Some(text) = value.as_str() else { continue };
            let is_valid = match text.strip_suffix('%') {
                Some(share) => share.parse::<f64>().is_ok_and(|share| (0.0..=100.0).contains(&share)),
                None => quantity(text).is_some_and(|amount| amount >= 0.0),
            };
            if !is_valid {
                let message =
                    format!("`{text}` of `{field}` is neither an amount such as `100Mi` nor a share up to 100%");
                self.invalid(&path, message);
            }
        }
    }

    /// Reports an unknown signal.
    fn has_signal(&mut self, path: &[&str; 2]) -> bool {
        let [field, signal] = path;
        let is_known = SIGNALS.contains(signal);
        if !is_known {
            let known = SIGNALS.join("`, `");
            self.invalid(path, format!("`{field}` does not have the signal `{signal}`; there are `{known}`"));
        }
        is_known
    }

    fn grace_periods(&mut self) {
        let (soft, grace) = ("evictionSoft", "evictionSoftGracePeriod");
        for (signal, value) in self.map(grace) {
            let path = [grace, signal.as_str()];
            if !self.has_signal(&path) {
                continue;
            }
            let Some(text) = value.as_str() else { continue };
            if duration(text).is_none_or(|period| period < 0) {
                self.invalid(&path, format!("`{signal}` is `{text}`, but must be a duration such as 1m30s"));
            }
        }
        for (field, other) in [(soft, grace), (grace, soft)] {
            let has = |signal: &String| self.settings.get(other).is_some_and(|all| all.get(signal).is_some());
            if let Some((signal, _)) = self.map(field).find(|(signal, _)| !has(signal)) {
                self.invalid(&[field], format!("each signal of `{field}` needs its `{other}`: `{signal}` has none"));
            }
        }
    }

    fn supported(&mut self, family: Family) {
        if matches!(family, Family::Al2023 | Family::Custom) {
            return;
        }
        let kind = ClassFaultKind::Unsupported;
        for field in self.settings.keys() {
            if !BY_EVERY_FAMILY.contains(&field.as_str()) {
                let message = format!("{family} does not hand `{field}` to its kubelet: only AL2023 has every field");
                self.fault(kind, &[field], message);
            }
        }
        if family == Family::Bottlerocket && self.settings.contains_key("podsPerCore") {
            self.fault(kind, &["podsPerCore"], "Bottlerocket does not have `podsPerCore`".to_owned());
        }
        let servers = self.settings.get("clusterDNS").and_then(Value::as_array).map_or(0, Vec::len);
        if servers > 1 {
            let message = format!("{family} takes one address of `clusterDNS`, and there are {servers}");
            self.fault(kind, &["clusterDNS"], message);
        }
    }
}

/// Splits a path of the table at the keys of the settings, which may contain dots themselves.
fn steps(settings: &Map<String, Value>, path: &str) -> Vec<String> {
    if settings.contains_key(path) {
        return vec![path.to_owned()];
    }
    for (at, _) in path.match_indices('.') {
        let (key, rest) = (&path[..at], &path[at + 1..]);
        if let Some(value) = settings.get(key) {
            let below = value.as_object().map_or_else(|| vec![rest.to_owned()], |below| steps(below, rest));
            return std::iter::once(key.to_owned()).chain(below).collect();
        }
    }
    vec![path.to_owned()]
}

/// Returns the beginning of a long text.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN { text.to_owned() } else { text.chars().take(SHOWN).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(settings: Value, family: Family) -> Vec<String> {
        let found = faults(settings.as_object().unwrap(), family);
        found.into_iter().map(|fault| format!("{:?} {}: {}", fault.kind, fault.path.join("/"), fault.message)).collect()
    }

    #[test]
    fn each_family_takes_its_fields() {
        let open =
            json!({"maxPods": 20, "cpuManagerPolicy": "static", "featureGates": {"KubeletSeparateDiskGC": true}});
        assert!(told(open.clone(), Family::Al2023).is_empty());
        assert!(told(open.clone(), Family::Custom).is_empty());
        for family in [Family::Al2, Family::Bottlerocket, Family::Windows2019, Family::Windows2022, Family::Windows2025]
        {
            let told = told(open.clone(), family);
            assert_eq!(told.len(), 2, "{told:?}");
            assert!(told[0].starts_with("Unsupported cpuManagerPolicy: "), "{told:?}");
        }
        let dns = json!({"clusterDNS": ["10.0.0.10", "10.0.0.11"], "podsPerCore": 4});
        assert!(told(dns.clone(), Family::Al2023).is_empty());
        assert_eq!(told(dns.clone(), Family::Al2).len(), 1);
        assert_eq!(told(dns, Family::Bottlerocket).len(), 2);
    }

    #[test]
    fn faults_name_field_and_value() {
        for (settings, expected) in [
            (json!({"maxpods": 4}), "Invalid maxpods: no kubelet reads field `maxpods`; did you mean `maxPods`?"),
            (
                json!({"evictionHard": {"memory.available": 5}}),
                "Invalid evictionHard/memory.available: field `evictionHard.memory.available` must be text, not a number",
            ),
            (
                json!({"kubeReserved": {"cpu": "-1"}}),
                "Invalid kubeReserved/cpu: `-1` of `kubeReserved.cpu` may not be negative",
            ),
            (
                json!({"evictionSoft": {"pid.available": "5%"}}),
                "Invalid evictionSoft: each signal of `evictionSoft` needs its `evictionSoftGracePeriod`: `pid.available` has none",
            ),
            (
                json!({"maxPods": "min(110"}),
                "Expression maxPods: `min(110` of `maxPods` is neither a number nor a CEL expression",
            ),
            (
                json!({"systemReserved": {"cpu": "cores * 10"}}),
                "Expression systemReserved/cpu: `cores * 10` of `systemReserved.cpu` uses `cores`; an expression may use \
                 `instance_type`, `vcpus`, `memory_mib`, `default_enis`, `ips_per_eni`, `max_pods`",
            ),
        ] {
            assert_eq!(told(settings.clone(), Family::Al2023), [expected], "{settings}");
        }
    }

    #[test]
    fn expressions_are_told_from_quantities() {
        let settings = json!({"maxPods": "max_pods", "kubeReserved": {"cpu": "100m", "memory": "vcpus * 10"}});
        let found: Vec<_> = expressions(settings.as_object().unwrap()).collect();
        assert_eq!(found, [(vec!["maxPods"], "max_pods"), (vec!["kubeReserved", "memory"], "vcpus * 10")]);
    }
}
