//! What exists in the cloud in memory, and how it answers.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::labels;

use super::faults::{Fault, Faults};
use super::record::{Call, CallRecord, Operation};
use crate::error::{CloudError, LaunchError};
use crate::instance::{Instance, InstanceState, Offering};
use crate::launch::{LaunchRequest, LaunchToken, Launched, Refusal, Refused};
use crate::moment::after;

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latencies {
    /// From the launch until the instance runs.
    pub boot: Duration,
    /// From the launch until lists show the instance.
    pub listed: Duration,
    /// From the call until the instance has ended.
    pub end: Duration,
    /// How long an instance that has ended can still be looked at.
    pub remembered: Duration,
}

/// The cloud in memory.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// How long things take.
    pub latencies: Latencies,
    /// What is about to go wrong.
    pub faults: Faults,
    /// How many more instances each offering gives; what is not here has no end.
    pub capacity: BTreeMap<Offering, u32>,
    /// What instances of a type have, by type and resource.
    pub resources: BTreeMap<String, BTreeMap<String, String>>,
    /// What pods may use of it; of a type that is not here, all.
    pub allocatable: BTreeMap<String, BTreeMap<String, String>>,
    /// Labels of nodes of a type, beside those of what was bought.
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    /// How the next instances are launched, for the annotations of their claims.
    pub annotations: BTreeMap<String, String>,
    /// What the next instances write to their consoles.
    pub console_output: Option<String>,
    instances: BTreeMap<String, Kept>,
    /// What came of each attempt that is over.
    outcomes: BTreeMap<LaunchToken, Result<Launched, LaunchError>>,
    record: Vec<CallRecord>,
    launched: u64,
}

#[derive(Debug, Clone)]
struct Kept {
    instance: Instance,
    ends_at: Option<Timestamp>,
    console: Option<String>,
}

fn lost() -> CloudError {
    CloudError::Transient { message: "the connection was closed before the answer came".to_owned() }
}

// === impl Latencies ===

impl Default for Latencies {
    /// About what EC2 does: runs after 8 s, listed after 2 s, ended after 40 s, forgotten after an hour.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { boot: seconds(8), listed: seconds(2), end: seconds(40), remembered: seconds(3600) }
    }
}

// === impl Memory ===

impl Memory {
    /// Every call so far, in order.
    #[must_use]
    pub fn record(&self) -> &[CallRecord] {
        &self.record
    }

    /// Every instance that was ever launched, as it is now, in the order of launches.
    #[must_use]
    pub fn everything(&self, now: Timestamp) -> Vec<Instance> {
        let mut all: Vec<Instance> = self.instances.values().map(|kept| self.seen(kept, now)).collect();
        all.sort_by(|a, b| a.launched_at.cmp(&b.launched_at).then_with(|| a.provider_id.cmp(&b.provider_id)));
        all
    }

    /// An instance as it is now, without a call: nothing is recorded and no fault is met.
    #[must_use]
    pub fn peek(&self, provider_id: &str, now: Timestamp) -> Option<Instance> {
        self.instances.get(provider_id).map(|kept| self.seen(kept, now))
    }

    /// Shows every instance that was ever launched, by provider ID, with its state now, without a call.
    pub fn each(&self, now: Timestamp, mut visit: impl FnMut(&Instance, InstanceState)) {
        for kept in self.instances.values() {
            visit(&kept.instance, self.state(kept, now));
        }
    }

    /// Ends an instance as the cloud does by itself: a spot interruption, a disk that cannot be decrypted. Whether there
    /// was one to end.
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

    /// Does the work of one call, unless it meets a fault, and takes note of it.
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
            image_id: Some("ami-00000000000000001".to_owned()),
            labels: all,
            annotations: self.annotations.clone(),
            capacity: resources,
            allocatable,
            tags: request.tags.clone(),
            host_name: Some(format!("ip-10-0-{}-{}.ec2.internal", self.launched / 256, self.launched % 256)),
            offering,
        };
        let kept = Kept { instance: instance.clone(), ends_at: None, console: self.console_output.clone() };
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
