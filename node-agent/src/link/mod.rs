//! The stream to the controller: the node proves which instance it is, once a boot, and then says how it stands.
//!
//! ```text
//!  user data ─► AgentConfig.controller ─┐      none: nobody is called, and the agent is as it is without this
//!  metadata ──► document, credentials ──┤
//!  key: one a boot, kept for root ──────┤
//!                                       ▼
//!            dial (TLS 1.3, its authority pinned) ─► enrol ─► Credential ─► dial ─► follow ◄─► controller
//!                 ▲                                             (hours)               ▲
//!                 └──── a pause that grows and differs ◄──── what ended ◄─────────────┤
//!  Readers ─► Report ─► wire: bounded, its verdict once it has stood for a while ─────┘
//! ```
//!
//! Nothing of the node waits for this: what cannot be told is told later, and the node boots as if nobody listened.

mod dial;
mod enrol;
mod follow;
mod keys;
#[cfg(test)]
mod skew;
mod wire;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use muster_bootstrap::agent_config::Controller;
use muster_bootstrap::userdata::UserData;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use self::enrol::Credential;
pub use self::keys::Keys;
use crate::course::pace::Pace;
use crate::preflight::agent_config;
use crate::preflight::identity::Metadata;
use crate::probes::metadata::Proofs;
use crate::probes::{machine, metadata};
use crate::publish::bundle;
use crate::report::Report;
use crate::service::log;

/// Shortest and longest pause between two tries. A fleet of 10,000 whose controller has restarted is back within a minute, at a
/// few hundred handshakes a second, since pauses differ by chance.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Pause after a refusal that the same evidence will meet again: an operator may say otherwise at any time.
const REFUSED: Duration = Duration::from_secs(5 * 60);
/// A conversation that lasted so long was a good one: whatever ended it, the next try is soon.
const GOOD: Duration = Duration::from_secs(60);

/// The node that speaks: what the link asks of it, and tells it.
pub trait Node: Send + Sync + 'static {
    /// What proves which instance it is.
    fn proofs(&self) -> impl Future<Output = Result<Proofs, String>> + Send;

    /// The address that its connections come from, where one machine is many nodes; else the way there has one.
    fn address(&self) -> Option<IpAddr> {
        None
    }

    /// The last of its logs and this report, without secrets, in at most so many bytes; none from a node that keeps no logs.
    fn logs(&self, report: Report, largest: usize) -> impl Future<Output = Option<String>> + Send {
        let _unread = (report, largest);
        async { None }
    }

    /// Something has happened.
    fn hear(&self, news: &News<'_>);
}

/// What happens to a link. Its text is a line of the log.
#[derive(Debug)]
pub enum News<'n> {
    /// The controller has certified the node's key.
    Enrolled,
    /// It has taken the stream.
    Followed,
    /// It keeps what was said up to the report of this number.
    Kept(u64),
    /// A try has come to nothing, for another reason than the one before.
    Failed(&'n Fault),
}

impl fmt::Display for News<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enrolled => f.write_str("the controller knows this node"),
            Self::Followed => f.write_str("the controller listens"),
            Self::Kept(sequence) => write!(f, "the controller keeps report {sequence}"),
            Self::Failed(fault) => write!(f, "the controller is not told: {fault}"),
        }
    }
}

/// The node that this program runs on.
struct Own {
    metadata_endpoint: String,
}

impl Node for Own {
    async fn proofs(&self) -> Result<Proofs, String> {
        metadata::proofs(&self.metadata_endpoint).await
    }

    async fn logs(&self, report: Report, largest: usize) -> Option<String> {
        Some(bundle::gather(&report, largest).await)
    }

    fn hear(&self, news: &News<'_>) {
        match news {
            News::Enrolled | News::Failed(_) => log(&news.to_string()),
            // Of every connection and every report: too much for a log.
            News::Followed | News::Kept(_) => {}
        }
    }
}

/// What ends a try.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no way there.
    #[error("the controller at {0} cannot be reached: {1}")]
    Way(String, String),
    /// The node has not what it needs.
    #[error("{0}")]
    Here(String),
    /// The controller says no, or not now.
    #[error("the controller answers {}: {}", .0.code(), .0.message())]
    Said(#[from] Box<Status>),
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Said(Box::new(status))
    }
}

impl Fault {
    fn code(&self) -> Option<Code> {
        match self {
            Self::Said(status) => Some(status.code()),
            Self::Way(..) | Self::Here(_) => None,
        }
    }
}

/// Starts to speak to the controller, if the node's user data names one.
pub(crate) fn spawn(
    parts: &mut JoinSet<Result<(), String>>,
    state_folder: PathBuf,
    metadata_endpoint: String,
    reports: watch::Receiver<Report>,
) {
    parts.spawn(speak(state_folder, metadata_endpoint, reports));
}

async fn speak(state_folder: PathBuf, endpoint: String, reports: watch::Receiver<Report>) -> Result<(), String> {
    let Some((controller, region)) = asked_for(&endpoint).await else {
        return std::future::pending().await;
    };
    let keys = match Keys::of_boot(&state_folder, &machine::boot_id()) {
        Ok(keys) => keys,
        Err(error) => {
            log(&format!("nothing is reported to the controller: no key can be made: {error}"));
            return std::future::pending().await;
        }
    };
    let known = Known { controller, region };
    match Link::new(Own { metadata_endpoint: endpoint }, known, keys, reports).keep_up().await {}
}

/// Whom to call, and the region of this instance. Metadata is asked until it answers; user data are what they are for the whole of a
/// boot.
async fn asked_for(endpoint: &str) -> Option<(Controller, String)> {
    let began = Instant::now();
    let instance = loop {
        match metadata::read(endpoint).await {
            Metadata::Answers(instance) => break instance,
            Metadata::Off | Metadata::Silent(_) => sleep(Pace::METADATA.pause(began.elapsed())).await,
        }
    };
    let user_data = UserData::read(instance.user_data.as_deref()?, "user-data");
    // What is wrong with it the preflight says.
    let config = agent_config(Some(&user_data)).ok()??;
    Some((config.spec.controller?, instance.region.clone()))
}

/// What a node knows of where it is.
#[derive(Debug, Clone)]
pub struct Known {
    /// Whom to call, from its user data.
    pub controller: Controller,
    /// The region of its instance.
    pub region: String,
}

/// Everything that a try needs, and what it leaves to the next one.
pub struct Link<N> {
    node: N,
    known: Known,
    keys: Keys,
    credential: Option<Credential>,
    reports: watch::Receiver<Report>,
}

impl<N: Node> Link<N> {
    /// The link of a node that has not enrolled since its agent was started.
    #[must_use]
    pub fn new(node: N, known: Known, keys: Keys, reports: watch::Receiver<Report>) -> Self {
        Self { node, known, keys, credential: None, reports }
    }

    /// Speaks to the controller: whatever ends a conversation, another is begun.
    pub async fn keep_up(mut self) -> Infallible {
        let growing =
            || ExponentialBuilder::default().with_min_delay(PAUSE.0).with_max_delay(PAUSE.1).without_max_times();
        let mut pauses = growing().with_jitter().build();
        let mut said = String::new();
        let mut tries = 0_usize;
        loop {
            let began = Instant::now();
            let ended = self.talk(tries).await;
            let pause = match &ended {
                // The connection was old.
                Ok(()) => None,
                Err(fault) => {
                    let news = News::Failed(fault);
                    let line = news.to_string();
                    if line != said {
                        self.node.hear(&news);
                        said = line;
                    }
                    (fault.code() == Some(Code::PermissionDenied)).then_some(REFUSED)
                }
            };
            tries += 1;
            if began.elapsed() >= GOOD {
                pauses = growing().with_jitter().build();
                said.clear();
            }
            let pause = pause.map(|least| least.mul_f64(1.0 + f64::from(self.keys.spread()) / 256.0));
            sleep(pause.or_else(|| pauses.next()).unwrap_or(PAUSE.1)).await;
        }
    }

    /// One connection, from its handshake to its end.
    async fn talk(&mut self, tries: usize) -> Result<(), Fault> {
        let Self { node, known: Known { controller, region }, keys, credential, reports } = self;
        let from = node.address();
        *credential = credential.take().filter(Credential::is_good);
        if credential.is_none() {
            let believed = keys.believed(&controller.certificate_authority);
            let channel = dial::dial(&controller.address, believed, from, keys.stranger()?).await?;
            let evidence = enrol::Evidence { controller, region, node, keys };
            *credential = Some(evidence.enrol(&channel, tries).await?);
            keys.settle();
            node.hear(&News::Enrolled);
        }
        let Some(known) = credential.as_mut() else { return Ok(()) };
        let believed = keys.believed(&controller.certificate_authority);
        let channel = dial::dial(&controller.address, believed, from, keys.known(known.chain())?).await?;
        let beliefs = follow::Beliefs { keys, written: &controller.certificate_authority };
        let ended = follow::follow(&channel, known, beliefs, reports, node).await;
        // The certificate may not speak any more: another enrolment, with the same key.
        if let Err(fault) = &ended
            && fault.code() == Some(Code::Unauthenticated)
        {
            *credential = None;
        }
        ended
    }
}
