//! Changes of what a class selects: instances whose image, network, reservation or placement group it no longer
//! selects, or whose type is gone.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use muster_api::decode;
use muster_api::labels::{CAPACITY_RESERVATION_ID, CAPACITY_TYPE, PLACEMENT_GROUP_ID, RESERVED};
use muster_api::nodeclass::{Ami, Ec2NodeClass, Ec2NodeClassSpec, Ec2NodeClassStatus};
use muster_aws::suits;
use muster_scheduling::labels::INSTANCE_TYPE;
use serde_json::Value;

use super::super::disruption::{condition, true_since};
use super::{Check, Drifts, Subject};
use crate::NodeClass;

/// Age from which a missing instance type counts, as in Karpenter: a new one may not be in the catalogue yet.
const SETTLED: SignedDuration = SignedDuration::from_hours(1);
/// Maximum number of security groups named in one message.
const NAMED: usize = 5;

/// State of a class with regard to drift.
pub(super) enum Class<'m> {
    /// Its status is that of its selectors.
    Ready(Box<ReadyClass<'m>>),
    /// Its condition Ready is False: what its status has, or lacks, is not what it is meant to select.
    NotReady,
    /// It has no such condition, as in a manifest that was never applied.
    Unjudged(&'m Value),
    /// It is being deleted, so that nothing can be launched with it.
    Deleting,
}

/// A class that is ready.
pub(super) struct ReadyClass<'m> {
    pub(super) object: &'m Value,
    spec: Ec2NodeClassSpec,
    status: Ec2NodeClassStatus,
}

// === impl Class ===

impl<'m> Class<'m> {
    pub(super) fn of(class: &'m NodeClass) -> Self {
        let object = &class.object;
        if object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null()) {
            return Self::Deleting;
        }
        match condition(&class.conditions, "Ready").map(|ready| &*ready.status) {
            Some("True") => {
                // A class of another cloud selects nothing.
                let typed = decode::<Ec2NodeClass>(object).ok().filter(|_| class.kind == "EC2NodeClass");
                let Ec2NodeClass { spec, status, .. } = typed.unwrap_or_default();
                Self::Ready(Box::new(ReadyClass { object, spec, status: status.unwrap_or_default() }))
            }
            Some("False") => Self::NotReady,
            _ => Self::Unjudged(object),
        }
    }
}

/// Evaluates `check` with the class of the claim if it is ready.
fn with_class(drifts: &Drifts<'_>, subject: &Subject<'_>, check: impl FnOnce(&ReadyClass<'_>) -> Check) -> Check {
    match drifts.class(subject.claim) {
        Some(Class::Ready(class)) => check(class),
        Some(Class::Deleting) => Check::Same,
        None | Some(Class::NotReady | Class::Unjudged(_)) => Check::Unknown,
    }
}

/// Checks if the type of the node no longer exists. A type that is left out because no image suits it does.
pub(super) fn instance_type(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    with_class(drifts, subject, |class| {
        let observed = &drifts.manifests.observed;
        let types = drifts.types_of(subject.pool).filter(|types| observed.has_all_types && !types.is_empty());
        let name = subject.label(INSTANCE_TYPE);
        let launched = observed.at.zip(true_since(&subject.claim.conditions, "Launched"));
        let ((Some(types), Some(name)), Some((now, launched))) = ((types, name), launched) else {
            return Check::Unknown;
        };
        let amis = &class.status.amis;
        let is_settled = now.duration_since(launched) >= SETTLED;
        if types.contains_key(&**name) || !is_settled || !amis.is_empty() && suitable(drifts, subject, amis).is_empty()
        {
            return Check::Same;
        }
        Check::Drifted(format!("instance type `{name}` is no longer offered"))
    })
}

/// Checks if the class no longer selects the image of the instance for its type.
pub(super) fn image(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    with_class(drifts, subject, |class| {
        let observed = drifts.observed(subject.claim).and_then(|instance| instance.image.as_ref());
        let claimed = subject.claim.image_id.as_ref().filter(|image| !image.is_empty());
        let amis = &class.status.amis;
        let Some(image) = observed.or(claimed).filter(|_| !amis.is_empty()) else {
            return Check::Unknown;
        };
        let selected = suitable(drifts, subject, amis);
        if selected.contains(&**image) {
            return Check::Same;
        }
        let class = &subject.claim.class.name;
        let of_type = subject.label(INSTANCE_TYPE).map(|name| format!(" for `{name}`")).unwrap_or_default();
        let now = if selected.is_empty() { "no image".to_owned() } else { listed(selected) };
        Check::Drifted(format!("the image is `{image}`, and EC2NodeClass `{class}` selects {now}{of_type}"))
    })
}

/// Returns the images of a class that suit the node's type, by ID. A type that the catalogue lacks is known by the
/// labels of its node.
fn suitable<'a>(drifts: &Drifts<'_>, subject: &Subject<'_>, amis: &'a [Ami]) -> BTreeSet<&'a str> {
    let known = drifts.type_of(subject).map(|one| &one.requirements);
    let own = if known.is_none() { subject.own_requirements() } else { Default::default() };
    let labels = known.unwrap_or(&own);
    amis.iter().filter(|ami| suits(ami, labels)).map(|ami| ami.id.as_str()).collect()
}

/// Checks if the class selects other security groups than those of the instance.
pub(super) fn security_groups(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    with_class(drifts, subject, |class| {
        let selected: BTreeSet<&str> = class.status.security_groups.iter().map(|group| group.id.as_str()).collect();
        let observed = drifts.observed(subject.claim).into_iter().flat_map(|instance| &instance.security_groups);
        let observed: BTreeSet<&str> = observed.map(|group| &**group).collect();
        if observed.is_empty() || selected.is_empty() {
            return Check::Unknown;
        }
        if observed == selected {
            return Check::Same;
        }
        let (class, observed, selected) = (&subject.claim.class.name, listed(observed), listed(selected));
        Check::Drifted(format!("the security groups are {observed}, and EC2NodeClass `{class}` selects {selected}"))
    })
}

/// Checks if the class no longer selects the subnet of the instance.
pub(super) fn subnet(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    with_class(drifts, subject, |class| {
        let subnets = &class.status.subnets;
        let observed = drifts.observed(subject.claim).and_then(|instance| instance.subnet.as_ref());
        let Some(subnet) = observed.filter(|_| !subnets.is_empty()) else { return Check::Unknown };
        if subnets.iter().any(|one| *one.id == **subnet) {
            return Check::Same;
        }
        let class = &subject.claim.class.name;
        Check::Drifted(format!("EC2NodeClass `{class}` no longer selects the subnet `{subnet}`"))
    })
}

/// Checks if the class no longer selects the capacity reservation of the instance.
pub(super) fn reservation(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    with_class(drifts, subject, |class| {
        let is_reserved = subject.label(CAPACITY_TYPE).is_some_and(|kind| **kind == *RESERVED);
        let observed = drifts.observed(subject.claim).and_then(|instance| instance.reservation.as_ref());
        let label = subject.label(CAPACITY_RESERVATION_ID).filter(|_| is_reserved);
        let Some(reservation) = observed.or(label) else {
            return if is_reserved { Check::Unknown } else { Check::Same };
        };
        if class.status.capacity_reservations.iter().any(|one| *one.id == **reservation) {
            return Check::Same;
        }
        let class = &subject.claim.class.name;
        Check::Drifted(format!("EC2NodeClass `{class}` no longer selects the capacity reservation `{reservation}`"))
    })
}

/// Checks if the class selects another placement group than that of the instance, or one for an instance without any.
pub(super) fn placement_group(drifts: &Drifts<'_>, subject: &Subject<'_>) -> Check {
    with_class(drifts, subject, |class| {
        let selected = match &class.spec.placement_group_selector {
            None => None,
            // The catalogue of a controller has the group of that name.
            Some(selector) => {
                let types = drifts.types_of(subject.pool).into_iter().flat_map(|types| types.values());
                let mut groups = types.filter_map(|one| one.requirements.single(PLACEMENT_GROUP_ID));
                let Some(group) = selector.id.as_deref().or_else(|| groups.next()) else { return Check::Unknown };
                Some(group)
            }
        };
        let observed = drifts.observed(subject.claim).and_then(|instance| instance.placement_group.as_ref());
        let group = observed.or_else(|| subject.label(PLACEMENT_GROUP_ID)).map(|group| &**group);
        if group == selected {
            return Check::Same;
        }
        let named = |group: Option<&str>| group.map_or_else(|| "none".to_owned(), |group| format!("`{group}`"));
        let (class, group, selected) = (&subject.claim.class.name, named(group), named(selected));
        Check::Drifted(format!("the placement group is {group}, and EC2NodeClass `{class}` selects {selected}"))
    })
}

/// Returns the first few names, in backticks.
fn listed(names: BTreeSet<&str>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let named: Vec<String> = names.into_iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
