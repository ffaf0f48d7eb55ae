//! What all parts of one proxy hold together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use tokio::sync::watch;
use xmltree::Element;

use super::answer::{Answer, ApiError};
use super::clock::Clock;
use super::faults::{Buckets, Rules};
use super::identity::Identities;
use super::instances::{Instances, StateReason};
use super::lock;
use super::moto::Moto;
use super::parameters::Parameters;
use super::record::Call;
use super::request::Request;
use super::services::{Groups, Releases, Reservations, Shifts, SpotMarket, Statuses};
use super::xml;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) moto: Arc<Moto>,
    pub(super) client: super::moto::Client,
    /// Twelve digits. Every proxy has its own: in moto nothing of one is seen by another.
    pub(super) account: String,
    pub(super) clock: Clock,
    state: Mutex<State>,
    /// Held by the launch that is at work.
    pub(super) launching: tokio::sync::Mutex<()>,
    /// Counts what happens to the record: a call that comes, a call that is answered.
    pub(super) recorded: watch::Sender<usize>,
}

/// Never held across an await.
#[derive(Debug)]
pub(super) struct State {
    pub(super) rules: Rules,
    /// `None`: nothing is throttled but by rule.
    pub(super) buckets: Option<Buckets>,
    pub(super) record: Vec<Call>,
    pub(super) identities: Identities,
    pub(super) instances: Instances,
    /// Answers by client token, so that a repeated call does its work once.
    pub(super) tokens: BTreeMap<(String, String), Token>,
    pub(super) market: SpotMarket,
    pub(super) reservations: Reservations,
    pub(super) groups: Groups,
    pub(super) statuses: Statuses,
    pub(super) shifts: Shifts,
    pub(super) releases: Releases,
    /// When a fleet was first refused a pool, by instance type and zone.
    pub(super) refused: BTreeMap<(String, String), Timestamp>,
    /// Instance types that the region no longer offers.
    pub(super) withdrawn: BTreeSet<String>,
    /// EventBridge has rules: state changes are worth an event.
    pub(super) has_event_rules: bool,
    /// Architectures of images by id: an image never changes.
    architectures: BTreeMap<String, String>,
    next_id: u64,
}

/// The call that used a token first and what it got; locked while it is at work.
pub(super) type Token = Arc<tokio::sync::Mutex<Option<(Parameters, Answer)>>>;

impl Shared {
    pub(super) fn new(moto: Arc<Moto>, account: String) -> Self {
        let clock = Clock::running();
        let state = State {
            rules: Rules::default(),
            buckets: None,
            record: Vec::new(),
            identities: Identities::new(&account),
            instances: Instances::default(),
            tokens: BTreeMap::new(),
            market: SpotMarket::new(clock.now()),
            reservations: Reservations::default(),
            groups: Groups::default(),
            statuses: Statuses::default(),
            shifts: Shifts::default(),
            releases: Releases::default(),
            refused: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            has_event_rules: false,
            architectures: BTreeMap::new(),
            next_id: 0,
        };
        let client = super::moto::client();
        Self {
            moto,
            client,
            account,
            clock,
            state: Mutex::new(state),
            launching: tokio::sync::Mutex::default(),
            recorded: watch::Sender::new(0),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Asks moto's EC2 on behalf of the caller of `like`.
    pub(super) async fn ask(
        &self,
        like: &Request,
        action: &str,
        asked: BTreeMap<String, String>,
    ) -> Result<Element, ApiError> {
        self.ask_service(like, "ec2", action, asked).await
    }

    /// Asks a service of moto that speaks the query protocol.
    pub(super) async fn ask_service(
        &self,
        like: &Request,
        service: &str,
        action: &str,
        asked: BTreeMap<String, String>,
    ) -> Result<Element, ApiError> {
        let answer =
            self.moto.forward(&self.client, &self.account, &Request::own(like, service, action, &asked)).await?;
        let root = xml::read(&answer.body);
        let root =
            root.ok_or_else(|| ApiError::new(500, "InternalError", format!("moto's answer to `{action}` is no XML")))?;
        let error = xml::at(&root, "Errors/Error").or_else(|| xml::at(&root, "Error"));
        match error {
            Some(error) if answer.status >= 400 => {
                let text = |name| xml::text(error, name).unwrap_or_default();
                Err(ApiError::new(answer.status, &text("Code"), text("Message")))
            }
            _ => Ok(root),
        }
    }

    /// `x86_64` or `arm64`.
    pub(super) async fn architecture_of(&self, like: &Request, image: &str) -> Result<String, ApiError> {
        let (known, hidden) = {
            let state = self.state();
            (state.architectures.get(image).cloned(), state.releases.hides(image))
        };
        let missing =
            || ApiError::new(400, "InvalidAMIID.NotFound", format!("The image id '[{image}]' does not exist"));
        if hidden {
            return Err(missing());
        }
        if let Some(known) = known {
            return Ok(known);
        }
        let asked = BTreeMap::from([("ImageId.1".to_owned(), image.to_owned())]);
        let root = self.ask(like, "DescribeImages", asked).await?;
        let architecture = xml::items(&root, "imagesSet").next().and_then(|item| xml::text(item, "architecture"));
        let architecture = architecture.ok_or_else(missing)?;
        self.state().architectures.insert(image.to_owned(), architecture.clone());
        Ok(architecture)
    }

    /// Ends an instance that nobody asked to end.
    pub(super) async fn end(&self, like: &Request, id: &str, reason: StateReason) -> Result<(), ApiError> {
        let asked = BTreeMap::from([("InstanceId.1".to_owned(), id.to_owned())]);
        self.ask(like, "TerminateInstances", asked).await?;
        let now = self.clock.now();
        self.state().instances.ended(id, now, reason);
        Ok(())
    }
}

impl State {
    /// Seventeen hexadecimal digits after `prefix`, as EC2's ids have; the same in every run.
    pub(super) fn id(&mut self, prefix: &str) -> String {
        self.next_id += 1;
        format!("{prefix}{:017x}", self.next_id)
    }

    /// A request id.
    pub(super) fn request_id(&mut self) -> String {
        self.next_id += 1;
        format!("{:08x}-0000-4000-8000-{:012x}", self.next_id, self.next_id)
    }
}
