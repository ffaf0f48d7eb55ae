//! Instances that were taken in: the proxy answers for them, beside what moto says of its own.

use std::collections::BTreeMap;

use jiff::Timestamp;
use xmltree::{Element, XMLNode};

use super::alter::change_instances;
use super::answer::{Answer, ApiError};
use super::faults;
use super::instances::{Instance, Kept, StateReason};
use super::request::Request;
use super::shared::{Shared, State};
use super::xml::{self, branch, leaf, list};

/// Instances of one page.
const PAGE: usize = 1000;
/// What a token of ours begins with; the number of those that were told already follows.
const TOKEN: &str = "residents-";

/// What a filter asks.
enum Test {
    Id(Vec<String>),
    State(Vec<String>),
    HasTag(Vec<String>),
    Tag(String, Vec<String>),
}

/// The answer to a call that may be about residents; `None` if it is not.
pub(super) async fn answer(shared: &Shared, request: &Request, request_id: &str) -> Option<Result<Answer, ApiError>> {
    if request.service != "ec2" || !shared.state().instances.has_residents() {
        return None;
    }
    match request.action.as_str() {
        "DescribeInstances" => Some(describe(shared, request, request_id).await),
        "TerminateInstances" => terminate(shared, request, request_id).map(Ok),
        _ => None,
    }
}

/// Those of moto come first, then ours, a page at a time.
async fn describe(shared: &Shared, request: &Request, request_id: &str) -> Result<Answer, ApiError> {
    let told = request.parameters.text("NextToken").and_then(|token| token.strip_prefix(TOKEN));
    let mut root = match told {
        Some(_) => empty(request_id),
        // moto takes a second to find none of two hundred.
        None if names_residents(shared, request) => empty(request_id),
        None => {
            let of_moto = shared.moto.forward(&shared.client, &shared.account, request).await?;
            if of_moto.status >= 400 {
                return Ok(of_moto);
            }
            super::alter::success(shared, request, of_moto, request_id)
        }
    };
    let Some(mut document) = xml::read(&root.body) else { return Ok(root) };
    if xml::text(&document, "nextToken").is_some() {
        return Ok(root);
    }
    let told = told.map_or(Some(0), |told| told.parse().ok());
    let told: usize = told.ok_or_else(|| faults::invalid_value("Unable to parse pagination token".to_owned()))?;
    let tests = tests(request)?;
    let (now, state) = (shared.clock.now(), shared.state());
    let mut found =
        state.instances.residents().filter(|kept| tests.iter().all(|test| test.holds(kept, now))).skip(told);
    let page: Vec<&Kept> = found.by_ref().take(PAGE).collect();
    if found.next().is_some() {
        xml::set(&mut document, "nextToken", format!("{TOKEN}{}", told + PAGE));
    }
    if let Some(reservations) = document.get_mut_child("reservationSet") {
        reservations.children.extend(page.into_iter().map(|kept| XMLNode::Element(reservation(kept, &state, now))));
    }
    root.body = xml::write(&document);
    Ok(root)
}

fn empty(request_id: &str) -> Answer {
    Answer::ec2("DescribeInstances", request_id, vec![branch("reservationSet", [])])
}

/// Whether a call asks for residents by their ids, and for nothing else.
fn names_residents(shared: &Shared, request: &Request) -> bool {
    let ids = request.parameters.filter("instance-id").unwrap_or_else(|| request.parameters.list("InstanceId"));
    let state = shared.state();
    !ids.is_empty() && ids.iter().all(|id| state.instances.get(id).is_some_and(|kept| kept.is_resident))
}

/// Ends residents, if the call names nothing else.
fn terminate(shared: &Shared, request: &Request, request_id: &str) -> Option<Answer> {
    let ids = request.parameters.list("InstanceId");
    let now = shared.clock.now();
    let mut state = shared.state();
    let is_resident = |id: &String| state.instances.get(id).is_some_and(|kept| kept.is_resident);
    if ids.is_empty() || !ids.iter().all(is_resident) {
        return None;
    }
    let mut changes = Vec::new();
    for id in ids {
        let ran = state.instances.ended(&id, now, StateReason::by_user()).is_some();
        let before = if ran { ("16", "running") } else { ("48", "terminated") };
        let code = |(code, name): (&str, &str)| [leaf("code", code), leaf("name", name)];
        changes.push(vec![
            leaf("instanceId", &id),
            branch("currentState", code(("48", "terminated"))),
            branch("previousState", code(before)),
        ]);
    }
    Some(Answer::ec2("TerminateInstances", request_id, vec![list("instancesSet", changes)]))
}

fn tests(request: &Request) -> Result<Vec<Test>, ApiError> {
    let mut tests = Vec::new();
    let ids = request.parameters.list("InstanceId");
    if !ids.is_empty() {
        tests.push(Test::Id(ids));
    }
    for filter in request.parameters.groups("Filter") {
        let values = filter.list("Value");
        tests.push(match filter.text("Name").unwrap_or_default() {
            "instance-id" => Test::Id(values),
            "instance-state-name" => Test::State(values),
            "tag-key" => Test::HasTag(values),
            name => match name.strip_prefix("tag:") {
                Some(key) => Test::Tag(key.to_owned(), values),
                None => {
                    return Err(faults::unsupported(&format!("the filter `{name}` of instances that were taken in")));
                }
            },
        });
    }
    Ok(tests)
}

impl Test {
    fn holds(&self, kept: &Kept, now: Timestamp) -> bool {
        let tags: &BTreeMap<String, String> = &kept.instance.tags;
        match self {
            Self::Id(values) => values.contains(&kept.instance.id),
            Self::State(values) => values.iter().any(|value| value == state(kept, now).1),
            Self::HasTag(values) => values.iter().any(|key| tags.contains_key(key)),
            Self::Tag(key, values) => tags.get(key).is_some_and(|value| values.contains(value)),
        }
    }
}

fn state(kept: &Kept, now: Timestamp) -> (&'static str, &'static str) {
    let has_ended = kept.ended.as_ref().is_some_and(|(at, _)| *at <= now);
    if has_ended { ("48", "terminated") } else { ("16", "running") }
}

fn reservation(kept: &Kept, of: &State, now: Timestamp) -> Element {
    let instance: &Instance = &kept.instance;
    let (code, name) = state(kept, now);
    let address = || leaf("privateIpAddress", instance.private_address.to_string());
    let interface = vec![
        address(),
        branch("attachment", [leaf("deviceIndex", "0"), leaf("networkCardIndex", "0"), leaf("status", "attached")]),
        list("privateIpAddressesSet", [vec![address(), leaf("primary", "true")]]),
    ];
    let item = vec![
        leaf("instanceId", &instance.id),
        leaf("imageId", &instance.image),
        branch("instanceState", [leaf("code", code), leaf("name", name)]),
        leaf("privateDnsName", &instance.private_dns_name),
        leaf("instanceType", &instance.instance_type),
        leaf("launchTime", instance.launched_at.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()),
        branch("placement", [leaf("availabilityZone", &instance.zone), leaf("tenancy", "default")]),
        leaf("subnetId", &instance.subnet),
        address(),
        list("groupSet", instance.security_groups.iter().map(|id| vec![leaf("groupId", id)])),
        leaf("architecture", &instance.architecture),
        xml::tag_set(&instance.tags),
        list("networkInterfaceSet", [interface]),
    ];
    let mut reservation = branch("item", [leaf("reservationId", "r-0"), list("instancesSet", [item])]);
    change_instances(&mut reservation, of, now);
    reservation
}
