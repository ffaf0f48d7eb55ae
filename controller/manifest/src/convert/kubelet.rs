//! Kubelet settings: v1 has them in the class, earlier versions in the pool. If pools with different settings use one
//! class, the class is copied.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Conversion, Note};

/// Kubelet settings of a pool.
pub(super) struct Setting {
    pub(super) pool: String,
    pub(super) class: String,
    pub(super) kubelet: Value,
}

/// Moves the settings to the classes.
pub(super) fn settle(settings: Vec<Setting>, conversion: &mut Conversion) {
    let mut by_class: BTreeMap<String, Vec<Setting>> = BTreeMap::new();
    for mut setting in settings {
        known_fields(&mut setting, &mut conversion.notes);
        if setting.kubelet.as_object().is_some_and(|it| !it.is_empty()) {
            by_class.entry(setting.class.clone()).or_default().push(setting);
        }
    }
    for (class, settings) in by_class {
        in_class(&class, settings, conversion);
    }
}

/// Removes fields of v1alpha5 that the kubelet does not have any more.
fn known_fields(setting: &mut Setting, notes: &mut Vec<Note>) {
    let Some(kubelet) = setting.kubelet.as_object_mut() else { return };
    if kubelet.remove("containerRuntime").is_some() {
        notes.push(Note {
            object: format!("NodePool `{}`", setting.pool),
            field: "kubelet.containerRuntime".to_owned(),
            message: "is left out: containerd is the only one".to_owned(),
        });
    }
}

fn is_class(object: &Value, name: &str) -> bool {
    object["kind"] == "EC2NodeClass"
        && object["apiVersion"] == "karpenter.k8s.aws/v1"
        && object["metadata"]["name"] == name
}

/// Returns `wanted`, or with a number after it if a class has that name.
fn free_name(objects: &[Value], wanted: &str) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    while objects.iter().any(|object| is_class(object, &name)) {
        name = format!("{wanted}-{number}");
        number += 1;
    }
    name
}

fn in_class(class: &str, settings: Vec<Setting>, conversion: &mut Conversion) {
    let Some(at) = conversion.objects.iter().position(|object| is_class(object, class)) else {
        for setting in settings {
            conversion.notes.push(Note {
                object: format!("NodePool `{}`", setting.pool),
                field: "kubelet".to_owned(),
                message: format!(
                    "belongs in `spec.kubelet` of EC2NodeClass `{class}`, which is not in the input: {}",
                    setting.kubelet
                ),
            });
        }
        return;
    };
    // Pools of this class without settings keep the class unchanged.
    let uses = |object: &&Value| {
        object["kind"] == "NodePool" && object.pointer("/spec/template/spec/nodeClassRef/name") == Some(&json!(class))
    };
    let users = conversion.objects.iter().filter(uses).count();
    let mut free = users <= settings.len();
    let mut kept: Option<Value> = None;
    for Setting { pool, kubelet, .. } in settings {
        if kept.as_ref() == Some(&kubelet) {
            continue;
        }
        if free {
            conversion.objects[at]["spec"]["kubelet"] = kubelet.clone();
            (free, kept) = (false, Some(kubelet));
            continue;
        }
        let name = free_name(&conversion.objects, &format!("{class}-{pool}"));
        let mut copy = conversion.objects[at].clone();
        copy["metadata"]["name"] = json!(name);
        copy["spec"]["kubelet"] = kubelet;
        conversion.objects.insert(at + 1, copy);
        for object in &mut conversion.objects {
            if object["kind"] == "NodePool" && object["metadata"]["name"] == json!(pool) {
                object["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!(name);
            }
        }
        conversion.notes.push(Note {
            object: format!("NodePool `{pool}`"),
            field: "kubelet".to_owned(),
            message: format!(
                "v1 has it in the class, and other pools of EC2NodeClass `{class}` want another: the pool uses a copy, `{name}`"
            ),
        });
    }
}
