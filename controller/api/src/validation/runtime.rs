//! Checks that an API server cannot do and the controller therefore repeats: an object that fails here is stored, but
//! never becomes ready.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::path::Path;
use super::{ErrorKind, FieldError, names};
use crate::capacitybuffer::CapacityBuffer;
use crate::decode::{DecodeError, decode};
use crate::kwoknodeclass::KwokNodeClass;
use crate::labels;
use crate::likeness::nearest_of;
use crate::nodeclaim::NodeClaim;
use crate::nodeclass::{Ec2NodeClass, IgnoredTerm};
use crate::nodeoverlay::NodeOverlay;
use crate::nodepool::NodePool;
use crate::requirement::{Operator, Requirement};
use crate::resources::NOT_FOR_OVERLAYS;

/// Decodes and checks the object. An object that the schema admits but the type does not is also an error. `ignored`
/// takes the selector terms that the controller ignores.
pub(super) fn check(kind: &str, object: &Value, errors: &mut Vec<FieldError>, ignored: &mut Vec<IgnoredTerm>) {
    let mut check = Check { errors, path: Path::of("spec") };
    match kind {
        "NodePool" => check.decoded(object, Check::node_pool),
        "NodeClaim" => check.decoded(object, Check::node_claim),
        "NodeOverlay" => check.decoded(object, Check::node_overlay),
        "EC2NodeClass" => check.decoded(object, |check, class: &Ec2NodeClass| {
            check.node_class(class);
            ignored.extend(class.spec.ignored_terms());
        }),
        "KWOKNodeClass" => check.decoded(object, |_, _: &KwokNodeClass| ()),
        "CapacityBuffer" => check.decoded(object, Check::capacity_buffer),
        _ => {}
    }
}

struct Check<'a> {
    errors: &'a mut Vec<FieldError>,
    path: Path,
}

impl Check<'_> {
    fn report(path: &Path, errors: &mut Vec<FieldError>, message: String) {
        errors.push(FieldError::new(path, ErrorKind::Runtime, message));
    }

    fn decoded<T: DeserializeOwned>(&mut self, object: &Value, then: impl FnOnce(&mut Self, &T)) {
        match decode::<T>(object) {
            Ok(decoded) => then(self, &decoded),
            Err(DecodeError { path, error }) => {
                let message = format!("cannot be decoded: {error}");
                self.errors.push(FieldError { path, kind: ErrorKind::Runtime, message });
            }
        }
    }

    fn node_pool(&mut self, pool: &NodePool) {
        self.quantities("limits", pool.spec.limits.iter());
        let Self { errors, path } = self;
        path.in_field("template", |path| {
            path.in_field("metadata", |path| {
                path.in_field("labels", |path| {
                    for key in pool.spec.template.metadata.labels.keys() {
                        path.in_key(key, |path| label_key(key, path, errors));
                    }
                });
            });
            path.in_field("spec", |path| {
                let spec = &pool.spec.template.spec;
                requirements(&spec.requirements, path, errors);
                taints(&spec.taints, &spec.startup_taints, path, errors);
            });
        });
    }

    fn node_claim(&mut self, claim: &NodeClaim) {
        let Self { errors, path } = self;
        taints(&claim.spec.taints, &claim.spec.startup_taints, path, errors);
        path.in_field("resources", |path| {
            quantities("requests", claim.spec.resources.requests.iter(), path, errors);
        });
    }

    fn node_overlay(&mut self, overlay: &NodeOverlay) {
        self.quantities("capacity", overlay.spec.capacity.iter());
        let Self { errors, path } = self;
        requirements(&overlay.spec.requirements, path, errors);
        path.in_field("capacity", |path| {
            for resource in overlay.spec.capacity.keys().filter(|name| NOT_FOR_OVERLAYS.contains(&name.as_str())) {
                path.in_key(resource, |path| {
                    Self::report(
                        path,
                        errors,
                        format!("`{resource}` is defined by the instance type and cannot be set"),
                    );
                });
            }
        });
    }

    fn node_class(&mut self, class: &Ec2NodeClass) {
        let Self { errors, path } = self;
        for list in class.spec.lists_without_selectors() {
            path.in_field(list, |path| {
                let message = format!("`{list}` selects nothing, because every term of it is empty");
                Self::report(path, errors, message);
            });
        }
        path.in_field("kubelet", |path| {
            for fault in class.spec.kubelet_faults() {
                let mut steps = fault.path.iter();
                match steps.next() {
                    Some(field) => path.in_field(field, |path| match steps.next() {
                        Some(key) => path.in_key(key, |path| Self::report(path, errors, fault.message.clone())),
                        None => Self::report(path, errors, fault.message.clone()),
                    }),
                    None => Self::report(path, errors, fault.message.clone()),
                }
            }
        });
    }

    fn capacity_buffer(&mut self, buffer: &CapacityBuffer) {
        self.quantities("limits", buffer.spec.limits.iter());
    }

    fn quantities<'q>(&mut self, field: &str, entries: impl Iterator<Item = (&'q String, &'q Quantity)>) {
        let entries = entries.map(|(resource, quantity)| (resource.as_str(), quantity));
        quantities(field, entries, &mut self.path, self.errors);
    }
}

fn quantities<'q>(
    field: &str,
    entries: impl Iterator<Item = (&'q str, &'q Quantity)>,
    path: &mut Path,
    errors: &mut Vec<FieldError>,
) {
    path.in_field(field, |path| {
        for (resource, Quantity(quantity)) in entries {
            // The mantissa ends at the exponent: `-0e5` is zero, not negative.
            let number = quantity.split(['e', 'E']).next().unwrap_or_default();
            if quantity.starts_with('-') && number.contains(|c: char| ('1'..='9').contains(&c)) {
                path.in_key(resource, |path| {
                    Check::report(path, errors, format!("`{resource}` is `{quantity}`, but may not be negative"));
                });
            }
        }
    });
}

fn label_key(key: &str, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(problem) = names::qualified_name(key) {
        Check::report(path, errors, format!("`{key}` {problem}"));
    }
    if labels::is_restricted(key) {
        Check::report(
            path,
            errors,
            format!("label `{key}` is reserved: use a well-known label or a domain of your own"),
        );
    }
}

fn requirements(requirements: &[Requirement], path: &mut Path, errors: &mut Vec<FieldError>) {
    path.in_field("requirements", |path| {
        for (index, requirement) in requirements.iter().enumerate() {
            path.in_index(index, |path| {
                let key = labels::normalize(&requirement.key);
                path.in_field("key", |path| label_key(key, path, errors));
                path.in_field("values", |path| {
                    for (index, value) in requirement.values.iter().enumerate() {
                        if let Some(problem) = names::label_value(value) {
                            path.in_index(index, |path| Check::report(path, errors, format!("`{key}` {problem}")));
                        }
                    }
                    known_values(key, requirement, path, errors);
                });
            });
        }
    });
}

fn known_values(key: &str, requirement: &Requirement, path: &Path, errors: &mut Vec<FieldError>) {
    let Some(known) = labels::known_values(key).filter(|_| requirement.operator == Operator::In) else { return };
    let possible = requirement.values.iter().filter(|value| known.contains(&value.as_str())).count();
    let needed = requirement.min_values.and_then(|count| usize::try_from(count).ok()).unwrap_or(1).max(1);
    if possible < needed {
        let wrong = requirement.values.iter().find(|value| !known.contains(&value.as_str()));
        let known_list = known.join("`, `");
        let message = match wrong {
            Some(wrong) => {
                let nearest = nearest_of(known.iter().copied(), wrong);
                let meant = nearest.map_or_else(String::new, |nearest| format!(" (did you mean `{nearest}`?)"));
                match needed {
                    1 => format!("`{key}` has the unknown value `{wrong}`; known values are `{known_list}`{meant}"),
                    _ => format!("`{key}` needs {needed} of `{known_list}`, and `{wrong}` is none of them{meant}"),
                }
            }
            None => format!("`{key}` needs {needed} of its known values, which are `{known_list}`"),
        };
        Check::report(path, errors, message);
    }
}

fn taints(taints: &[Taint], startup_taints: &[Taint], path: &mut Path, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (field, taints) in [("taints", taints), ("startupTaints", startup_taints)] {
        path.in_field(field, |path| {
            for (index, taint) in taints.iter().enumerate() {
                path.in_index(index, |path| {
                    if let Some(problem) = names::qualified_name(&taint.key) {
                        Check::report(path, errors, format!("taint `{}` {problem}", taint.key));
                    }
                    let value = taint.value.as_deref().unwrap_or_default();
                    if !value.is_empty()
                        && let Some(problem) = names::qualified_name(value)
                    {
                        Check::report(path, errors, format!("taint value `{value}` {problem}"));
                    }
                    if !seen.insert((&taint.key, &taint.effect)) {
                        let message = format!(
                            "taint `{}:{}` occurs more than once in `taints` and `startupTaints`",
                            taint.key, taint.effect
                        );
                        Check::report(path, errors, message);
                    }
                });
            }
        });
    }
}
