//! Differences between Karpenter's objects as it left them and as it would find them.

use serde_json::{Map, Value};

use super::{Objects, Release};

/// Annotations with the hash of a class, which Karpenter computes anew where they are of another version than its own.
const HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
const HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// Conditions of Muster's, which mean nothing to Karpenter.
const OWN: [&str; 3] = ["BootstrapValid", "LaunchesSucceed", "NodeVerdict"];
/// Fields of a status that follow from the cluster at the time.
const OF_THE_TIME: [&str; 5] = ["conditions", "lastPodEventTime", "nodeClassObservedGeneration", "nodes", "resources"];

/// Returns what Karpenter would not find as it has left it: an object that is gone, and fields by which it would do
/// something.
pub(crate) fn differences(release: Release, before: &Objects, after: &Objects) -> Vec<String> {
    let mut all = Vec::new();
    for ((kind, name), was) in before {
        let mut note = |what: String| all.push(format!("{kind} {name}: {what}"));
        let Some(is) = after.get(&(*kind, name.clone())) else {
            note("gone".to_owned());
            continue;
        };
        for field in ["uid", "labels", "finalizers", "ownerReferences", "deletionTimestamp"] {
            if was["metadata"][field] != is["metadata"][field] {
                note(format!("{field} were {} and are {}", was["metadata"][field], is["metadata"][field]));
            }
        }
        if was["spec"] != is["spec"] {
            note(format!("the spec was {} and is {}", was["spec"], is["spec"]));
        }
        annotations(release, was, is).into_iter().for_each(&mut note);
        // The status of a Node is its kubelet's.
        if *kind != "Node" {
            status(was, is).into_iter().for_each(&mut note);
        }
    }
    all
}

fn map<'v>(object: &'v Value, field: &str) -> &'v Map<String, Value> {
    static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object[field].as_object().unwrap_or(&NOTHING)
}

fn annotations(release: Release, was: &Value, is: &Value) -> Vec<String> {
    let (was, is) = (map(&was["metadata"], "annotations"), map(&is["metadata"], "annotations"));
    let mut all = Vec::new();
    for (key, value) in was.iter().filter(|(key, _)| *key != HASH && *key != HASH_VERSION) {
        if is.get(key) != Some(value) {
            all.push(format!("annotation {key} was {value} and is {:?}", is.get(key)));
        }
    }
    for key in is.keys().filter(|key| !was.contains_key(*key) && !key.starts_with("muster.dev/")) {
        all.push(format!("annotation {key} is new"));
    }
    // A hash of Karpenter's own version would be compared, and it would be another one.
    let (own, now) = (release.class_hash_version(), is.get(HASH_VERSION).and_then(Value::as_str));
    if now == Some(own) && is.get(HASH) != was.get(HASH) {
        all.push(format!("the hash of version {own} was {:?} and is {:?}", was.get(HASH), is.get(HASH)));
    }
    all
}

fn status(was: &Value, is: &Value) -> Vec<String> {
    let (was, is) = (&was["status"], &is["status"]);
    let mut all = Vec::new();
    for (field, value) in was.as_object().into_iter().flatten().filter(|(field, _)| !OF_THE_TIME.contains(&&***field)) {
        if sorted(value) != sorted(&is[field]) {
            all.push(format!("status.{field} was {value} and is {}", is[field]));
        }
    }
    let conditions = |status: &Value| -> Vec<(String, String)> {
        let all = status["conditions"].as_array().into_iter().flatten();
        let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
        all.map(|one| (text(one, "type"), text(one, "status"))).collect()
    };
    let (had, has) = (conditions(was), conditions(is));
    all.extend(had.iter().filter(|one| !has.contains(one)).map(|(kind, status)| format!("{kind} was {status}")));
    let new = has.iter().filter(|(kind, _)| !had.iter().any(|(known, _)| known == kind));
    let new = new.filter(|(kind, _)| !OWN.contains(&kind.as_str()));
    all.extend(new.map(|(kind, status)| format!("{kind} is new, and {status}")));
    all
}

/// Lists of what was selected, and of requirements, have no order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(sorted).collect();
            list.sort_by_key(Value::to_string);
            Value::Array(list)
        }
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), sorted(value))).collect(),
        other => other.clone(),
    }
}
