//! The instances that one proxy has launched, and the stream of those that start and end.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::faults::CapacityType;

/// An instance as it was launched. Nothing of it changes but the tags, which EC2 itself is asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// `i-…`.
    pub id: String,
    /// `us-east-1`.
    pub region: String,
    /// `us-east-1a`.
    pub zone: String,
    /// `m5.large`.
    pub instance_type: String,
    /// How it is paid.
    pub capacity_type: CapacityType,
    /// `x86_64`, `arm64`: of the image.
    pub architecture: String,
    /// Inside its subnet.
    pub private_address: Ipv4Addr,
    /// `ip-10-0-0-1.ec2.internal`.
    pub private_dns_name: String,
    /// `subnet-…`.
    pub subnet: String,
    /// `sg-…` of the first interface.
    pub security_groups: Vec<String>,
    /// `ami-…`.
    pub image: String,
    /// As sent: base64.
    pub user_data: Option<String>,
    /// Tags it was launched with.
    pub tags: BTreeMap<String, String>,
    /// If it came from one.
    pub launch_template: Option<LaunchTemplate>,
    /// `fleet-…`, if `CreateFleet` launched it.
    pub fleet: Option<String>,
    /// `arn:aws:iam::…:instance-profile/…`.
    pub instance_profile: Option<String>,
    /// How its metadata may be read.
    pub metadata: MetadataOptions,
    /// `sir-…`, if it is spot.
    pub spot_request: Option<String>,
    /// `cr-…`, if it runs in one.
    pub reservation: Option<String>,
    /// Name of its placement group.
    pub placement_group: Option<String>,
    /// Of a partition group, from 1.
    pub partition: Option<u32>,
    /// By the proxy's clock.
    pub launched_at: Timestamp,
    /// The identity that asked for it.
    pub launched_by: String,
}

/// Where an instance's configuration came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchTemplate {
    /// `lt-…`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// A number.
    pub version: String,
}

/// `MetadataOptions` with EC2's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOptions {
    /// `HttpEndpoint` is `enabled`.
    pub enabled: bool,
    /// `HttpTokens` is `required`: no answer without an IMDSv2 token.
    pub tokens_required: bool,
    /// `HttpPutResponseHopLimit`.
    pub hop_limit: u32,
    /// `InstanceMetadataTags` is `enabled`.
    pub tags: bool,
}

/// `StateReason`: why an instance is not running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateReason {
    /// `Client.UserInitiatedShutdown`.
    pub code: String,
    /// `Client.UserInitiatedShutdown: User initiated shutdown`.
    pub message: String,
}

/// What happened to an instance.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It was launched: it boots now.
    Launched(Arc<Instance>),
    /// It is being terminated: its power is cut.
    Ended {
        /// Which one.
        instance: Arc<Instance>,
        /// Why.
        reason: StateReason,
    },
}

/// The events of one proxy from its start: who subscribes late hears first of the instances that run.
#[derive(Debug)]
pub struct Events {
    before: VecDeque<Event>,
    coming: UnboundedReceiver<Event>,
}

/// What the proxy keeps of an instance.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) instance: Arc<Instance>,
    pub(super) unseen_until: Option<Timestamp>,
    pub(super) ended: Option<(Timestamp, StateReason)>,
    /// What it has written to its serial console.
    pub(super) console: Option<String>,
    /// Whether moto knows nothing of it: the proxy answers for it.
    pub(super) is_resident: bool,
}

/// All instances of one proxy, dead ones too.
#[derive(Debug, Default)]
pub(super) struct Instances {
    by_id: BTreeMap<String, Kept>,
    /// In the order of launch.
    order: Vec<String>,
    subscribers: Vec<UnboundedSender<Event>>,
    has_residents: bool,
}

impl Events {
    /// The next event; `None` when the proxy is gone.
    pub async fn next(&mut self) -> Option<Event> {
        match self.before.pop_front() {
            Some(event) => Some(event),
            None => self.coming.recv().await,
        }
    }
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self { enabled: true, tokens_required: false, hop_limit: 1, tags: false }
    }
}

impl StateReason {
    /// `code: text`, as EC2 writes the message.
    pub fn new(code: &str, text: &str) -> Self {
        Self { code: code.to_owned(), message: format!("{code}: {text}") }
    }

    /// `TerminateInstances` was called.
    pub fn by_user() -> Self {
        Self::new("Client.UserInitiatedShutdown", "User initiated shutdown")
    }

    /// The capacity reservation ends, or its owner takes it back.
    pub fn reservation_end() -> Self {
        Self::new("Server.CapacityReservationEnded", "Capacity reservation ended")
    }

    /// EC2 wants its spot capacity back.
    pub fn spot_interruption() -> Self {
        Self::new("Server.SpotInstanceTermination", "Spot instance termination")
    }
}

impl Instances {
    pub(super) fn subscribe(&mut self) -> Events {
        let (sender, coming) = unbounded_channel();
        self.subscribers.push(sender);
        Events { before: self.running_kept().map(|kept| Event::Launched(Arc::clone(&kept.instance))).collect(), coming }
    }

    pub(super) fn launched(&mut self, instance: Instance, unseen_until: Option<Timestamp>) -> Arc<Instance> {
        self.keep(instance, unseen_until, false)
    }

    /// Takes in an instance that moto knows nothing of.
    pub(super) fn take_in(&mut self, instance: Instance) {
        self.has_residents = true;
        self.keep(instance, None, true);
    }

    fn keep(&mut self, instance: Instance, unseen_until: Option<Timestamp>, is_resident: bool) -> Arc<Instance> {
        let instance = Arc::new(instance);
        let kept = Kept { instance: Arc::clone(&instance), unseen_until, ended: None, console: None, is_resident };
        self.by_id.insert(instance.id.clone(), kept);
        self.order.push(instance.id.clone());
        self.tell(&Event::Launched(Arc::clone(&instance)));
        instance
    }

    /// Whether any was taken in.
    pub(super) const fn has_residents(&self) -> bool {
        self.has_residents
    }

    /// Those that moto knows nothing of, in the order in which they came.
    pub(super) fn residents(&self) -> impl Iterator<Item = &Kept> {
        self.all().filter(|kept| kept.is_resident)
    }

    /// Returns the instance if it was running.
    pub(super) fn ended(&mut self, id: &str, at: Timestamp, reason: StateReason) -> Option<Arc<Instance>> {
        let kept = self.by_id.get_mut(id).filter(|kept| kept.ended.is_none())?;
        kept.ended = Some((at, reason.clone()));
        let instance = Arc::clone(&kept.instance);
        self.tell(&Event::Ended { instance: Arc::clone(&instance), reason });
        Some(instance)
    }

    /// False if there is no such instance.
    pub(super) fn write_console(&mut self, id: &str, text: &str) -> bool {
        let kept = self.by_id.get_mut(id);
        kept.map(|kept| kept.console.get_or_insert_default().push_str(text)).is_some()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Kept> {
        self.by_id.get(id)
    }

    pub(super) fn is_unseen(&self, id: &str, now: Timestamp) -> bool {
        self.by_id.get(id).is_some_and(|kept| kept.unseen_until.is_some_and(|until| now < until))
    }

    /// Those that have not ended, in the order of launch.
    pub(super) fn running(&self) -> impl Iterator<Item = &Instance> {
        self.running_kept().map(|kept| &*kept.instance)
    }

    pub(super) fn running_shared(&self) -> Vec<Arc<Instance>> {
        self.running_kept().map(|kept| Arc::clone(&kept.instance)).collect()
    }

    /// All of them, in the order of launch.
    pub(super) fn all(&self) -> impl Iterator<Item = &Kept> {
        self.order.iter().filter_map(|id| self.by_id.get(id))
    }

    fn running_kept(&self) -> impl Iterator<Item = &Kept> {
        self.all().filter(|kept| kept.ended.is_none())
    }

    fn tell(&mut self, event: &Event) {
        self.subscribers.retain(|subscriber| subscriber.send(event.clone()).is_ok());
    }
}
