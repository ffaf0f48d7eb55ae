//! `DescribeInstanceStatus` with a filter for failed checks or scheduled events: what a test says of instances. moto
//! knows neither.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::answer::{Answer, ApiError};
use super::super::request::Request;
use super::super::shared::Shared;
use super::super::xml;

/// What is wrong with instances, by ID.
#[derive(Debug, Default)]
pub(in crate::ec2) struct Statuses(pub(in crate::ec2) BTreeMap<String, InstanceFault>);

/// What EC2 reports of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceFault {
    /// The check of the instance fails since then.
    Instance(Timestamp),
    /// The check of its machine fails since then.
    System(Timestamp),
    /// An event of this code is scheduled, with this description.
    Event {
        /// Such as `instance-retirement`.
        code: String,
        /// For people.
        description: String,
    },
}

/// `None` without such a filter, which moto answers.
pub(super) fn answer(shared: &Shared, request: &Request, request_id: &str) -> Option<Result<Answer, ApiError>> {
    let filter = |name: &str| request.parameters.filter(name).is_some();
    let wanted = ["instance-status.status", "system-status.status", "event.code"].map(filter);
    if wanted.iter().all(|wanted| !wanted) {
        return None;
    }
    let state = shared.state();
    let [own, system, event] = wanted;
    let matches = |fault: &InstanceFault| match fault {
        InstanceFault::Instance(_) => own,
        InstanceFault::System(_) => system,
        InstanceFault::Event { .. } => event,
    };
    let running =
        state.instances.running().filter_map(|instance| Some((&instance.id, state.statuses.0.get(&instance.id)?)));
    let items = running.filter(|(_, fault)| matches(fault)).map(|(id, fault)| item(id, fault));
    let set = xml::list("instanceStatusSet", items);
    Some(Ok(Answer::ec2(&request.action, request_id, vec![set])))
}

fn item(id: &str, fault: &InstanceFault) -> Vec<xmltree::Element> {
    let failed_since = |since: Option<&Timestamp>| {
        let mut details = vec![
            xml::leaf("name", "reachability"),
            xml::leaf("status", if since.is_some() { "failed" } else { "passed" }),
        ];
        details.extend(since.map(|since| xml::leaf("impairedSince", since.to_string())));
        [xml::leaf("status", if since.is_some() { "impaired" } else { "ok" }), xml::list("details", [details])]
    };
    let (own, system) = match fault {
        InstanceFault::Instance(since) => (Some(since), None),
        InstanceFault::System(since) => (None, Some(since)),
        InstanceFault::Event { .. } => (None, None),
    };
    let mut fields = vec![
        xml::leaf("instanceId", id),
        xml::branch("instanceStatus", failed_since(own)),
        xml::branch("systemStatus", failed_since(system)),
    ];
    if let InstanceFault::Event { code, description } = fault {
        let event = vec![xml::leaf("code", code), xml::leaf("description", description)];
        fields.push(xml::list("eventsSet", [event]));
    }
    fields
}
