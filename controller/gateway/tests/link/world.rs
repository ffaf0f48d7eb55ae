//! What the gateway asks, in memory, and a gateway that asks it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_gateway::{
    Access, Authority, Finding, Gateway, Limits, LogBundle, Material, Notice, Operators, Pair, Question, Rate,
    Recorded, Refusals, Report, Rows, Sources, Unanswered, Unavailable, Verb, Wanted, serve,
};
use muster_link::document::Certificates;
use muster_link::sts::SignedRequest;
use muster_link::{Described, Enrolled, KeyHash, Launch, NodeIdentity, Pins, Policy, SecretHash};
use muster_proto::answer::Statuses;
use muster_proto::health::health_check_response::ServingStatus;
use muster_proto::muster::{
    LaunchRequest, LaunchResponse, PlanRequest, PlanResponse, TerminateRequest, TerminateResponse,
};
use prost_types::Struct;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Two instances that AWS vouches for: the test's authority stands for AWS.
pub(crate) const A: &str = "i-0123456789abcdef0";
pub(crate) const B: &str = "i-0fedcba9876543210";
pub(crate) const DOCUMENTS: [(&str, &str); 2] = [
    (A, include_str!("../../../link/tests/documents/ec2.b64")),
    (B, include_str!("../../../link/tests/documents/second.b64")),
];
pub(crate) const PINNED: &str = include_str!("../../../link/tests/documents/pinned.pem");
pub(crate) const FORGED: &str = include_str!("../../../link/tests/documents/by-another.b64");
/// The secrets of two launch templates.
pub(crate) const SECRETS: [&str; 2] = ["mlt-of-a-4f9aQ2xR7b", "mlt-of-b-9Zk3Lw8Vn5"];
/// Where A's and B's connections come from.
pub(crate) const ADDRESSES: [[u8; 4]; 2] = [[127, 0, 0, 1], [127, 0, 0, 2]];

/// What is known and written, by instance.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<State>);

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) launches: BTreeMap<String, Launch>,
    pub(crate) described: BTreeMap<String, Described>,
    pub(crate) kept: Vec<(String, Report)>,
    pub(crate) notices: Vec<(String, Notice)>,
    pub(crate) bundles: Vec<(String, LogBundle)>,
    /// What operators were answered.
    pub(crate) questions: Vec<Question>,
    /// What they were asked to be allowed.
    pub(crate) reviewed: Vec<(Verb, String)>,
    /// What operators have ordered.
    pub(crate) ordered: Vec<String>,
    /// Who is there, for those who watch.
    pub(crate) rows: watch::Sender<Option<Arc<Rows>>>,
    /// Of whom the logs are wanted.
    pub(crate) wants_logs_of: Option<String>,
    /// Whether it cannot be said of whom they are.
    pub(crate) asks_again: bool,
    /// What was fatal, by node and code.
    pub(crate) fatal: Vec<(String, String)>,
    /// Whom each node said last that it believes.
    pub(crate) pins: BTreeMap<String, Pins>,
    /// Number of lookups of a launch.
    pub(crate) looked_up: usize,
    /// Number of descriptions of an instance.
    pub(crate) described_times: usize,
    /// Number of greetings of nodes that were passed on.
    pub(crate) greeted: usize,
    /// How often STS was asked.
    pub(crate) asked: usize,
    /// Whether nothing can be written.
    pub(crate) is_down: bool,
    /// Woken when something was written.
    pub(crate) written: Option<watch::Sender<usize>>,
}

/// What a request must be signed with, in the place of Signature Version 4: the test's STS makes it again.
pub(crate) fn signature(instance: &str, host: &str, cluster: &str, nonce: &str, key: &str) -> String {
    KeyHash::of(format!("{instance}\n{host}\n{cluster}\n{nonce}\n{key}").as_bytes()).to_string()
}

/// The access key of an instance's credentials.
pub(crate) fn access_key(instance: &str) -> String {
    format!("ASIA{}", instance.trim_start_matches("i-"))
}

impl Memory {
    pub(crate) fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn two() -> Self {
        let rows = watch::Sender::new(Some(Arc::new(Rows::new())));
        let mut state = State { written: Some(watch::channel(0).0), rows, ..State::default() };
        for (index, (instance, _)) in DOCUMENTS.iter().enumerate() {
            let text = |text: &str| text.to_owned();
            let token = format!("uid-{index}.1");
            let launch = Launch {
                claim: format!("claim-{index}"),
                instance: text(instance),
                token: token.clone(),
                secrets: vec![SecretHash::of(SECRETS[index])],
                instance_type: text("m5.large"),
                image: text("ami-0123456789abcdef0"),
                zone: text("eu-west-1a"),
                roles: [text("NodeRole")].into(),
                enrolled: None,
                may_enrol_again: false,
                is_ready: false,
                is_ending: false,
            };
            let described = Described {
                instance: text(instance),
                is_running: true,
                token: Some(token),
                instance_type: launch.instance_type.clone(),
                image: launch.image.clone(),
                zone: launch.zone.clone(),
                addresses: vec![IpAddr::from(ADDRESSES[index])],
            };
            state.launches.insert(text(instance), launch);
            state.described.insert(text(instance), described);
        }
        Self(Mutex::new(state))
    }

    /// Waits until what was written is as `holds` says.
    pub(crate) async fn until(&self, holds: impl Fn(&State) -> bool) {
        let mut written = self.state(|state| state.written.as_ref().unwrap().subscribe());
        while !self.state(|state| holds(state)) {
            written.changed().await.unwrap();
        }
    }
}

impl State {
    fn wrote(&self) {
        self.written.as_ref().unwrap().send_modify(|count| *count += 1);
    }
}

impl Sources for Memory {
    async fn launch(&self, instance: &str) -> Result<Option<Launch>, Unavailable> {
        Ok(self.state(|state| {
            state.looked_up += 1;
            state.launches.get(instance).cloned()
        }))
    }

    fn enrolled(&self, instance: &str) -> Option<KeyHash> {
        self.state(|state| Some(state.launches.get(instance)?.enrolled?.key))
    }

    async fn describe(&self, instance: &str) -> Result<Option<Described>, Unavailable> {
        Ok(self.state(|state| {
            state.described_times += 1;
            state.described.get(instance).cloned()
        }))
    }

    async fn ask_sts(&self, request: &SignedRequest) -> Result<(u16, Vec<u8>), Unavailable> {
        self.state(|state| state.asked += 1);
        let header = |name: &str| request.headers.iter().find(|(it, _)| *it == name).unwrap().1.clone();
        let authorization = header("authorization");
        let [cluster, nonce, key] = ["x-muster-cluster", "x-muster-nonce", "x-muster-key-sha256"].map(header);
        let signed_by = DOCUMENTS.iter().map(|(instance, _)| *instance).find(|instance| {
            authorization.contains(&access_key(instance))
                && authorization.ends_with(&signature(instance, &request.host, &cluster, &nonce, &key))
        });
        let Some(instance) = signed_by else {
            let body = "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code></Error></ErrorResponse>";
            return Ok((403, body.as_bytes().to_vec()));
        };
        let body = format!(
            "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:sts::123456789012:assumed-role/NodeRole/{instance}\
             </Arn><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
        );
        Ok((200, body.into_bytes()))
    }

    async fn record(
        &self,
        claim: &str,
        before: Option<KeyHash>,
        enrolled: &Enrolled,
        uses_permission: bool,
    ) -> Result<Recorded, Unavailable> {
        self.state(|state| {
            if state.is_down {
                return Err(Unavailable("down".to_owned()));
            }
            let launch = state.launches.values_mut().find(|launch| launch.claim == claim);
            let Some(launch) = launch.filter(|it| it.enrolled.map(|it| it.key) == before) else {
                return Ok(Recorded::Changed);
            };
            launch.enrolled = Some(*enrolled);
            launch.may_enrol_again &= !uses_permission;
            Ok(Recorded::Written)
        })
    }

    async fn keep(&self, node: &NodeIdentity, report: Report) -> Result<(), Unavailable> {
        self.state(|state| {
            if state.is_down {
                return Err(Unavailable("down".to_owned()));
            }
            state.kept.push((node.instance.clone(), report));
            state.wrote();
            Ok(())
        })
    }

    async fn wants_logs(&self, node: &NodeIdentity, fatal: &Finding) -> Wanted {
        self.state(|state| {
            state.fatal.push((node.instance.clone(), fatal.code.clone()));
            state.wrote();
            match state.wants_logs_of.as_ref() == Some(&node.instance) {
                _ if state.asks_again => Wanted::AskAgain,
                true => Wanted::Yes,
                false => Wanted::No,
            }
        })
    }

    async fn greeted(&self, node: &NodeIdentity, pins: Pins) {
        self.state(|state| {
            state.greeted += 1;
            state.pins.insert(node.instance.clone(), pins);
            state.wrote();
        });
    }

    async fn notice(&self, node: &NodeIdentity, notice: Notice) {
        self.state(|state| {
            state.notices.push((node.instance.clone(), notice));
            state.wrote();
        });
    }

    async fn bundle(&self, node: &NodeIdentity, bundle: LogBundle) {
        self.state(|state| {
            state.bundles.push((node.instance.clone(), bundle));
            state.wrote();
        });
    }
}

/// The token of an operator who may do anything, and that of one who may only see verdicts.
pub(crate) const TOKENS: [&str; 2] = ["token-of-ann-7Gk2", "token-of-ben-9Qx4"];

impl Operators for Memory {
    fn may_know(&self, token: &str) -> bool {
        token.starts_with("token-of-")
    }

    async fn review(&self, token: &str, verb: Verb, path: &str) -> Result<Access, Unavailable> {
        if self.state(|state| state.is_down) {
            return Err(Unavailable("down".to_owned()));
        }
        self.state(|state| state.reviewed.push((verb, path.to_owned())));
        Ok(match token {
            it if it == TOKENS[0] => Access::Allowed("ann".to_owned()),
            it if it == TOKENS[1] && path.ends_with("/Verdicts") => Access::Allowed("ben".to_owned()),
            it if it == TOKENS[1] => Access::Denied("ben".to_owned()),
            _ => Access::Unknown,
        })
    }

    async fn answer(&self, question: Question) -> Result<Struct, Unanswered> {
        let text = format!("{question:?}");
        self.state(|state| state.questions.push(question));
        if text.contains("nobody") {
            return Err(Unanswered::NotFound("there is nobody".to_owned()));
        }
        let kind = prost_types::value::Kind::StringValue(text);
        Ok(Struct { fields: [("asked".to_owned(), prost_types::Value { kind: Some(kind) })].into() })
    }

    async fn plan(&self, request: PlanRequest, by: String) -> Result<PlanResponse, Unanswered> {
        self.state(|state| state.ordered.push(format!("{by} plans {}", request.order.unwrap().node_pool)));
        Ok(PlanResponse::default())
    }

    async fn launch(&self, request: LaunchRequest, by: String) -> Result<LaunchResponse, Unanswered> {
        let LaunchRequest { request_id, order } = request;
        let pool = order.unwrap().node_pool;
        self.state(|state| state.ordered.push(format!("{by} launches {pool} as {request_id}")));
        match pool.as_str() {
            "full" => Err(Unanswered::Exhausted("the limit is reached".to_owned())),
            "paused" => Err(Unanswered::Precondition("launches are paused".to_owned())),
            "taken" => Err(Unanswered::Taken("it was another order".to_owned())),
            "odd" => Err(Unanswered::Invalid("order.requests[cpu]: `x` is no quantity".to_owned())),
            _ => Ok(LaunchResponse::default()),
        }
    }

    async fn terminate(&self, request: TerminateRequest, by: String) -> Result<TerminateResponse, Unanswered> {
        self.state(|state| state.ordered.push(format!("{by} ends {}", request.node_claim)));
        Ok(TerminateResponse { uid: request.uid, was_terminating: false })
    }

    fn rows(&self) -> watch::Receiver<Option<Arc<Rows>>> {
        self.state(|state| state.rows.subscribe())
    }
}

/// Limits for a test that does in a second what takes hours elsewhere.
pub(crate) fn hasty() -> Limits {
    let often = Rate::new(10_000, Duration::from_micros(100));
    Limits {
        arrivals: often,
        arrivals_of_network: often,
        unknown_tokens: often,
        reviews_per_second: 1000,
        certificate_interval: Duration::ZERO,
        ..Limits::default()
    }
}

/// A gateway that runs. Dropping it ends it.
pub(crate) struct World {
    pub(crate) memory: Arc<Memory>,
    pub(crate) refusals: Refusals,
    pub(crate) address: SocketAddr,
    /// What agents pin.
    pub(crate) authority: String,
    authorities: watch::Sender<Arc<Authority>>,
    pub(crate) material: Material,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with(Limits { report_interval: Duration::ZERO, ..hasty() }).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        Self::again(limits, Arc::new(Memory::two()), Material::of(Pair::make(Timestamp::now()).unwrap())).await
    }

    /// Another cluster that has the same authority and the same NodeClaims, by somebody's mistake.
    pub(crate) async fn copied(&self, cluster: &str) -> Self {
        Self::named(cluster, Limits::default(), Arc::clone(&self.memory), self.material.clone()).await
    }

    /// A replica with what another has kept.
    pub(crate) async fn again(limits: Limits, memory: Arc<Memory>, material: Material) -> Self {
        Self::named("blue", limits, memory, material).await
    }

    async fn named(cluster: &str, limits: Limits, memory: Arc<Memory>, material: Material) -> Self {
        let authority = Authority::read(&material, Timestamp::now()).unwrap();
        let pinned = authority.pinned().to_string();
        let (authorities, authority) = watch::channel(Arc::new(authority));
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
        let (_, statuses) = watch::channel(Statuses::from([(String::new(), ServingStatus::Serving)]));
        let refusals = Refusals::default();
        let text = |text: &str| text.to_owned();
        let gateway = Gateway {
            sources: Arc::clone(&memory),
            operators: Arc::clone(&memory),
            authority,
            policy: Policy {
                cluster: text(cluster),
                partition: text("aws"),
                account: text("123456789012"),
                region: text("eu-west-1"),
                // The documents are as old as they are.
                enrol_within: SignedDuration::from_hours(24 * 365 * 100),
            },
            certificates: Certificates::read(PINNED).unwrap(),
            limits,
            refusals: refusals.clone(),
            statuses,
            clock: Timestamp::now,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let shutdown = async move { drop(stopped.await) };
            serve(gateway, listener, shutdown).await.unwrap();
        });
        Self { memory, refusals, address, authority: pinned, authorities, material, stop: Some(stop), served }
    }

    /// Goes on with other authorities.
    pub(crate) fn rotate(&mut self, material: Material) {
        let authority = Authority::read(&material, Timestamp::now()).unwrap();
        authority.pinned().as_ref().clone_into(&mut self.authority);
        self.authorities.send_replace(Arc::new(authority));
        self.material = material;
    }

    /// Ends it as a replica ends, and waits until it has.
    pub(crate) async fn stop(mut self) -> Arc<Memory> {
        drop(self.stop.take());
        (&mut self.served).await.unwrap();
        Arc::clone(&self.memory)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.served.abort();
    }
}
