//! Failures of the cloud: capacity shortages, spot interruptions, machines that never join.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::annotations;
use muster_bootstrap::verdicts;
use muster_cloud::{
    Alternative, CapacityType, CloudError, Instance, LaunchError, LaunchRequest, Launched, Offering, after,
};

use super::super::api::Path;
use super::{Happening, World};
use crate::trace::Event;

/// Time between a spot interruption notice and the interruption: two minutes, as in EC2.
const NOTICE: Duration = Duration::from_secs(120);
/// EC2's state reason of an interrupted instance.
const TAKEN_BACK: &str = "Server.SpotInstanceTermination: Spot instance termination";

/// Annotations that a claim copies from its class at launch.
const HASHES: [&str; 2] = [annotations::EC2NODECLASS_HASH, annotations::EC2NODECLASS_HASH_VERSION];

/// Selection of offerings; unset fields match all. `*` is a wildcard in instance types.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Meant {
    pub(crate) instance_type: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) capacity_type: Option<CapacityType>,
}

/// Unavailable offerings.
#[derive(Debug, Clone)]
pub(super) struct Shortage {
    meant: Vec<Meant>,
    until: Timestamp,
}

/// Values for the next launches, each with a number of launches, in the order of the events that added them.
#[derive(Debug, Clone)]
pub(super) struct Queue<T>(VecDeque<(u32, T)>);

// === impl Meant ===

impl Meant {
    /// Returns true if the offering matches.
    pub(crate) fn is(&self, offering: &Offering) -> bool {
        self.instance_type.as_ref().is_none_or(|pattern| is_like(pattern, &offering.instance_type))
            && self.zone.as_ref().is_none_or(|zone| *zone == offering.zone)
            && self.capacity_type.is_none_or(|kind| kind == offering.capacity_type)
    }

    fn exactly(offering: &Offering) -> Self {
        Self {
            instance_type: Some(offering.instance_type.clone()),
            zone: Some(offering.zone.clone()),
            capacity_type: Some(offering.capacity_type),
        }
    }
}

fn is_like(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|left| {
            (0..=left.len()).filter(|at| left.is_char_boundary(*at)).any(|at| is_like(rest, &left[at..]))
        }),
    }
}

// === impl Queue ===

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Copy> Queue<T> {
    fn push(&mut self, launches: u32, what: T) {
        if launches > 0 {
            self.0.push_back((launches, what));
        }
    }

    /// Returns the value for the next launch.
    fn first(&self) -> Option<T> {
        self.0.front().map(|(_, what)| *what)
    }

    /// Returns the value for the next launch, and counts that launch.
    fn pop(&mut self) -> Option<T> {
        let (left, what) = self.0.front_mut()?;
        let what = *what;
        *left -= 1;
        if *left == 0 {
            self.0.pop_front();
        }
        Some(what)
    }
}

// === impl World ===

impl World {
    /// Makes offerings unavailable for a duration.
    pub(crate) fn run_out(&mut self, meant: Meant, lasts: Duration) {
        let until = after(self.clock.now(), lasts);
        self.shortages.push(Shortage { meant: vec![meant], until });
    }

    /// Refuses the preferred offering of the next launches, which is then unavailable for a duration.
    pub(crate) fn snub(&mut self, launches: u32, lasts: Duration) {
        self.snubs.push(launches, lasts);
    }

    /// Prevents the machines of the next launches from joining, with this verdict code.
    pub(crate) fn misregister(&mut self, launches: u32, code: &'static str) {
        self.misfits.push(launches, code);
    }

    /// Returns the time until which any offering is unavailable.
    pub(crate) fn short_until(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        self.shortages.iter().map(|one| one.until).filter(|until| now < *until).max()
    }

    /// Implements [`muster_cloud::Cloud::launch`] in this world.
    pub(crate) fn launch(&mut self, request: &LaunchRequest) -> Result<Launched, LaunchError> {
        let now = self.clock.now();
        self.shortages.retain(|one| now < one.until);
        let is_new = !self.asked.contains(&request.token);
        if is_new {
            self.asked.insert(request.token.clone());
            if let (Some(lasts), Some(first)) = (self.snubs.pop(), request.alternatives.first()) {
                let until = after(now, lasts);
                self.shortages.push(Shortage { meant: vec![Meant::exactly(&first.offering)], until });
            }
        }
        self.cloud.capacity.clear();
        for Alternative { offering, .. } in &request.alternatives {
            if self.shortages.iter().any(|one| one.meant.iter().any(|meant| meant.is(offering))) {
                self.cloud.capacity.insert(offering.clone(), 0);
            }
            self.supply.describe(&mut self.cloud, &request.class.name, &offering.instance_type);
        }
        let class = self
            .api
            .others
            .get(&request.class.kind)
            .and_then(|store| store.get(&Path::bare(request.class.name.clone())));
        let hashes = class.and_then(|class| class.metadata.annotations.clone()).unwrap_or_default();
        self.cloud.annotations = hashes.into_iter().filter(|(key, _)| HASHES.contains(&key.as_str())).collect();
        let console = self.misfits.first().map(console);
        #[cfg(test)]
        let console = console.or_else(|| self.console.clone());
        self.cloud.console_output = console;
        // The device plugins of the nodes report what NodeOverlays say that these have as well.
        let plain = (self.cloud.resources.clone(), self.cloud.allocatable.clone());
        for (instance_type, more) in &request.overlaid.capacity {
            for all in [&mut self.cloud.resources, &mut self.cloud.allocatable] {
                all.entry(instance_type.clone()).or_default().extend(more.clone());
            }
        }
        let answer = self.cloud.launch(request, now);
        (self.cloud.resources, self.cloud.allocatable) = plain;
        // The answer does not matter: a launch without an answer may have created an instance.
        let fresh: Vec<Instance> = self
            .cloud
            .everything(now)
            .into_iter()
            .filter(|one| !self.machines.contains_key(&one.provider_id))
            .collect();
        for instance in fresh {
            let Some(claim) = self.api.claims.get(&Path::bare(request.claim.clone())).cloned() else { continue };
            let price = price_of(request, &instance.offering);
            let joins = self.misfits.pop().is_none();
            self.trace.add(
                now,
                Event::Launched {
                    claim: request.claim.clone(),
                    node_pool: request.pool.clone().unwrap_or_default(),
                    instance_type: instance.offering.instance_type.clone(),
                    zone: instance.offering.zone.clone(),
                    capacity_type: instance.offering.capacity_type.name().to_owned(),
                    price,
                },
            );
            self.launched(&instance, &claim, price, joins);
        }
        let refused = match &answer {
            Ok(launched) => launched.refused.as_slice(),
            Err(LaunchError { error: CloudError::NoCapacity { refused }, .. }) => refused.as_slice(),
            Err(_) => &[],
        };
        if is_new && !refused.is_empty() {
            let offerings = refused.iter().map(|one| one.offering.to_string()).collect();
            self.trace.add(now, Event::Refused { claim: request.claim.clone(), offerings });
        }
        answer
    }

    /// Publishes another image, which the next instances get.
    pub(crate) fn publish_image(&mut self) {
        self.images += 1;
        self.cloud.image = Some(format!("ami-{:017x}", self.images + 1));
    }

    /// Announces the interruption of matching spot instances, and interrupts them two minutes later. Returns their
    /// number.
    pub(crate) fn interrupt(&mut self, meant: &Meant, count: u32) -> usize {
        let now = self.clock.now();
        let mut candidates: Vec<(u64, String, String)> = self
            .cloud
            .everything(now)
            .into_iter()
            .filter(|one| one.offering.capacity_type == CapacityType::Spot && !one.state.is_ending())
            .filter(|one| meant.is(&one.offering) && !self.noticed.contains(&one.provider_id))
            .filter_map(|one| Some((one.provider_id.clone(), self.node_with(&one.provider_id)?)))
            .map(|(id, node)| (self.dice.below(&format!("interrupt {id}"), 1 << 32), id, node))
            .collect();
        candidates.sort();
        candidates.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        for (_, id, name) in &candidates {
            self.noticed.insert(id.clone());
            self.notices.push_back((id.clone(), now));
            let claim = self.machines.get(id).map(|machine| machine.claim.clone()).unwrap_or_default();
            self.trace.add(now, Event::Interrupted { claim, node: name.clone() });
            self.clock.at(after(now, NOTICE), Happening::TakenBack(id.clone()));
        }
        candidates.len()
    }

    /// Interrupts a spot instance.
    pub(super) fn take_back(&mut self, id: &str) {
        if self.cloud.interrupt(id, TAKEN_BACK, self.clock.now()) {
            self.ending(id);
        }
    }

    /// Returns the price of all running instances, in USD per hour.
    pub(crate) fn hourly_price(&self) -> f64 {
        let mut price = 0.0;
        self.cloud.each(self.clock.now(), |instance, state| {
            if !state.is_ending() {
                price += self.machines.get(&instance.provider_id).map_or(0.0, |machine| machine.price);
            }
        });
        price
    }
}

/// Returns the console output of a machine whose agent fails with this code.
fn console(code: &str) -> String {
    let (message, fix) = verdicts::find(code).map_or(("", ""), |verdict| (verdict.title, verdict.fix));
    format!(
        "MUSTER-AGENT VERDICT code={code} severity=error phase=preflight instance=unknown held=true message={} fix={}\n",
        serde_json::Value::from(message),
        serde_json::Value::from(fix)
    )
}

fn price_of(request: &LaunchRequest, offering: &Offering) -> f64 {
    request.alternatives.iter().find(|one| one.offering == *offering).map_or(0.0, |one| one.price)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_announced_first_befalls_first() {
        let mut queue = Queue::default();
        queue.push(2, "a");
        queue.push(0, "never");
        queue.push(u32::MAX, "b");
        assert_eq!(queue.first(), Some("a"));
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some("a"), Some("a"), Some("b")]);
        assert_eq!(Queue::<u8>::default().pop(), None);
    }
}
