//! State and behaviour of the in-memory cloud.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::labels;

use super::faults::{Fault, Faults};
use super::record::{Call, CallRecord, Operation};
use crate::error::{CloudError, LaunchError};
use crate::instance::{Instance, InstanceState, Offering};
use crate::launch::{LaunchRequest, Launched, Refusal, Refused};
use crate::moment::after;
use crate::token::LaunchToken;

/// Delays of the in-memory cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latencies {
    /// Time from the launch until the instance is running.
    pub boot: Duration,
    /// Time from the launch until `list` returns the instance.
    pub listed: Duration,
    /// Time from the call until the instance is terminated.
    pub end: Duration,
    /// Time for which `get` still returns a terminated instance.
    pub remembered: Duration,
}

/// An in-memory cloud.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Delays.
    pub latencies: Latencies,
    /// Faults of the next calls.
    pub faults: Faults,
    /// Remaining number of instances per offering; an offering without an entry is unlimited.
    pub capacity: BTreeMap<Offering, u32>,
    /// Capacity of instances, by instance type and resource.
    pub resources: BTreeMap<String, BTreeMap<String, String>>,
    /// Allocatable quantities, by instance type and resource; a type without an entry allows all of its capacity.
    pub allocatable: BTreeMap<String, BTreeMap<String, String>>,
    /// Labels of nodes by instance type, in addition to those of the offering.
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    /// Launch annotations for the claims of the next instances.
    pub annotations: BTreeMap<String, String>,
    /// Image of the next instances; `None` is the first one.
    pub image: Option<String>,
    /// Console output of the next instances.
    pub console_output: Option<String>,
    instances: BTreeMap<String, Kept>,
    /// Outcome of each attempt that is over.
    outcomes: BTreeMap<LaunchToken, Result<Launched, LaunchError>>,
    record: Vec<CallRecord>,
    launched: u64,
}

#[derive(Debug, Clone)]
struct Kept {
    instance: Instance,
    ends_at: Option<Timestamp>,
    console: Option<String>,
    reboots: Vec<Timestamp>,
}

/// Image of instances until another one is published.
const FIRST_IMAGE: &str = "ami-00000000000000001";

fn lost() -> CloudError {
    CloudError::Transient { message: "the connection was closed before the answer came".to_owned() }
}

// === impl Latencies ===

impl Default for Latencies {
    /// Returns delays similar to those of EC2: running after 8 s, listed after 2 s, terminated after 40 s, forgotten
    /// after an hour.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { boot: seconds(8), listed: seconds(2), end: seconds(40), remembered: seconds(3600) }
    }
}

// === impl Memory ===

impl Memory {
    /// Returns every call so far, in order.
    #[must_use]
    pub fn record(&self) -> &[CallRecord] {
        &self.record
    }

    /// Returns every instance ever launched, in its current state, in launch order.
    #[must_use]
    pub fn everything(&self, now: Timestamp) -> Vec<Instance> {
        let mut all: Vec<Instance> = self.instances.values().map(|kept| self.seen(kept, now)).collect();
        all.sort_by(|a, b| a.launched_at.cmp(&b.launched_at).then_with(|| a.provider_id.cmp(&b.provider_id)));
        all
    }

    /// Returns an instance in its current state, without recording a call or triggering a fault.
    #[must_use]
    pub fn peek(&self, provider_id: &str, now: Timestamp) -> Option<Instance> {
        self.instances.get(provider_id).map(|kept| self.seen(kept, now))
    }

    /// Visits every instance ever launched, by provider ID, with its current state, without recording a call.
    pub fn each(&self, now: Timestamp, mut visit: impl FnMut(&Instance, InstanceState)) {
        for kept in self.instances.values() {
            visit(&kept.instance, self.state(kept, now));
        }
    }

    /// Terminates an instance as the cloud does on its own, such as for a spot interruption or a disk that cannot be
    /// decrypted. Returns false if the instance does not exist or is already being terminated.
    pub fn interrupt(&mut self, provider_id: &str, reason: &str, now: Timestamp) -> bool {
        let Some(kept) = self.instances.get_mut(provider_id).filter(|kept| kept.ends_at.is_none()) else {
            return false;
        };
        kept.ends_at = Some(after(now, self.latencies.end));
        kept.instance.state_reason = Some(reason.to_owned());
        true
    }

    /// See [`crate::Cloud::launch`].
    pub fn launch(&mut self, request: &LaunchRequest, now: Timestamp) -> Result<Launched, LaunchError> {
        let answer = match self.faults.take(Operation::Launch) {
            Some(Fault::Refuse(error)) => Err(LaunchError::of_request(error)),
            Some(Fault::Fail(error)) => {
                self.outcomes.entry(request.token.clone()).or_insert(Err(LaunchError::outcome(error))).clone()
            }
            Some(Fault::LoseAnswer) => {
                let _ = self.launch_once(request, now);
                Err(LaunchError::of_request(lost()))
            }
            None => self.launch_once(request, now),
        };
        self.note(Call::Launch(request.token.clone()), answer.as_ref().err().map(|failed| &failed.error), now);
        answer
    }

    /// See [`crate::Cloud::get`].
    pub fn get(&mut self, provider_id: &str, now: Timestamp) -> Result<Instance, CloudError> {
        self.on(Operation::Get, provider_id, now, |cloud| cloud.known(provider_id, now))
    }

    /// See [`crate::Cloud::list`].
    pub fn list(&mut self, now: Timestamp) -> Result<Vec<Instance>, CloudError> {
        self.answer(Call::On(Operation::List, None), now, |cloud| {
            let mut all = cloud.everything(now);
            all.retain(|one| {
                one.state != InstanceState::Terminated && now >= after(one.launched_at, cloud.latencies.listed)
            });
            Ok(all)
        })
    }

    /// See [`crate::Cloud::console`].
    pub fn console(&mut self, provider_id: &str, now: Timestamp) -> Result<Option<String>, CloudError> {
        self.on(Operation::Console, provider_id, now, |cloud| {
            cloud.known(provider_id, now)?;
            Ok(cloud.instances.get(provider_id).and_then(|kept| kept.console.clone()))
        })
    }

    /// See [`crate::Cloud::terminate`].
    pub fn terminate(&mut self, provider_id: &str, now: Timestamp) -> Result<(), CloudError> {
        self.on(Operation::Terminate, provider_id, now, |cloud| {
            if cloud.known(provider_id, now)?.state == InstanceState::Terminated {
                return Err(CloudError::NotFound { what: provider_id.to_owned() });
            }
            let ends_at = after(now, cloud.latencies.end);
            if let Some(kept) = cloud.instances.get_mut(provider_id)
                && kept.ends_at.is_none()
            {
                kept.ends_at = Some(ends_at);
                kept.instance.state_reason = Some("Client.UserInitiatedShutdown".to_owned());
            }
            Ok(())
        })
    }

    /// See [`crate::Cloud::reboot`].
    pub fn reboot(&mut self, provider_id: &str, now: Timestamp) -> Result<(), CloudError> {
        self.on(Operation::Reboot, provider_id, now, |cloud| match cloud.known(provider_id, now)?.state {
            InstanceState::Running => {
                cloud.instances.entry(provider_id.to_owned()).and_modify(|kept| kept.reboots.push(now));
                Ok(())
            }
            InstanceState::Terminated => Err(CloudError::NotFound { what: provider_id.to_owned() }),
            state => Err(CloudError::Transient { message: format!("instance `{provider_id}` is {state}") }),
        })
    }

    /// Returns the times at which an instance was rebooted.
    #[must_use]
    pub fn reboots(&self, provider_id: &str) -> &[Timestamp] {
        self.instances.get(provider_id).map_or(&[], |kept| &kept.reboots)
    }

    /// See [`crate::Cloud::tag`].
    pub fn tag(
        &mut self,
        provider_id: &str,
        tags: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<(), CloudError> {
        self.on(Operation::Tag, provider_id, now, |cloud| {
            cloud.known(provider_id, now)?;
            if let Some(kept) = cloud.instances.get_mut(provider_id) {
                kept.instance.tags.extend(tags.clone());
            }
            Ok(())
        })
    }

    fn on<T>(
        &mut self,
        operation: Operation,
        provider_id: &str,
        now: Timestamp,
        work: impl FnOnce(&mut Self) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        self.answer(Call::On(operation, Some(provider_id.to_owned())), now, work)
    }

    /// Performs one call, unless a fault is queued for it, and records it.
    fn answer<T>(
        &mut self,
        call: Call,
        now: Timestamp,
        work: impl FnOnce(&mut Self) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        let answer = match self.faults.take(call.operation()) {
            Some(Fault::Refuse(error) | Fault::Fail(error)) => Err(error),
            Some(Fault::LoseAnswer) => {
                let _ = work(self);
                Err(lost())
            }
            None => work(self),
        };
        self.note(call, answer.as_ref().err(), now);
        answer
    }

    fn note(&mut self, call: Call, error: Option<&CloudError>, now: Timestamp) {
        self.record.push(CallRecord { at: now, call, error: error.map(|error| error.reason().to_owned()) });
    }

    fn launch_once(&mut self, request: &LaunchRequest, now: Timestamp) -> Result<Launched, LaunchError> {
        if let Some(outcome) = self.outcomes.get(&request.token) {
            return outcome.clone();
        }
        let mut refused = Vec::new();
        let mut chosen = None;
        for one in &request.alternatives {
            match self.capacity.get_mut(&one.offering) {
                Some(0) => refused.push(Refused { offering: one.offering.clone(), refusal: Refusal::Capacity }),
                left => {
                    if let Some(left) = left {
                        *left -= 1;
                    }
                    chosen = Some(one.offering.clone());
                    break;
                }
            }
        }
        let outcome = match chosen {
            Some(offering) => Ok(Launched { instance: self.make(request, offering, now), refused }),
            None => Err(LaunchError::outcome(CloudError::NoCapacity { refused })),
        };
        self.outcomes.insert(request.token.clone(), outcome.clone());
        outcome
    }

    fn make(&mut self, request: &LaunchRequest, offering: Offering, now: Timestamp) -> Instance {
        self.launched += 1;
        let resources = self.resources.get(&offering.instance_type).cloned().unwrap_or_default();
        let allocatable = self.allocatable.get(&offering.instance_type).unwrap_or(&resources).clone();
        let mut all = self.labels.get(&offering.instance_type).cloned().unwrap_or_default();
        let labels = [
            (labels::INSTANCE_TYPE, offering.instance_type.as_str()),
            (labels::ZONE, offering.zone.as_str()),
            (labels::CAPACITY_TYPE, offering.capacity_type.name()),
        ];
        all.extend(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())));
        let instance = Instance {
            provider_id: format!("aws:///{}/i-{:017x}", offering.zone, self.launched),
            state: InstanceState::Pending,
            state_reason: None,
            launched_at: now,
            token: Some(request.token.clone()),
            image_id: Some(self.image.clone().unwrap_or_else(|| FIRST_IMAGE.to_owned())),
            subnet: None,
            security_groups: Vec::new(),
            placement_group: None,
            labels: all,
            annotations: self.annotations.clone(),
            capacity: resources,
            allocatable,
            tags: request.tags.clone(),
            host_name: Some(format!("ip-10-0-{}-{}.ec2.internal", self.launched / 256, self.launched % 256)),
            offering,
        };
        let console = self.console_output.clone();
        let kept = Kept { instance: instance.clone(), ends_at: None, console, reboots: Vec::new() };
        self.instances.insert(instance.provider_id.clone(), kept);
        instance
    }

    fn known(&self, provider_id: &str, now: Timestamp) -> Result<Instance, CloudError> {
        let not_found = || CloudError::NotFound { what: provider_id.to_owned() };
        let kept = self.instances.get(provider_id).ok_or_else(not_found)?;
        let is_forgotten = kept.ends_at.is_some_and(|end| now >= after(end, self.latencies.remembered));
        if is_forgotten { Err(not_found()) } else { Ok(self.seen(kept, now)) }
    }

    fn seen(&self, kept: &Kept, now: Timestamp) -> Instance {
        Instance { state: self.state(kept, now), ..kept.instance.clone() }
    }

    fn state(&self, kept: &Kept, now: Timestamp) -> InstanceState {
        match kept.ends_at {
            Some(end) if now >= end => InstanceState::Terminated,
            Some(_) => InstanceState::ShuttingDown,
            None if now < after(kept.instance.launched_at, self.latencies.boot) => InstanceState::Pending,
            None => InstanceState::Running,
        }
    }
}
