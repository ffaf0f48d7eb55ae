//! What is changed in moto's answers on their way to the caller.

use jiff::Timestamp;
use xmltree::{Element, XMLNode};

use super::answer::{Answer, ApiError};
use super::faults::{self, CallFault, CapacityType, Verdict};
use super::instances::{Instance, Kept, StateReason};
use super::request::Request;
use super::shared::{Shared, State};
use super::xml;

/// What a call names must be there by now: the ids of instances that are not to be seen yet do not exist.
pub(super) fn unseen(shared: &Shared, request: &Request) -> Option<ApiError> {
    if request.service != "ec2" {
        return None;
    }
    let now = shared.clock.now();
    let state = shared.state();
    let ids = ["InstanceId", "ResourceId"].into_iter().flat_map(|name| request.parameters.list(name));
    let single = request.parameters.text("InstanceId").map(str::to_owned);
    ids.chain(single).find(|id| state.instances.is_unseen(id, now)).map(|id| faults::no_instance(&id))
}

/// Makes a success of moto what EC2 would have said.
pub(super) fn success(shared: &Shared, request: &Request, answer: Answer, request_id: &str) -> Answer {
    if request.service == "events" && request.action == "PutRule" {
        shared.state().has_event_rules = true;
    }
    if request.service != "ec2" {
        return answer;
    }
    let change: fn(&mut Element, &Shared, &Request) = match request.action.as_str() {
        "RunInstances" => |root, shared, _| {
            let (now, state) = (shared.clock.now(), shared.state());
            change_instances(root, &state, now);
        },
        "DescribeInstances" => |root, shared, _| {
            let (now, state) = (shared.clock.now(), shared.state());
            for reservation in xml::items_mut(root, "reservationSet") {
                hide_unseen(reservation, "instancesSet", &state, now);
                change_instances(reservation, &state, now);
            }
            xml::retain(root, "reservationSet", |reservation| xml::items(reservation, "instancesSet").next().is_some());
        },
        "DescribeInstanceStatus" => |root, shared, _| {
            let (now, state) = (shared.clock.now(), shared.state());
            hide_unseen(root, "instanceStatusSet", &state, now);
        },
        "TerminateInstances" => |root, shared, _| {
            let now = shared.clock.now();
            let ids = xml::items(root, "instancesSet").filter_map(|item| xml::text(item, "instanceId"));
            for id in ids.collect::<Vec<_>>() {
                shared.state().instances.ended(&id, now, StateReason::by_user());
            }
        },
        "DescribeImages" => |root, shared, _| {
            let state = shared.state();
            xml::retain(root, "imagesSet", |image| {
                xml::text(image, "imageId").is_none_or(|id| !state.releases.hides(&id))
            });
        },
        // Most answers are megabytes in which nothing is changed.
        "DescribeInstanceTypes" | "DescribeInstanceTypeOfferings" if !shared.state().withdrawn.is_empty() => {
            |root, shared, _| {
                let state = shared.state();
                for list in ["instanceTypeSet", "instanceTypeOfferingSet"] {
                    xml::retain(root, list, |item| {
                        xml::text(item, "instanceType").is_none_or(|name| !state.withdrawn.contains(&name))
                    });
                }
            }
        }
        "DescribeSubnets" => |root, shared, _| {
            let state = shared.state();
            for subnet in xml::items_mut(root, "subnetSet") {
                let left = xml::text(subnet, "subnetId").and_then(|id| state.rules.addresses_left(&id));
                if let Some(left) = left {
                    xml::set(subnet, "availableIpAddressCount", left.to_string());
                }
            }
        },
        _ => return with_request_id(answer, request_id),
    };
    let Some(mut root) = xml::read(&answer.body) else { return answer };
    change(&mut root, shared, request);
    xml::set(&mut root, "requestId", request_id);
    Answer { body: xml::write(&root), ..answer }
}

/// moto calls every request `request-id`.
fn with_request_id(mut answer: Answer, request_id: &str) -> Answer {
    const PLACEHOLDER: &[u8] = b">request-id<";
    // It stands at one of the two ends; what lies between may be megabytes.
    let (start, end) = (answer.body.len().min(400), answer.body.len().saturating_sub(200));
    let find = |part: &[u8]| part.windows(PLACEHOLDER.len()).position(|window| window == PLACEHOLDER);
    let found = find(&answer.body[end..]).map(|at| at + end).or_else(|| find(&answer.body[..start]));
    if let Some(at) = found {
        let new = format!(">{request_id}<");
        answer.body.splice(at..at + PLACEHOLDER.len(), new.into_bytes());
    }
    answer
}

fn hide_unseen(parent: &mut Element, list: &str, state: &State, now: Timestamp) {
    xml::retain(parent, list, |item| {
        xml::text(item, "instanceId").is_none_or(|id| !state.instances.is_unseen(&id, now))
    });
}

/// Adds to each instance what the proxy keeps of it.
pub(super) fn change_instances(parent: &mut Element, state: &State, now: Timestamp) {
    for item in xml::items_mut(parent, "instancesSet") {
        let kept = xml::text(item, "instanceId").and_then(|id| state.instances.get(&id));
        if let Some(Kept { instance, ended, .. }) = kept {
            change_instance(item, instance, state, now);
            if let Some((_, reason)) = ended.as_ref().filter(|(at, _)| *at <= now) {
                let StateReason { code, message } = reason;
                xml::put(item, xml::branch("stateReason", [xml::leaf("code", code), xml::leaf("message", message)]));
                xml::set(item, "reason", message);
            }
        }
    }
}

fn change_instance(item: &mut Element, instance: &Instance, state: &State, now: Timestamp) {
    if let Some(request) = &instance.spot_request {
        xml::set(item, "spotInstanceRequestId", request);
        xml::set(item, "instanceLifecycle", "spot");
    }
    if let Some(arn) = &instance.instance_profile {
        let id = super::digest::hex(arn, 17).to_uppercase();
        let profile = [xml::leaf("arn", arn), xml::leaf("id", format!("AIPA{id}"))];
        xml::put(item, xml::branch("iamInstanceProfile", profile));
    }
    // An instance outlives its reservation, and is on demand from then on.
    let reservation = instance.reservation.as_ref().and_then(|id| state.reservations.get(id));
    if let (Some(id), Some(reservation)) = (&instance.reservation, reservation.filter(|it| it.is_active(now))) {
        xml::set(item, "capacityReservationId", id);
        if let Some(lifecycle) = reservation.market.lifecycle() {
            xml::set(item, "instanceLifecycle", lifecycle);
        }
        let target = xml::branch("capacityReservationTarget", [xml::leaf("capacityReservationId", id)]);
        let preference = xml::leaf("capacityReservationPreference", "capacity-reservations-only");
        xml::put(item, xml::branch("capacityReservationSpecification", [preference, target]));
    }
    if instance.capacity_type == CapacityType::OnDemand {
        item.take_child("instanceLifecycle");
    }
    if let (Some(group), Some(placement)) = (&instance.placement_group, item.get_mut_child("placement")) {
        xml::set(placement, "groupName", group);
        if let Some(group) = state.groups.get(&instance.region, group) {
            xml::set(placement, "groupId", &group.id);
        }
        if let Some(partition) = instance.partition {
            xml::set(placement, "partitionNumber", partition.to_string());
        }
    }
    let metadata = &instance.metadata;
    let either = |yes: bool, on: &str, off: &str| if yes { on.to_owned() } else { off.to_owned() };
    xml::put(
        item,
        xml::branch(
            "metadataOptions",
            [
                xml::leaf("state", "applied"),
                xml::leaf("httpTokens", either(metadata.tokens_required, "required", "optional")),
                xml::leaf("httpPutResponseHopLimit", metadata.hop_limit.to_string()),
                xml::leaf("httpEndpoint", either(metadata.enabled, "enabled", "disabled")),
                xml::leaf("httpProtocolIpv6", "disabled"),
                xml::leaf("instanceMetadataTags", either(metadata.tags, "enabled", "disabled")),
            ],
        ),
    );
}

/// Doubles or turns round the items of the answer's lists, as rules say.
pub(super) fn shuffle(answer: Answer, verdict: &Verdict) -> Answer {
    let (double, turn) = (verdict.has(&CallFault::Duplicated), verdict.has(&CallFault::Reordered));
    if (!double && !turn) || answer.status >= 400 {
        return answer;
    }
    if let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_slice(&answer.body) {
        for list in fields.values_mut().filter_map(serde_json::Value::as_array_mut) {
            shuffle_list(list, double, turn);
        }
        return Answer { body: serde_json::Value::Object(fields).to_string().into_bytes(), ..answer };
    }
    let Some(mut root) = xml::read(&answer.body) else { return answer };
    for child in root.children.iter_mut().filter_map(XMLNode::as_mut_element) {
        let is_list = child.children.iter().any(|node| node.as_element().is_some_and(|item| item.name == "item"));
        if is_list {
            shuffle_list(&mut child.children, double, turn);
        }
    }
    Answer { body: xml::write(&root), ..answer }
}

fn shuffle_list<T: Clone>(list: &mut Vec<T>, double: bool, turn: bool) {
    if turn {
        list.reverse();
    }
    if double {
        *list = list.iter().flat_map(|item| [item.clone(), item.clone()]).collect();
    }
}
